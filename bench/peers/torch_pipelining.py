#!/usr/bin/env python3
"""Measures the goodput of torch.distributed.pipelining under the conditions of bench/goodput.py: same links, same
cut, same timed compute, same microbatches. It sends tensors as they are, so the table is for float32 (its
default) and bfloat16.

Usage: bench/peers/torch_pipelining.py [--rates 80,200,500] [--rtts 10,80,200] [--dtypes float32,bfloat16]
                                       [--schedules 1F1B] ...      (as root, after bench/peers/setup.sh)
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "wan")]

import goodput  # noqa: E402
import wan  # noqa: E402

BYTES = {"float32": 4, "bfloat16": 2}


def measure(options, rate, rtt, schedule, dtype):
    """Tokens per second, without the first step."""
    nodes = [f"w{stage}" for stage in range(options.stages)]
    milliseconds = options.tokens * goodput.MICROSECONDS_PER_TOKEN * 1e-3
    arguments = [schedule, dtype, goodput.WIDTH, options.tokens, options.microbatches, options.steps + 1,
                 milliseconds * goodput.FORWARD_PART, milliseconds * (1 - goodput.FORWARD_PART)]
    python = pathlib.Path(os.environ.get("SWARM_DEPS", wan.ROOT / ".deps")) / "peers" / "bin" / "python"
    with wan.Wan(wan.uniform(nodes, rate, rtt), options.build) as network:
        ranks = []
        try:
            for rank, node in enumerate(nodes):
                environment = {**os.environ, "RANK": str(rank), "WORLD_SIZE": str(options.stages),
                               "MASTER_ADDR": network.address(nodes[0]), "MASTER_PORT": "29500",
                               "GLOO_SOCKET_IFNAME": wan.DEVICE, "OMP_NUM_THREADS": "1"}
                ranks.append(network.popen(node, [python, HERE / "torch_rank.py", *arguments], env=environment,
                                           stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True))
            output = ranks[0].communicate(timeout=options.patience)[0]
        finally:
            for rank in ranks:
                rank.kill()
                rank.wait()
    seconds = json.loads(output)[1:]
    return {"rate": rate, "rtt": rtt, "schedule": schedule, "dtype": dtype,
            "lateMs": network.report["maxLateUs"] / 1e3,
            "tokensPerSecond": len(seconds) * options.microbatches * options.tokens / sum(seconds)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=wan.ROOT / "build" / "release")
    parser.add_argument("--rates", default="80,200,500", help="Mb/s")
    parser.add_argument("--rtts", default="10,80,200", help="round trips in ms")
    parser.add_argument("--dtypes", default="float32,bfloat16")
    parser.add_argument("--schedules", default="1F1B")
    parser.add_argument("--stages", type=int, default=4)
    parser.add_argument("--steps", type=int, default=1, help="that count, after the first")
    parser.add_argument("--microbatches", type=int, default=64, help="a step")
    parser.add_argument("--tokens", type=int, default=256, help="a microbatch")
    parser.add_argument("--patience", type=int, default=300, help="seconds for a run")
    parser.add_argument("--report", type=pathlib.Path, help="written: all results as JSON")
    options = parser.parse_args()
    wan.sandboxed()
    cells = [(0, 0), *((int(rate), int(rtt)) for rate in options.rates.split(",") for rtt in options.rtts.split(","))]
    print(f"torch.distributed.pipelining, S = {options.stages}, timed compute with real bytes as bench/goodput.py\n"
          "  Mb/s RTT ms schedule dtype      tokens/s  goodput   load")
    results = []
    for schedule in options.schedules.split(","):
        for dtype in options.dtypes.split(","):
            free = None
            for rate, rtt in cells:
                result = measure(options, rate, rtt, schedule, dtype)
                free = free or result
                result["goodput"] = result["tokensPerSecond"] / free["tokensPerSecond"]
                load = goodput.WIDTH * BYTES[dtype] * 8 / goodput.MICROSECONDS_PER_TOKEN / rate if rate else 0
                print(f"{rate or 'free':>6} {rtt:6} {schedule:8} {dtype:9}{result['tokensPerSecond']:10.0f}"
                      f" {result['goodput']:8.3f} {load:6.2f}", flush=True)
                results.append(result)
    if options.report:
        options.report.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
