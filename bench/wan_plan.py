#!/usr/bin/env python3
"""Measures the plans of `swarmctl plan` on an emulated network: links x devices x models, in each cell the plan that is
chosen and some beside it. Says how far predictions are off, and whether the chosen plan is the best.

Usage: bench/wan_plan.py [--build FOLDER] [--plans 3] [--links TEXT] [--devices TEXT] [--models TEXT]     (as root)

As in goodput.py, compute is timed and bytes are real, over bench/wan: the programs of a run, with workers that take as
long for a microbatch of their stage as the fleet's devices would, send as many bytes at its boundaries, and sum as
many floats as the stage has parameters. Options take a part of the names below; without them all cells are measured.
Two cores do not carry the bytes of fast links, so where a plan sends more than they do, it runs slower than the world
that it stands for: all times are longer and all rates lower by the factor in the column before the last, and what is
measured is told as that world's. The last column is by how many milliseconds the emulator delivered its latest packet
too late.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).parent
sys.path[:0] = [str(HERE / "wan"), str(HERE / "fleet")]

import goodput  # noqa: E402
import wan  # noqa: E402
from cluster import sandbox  # noqa: E402
from plan_grid import plans_of  # noqa: E402

# The connection between any two machines: Mb/s in each direction, round trip in ms.
LINKS = {"50 Mb/s 80 ms": (50, 80), "100 Mb/s 20 ms": (100, 20), "200 Mb/s 80 ms": (200, 80),
         "500 Mb/s 10 ms": (500, 10)}
# Groups of machines: (count, 10^12 operations a second).
DEVICES = {"4 x 10": [(4, 10)], "6 x 5": [(6, 5)], "2 x 10 + 2 x 4": [(2, 10), (2, 4)]}
MODELS = {
    "deep, 134 M": {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 2048,
                    "vocab_size": 32000},
    "wide, 93 M": {"hidden_size": 1024, "num_hidden_layers": 6, "num_attention_heads": 16, "intermediate_size": 2816,
                   "vocab_size": 8000},
}
SEQUENCE, BATCH = 512, 128
STEPS, WARM_UP_STEPS = 3, 1
STEP_SECONDS_MAX = 60
CARRIED_MBPS = 300  # by the emulator, in all; a single connection stays behind at 600


def manifest_of(model, corpus):
    return {"apiVersion": "swarmjob.dev/v1alpha1", "kind": "SwarmJob", "metadata": {"name": "grid"},
            "spec": {"model": {"config": MODELS[model]}, "data": {"uri": str(corpus)},
                     "training": {"maxSteps": STEPS + WARM_UP_STEPS, "globalBatchSize": BATCH,
                                  "sequenceLength": SEQUENCE, "validationIntervalSteps": 1000000},
                     "checkpoint": {"intervalSteps": 1000000}}}


def fleet_of(link, devices):
    rate, round_trip = LINKS[link]
    groups = [{"name": f"g{i}", "count": count, "teraflops": flops}
              for i, (count, flops) in enumerate(DEVICES[devices])]
    return {"groups": groups, "links": [{"between": ["*", "*"], "roundTripMs": round_trip, "mbps": rate}]}


def merged(base, patch):
    """JSON merge patch (RFC 7386) without removals."""
    if not isinstance(base, dict) or not isinstance(patch, dict):
        return patch
    return {**base, **{key: merged(base.get(key), value) for key, value in patch.items()}}


def joined(values):
    return ",".join(f"{value:.6g}" for value in values)


def slowness(plan):
    """By which factor a plan must run slower, so that the emulator carries what it sends."""
    return max(1, sum(stage["machines"] * stage["sentMbps"] for stage in plan["stages"]) / CARRIED_MBPS)


def measure(options, manifest, fleet, plan, folder):
    """Tokens a second of a plan, and the emulator's lateness in ms."""
    slower = slowness(plan)
    text = json.dumps(merged(manifest, plan["manifest"]))
    job = subprocess.run([options.build / "bin" / "swarmctl", "validate", "-", "--json"], check=True, input=text,
                         text=True, stdout=subprocess.PIPE).stdout
    (folder / "job.json").write_text(job)
    stages, training = plan["stages"], plan["manifest"]["spec"]["training"]
    tokens = training["microbatchSize"] * SEQUENCE
    # A plan assumes that machines come in the order of the groups.
    workers = [group for group in fleet["groups"]
               for _ in range(sum(stage["byGroup"].get(group["name"], 0) for stage in stages))]
    nodes = ["trainer", *(f"w{i}" for i in range(len(workers)))]
    rate, round_trip = fleet["links"][0]["mbps"], fleet["links"][0]["roundTripMs"]
    with (wan.Wan(wan.uniform(nodes, rate / slower, round_trip * slower), options.build) as network,
          goodput.programs(network, options.build, folder) as (start, processes)):
        trainer, address = goodput.start_trainer(start, folder, [stage["machines"] for stage in stages])
        for i, group in enumerate(workers):
            seconds = [slower * stage["tokenGigaflops"] * tokens / (1e3 * group["teraflops"]) for stage in stages]
            start(f"w{i}", "bench/timed_worker", "--id", f"w{i}", "--trainer", address,
                  "--forward-ms", joined(1e3 * s * goodput.FORWARD_PART for s in seconds),
                  "--backward-ms", joined(1e3 * s * (1 - goodput.FORWARD_PART) for s in seconds),
                  "--boundary-bytes", round(plan["boundaryBytes"]),
                  "--parameters", ",".join(str(stage["parameters"]) for stage in stages))
            time.sleep(0.5)  # they are placed in this order
        goodput.await_end(trainer, processes, folder, options.patience)
    steps = [json.loads(line) for line in (folder / "out" / "steps.jsonl").read_text().splitlines()][WARM_UP_STEPS:]
    tokens_per_second = slower * sum(step["tokens"] for step in steps) / sum(step["seconds"] for step in steps)
    return tokens_per_second, network.report["maxLateUs"] / 1e3


