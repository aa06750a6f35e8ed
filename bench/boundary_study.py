#!/usr/bin/env python3
"""Measures what thin boundaries cost in loss: trains one model with every kind of boundary, and compares the validation
loss with boundaries that change nothing, at the same seed, data and number of tokens.

Usage: bench/boundary_study.py TEXT [--build FOLDER] [--runs FOLDER] [--report-folder FOLDER] [--parallel 2]
                               [--only PATTERN ...] [--list]
       bench/boundary_study.py --report [--runs FOLDER] [--report-folder FOLDER]

Trains the missing runs with `swarmctl train`, the most informative ones first, on the first 90 % of TEXT (UTF-8, read
as bytes; the last 10 % is held back), and then makes the report. A run is one thread in one process, which computes
the boundaries in place, rounding included, so its losses equal those of the swarm. The folder of runs
(bench/results/boundary_study) gets a JSON file for each run, which contains the run's job. The program does not repeat
a run whose job is there, so a user may stop the study at any moment and continue later. The report (boundary_study.md
in --report-folder, docs) and its plots come from these files alone: this program replaces the tables, and people
write the text around them.
--only takes names from --list (LENGTH/VARIANT/SEED), with * and ? as in a shell.
Plots need matplotlib: bench/plots/setup.sh.
"""
import argparse
import concurrent.futures
import fnmatch
import hashlib
import json
import pathlib
import subprocess
import sys
import tempfile
import threading
import time

import boundary_report

WIDTH = 256
LENGTHS = {"short": 400, "long": 1200}  # steps
SEEDS = (1, 2, 3)
CLOSE = ("None", "Int8", "Int8Dynamic")  # three seeds cannot tell these apart
CLOSE_SEEDS = tuple(range(1, 13))  # of these, short runs only
# Of bench/gpu/boundaries.py.
LARGE = pathlib.Path(__file__).parent / "results/gpu/boundaries.json"
BASE = "None"
CHECK = "None-FP32"  # rounds differently from all others, and so shows the effect of chance on one seed
FULL_RATE = ("Anchored-1x", "Anchored-1x-4Tokens", "Anchored-16x", "Anchored-16x-4Tokens")
NARROWER = {8: 32, 16: 16, 32: 8}  # how many times fewer numbers cross: rank


def variants():
    """The boundaries of the study: name -> the job fields that it sets (as PATH: VALUE)."""
    found = {
        BASE: {"codec": "None"},
        "Int8": {"codec": "Int8"},
        "Int8Dynamic": {"codec": "Int8Dynamic"},
        "Bottleneck-2x-Int8": {"codec": "Bottleneck", "coefficients": "Int8"},
        "Maxout-2x-Int8": {"codec": "Maxout", "coefficients": "Int8"},
    }
    for times, rank in NARROWER.items():
        plain = {"rank": rank}
        int8 = plain | {"coefficients": "Int8"}
        four = {"codec": "Anchored", "anchorTokens": 4}
        found |= {
            f"Subspace-{times}x": {"codec": "Subspace"} | plain,
            f"Subspace-{times}x-Int8": {"codec": "Subspace"} | int8,
            f"Subspace-{times}x-Refresh": {"codec": "Subspace", "refreshSteps": 50} | plain,
            f"Anchored-{times}x": {"codec": "Anchored"} | plain,
            f"Anchored-{times}x-Int8": {"codec": "Anchored"} | int8,
            f"Anchored-{times}x-4Tokens": four | plain,
            f"Anchored-{times}x-4Tokens-Int8": four | int8,
        }
    found["Anchored-16x-4Tokens-Narrow"] = found["Anchored-16x-4Tokens"] | {"tableRank": 64}
    wide = {"codec": "Anchored", "rank": WIDTH, "coefficients": "None"}
    found |= {"Anchored-1x": wide, "Anchored-1x-4Tokens": wide | {"anchorTokens": 4}}
    found |= {f"{name}-FullRate": found[name] | {"learningRateScale": 1} for name in FULL_RATE}
    return {name: {"pipeline.boundary": boundary} for name, boundary in found.items()} | {
        CHECK: {"training.precision": "FP32"}}


VARIANTS = variants()


def order():
    """All runs (length, variant, seed), the most informative first."""
    thin = ["Anchored-16x-4Tokens", "Anchored-16x", "Subspace-16x"]
    rounded = ["Int8", "Int8Dynamic"]
    wanted = [("short", name, 1) for name in [BASE, CHECK, *thin, *rounded]]
    wanted += [("long", name, 1) for name in (BASE, "Anchored-16x-4Tokens")]
    wanted += [("short", name, seed) for seed in SEEDS[1:] for name in [BASE, *thin[:1], *rounded, *thin[1:]]]
    wanted += [("short", name, 1) for name in VARIANTS]
    wanted += [("long", name, 1) for name in (*thin[1:], *rounded)]
    wanted += [(length, name, seed) for length in LENGTHS for seed in SEEDS for name in VARIANTS
               if not (length == "long" and name.endswith("-FullRate"))]
    wanted += [("short", name, seed) for seed in CLOSE_SEEDS for name in CLOSE]
    return list(dict.fromkeys(wanted))


def name_of(run):
    return "/".join(map(str, run))


