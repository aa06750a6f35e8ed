#!/usr/bin/env python3
"""Compares what `swarmctl plan` predicts with what `swarmctl simulate --fleet` says of the same plans, in virtual
time with the coordinator and the router of real runs: links x devices x models, in each cell the plan that is chosen
and those beside it.

Usage: bench/fleet/plan_grid.py [--build FOLDER]
"""
import argparse
import json
import pathlib
import subprocess
import tempfile

from simulation import simulate

# Lines of each machine, and the round trip between any two.
LINKS = {"50 Mb/s 80 ms": (50, 80), "200 Mb/s 80 ms": (200, 80), "1 Gb/s 20 ms": (1000, 20), "10 Gb/s 1 ms": (10000, 1)}
# Groups of machines: (count, 10^12 operations a second).
DEVICES = {"4 x 5": [(4, 5)], "8 x 20": [(8, 20)], "2 x 20 + 4 x 5": [(2, 20), (4, 5)]}
MODELS = {
    "124 M": {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 2048,
              "vocab_size": 32000},
    "1.4 G": {"hidden_size": 2048, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 5632,
              "vocab_size": 32000},
}
BATCH, SEQUENCE = 128, 1024
MEMORY_GIB = {"124 M": 0, "1.4 G": 24}  # the large model needs several stages
STEPS, WARM_UP_STEPS = 40, 10


def manifest_of(model):
    return {"apiVersion": "swarmjob.dev/v1alpha1", "kind": "SwarmJob", "metadata": {"name": "grid"},
            "spec": {"model": {"config": MODELS[model]}, "data": {"uri": "corpus.txt"},
                     "training": {"maxSteps": 100, "globalBatchSize": BATCH, "sequenceLength": SEQUENCE}}}


def fleet_of(link, devices, model):
    rate, round_trip = LINKS[link]
    groups = [{"name": f"g{i}", "count": count, "teraflops": flops, "uploadMbps": rate, "downloadMbps": rate,
               "memoryGiB": MEMORY_GIB[model]} for i, (count, flops) in enumerate(DEVICES[devices])]
    return {"groups": groups, "links": [{"between": ["*", "*"], "roundTripMs": round_trip}]}


def plans_of(build, manifest, fleet):
    with tempfile.NamedTemporaryFile("w", suffix=".json") as job, tempfile.NamedTemporaryFile("w") as machines:
        json.dump(manifest, job)
        json.dump(fleet, machines)
        job.flush()
        machines.flush()
        run = subprocess.run([build / "bin" / "swarmctl", "plan", "-f", job.name, "--fleet", machines.name, "--json"],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=True)
    return json.loads(run.stdout)["plans"]


def simulated(build, plan, fleet):
    """Tokens a second of the plan's stages and machines."""
    training = plan["manifest"]["spec"]["training"]
    used = {}
    for stage in plan["stages"]:
        for group, count in stage["byGroup"].items():
            used[group] = used.get(group, 0) + count
    groups = [dict(group, count=used[group["name"]]) for group in fleet["groups"] if group["name"] in used]
    job = {"stages": len(plan["stages"]), "microbatches": BATCH // training["microbatchSize"],
           "sequences": training["microbatchSize"], "sequenceLength": SEQUENCE, "stepMode": training["stepMode"],
           "parameters": [stage["parameters"] for stage in plan["stages"]],
           "tokenGigaflops": [stage["tokenGigaflops"] for stage in plan["stages"]],
           "replicas": [stage["machines"] for stage in plan["stages"]],
           "inFlightMax": plan["manifest"]["spec"]["pipeline"].get("inFlightMax", 0),
           "boundaryBytes": plan["boundaryBytes"], "gradientBytesPerParameter": 4}
    step = plan["stepSeconds"]
    return simulate(build, dict(fleet, groups=groups, job=job, seconds=STEPS * step,
                                warmUpSeconds=WARM_UP_STEPS * step))["tokensPerSecond"]


def way_of(plan):
    spec = plan["manifest"]["spec"]
    codec = spec["pipeline"].get("boundary", {}).get("codec", "-")
    machines = sum(stage["machines"] for stage in plan["stages"])
    return (f"{len(plan['stages'])} stages {machines} machines {codec:5} {spec['training']['stepMode']:7} "
            f"mb {spec['training']['microbatchSize']}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path(__file__).parents[2] / "build" / "release")
    parser.add_argument("--all", action="store_true", help="a line for each plan beside the chosen one too")
    arguments = parser.parse_args()
    build = arguments.build
    ratios, choices, chosen_ratios = [], [], []
    print(f"{'model':6} {'links':15} {'devices':15} {'chosen plan':46} predicted simulated ratio choice/best")
    for model in MODELS:
        for link in LINKS:
            for devices in DEVICES:
                fleet = fleet_of(link, devices, model)
                plans = plans_of(build, manifest_of(model), fleet)
                real = [simulated(build, plan, fleet) for plan in plans]
                cell = [plan["tokensPerSecond"] / tokens if tokens else float("inf") for plan, tokens in zip(plans, real)]
                ratios += cell
                chosen_ratios.append(cell[0])
                choices.append(real[0] / max(real))
                for i, (plan, tokens, ratio) in enumerate(zip(plans, real, cell)):
                    if i and not arguments.all:
                        break
                    names = (model, link, devices) if i == 0 else ("", "", "")
                    choice = f"{choices[-1]:11.2f}" if i == 0 else ""
                    print(f"{names[0]:6} {names[1]:15} {names[2]:15} {way_of(plan):46} {plan['tokensPerSecond']:9.0f}"
                          f" {tokens:9.0f} {ratio:5.2f} {choice}", flush=True)
    within = lambda values, share: sum(abs(1 - value) <= share for value in values)
    print(f"{within(chosen_ratios, 0.15)} of {len(chosen_ratios)} chosen plans, and {within(ratios, 0.15)} of "
          f"{len(ratios)} plans are predicted within 15 %;"
          f" the choice is within 10 % of the best of its cell in {sum(c >= 0.9 for c in choices)} of {len(choices)}")


if __name__ == "__main__":
    main()
