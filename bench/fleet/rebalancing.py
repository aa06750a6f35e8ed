#!/usr/bin/env python3
"""What moves between stages bring: the question of SWARM's table (arXiv 2301.11913, section 4.2; 32 stages, 32 hours,
losses of T4s whose record is not public), with the losses of a record that is.

A record of two dozen machines makes a fleet of more: COPIES of it at once, each begun at another moment and repeated to
the end. Twice, as a share of the best assignment of the machines that are there:
- `alone`: all but the assignment is ideal, as in SWARM's simulation. A machine loads a state for LOAD seconds
  (`swarmctl simulate --trace`);
- `trained`: the job is trained, so transfers of states, work that is done again, and sums count (`--fleet`).

Usage: bench/fleet/rebalancing.py TRACE [--build FOLDER] [--hours 32] [--trained-hours 1] [--stages 32] [--copies 8]
           [--load 60] [--seeds 3]

Medians over seeds, and ranges. TRACE is a CSV, `MILLISECONDS,add|remove,NODE`, for example `p3-trace.csv` of Bamboo (github.com/uclasystem/bamboo).
"""
import argparse
import csv
import json
import pathlib
import statistics
import subprocess
import tempfile

from simulation import simulate, text_of

# balance in a fleet's job, seconds of a period, the policy's name in a replay, SWARM's figure
POLICIES = (("None", 300, "None", "82.7"), ("Periodic", 300, "Periodic", "95.8"), ("Periodic", 60, "Periodic", "97.6"),
            ("Event", 300, "Moves", ""))


def repeated(trace, begin, seconds, name):
    """(second, add or remove, node) of a trace that is begun at `begin` and repeated. Who is there at its end is there
    at its next beginning, too, under its old name, as far as that has as many."""
    length = trace[-1][0]
    events, there, number = [], {}, 0
    lap = 0
    while (start := lap * length - begin) < seconds:
        stay = list(there.values())
        there = {}
        for at, change, node in trace:
            now = max(0.0, start + at)
            if now >= seconds:
                break
            if change == "remove":
                events.append((now, "remove", there.pop(node)))
            elif at == 0 and stay:
                there[node] = stay.pop()
            else:
                number += 1
                there[node] = f"{name}-{number}"
                events.append((now, "add", there[node]))
        events += [(max(0.0, start), "remove", node) for node in stay]
        lap += 1
    gone = {node for at, change, node in events if at == 0 and change == "remove"}  # before the fleet begins
    return [event for event in events if not (event[0] == 0 and event[2] in gone)]


def fleet_of(trace, copies, seconds):
    """The text of a trace of `copies` times as many machines, and how many machines there are on average."""
    events = []
    for copy in range(copies):
        events += repeated(trace, copy / copies * trace[-1][0], seconds, f"m{copy}")
    events.sort(key=lambda event: event[0])
    there, area, last = 0, 0.0, 0.0
    for at, change, _ in events + [(seconds, "", "")]:
        area += there * (at - last)
        last = at
        there += (change == "add") - (change == "remove")
    return "".join(f"{1000 * at:.0f},{change},{node}\n" for at, change, node in events), area / seconds


def replay(build, path, options, policy, period, seed):
    """The share of the best assignment if all else is ideal."""
    output = subprocess.run(
        [build / "bin" / "swarmctl", "simulate", "--trace", path, "--stages", str(options.stages), "--copies", "0",
         "--state-load", str(options.load), "--policy", policy, "--period", str(period), "--seed", str(seed), "--json"],
        check=True, stdout=subprocess.PIPE).stdout
    return json.loads(output)["efficiency"]


def fleet(path, options, balance, period):
    """A microbatch takes two seconds at a stage; its state of 1.5 GB takes a minute over a line of 200 Mb/s."""
    seconds = 3600 * options.trained_hours
    return {"job": {"stages": options.stages, "microbatches": 6 * options.stages, "sequenceLength": 2048,
                    "parameters": 1.25e8, "hiddenSize": 4096, "numberBytes": 1.016, "gradientBytesPerParameter": 1,
                    "checkpointSteps": 10, "retainedGiB": 16, "balance": balance, "balancePeriodSeconds": period},
            "groups": [{"name": "t4", "microbatchSeconds": 2, "jitter": 0.1, "uploadMbps": 200, "downloadMbps": 200,
                        "trace": str(path)}],
            "links": [{"between": ["*", "*"], "roundTripMs": 30}], "seconds": seconds, "warmUpSeconds": seconds / 32}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace", type=pathlib.Path)
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path(__file__).parents[2] / "build" / "release")
    parser.add_argument("--hours", type=float, default=32)
    parser.add_argument("--trained-hours", type=float, default=1, help="of them that are trained: the first")
    parser.add_argument("--stages", type=int, default=32)
    parser.add_argument("--copies", type=int, default=8)
    parser.add_argument("--load", type=float, default=60)
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    trace = [(int(at) / 1000, change, node) for at, change, node in csv.reader(options.trace.open())]
    text, machines = fleet_of(trace, options.copies, 3600 * options.hours)
    print(f"{machines:.0f} machines on average, {text.count('remove')} losses in {options.hours:g} hours", flush=True)
    print(f"{'balance':16}{'SWARM':>6}  {'alone':22}{'trained':22}{'goodput':22}{'moves':>7}{'rollbacks':>10}")
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "fleet.csv"
        path.write_text(text)
        for balance, period, policy, reported in POLICIES:
            seeds = range(1, options.seeds + 1)
            alone = [replay(options.build, path, options, policy, period, seed) for seed in seeds]
            trained = [simulate(options.build, fleet(path, options, balance, period), seed) for seed in seeds]

            def each(field):
                return [result[field] for result in trained]
            name = f"{balance}, {period} s" if balance == "Periodic" else balance
            print(f"{name:16}{reported:>6}  {text_of(alone):22}{text_of(each('assignedShare')):22}"
                  f"{text_of(each('goodput')):22}{statistics.median(each('moves')):7.0f}"
                  f"{statistics.median(each('rollbacks')):10.0f}", flush=True)


if __name__ == "__main__":
    main()
