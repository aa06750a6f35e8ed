#!/usr/bin/env python3
"""Measures what steps of their own cost replicas in loss: trains one model with `Sync` and with `Local`, at the same
number of tokens, and compares the validation loss of the job's weights.

Usage: bench/local_study.py TEXT [--build FOLDER] [--runs FOLDER] [--vocabulary 0] [--steps 5000] [--seeds 3]
                            [--only PATTERN ...] [--list] [--report [--plot FILE]]

A run is a swarm of two or four replicas of one thread each. Each replica takes as many steps in `Local` as the job
does in `Sync`, where a step has a microbatch for each replica. TEXT is UTF-8, read as bytes; its last tenth is held
back. With --vocabulary, it is read as so many subwords, of a byte-level BPE that is made of the text to learn (`make
test-deps` brings the package tokenizers). The folder of runs (bench/results/local_study) gets a JSON file for each
run; the program does not repeat a run whose job is there, so a user may stop the study and continue later. --report
prints the table of what is there; with --plot it draws the curves, too (bench/plots/local_plots.py).
"""
import argparse
import fnmatch
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

MODEL = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 172,
         "vocab_size": 256}  # 0.13 M parameters: with two replicas, a run has 39 tokens of each
MICROBATCH, TOKENS = 4, 128  # sequences, and tokens of each
SYNC_RATE, INNER_RATE = 1.2e-2, 3e-3  # of 3, 6 and 12e-3 the best with two replicas
OUTER = {2: (1, 0.5), 4: (1, 0.8)}  # rate and momentum by replicas: at 50 steps better than others that were tried


def variants():
    """By name: replicas, inner steps (none in Sync), and what else differs from the plain variant of these."""
    found = {}
    for replicas in (2, 4):
        found[f"{replicas}-Sync"] = {"replicas": replicas}
        for inner in (10, 50, 100):
            found[f"{replicas}-H{inner}"] = {"replicas": replicas, "inner": inner}
        at_50 = {"replicas": replicas, "inner": 50}
        for codec in ("BF16", "Int8", "Int4"):
            found[f"{replicas}-H50-{codec}"] = at_50 | {"codec": codec}
        found[f"{replicas}-H50-overlap"] = at_50 | {"overlap": True}
        # Rounds of 10 steps exchange a fifth each, so every weight is exchanged every 50 steps.
        found[f"{replicas}-H50-fragments"] = {"replicas": replicas, "inner": 10, "fragments": 5, "overlap": True}
        found[f"{replicas}-H50-kills"] = at_50 | {"chaos": "kill any about every 8s"}
    return found


VARIANTS = variants()


def order(seeds):
    """All runs (variant, seed), the most informative first."""
    first = ["2-Sync", "2-H50", "2-H10", "2-H100"]
    names = first + [name for name in VARIANTS if name not in first]
    return [(name, seed) for replicas in ("2", "4") for seed in range(1, seeds + 1)
            for name in names if name.startswith(replicas)]


