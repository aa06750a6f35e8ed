#!/usr/bin/env python3
"""The share of time in which devices compute, by the width of a model and the round trip: SWARM's table (arXiv
2301.11913, section 4.1) by `swarmctl simulate --fleet`. Four stages of one layer and one V100 each, 500 Mb/s, 512 tokens
a microbatch.

SWARM's figures fit compute / (compute + bytes / rate + round trip), one microbatch at a time. What a layer takes
(SECONDS) is what follows from their columns without latency and with 200 ms; forward and backward are taken as alike.

Medians over seeds, and the widest range of a row.

Usage: bench/fleet/utilization.py [--build FOLDER] [--seeds 3]
"""
import argparse
import pathlib
import statistics

from simulation import simulate

ROUND_TRIPS = (0, 10, 50, 100, 200)  # ms
TOKENS = 512
# width -> seconds of a layer in one direction, and SWARM's figures in %
SECONDS = {768: 0.0033, 4096: 0.0295, 12288: 0.237}
SWARM = {768: (18.0, 11.8, 4.88, 2.78, 1.53), 4096: (32.1, 28.9, 20.1, 14.9, 10.1),
         12288: (82.1, 79.3, 70.3, 60.2, 48.5)}
BYTES = {"16 bits": 2, "8 bits": 1.016, "8 bits, 16 times fewer": 1.016 / 16}  # of a number at a boundary


def busy(options, width, number_bytes, round_trip):
    """The shares of the devices' time, one for each seed, in percent."""
    fleet = {"job": {"stages": 4, "microbatches": 512, "sequenceLength": TOKENS, "parameters": 1,
                     "hiddenSize": width, "numberBytes": number_bytes, "forwardShare": 0.5},
             "groups": [{"name": "v100", "count": 4, "microbatchSeconds": 2 * SECONDS[width], "jitter": 0.05,
                         "uploadMbps": 500, "downloadMbps": 500}],
             "links": [{"between": ["*", "*"], "roundTripMs": round_trip}],
             "seconds": 600 if width > 768 else 120, "warmUpSeconds": 30}
    return [100 * simulate(options.build, fleet, seed)["busyShare"] for seed in range(1, options.seeds + 1)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path(__file__).parents[2] / "build" / "release")
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    print(f"{'width':>6}  {'boundary':24}" + "".join(f"{f'{ms} ms':>9}" for ms in ROUND_TRIPS))
    for width, reported in SWARM.items():
        print(f"{width:6}  {'SWARM':24}" + "".join(f"{value:7.1f} %" for value in reported))
        for name, number_bytes in BYTES.items():
            shares = [busy(options, width, number_bytes, ms) for ms in ROUND_TRIPS]
            widest = max(max(share) - min(share) for share in shares)
            print(f"{width:6}  {name:24}" + "".join(f"{statistics.median(share):7.1f} %" for share in shares)
                  + f"   (range {widest:.1f})", flush=True)


if __name__ == "__main__":
    main()
