#!/usr/bin/env python3
"""Counts the bytes that cross from one region to another in a whole run, over an emulated network, with regions and
without (docs/protocol.md, rules 11, 29 and 34).

Usage: bench/wan_region_bytes.py [--build FOLDER] [--rate 200] [--rtt 80] [--steps 10] ...      (as root)

Two stages of four workers in three regions, of which two have three workers and one has two. Every two regions have one
line of that rate in each direction, which all their workers share; the workers of a region talk over the loopback
device. Trainer and workers are the real programs with timed compute (timed_worker), which count the payload that they
send to each peer. The first run's workers say where they are; the trainer places them and chooses routes and sums. In
the second run the same workers serve the same stages, say no region and nothing of their links: routes are plain lanes
and sums are flat. The least is what CrossingBytes (worker/protocol/balance/regions.h) says of that placement. Exits
with 1 if the first run's bytes are above it by more than --above, or not below those of the second run.
"""
import json
import pathlib
import sys
import tempfile
import time

import goodput
from goodput import sandbox, subprocess, wan
from wan_wiring import await_event

STAGES, REPLICAS = 2, 4
REGIONS = {"eu": 3, "us": 3, "asia": 2}
BACKWARD_PART = 2 / 3


def all_workers():
    """By name: the region. One of each region after the other."""
    return {f"{region}{number}": region for number in range(max(REGIONS.values()))
            for region, count in REGIONS.items() if number < count}


def topology(options):
    """The trainer is near to all regions: what it sends is little."""
    return {"nodes": [{"name": name, "region": name} for name in ("trainer", *REGIONS)],
            "links": [{"between": ["*", "*"], "rateMbps": options.rate, "oneWayMs": options.rtt / 2},
                      {"between": ["trainer", "*"], "rateMbps": 1000, "oneWayMs": 0.5}]}


def stages_of(events):
    """By worker: the stage that it serves, as the trainer says."""
    texts = (json.loads(line)["text"].split() for line in events.read_text().splitlines())
    return {words[0]: int(words[3].rstrip(",.;:")) for words in texts if words[1:3] == ["serves", "stage"]}


def await_counts(workers, folder, seconds=60):
    """By sender and receiver: the bytes of payload, once every worker has ended."""
    limit = time.monotonic() + seconds
    while not all((folder / f"{worker}.sent").exists() for worker in workers):
        if time.monotonic() > limit:
            raise RuntimeError("wan_region_bytes: a worker has not ended after the job")
        time.sleep(0.05)
    return {(worker, line.split()[0]): int(line.split()[1])
            for worker in workers for line in (folder / f"{worker}.sent").read_text().splitlines()}


def run(options, workers, flat):
    """Trains once, with workers that come in that order; gives the stage of each, what each has sent to each, and the
    lines of steps.jsonl."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="job-", dir=options.folder)) / "run"
    folder.mkdir()
    goodput.write_job(options, "Delayed", folder)
    with wan.Wan(topology(options), options.build) as network, \
            goodput.programs(network, options.build, folder) as (start, processes):
        trainer, address = goodput.start_trainer(start, folder, [REPLICAS] * STAGES)
        for worker, region in workers.items():
            how = ["--silent-on-links"] if flat else ["--region", region]
            start(region, "bench/timed_worker", "--id", worker, "--trainer", address,
                  "--sent-file", folder / f"{worker}.sent", "--parameters", options.parameters,
                  "--boundary-bytes", options.bytes, "--forward-ms", options.milliseconds * (1 - BACKWARD_PART),
                  "--backward-ms", options.milliseconds * BACKWARD_PART, *how)
            await_event(folder / "out" / "events.jsonl", f"{worker} serves stage")
        goodput.await_end(trainer, processes, folder, options.patience)
        return (stages_of(folder / "out" / "events.jsonl"), await_counts(workers, folder),
                [json.loads(line) for line in (folder / "out" / "steps.jsonl").read_text().splitlines()])


def crossing(sent, workers, stages):
    """Bytes between regions: of activations and gradients, and of sums."""
    total = [0, 0]
    for (sender, receiver), count in sent.items():
        if workers.get(receiver, workers[sender]) != workers[sender]:
            total[stages[sender] == stages[receiver]] += count
    return total


def least(options, workers, stages, steps):
    """The least bytes between regions in so many steps: of activations and gradients, and of sums."""
    placement = [",".join(region for worker, region in workers.items() if stages[worker] == stage)
                 for stage in range(STAGES)]
    text = subprocess.run([options.build / "bench" / "least_crossing", str(2 * options.bytes),
                           str(4 * options.parameters), str(options.microbatches), *placement],
                          check=True, text=True, stdout=subprocess.PIPE).stdout
    boundaries, whole = (float(word) * steps for word in text.split())
    return [boundaries, whole - boundaries]


def show(name, parts, yardstick):
    print(f"{name:8} {sum(parts) / 1e6:8.1f} MB between regions: {parts[0] / 1e6:.1f} of activations and gradients, "
          f"{parts[1] / 1e6:.1f} of sums; {sum(parts) / sum(yardstick):.3f} of the least", flush=True)


def parse_arguments():
    parser = wan.command_line(__doc__, rate=200, rtt=80, milliseconds=60, boundary_bytes=250_000)
    parser.add_argument("--parameters", type=int, default=1 << 20, help="floats that a stage sums")
    parser.add_argument("--above", type=float, default=0.05, help="the part that a run may have above the least")
    options = parser.parse_args()
    options.stages, options.tokens = STAGES, 64
    return options


def main():
    options = parse_arguments()
    wan.sandboxed()
    options.folder = sandbox.Sandbox.current().folder
    workers = all_workers()
    stages, sent, steps = run(options, workers, flat=False)
    # The same placement again: without regions stages take workers in turns.
    ordered = sorted(workers, key=lambda worker: stages[worker])
    in_turns = {ordered[stage * REPLICAS + place]: workers[ordered[stage * REPLICAS + place]]
                for place in range(REPLICAS) for stage in range(STAGES)}
    stages_again, sent_flat, steps_flat = run(options, in_turns, flat=True)
    if stages_again != stages:
        sys.exit(f"wan_region_bytes: the placements differ: {stages} and {stages_again}")
    print(f"{len(steps)} steps; stage 0 has {' '.join(ordered[:REPLICAS])}, stage 1 {' '.join(ordered[REPLICAS:])}")
    yardstick = least(options, workers, stages, len(steps))
    show("least", yardstick, yardstick)
    by_regions, flat = crossing(sent, workers, stages), crossing(sent_flat, workers, stages)
    show("regions", by_regions, yardstick)
    show("flat", flat, yardstick)
    for name, lines in (("regions", steps), ("flat", steps_flat)):
        print(f"{name:8} {sum(line['seconds'] for line in lines[goodput.WARM_UP_STEPS:]):6.1f} s "
              f"for the last {len(lines) - goodput.WARM_UP_STEPS} steps")
    print(f"flat / regions: {sum(flat) / sum(by_regions):.2f} of the bytes")
    if sum(by_regions) > (1 + options.above) * sum(yardstick) or sum(by_regions) >= sum(flat):
        sys.exit("wan_region_bytes: more bytes have crossed than the bound")


if __name__ == "__main__":
    main()
