#!/usr/bin/env python3
"""Compares sums that are made in each region first with flat ones, over an emulated network (docs/protocol.md, rule 11).

Usage: bench/wan_region_reduce.py [--build FOLDER] [--rate 200] [--rtt 80] [--regions 3] [--replicas 4] [--mib 32]
                                  [--rounds 5] [--patience 240]      (as root)

Every two regions have one line of that rate in each direction, which all their replicas share; within a region the
replicas talk over the loopback device. Flat sums and others alternate. The seconds of a sum are those of the slowest
region, and the median over the rounds counts; the first of each manner has cold connections. Bytes are those of the
payload that replicas send to other regions. They must be what counting says: a flat sum moves each element from each
owner's region as often as there are replicas elsewhere, twice; the other one moves it once to each other region, and
back. Exits with 1 if they are not. Times are printed and decide nothing.
"""
import argparse
import pathlib
import statistics
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent / "wan"))

import wan  # noqa: E402

NAMES = ["eu", "us", "asia", "africa", "oceania"]


def read(process, lines):
    """The sums that a region has made: (manner, seconds, bytes)."""
    sums = []
    for _ in range(lines):
        line = process.stdout.readline().split()
        if not line:
            raise RuntimeError("wan_region_reduce: a region's replicas have ended early; see above")
        sums.append((line[0], float(line[1]), int(line[2])))
    return sums


def measure(options):
    """For each sum in order: manner, seconds, bytes that crossed."""
    regions = NAMES[:options.regions]
    with wan.Wan(wan.uniform(regions, options.rate, options.rtt), options.build, options.congestion) as network:
        hosts = ",".join(f"{region}={network.address(region)}" for region in regions)
        processes = [network.popen(region, ["timeout", options.patience, options.build / "bench" / "region_replicas",
                                            "--region", region, "--hosts", hosts, "--replicas", options.replicas,
                                            "--mib", options.mib, "--rounds", options.rounds],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for region in regions]
        try:
            told = [read(process, 2 * options.rounds) for process in processes]
            for process in processes:
                process.stdin.close()
                process.wait(30)
        finally:
            for process in processes:
                process.kill()
                process.wait()
    return [(parts[0][0], max(part[1] for part in parts), sum(part[2] for part in parts)) for parts in zip(*told)]


def predicted(options):
    """The bytes that cross in a flat sum, and in one that is made in each region first."""
    size, elsewhere = options.mib << 20, options.replicas * (options.regions - 1)
    return {"flat": 2 * elsewhere * size, "regions": 2 * (options.regions - 1) * size}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=wan.ROOT / "build" / "release")
    parser.add_argument("--rate", type=float, default=200, help="Mb/s between two regions, each way")
    parser.add_argument("--rtt", type=float, default=80, help="ms between two regions")
    parser.add_argument("--regions", type=int, default=3, choices=range(2, len(NAMES) + 1))
    parser.add_argument("--replicas", type=int, default=4, help="in each region")
    parser.add_argument("--mib", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=5, help="of each manner")
    parser.add_argument("--congestion", default="cubic", help="one that the kernel has")
    parser.add_argument("--patience", type=int, default=240, help="seconds for all")
    options = parser.parse_args()
    wan.sandboxed()
    print(f"sums of {options.mib} MiB over {options.regions} regions of {options.replicas} replicas, "
          f"{options.rate:g} Mb/s and {options.rtt:g} ms of round trip between two regions")
    sums, expected = measure(options), predicted(options)
    seconds, crossed = {}, {}
    for manner in expected:
        of_manner = [each for each in sums if each[0] == manner]
        seconds[manner] = statistics.median(each[1] for each in of_manner)
        crossed[manner] = {each[2] for each in of_manner}
        print(f"{manner:8} {seconds[manner]:6.2f} s ({' '.join(f'{each[1]:.2f}' for each in of_manner)}); "
              f"MiB between regions {' '.join(f'{bytes / 2**20:.1f}' for bytes in sorted(crossed[manner]))}, "
              f"predicted {expected[manner] / 2**20:.1f}")
    print(f"flat / regions: {expected['flat'] / expected['regions']:.2f} of the bytes, "
          f"{seconds['flat'] / seconds['regions']:.2f} of the time")
    if any(crossed[manner] != {expected[manner]} for manner in expected):
        sys.exit("wan_region_reduce: other bytes have crossed than counting says")


if __name__ == "__main__":
    main()