def way_of(plan):
    spec = plan["manifest"]["spec"]
    codec = spec["pipeline"].get("boundary", {}).get("codec", "-")
    layout = "+".join(str(stage["machines"]) for stage in plan["stages"])
    return f"{layout:12} {codec:5} {spec['training']['stepMode']:7} mb {spec['training']['microbatchSize']:3}"


def measure_cell(options, model, link, devices):
    """Prints a line for each plan; gives (predicted, measured) for each."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="cell-", dir=options.folder))
    corpus = folder / "corpus.txt"
    corpus.write_text("".join(f"{number}\n" for number in range(400000)))
    manifest, fleet = manifest_of(model, corpus), fleet_of(link, devices)
    results = []
    for i, plan in enumerate(plans_of(options.build, manifest, fleet)[:options.plans]):
        if i and plan["stepSeconds"] > STEP_SECONDS_MAX:
            continue
        run = folder / str(i)
        run.mkdir()
        predicted = plan["tokensPerSecond"]
        measured, late = measure(options, manifest, fleet, plan, run)
        results.append((predicted, measured))
        names = (model, link, devices) if i == 0 else ("", "", "")
        print(f"{names[0]:12} {names[1]:15} {names[2]:15} {way_of(plan):34} {predicted:9.0f} {measured:9.0f}"
              f" {predicted / measured:5.2f} {slowness(plan):6.1f} {late:7.0f}", flush=True)
    return results


def part(names, options):
    unknown = [name for name in options if name not in names]
    if unknown:
        sys.exit(f"wan_plan: {unknown[0]!r} is none of {', '.join(names)}")
    return options or list(names)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=wan.ROOT / "build" / "release")
    parser.add_argument("--plans", type=int, default=3, help="of a cell, at most")
    parser.add_argument("--links", action="append", default=[])
    parser.add_argument("--devices", action="append", default=[])
    parser.add_argument("--models", action="append", default=[])
    parser.add_argument("--patience", type=int, default=600, help="seconds for a run")
    options = parser.parse_args()
    links, devices, models = part(LINKS, options.links), part(DEVICES, options.devices), part(MODELS, options.models)
    wan.sandboxed()
    options.folder = sandbox.Sandbox.current().folder
    print(f"{'model':12} {'links':15} {'devices':15} {'plan':34} predicted  measured ratio slower late ms", flush=True)
    cells = [measure_cell(options, model, link, group) for model in models for link in links for group in devices]

    def within(pairs):
        return sum(abs(1 - predicted / measured) <= 0.15 for predicted, measured in pairs)
    chosen, plans = [cell[0] for cell in cells], [pair for cell in cells for pair in cell]
    best = sum(cell[0][1] >= 0.9 * max(measured for _, measured in cell) for cell in cells)
    print(f"{within(chosen)} of {len(chosen)} chosen plans, and {within(plans)} of {len(plans)} plans, are predicted "
          f"within 15 %; the choice is within 10 % of the best measured in {best} of {len(cells)} cells")


if __name__ == "__main__":
    main()
