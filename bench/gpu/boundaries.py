#!/usr/bin/env python3
"""Trains one model of 134 million parameters with several kinds of boundary at the same time, on one GPU, until all
have had --steps steps or --seconds are over: what thin boundaries cost, beyond the small models of
bench/boundary_study.py. All see the same tokens in the same order from the same start; the learning rate is constant
after the warm-up, so losses can be compared after any number of tokens.

Usage: boundaries.py BIN_FOLDER TRAIN.bin HELD_BACK.bin OUT --seconds 500 [--device cuda:0] [--steps 1600]
                     [--only NAME ...] [--about TEXT]
The .bin files are shards of ids below 32,000 (`swarmctl tokenize`). Prints JSON: by variant, the validation loss after
so many tokens, and tokens per second. docs/boundary_study.md has the table of bench/boundary_study.py --report."""
import argparse
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import time

STAGES, LENGTH, BATCH, MICROBATCH = 4, 1024, 64, 16
WIDTH = 768
# Times fewer numbers: rank.
VARIANTS = {
    "None": {"codec": "None"},
    "Anchored-1x-4Tokens": {"codec": "Anchored", "rank": WIDTH, "coefficients": "None", "anchorTokens": 4},
    "Anchored-16x-4Tokens": {"codec": "Anchored", "rank": 48, "anchorTokens": 4},
    "Anchored-96x-4Tokens": {"codec": "Anchored", "rank": 8, "anchorTokens": 4},
    "Anchored-16x": {"codec": "Anchored", "rank": 48},
    "Subspace-16x": {"codec": "Subspace", "rank": 48},
    "Subspace-96x": {"codec": "Subspace", "rank": 8},
    "Int8": {"codec": "Int8"},
}
FIRST = ["None", "Anchored-1x-4Tokens", "Anchored-16x-4Tokens", "Anchored-96x-4Tokens"]


def job(boundary, options):
    return {
        "apiVersion": "swarmjob.dev/v1alpha1", "kind": "SwarmJob", "metadata": {"name": "boundaries"},
        "spec": {
            "model": {"config": {"architectures": ["LlamaForCausalLM"], "hidden_size": WIDTH, "num_hidden_layers": 12,
                                 "num_attention_heads": 12, "intermediate_size": 2048, "vocab_size": 32000,
                                 "max_position_embeddings": LENGTH}},
            "data": {"uri": options.train, "validationUri": options.held_back},
            "training": {"seed": 1, "maxSteps": options.steps, "globalBatchSize": BATCH, "microbatchSize": MICROBATCH,
                         "sequenceLength": LENGTH, "precision": "BF16", "validationIntervalSteps": 80,
                         "validationSequences": 128, "maxGradNorm": 1.0},
            "optimizer": {"type": "AdamW", "learningRate": 6e-4, "weightDecay": 0.1, "betas": [0.9, 0.95]},
            "schedule": {"type": "Constant", "warmupSteps": 100},
            "pipeline": {"stages": STAGES, "boundary": boundary},
            "checkpoint": {"intervalSteps": 10 * options.steps}}}


def lines(path):
    """What is written of JSON lines: the program may have been killed in the last one."""
    found = []
    if path.exists():
        for line in path.read_text(encoding="utf-8").splitlines():
            try:
                found.append(json.loads(line))
            except ValueError:
                break
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", type=pathlib.Path)
    parser.add_argument("train")
    parser.add_argument("held_back")
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--steps", type=int, default=1600)
    parser.add_argument("--only", nargs="+", default=FIRST, choices=list(VARIANTS))
    parser.add_argument("--about", default="")
    options = parser.parse_args()
    end = time.monotonic() + options.seconds

    programs = {}
    for name in options.only:
        folder = options.out / name
        folder.mkdir(parents=True)
        (folder / "job.json").write_text(json.dumps(job(VARIANTS[name], options)))
        log = open(folder / "log", "w", encoding="utf-8")
        programs[name] = subprocess.Popen(
            [options.programs / "swarmctl", "train", "--device", options.device, "-f", folder / "job.json",
             "--out", folder / "run"], stdout=log, stderr=subprocess.STDOUT, start_new_session=True)
    try:
        while time.monotonic() < end and any(program.poll() is None for program in programs.values()):
            # The last step is the end of a job, whose checkpoint is of no use here.
            for name, program in programs.items():
                if program.poll() is None and len(lines(options.out / name / "run/steps.jsonl")) >= options.steps:
                    program.kill()
            time.sleep(1)
    finally:
        failed = [name for name, program in programs.items() if program.poll() not in (None, -signal.SIGKILL)]
        for program in programs.values():
            program.kill()
            program.wait()

    found = {}
    for name in options.only:
        steps = lines(options.out / name / "run/steps.jsonl")
        events = lines(options.out / name / "run/events.jsonl")
        found[name] = {
            "boundary": VARIANTS[name], "steps": len(steps), "tokens": len(steps) * BATCH * LENGTH,
            "validation": [[event["step"] * BATCH * LENGTH, event["loss"]] for event in events
                           if event["kind"] == "Validation"],
            "train": [round(statistics.mean(step["loss"] for step in steps[i:i + 20]), 5)
                      for i in range(0, len(steps), 20)],
            "tokens_per_second": statistics.median(step["tokens_per_second"] for step in steps) if steps else None}
    print(json.dumps({"device": options.device, "text": options.about, "at_once": len(options.only),
                      "tokens_in_file": os.path.getsize(options.train) // 2, "variants": found}, indent=1))
    for name in failed:
        print(f"boundaries: {name} failed:", (options.out / name / "log").read_text()[-2000:], file=sys.stderr)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
