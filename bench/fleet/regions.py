#!/usr/bin/env python3
"""Routes that follow measured links (docs/protocol.md, rule 29) against lanes, which know nothing of links, where
machines come and go: four stages of twelve unlike workers in ten regions of AWS, in `swarmctl simulate --fleet`. Rates
and round trips between regions are those of bench/flow_bench.cc. The slowest device is a quarter as fast as the
fastest. Medians over seeds, and ranges.

Usage: bench/fleet/regions.py [--build FOLDER] [--seeds 3] [--losses 0,6]
"""
import argparse
import itertools
import pathlib
import random
import re

from simulation import simulate, text_of

ROOT = pathlib.Path(__file__).parents[2]
REGIONS = ("Virginia", "Frankfurt", "Tokyo", "Oregon", "Sydney", "Ireland", "Singapore", "London", "Ohio", "Seoul")
SLOWNESS = (1.0, 1.5, 2.5, 4.0)
# name -> seconds of a microbatch at the fastest device, bytes of it at a boundary, seconds of the run
JOBS = {"64 to 256 ms, 1 MB": (0.064, 1e6, 420), "16 to 64 ms, 8 MB": (0.016, 8e6, 180)}


def links():
    """As in bench/flow_bench.cc; within a region 1 ms and 5 Gb/s."""
    row = re.compile(r'\{"(\w+)", "(\w+)", ([\d.]+), ([\d.]+)\}')
    measured = row.findall((ROOT / "bench" / "flow_bench.cc").read_text())
    assert len(measured) == len(REGIONS) * (len(REGIONS) - 1) / 2
    return [{"between": ["*", "*"], "roundTripMs": 1, "mbps": 5000}] + [
        {"between": [a, b], "roundTripMs": float(ms), "mbps": 1000 * float(rate)} for a, b, ms, rate in measured]


def fleet(job, reports_links, losses, seed):
    """A worker's part is small, so that sums and copies of states do not hide what wiring does."""
    seconds, boundary, lasts = JOBS[job]
    drawn = random.Random(seed)
    counts = {}
    for _ in range(48):
        machine = drawn.choice(REGIONS), drawn.choice(SLOWNESS)
        counts[machine] = counts.get(machine, 0) + 1
    groups = [{"name": f"{region}{slow}", "region": region, "count": count, "microbatchSeconds": slow * seconds,
               "jitter": 0.1, "lossesPerHour": losses, "returnSeconds": 60}
              for (region, slow), count in sorted(counts.items())]
    return {"job": {"stages": 4, "microbatches": 1024, "sequenceLength": 1, "parameters": 2e6,
                    "boundaryBytes": boundary, "gradientBytesPerParameter": 1, "retainedGiB": 32,
                    "reportsLinks": reports_links},
            "groups": groups, "links": links(), "trainerRegion": "Virginia", "seconds": lasts, "warmUpSeconds": 60}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--losses", default="0,6", help="of a machine in an hour")
    options = parser.parse_args()
    print(f"{'compute, boundary':22}{'losses/h':>9}  {'lanes':24}{'by links':24}")
    for job, losses in itertools.product(JOBS, map(float, options.losses.split(","))):
        shares = []
        for reports_links in (False, True):
            results = []
            for seed in range(1, options.seeds + 1):
                results.append(simulate(options.build, fleet(job, reports_links, losses, seed), seed))
            shares.append(text_of([result["goodput"] for result in results]))
        print(f"{job:22}{losses:9g}  {shares[0]:24}{shares[1]:24}", flush=True)


if __name__ == "__main__":
    main()
