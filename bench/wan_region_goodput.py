#!/usr/bin/env python3
"""Measures the goodput of a swarm in three regions: tokens a second over links between them, divided by tokens a second over
unlimited ones, with the same programs in the same run.

Usage: bench/wan_region_goodput.py [--build FOLDER] [--rtt 80] [--steps 8] [--tokens 512] ...      (as root)

Three stages of two workers, two machines in each of three regions. Each has a link of its own to every machine of another
region; within a region links are unlimited. The trainer places the workers (docs/protocol.md, rule 34). Compute is timed and
bytes are real: the device is that of goodput.py, a T4 with four layers of width 4096, 250 us a token. Lines with `slow`
have one pair of regions with 80 Mb/s and 200 ms between them. The last columns are the places, how busy this machine was,
and by how many milliseconds the emulator delivered its latest packet too late.
"""
import json
import pathlib
import resource
import tempfile
import time

import goodput
from goodput import sandbox, wan
from wan_wiring import await_event

STAGES, REPLICAS = 3, 2
REGIONS = ("eu", "us", "asia")
# Name, Mb/s between two regions (0: unlimited), codec, whether one pair of regions is slower.
WORLDS = [("unlimited", 0, "Int8", False), ("Int8", 200, "Int8", False), ("Int8, slow", 200, "Int8", True),
          ("unlimited", 0, "x:0.125", False), ("32 times fewer", 80, "x:0.125", False)]
SLOW = {"rateMbps": 80, "oneWayMs": 100}


def workers():
    """By name: the region; one of each region after the other."""
    return {f"{region}{number}": region for number in range(REPLICAS) for region in REGIONS}


def topology(rate, rtt, slow):
    """The trainer is near to all regions: what it sends is little."""
    links = [{"between": ["*", "*"], "rateMbps": rate, "oneWayMs": rtt / 2},
             {"between": ["home", "*"], "rateMbps": 0, "oneWayMs": 0.5},
             *({"between": [region, region], "rateMbps": 0, "oneWayMs": 0.5} for region in REGIONS)]
    if slow:
        links.append({"between": ["us", "asia"], **SLOW})
    return {"nodes": [{"name": "trainer", "region": "home"},
                      *({"name": name, "region": region} for name, region in workers().items())], "links": links}


def places_of(events):
    """The regions of each stage, as the trainer has placed the workers."""
    stages = [[] for _ in range(STAGES)]
    for line in events.read_text().splitlines():
        words = json.loads(line)["text"].split()
        if words[1:3] == ["serves", "stage"]:
            stages[int(words[3].rstrip(",.;:"))].append(workers()[words[0]])
    return " ".join("+".join(sorted(stage)) for stage in stages)


def measure(options, rate, codec, slow):
    """Tokens a second, the places, processor seconds a second, and the emulator's lateness in ms."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="job-", dir=options.folder)) / "run"
    folder.mkdir()
    goodput.write_job(options, "Delayed", folder)
    milliseconds = options.tokens * goodput.MICROSECONDS_PER_TOKEN * 1e-3
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    with (wan.Wan(topology(rate, options.rtt if rate else 1, slow), options.build) as network,
          goodput.programs(network, options.build, folder) as (start, processes)):
        trainer, address = goodput.start_trainer(start, folder, [REPLICAS] * STAGES)
        for name, region in workers().items():
            start(name, "bench/timed_worker", "--id", name, "--trainer", address, "--region", region,
                  "--forward-ms", milliseconds * goodput.FORWARD_PART,
                  "--backward-ms", milliseconds * (1 - goodput.FORWARD_PART),
                  "--boundary-bytes", round(options.tokens * goodput.WIDTH * goodput.bytes_per_number(codec)))
            await_event(folder / "out" / "events.jsonl", f"{name} serves stage")
        goodput.await_end(trainer, processes, folder, options.patience)
    after, wall = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic() - begun
    steps = [json.loads(line) for line in (folder / "out" / "steps.jsonl").read_text().splitlines()]
    steps = steps[goodput.WARM_UP_STEPS:]
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return (sum(s["tokens"] for s in steps) / sum(s["seconds"] for s in steps),
            places_of(folder / "out" / "events.jsonl"), cpu / wall, network.report["maxLateUs"] / 1e3)


def main():
    parser = wan.command_line(__doc__, rate=0, rtt=80, milliseconds=0, boundary_bytes=0)
    parser.add_argument("--tokens", type=int, default=512, help="of a microbatch")
    parser.add_argument("--worlds", type=int, default=len(WORLDS), help="only so many, from the first")
    options = parser.parse_args()
    options.stages = STAGES
    wan.sandboxed()
    options.folder = sandbox.Sandbox.current().folder
    print(f"{'boundary':16}{'Mb/s':>6}{'tokens/s':>10}{'goodput':>9}  places, processors, late ms")
    free = {}
    for name, rate, codec, slow in WORLDS[:options.worlds]:
        rate_found, places, busy, late = measure(options, rate, codec, slow)
        free.setdefault(codec, rate_found)
        print(f"{name:16}{rate or 'free':>6}{rate_found:10.0f}{rate_found / free[codec]:9.3f}  {places}, {busy:.2f}, {late:.0f}",
              flush=True)


if __name__ == "__main__":
    main()
