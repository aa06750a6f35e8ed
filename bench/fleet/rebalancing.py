#!/usr/bin/env python3
"""Throughput with and without moves between stages, as a share of the best assignment of the machines that are
there: 80 machines in 16 stages, each lost once in five hours, a new one after ten minutes. The same question as the
simulation of SWARM (arXiv 2301.11913, section 4.2; 32 stages, 32 hours), whose trace is not public. There all but the
assignment is ideal; here transfers of states, work that is done again and sums count.

Usage: bench/fleet/rebalancing.py [--build FOLDER] [--hours 1.5] [--seeds 1]
"""
import argparse
import pathlib

from simulation import simulate

POLICIES = {"None": {"balance": "None"},
            "Periodic, 300 s": {"balance": "Periodic", "balancePeriodSeconds": 300},
            "Periodic, 60 s": {"balance": "Periodic", "balancePeriodSeconds": 60},
            "Event": {"balance": "Event"}}


def fleet(policy, hours):
    """A microbatch takes two seconds at a stage; its state of 1.5 GB takes a minute over a line of 200 Mb/s."""
    return {
        "job": {"stages": 16, "microbatches": 320, "sequenceLength": 2048, "parameters": 1.25e8, "hiddenSize": 4096,
                "numberBytes": 1.016, "gradientBytesPerParameter": 1, "checkpointSteps": 5,
                "retainedGiB": 8, **policy},
        "groups": [{"name": "t4", "count": 80, "microbatchSeconds": 2, "jitter": 0.1, "uploadMbps": 200,
                    "downloadMbps": 200, "lossesPerHour": 0.2, "returnSeconds": 600}],
        "links": [{"between": ["*", "*"], "roundTripMs": 30}],
        "seconds": hours * 3600, "warmUpSeconds": 600}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path(__file__).parents[2] / "build" / "release")
    parser.add_argument("--hours", type=float, default=1.5)
    parser.add_argument("--seeds", type=int, default=1)
    options = parser.parse_args()
    print(f"{'policy':18}{'of the best assignment':>24}{'goodput':>10}{'moves':>8}{'losses':>8}{'rollbacks':>10}")
    for name, policy in POLICIES.items():
        results = []
        for seed in range(1, options.seeds + 1):
            results.append(simulate(options.build, fleet(policy, options.hours), seed))

        def mean(field):
            return sum(result[field] for result in results) / len(results)
        print(f"{name:18}{100 * mean('assignedShare'):22.1f} %{100 * mean('goodput'):8.1f} %{mean('moves'):8.1f}"
              f"{mean('lost'):8.1f}{mean('rollbacks'):10.1f}", flush=True)


if __name__ == "__main__":
    main()