def job_of(name, seed, options):
    """The manifest's spec, without the paths of text and tokenizer."""
    variant, steps = VARIANTS[name], options.steps
    model = MODEL | ({"vocab_size": options.vocabulary} if options.vocabulary else {})
    replicas, inner = variant["replicas"], variant.get("inner")
    rounds = steps // (inner or 1)
    training = {"seed": seed, "maxSteps": rounds, "globalBatchSize": replicas * MICROBATCH * (inner or 1),
                "microbatchSize": MICROBATCH, "sequenceLength": TOKENS, "reduceCodec": variant.get("codec", "None"),
                "validationIntervalSteps": max(1, rounds // 20), "validationSequences": 256}
    if inner:
        rate, momentum = OUTER[replicas]
        training |= {"stepMode": "Local", "local": {"innerSteps": inner, "outerLearningRate": rate,
                                                    "outerMomentum": momentum,
                                                    "overlap": variant.get("overlap", False)}
                     | ({"fragments": variant["fragments"]} if "fragments" in variant else {})}
    return {
        "model": {"config": model},
        "training": training,
        "optimizer": {"type": "AdamW", "learningRate": INNER_RATE if inner else SYNC_RATE},
        "schedule": {"type": "Cosine", "warmupSteps": max(1, 100 // (inner or 1))},
        "pipeline": {"stages": 1}, "workers": {"replicas": replicas}}


def train(name, seed, options, text):
    """Makes a run and returns its record."""
    spec = job_of(name, seed, options)
    with tempfile.TemporaryDirectory() as scratch:
        manifest = {"apiVersion": "swarmjob.dev/v1alpha1", "kind": "SwarmJob", "metadata": {"name": "local-study"},
                    "spec": spec | {"model": spec["model"] | text["tokenizer"],
                                    "data": {"uri": text["train"], "validationUri": text["held back"]},
                                    "checkpoint": {"intervalSteps": max(1, spec["training"]["maxSteps"] // 20)}}}
        job = pathlib.Path(scratch, "job.json")
        job.write_text(json.dumps(manifest))
        begun = time.monotonic()
        swarmctl = pathlib.Path(options.build).resolve() / "bin/swarmctl"
        chaos = VARIANTS[name].get("chaos")
        faults = ["--chaos", f"{chaos} seed {seed}"] if chaos else []
        done = subprocess.run([swarmctl, "run", "-f", job, "--out", f"{scratch}/run", "--threads-per-worker", "1",
                               "--plaintext", *faults],
                              capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
        if done.returncode != 0:
            sys.exit(f"{name} failed:\n{done.stderr[-2000:]}")
        events = [json.loads(line) for line in open(f"{scratch}/run/events.jsonl")]
        steps = [json.loads(line) for line in open(f"{scratch}/run/steps.jsonl")]
        audit([json.loads(line) for line in open(f"{scratch}/run/ledger.jsonl")], spec["training"])
        killed = sum(1 for _ in open(f"{scratch}/run/chaos.jsonl")) if chaos else 0
    validation = [[event["step"], event["loss"]] for event in events if event["kind"] == "Validation"]
    return {"run": f"{name}/{seed}", "job": spec, "validation": validation, "training": steps[-1]["loss"],
            "killed": killed, "seconds": round(time.monotonic() - begun)}


def make_tokenizer(text, vocabulary, folder):
    """Makes one as tokenize_speed.py does, with the Python that has its packages; gives the part of the manifest that
    names it."""
    here = pathlib.Path(__file__).resolve().parent
    dependencies = pathlib.Path(os.environ.get("SWARM_DEPS", here.parent / ".deps"))
    program = ("import pathlib, sys, tokenize_speed\n"
               "tokenize_speed.train(sys.argv[1:2], int(sys.argv[2]), pathlib.Path(sys.argv[3]))")
    subprocess.run([dependencies / "python" / "bin" / "python", "-B", "-c", program, text, str(vocabulary), folder],
                   check=True, env={**os.environ, "PYTHONPATH": str(here)})
    return {"tokenizer": {"uri": folder}}


def audit(ledger, training):
    """Ends the program unless each round has claimed each of its microbatches once."""
    microbatches = list(range(training["globalBatchSize"] // training["microbatchSize"]))
    for number, line in enumerate(ledger):
        claimed = sorted(m for group in line["groups"] for part in group["participants"]
                         for m in part["microbatches"]) if "adopted" not in line else microbatches
        if line["step"] != number or claimed != microbatches:
            sys.exit(f"round {number} has not counted each microbatch once: {line}")
    if len(ledger) != training["maxSteps"]:
        sys.exit(f"the ledger has {len(ledger)} rounds of {training['maxSteps']}")


def report(runs, options):
    """A table: the last validation loss of each variant, mean over seeds, and the gap to Sync with the same seeds (mean,
    and from the smallest to the largest)."""
    by_name = {}
    for run in runs.values():
        if run["job"] == job_of(*parse(run["run"]), options):
            name, seed = parse(run["run"])
            by_name.setdefault(name, {})[seed] = run["validation"][-1][1]
    print(f"{'replicas, steps':16} {'seeds':>5} {'loss':>8}  gap to Sync, %")
    for name in VARIANTS:
        losses, base = by_name.get(name, {}), by_name.get(name[:2] + "Sync", {})
        if not losses:
            continue
        gaps = [100 * (losses[seed] / base[seed] - 1) for seed in losses if seed in base]
        known = gaps and not name.endswith("Sync")
        gap = f"{sum(gaps) / len(gaps):+.2f} ({min(gaps):+.2f} to {max(gaps):+.2f})" if known else ""
        print(f"{name:16} {len(losses):5} {sum(losses.values()) / len(losses):8.4f}  {gap}")


def parse(run):
    name, seed = run.split("/")
    return name, int(seed)


def main():
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("text", nargs="?")
    flags.add_argument("--build", default="build/release")
    flags.add_argument("--runs", type=pathlib.Path, help="by default in bench/results, a folder for each vocabulary")
    flags.add_argument("--vocabulary", type=int, default=0, help="subwords; 0: bytes")
    flags.add_argument("--steps", type=int, default=5000, help="of each replica")
    flags.add_argument("--seeds", type=int, default=3)
    flags.add_argument("--only", nargs="*", default=["*"])
    flags.add_argument("--list", action="store_true")
    flags.add_argument("--report", action="store_true")
    flags.add_argument("--plot", type=pathlib.Path)
    options = flags.parse_args()
    wanted = [(name, seed) for name, seed in order(options.seeds)
              if any(fnmatch.fnmatch(f"{name}/{seed}", pattern) for pattern in options.only)]
    if options.list:
        return print("\n".join(f"{name}/{seed}" for name, seed in wanted))
    if options.runs is None:
        study = f"local_study_bpe{options.vocabulary}" if options.vocabulary else "local_study"
        options.runs = pathlib.Path(__file__).parent / "results" / study
    options.runs.mkdir(parents=True, exist_ok=True)
    runs = {run["run"]: run for run in (json.loads(path.read_text()) for path in sorted(options.runs.glob("*.json")))}
    if not options.report:
        if not options.text:
            flags.error("TEXT is missing")
        data = pathlib.Path(options.text).read_bytes()
        with tempfile.TemporaryDirectory() as scratch:
            text = {"train": f"{scratch}/train.txt", "held back": f"{scratch}/held-back.txt"}
            cut = len(data) * 9 // 10
            pathlib.Path(text["train"]).write_bytes(data[:cut])
            pathlib.Path(text["held back"]).write_bytes(data[cut:])
            text["tokenizer"] = {}
            if options.vocabulary:
                text["tokenizer"] = make_tokenizer(text["train"], options.vocabulary, f"{scratch}/tokenizer")
            for name, seed in wanted:
                if runs.get(f"{name}/{seed}", {}).get("job") == job_of(name, seed, options):
                    continue
                run = train(name, seed, options, text)
                runs[run["run"]] = run
                (options.runs / f"{name}-{seed}.json").write_text(json.dumps(run) + "\n")
                print(f"{run['run']:16} {run['validation'][-1][1]:.4f}  {run['seconds']} s", flush=True)
    report(runs, options)
    if options.plot:
        plots = pathlib.Path(__file__).parent / "plots"
        environment = subprocess.run([plots / "setup.sh"], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
        subprocess.run([f"{environment}/bin/python", plots / "local_plots.py", options.runs, options.plot], check=True)


if __name__ == "__main__":
    main()