def job_of(run):
    """The manifest's spec, without the path of the text."""
    length, variant, seed = run
    steps = LENGTHS[length]
    spec = {
        "model": {"config": {"hidden_size": WIDTH, "num_hidden_layers": 8, "num_attention_heads": 4,
                             "intermediate_size": 688, "vocab_size": 256}},
        "training": {"seed": seed, "maxSteps": steps, "globalBatchSize": 4, "microbatchSize": 4,
                     "sequenceLength": 128, "precision": "BF16", "validationIntervalSteps": steps // 10,
                     "validationSequences": 128},
        "optimizer": {"type": "AdamW", "learningRate": 1e-3},
        "schedule": {"type": "Cosine", "warmupSteps": 40},
        "pipeline": {"stages": 4}}
    for path, value in VARIANTS[variant].items():
        *folders, last = path.split(".")
        place = spec
        for folder in folders:
            place = place.setdefault(folder, {})
        place[last] = value
    return spec


def read_runs(folder):
    """All runs in a folder: name -> run."""
    runs = (json.loads(path.read_text()) for path in sorted(folder.glob("*.json")))
    return {run["run"]: run for run in runs}


def train(run, swarmctl, text, scratch, folder):
    """Makes a run and writes its file."""
    length, variant, seed = run
    out = pathlib.Path(tempfile.mkdtemp(dir=scratch))
    spec = job_of(run)
    manifest = {"apiVersion": "swarmjob.dev/v1alpha1", "kind": "SwarmJob", "metadata": {"name": "boundary-study"},
                "spec": spec | {"data": {"uri": str(text["train"]), "validationUri": str(text["held back"])},
                                "checkpoint": {"intervalSteps": LENGTHS[length]}}}
    (out / "job.json").write_text(json.dumps(manifest))
    begun = time.monotonic()
    done = subprocess.run([str(swarmctl), "train", "-f", str(out / "job.json"), "--threads", "1", "--out",
                           str(out / "run")], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{name_of(run)} failed:\n{done.stderr[-2000:]}")
    events = [json.loads(line) for line in open(out / "run/events.jsonl")]
    validation = [[event["step"], event["loss"]] for event in events if event["kind"] == "Validation"]
    if validation[-1:] == [] or validation[-1][0] != LENGTHS[length]:
        raise SystemExit(f"{name_of(run)} was interrupted")
    record = {"run": name_of(run), "text": text["about"], "job": spec,
              "validation": validation,
              "seconds": round(time.monotonic() - begun)}
    subprocess.run(["rm", "-rf", str(out)], check=True)
    path = folder / f"{length}-{variant}-{seed}.json"
    part = path.with_suffix(".part")
    part.write_text(json.dumps(record, indent=1) + "\n")
    part.rename(path)
    return record


def split(path, scratch):
    """Writes the text's two parts to files; returns them with a description for the report."""
    data = path.read_bytes()
    cut = len(data) * 9 // 10
    parts = {"train": scratch / "train.txt", "held back": scratch / "held-back.txt"}
    parts["train"].write_bytes(data[:cut])
    parts["held back"].write_bytes(data[cut:])
    about = {"name": path.name, "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    return parts | {"about": about}


def make_runs(options):
    """Trains the wanted runs that are missing."""
    swarmctl = pathlib.Path(options.build).resolve() / "bin/swarmctl"
    options.runs.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        text = split(pathlib.Path(options.text), pathlib.Path(scratch))
        there = read_runs(options.runs)
        missing = [run for run in wanted_runs(options)
                   if (there.get(name_of(run)) or {}).get("job") != job_of(run)
                   or there[name_of(run)]["text"] != text["about"]]
        written = threading.Lock()

        def make(run):
            record = train(run, swarmctl, text, scratch, options.runs)
            with written:
                print(f"{time.strftime('%H:%M:%S')} {record['run']:32} {record['validation'][-1][1]:.4f}"
                      f"  {record['seconds']} s", flush=True)

        with concurrent.futures.ThreadPoolExecutor(options.parallel) as pool:
            for _ in pool.map(make, missing):
                pass


def make_report(folder, runs):
    """Fills in the report's tables and draws its plots; without matplotlib, the old plots stay."""
    path = folder / "boundary_study.md"
    study = sys.modules[__name__]
    path.write_text(boundary_report.fill(path.read_text(), boundary_report.parts(read_runs(runs), study)))
    here = pathlib.Path(__file__).parent / "plots"
    setup = subprocess.run([str(here / "setup.sh")], stdout=subprocess.PIPE, text=True, check=False)
    if setup.returncode != 0:
        print("no matplotlib: the plots are not drawn again", file=sys.stderr)
        return
    subprocess.run([setup.stdout.strip() + "/bin/python", str(here / "boundary_plots.py"), str(runs), str(folder)],
                   check=True)


def wanted_runs(options):
    return [run for run in order()
            if any(fnmatch.fnmatchcase(name_of(run), pattern) for pattern in options.only)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text", nargs="?")
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--runs", type=pathlib.Path, default=pathlib.Path("bench/results/boundary_study"))
    parser.add_argument("--report-folder", type=pathlib.Path, default=pathlib.Path("docs"))
    parser.add_argument("--parallel", type=int, default=2)
    parser.add_argument("--only", nargs="+", default=["*"])
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--report", action="store_true")
    options = parser.parse_args()
    if options.list:
        print("\n".join(map(name_of, wanted_runs(options))))
        return
    if not options.report:
        if not options.text:
            parser.error("which text? (or --report)")
        make_runs(options)
    make_report(options.report_folder, options.runs)


if __name__ == "__main__":
    main()
