#!/usr/bin/env python3
"""Measures how much of a link's rate a reduce between two replicas uses, with both directions busy at once.

Usage: bench/wan_reduce.py [--build FOLDER] [--rate 200] [--rtt 80] [--mib 32] [--rounds 8]
                           [--congestion cubic]      (as root)

Each replica sends as many bytes as it sums. The line's rate is that of the payload in full packets (1448 of 1500
bytes). The first round begins with cold connections. A second series pauses for a second between rounds, after
which TCP has forgotten the path's capacity (tcp_slow_start_after_idle).
"""
import argparse
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent / "wan"))

import wan  # noqa: E402

PORT = 7000


def measure(options, idle):
    """Seconds of each round on the slower side."""
    program = [options.build / "bench" / "reduce_pair", "--mib", options.mib, "--rounds", options.rounds,
               "--idle-seconds", idle]
    with wan.Wan(wan.uniform(["a", "b"], options.rate, options.rtt), options.build,
                 options.congestion) as network:
        sides = [network.popen("a", [*program, "--listen", f"{network.address('a')}:{PORT}"],
                               stdout=subprocess.PIPE, text=True),
                 network.popen("b", [*program, "--listen", f"{network.address('b')}:{PORT}",
                                     "--peer", f"{network.address('a')}:{PORT}"], stdout=subprocess.PIPE, text=True)]
        try:
            times = [[float(x) for x in side.communicate(timeout=options.patience)[0].split()] for side in sides]
        finally:
            for side in sides:
                side.kill()
                side.wait()
    return [max(pair) for pair in zip(*times)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=wan.ROOT / "build" / "release")
    parser.add_argument("--rate", type=int, default=200)
    parser.add_argument("--rtt", type=int, default=80)
    parser.add_argument("--mib", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--congestion", default="cubic", help="one that the kernel has")
    parser.add_argument("--patience", type=int, default=120)
    options = parser.parse_args()
    wan.sandboxed()
    line = options.rate * 1e6 * 1448 / 1500
    print(f"reduce of {options.mib} MiB between two replicas, {options.rate} Mb/s, {options.rtt} ms of round trip: "
          "part of the line's rate, round by round")
    for idle in (0, 1):
        parts = [options.mib * 2**20 * 8 / seconds / line for seconds in measure(options, idle)]
        rest = sorted(parts[1:])
        print(f"{idle} s between rounds: {' '.join(f'{part:.3f}' for part in parts)}; "
              f"median without the first {rest[len(rest) // 2]:.3f}", flush=True)


if __name__ == "__main__":
    main()
