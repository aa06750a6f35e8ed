#!/usr/bin/env python3
"""Compares `swarmctl simulate --fleet` with the cells for Int8 that bench/goodput.py measured over emulated links
(bench/wan/README.md, "Goodput"): four workers, 64 microbatches of 256 tokens, 250 us a token and stage.

Usage: bench/fleet/against_wan.py [--build FOLDER]
"""
import argparse
import pathlib

from simulation import simulate

# (Mb/s, round trip in ms) -> tokens/s in Delayed and in Sync; of several runs the first. (0, 0): no limits.
MEASURED = {(80, 10): (2192, 2006), (80, 80): (2284, 1810), (80, 200): (2251, 1580),
            (200, 10): (3909, 3466), (200, 80): (3919, 3214), (200, 200): (3837, 2814),
            (500, 10): (3922, 3581), (500, 80): (3898, 3227), (500, 200): (3875, 2809), (0, 0): (3956, 3754)}


def tokens_per_second(build, mode, rate, round_trip):
    """Tokens a second. A token has 4160 bytes at a boundary, in each direction."""
    fleet = {"job": {"stages": 4, "microbatches": 64, "sequenceLength": 256, "stepMode": mode, "parameters": 1,
                     "boundaryBytes": 256 * 4160},
             "groups": [{"name": "t4", "count": 4, "microbatchSeconds": 0.064}],
             "links": [{"between": ["*", "*"], "roundTripMs": round_trip, "mbps": rate}],
             "seconds": 120, "warmUpSeconds": 12}
    return simulate(build, fleet)["tokensPerSecond"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path(__file__).parents[2] / "build" / "release")
    build = parser.parse_args().build
    print("    Mb/s RTT ms  mode     measured simulated  simulated/measured")
    for (rate, round_trip), measured in MEASURED.items():
        for mode, tokens in zip(("Delayed", "Sync"), measured):
            simulated = tokens_per_second(build, mode, rate, round_trip)
            print(f"{rate or 'free':>8} {round_trip:6}  {mode:8}{tokens:9}{simulated:10.0f}{simulated / tokens:20.3f}")


if __name__ == "__main__":
    main()
