#!/usr/bin/env python3
"""A plot of the study of local steps: validation loss by tokens, and by the time that the same steps would take where a
slow line joins the replicas. The time is computed, not measured. Needs matplotlib (setup.sh).

Usage: local_plots.py RUNS FILE
"""
import json
import pathlib
import statistics
import sys

import matplotlib

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))

import local_study as study  # noqa: E402

matplotlib.use("Agg")
from matplotlib import pyplot  # noqa: E402

SHOWN = {"2-Sync": ("Sync", "#222222", "-"), "2-H10": ("10 steps in a round", "#E69F00", "-"),
         "2-H50": ("50 steps", "#0072B2", "-"), "2-H100": ("100 steps", "#009E73", "-"),
         "2-H50-Int4": ("50 steps, Int4", "#0072B2", ":"), "2-H50-overlap": ("50 steps, overlap", "#0072B2", "--")}
MICROBATCH_SECONDS, LINE = 0.05, 10e6  # of a replica; bits per second, both ways
BYTES = {"None": 4, "BF16": 2, "Int8": 1 + 4 / 64, "Int4": 0.5 + 4 / 64}  # of a number, with the scales of blocks


def parameters(config):
    """Of a Llama with a head of its own."""
    width, inner = config["hidden_size"], config["intermediate_size"]
    layer = 4 * width * width + 3 * width * inner + 2 * width
    return config["num_hidden_layers"] * layer + 2 * config["vocab_size"] * width + width


def seconds_of_step(job):
    """Of the job's step: what a replica computes, then what it sends and gets in a sum, 2 (R - 1) / R of all numbers.
    With overlap the longer of the two."""
    training, replicas = job["training"], job["workers"]["replicas"]
    computed = training["globalBatchSize"] / training["microbatchSize"] / replicas * MICROBATCH_SECONDS
    numbers = 2 * (replicas - 1) / replicas * parameters(job["model"]["config"])
    sent = 8 * BYTES[training["reduceCodec"]] * numbers / LINE
    return max(computed, sent) if training.get("local", {}).get("overlap") else computed + sent


def curve(runs, name):
    """The job's steps, and the mean over seeds of the validation loss behind each."""
    losses = {}
    for run in runs:
        for step, loss in run["validation"] if run["run"].startswith(name + "/") else []:
            losses.setdefault(step, []).append(loss)
    return list(losses), [statistics.mean(of_step) for of_step in losses.values()]


def main():
    folder, path = map(pathlib.Path, sys.argv[1:])
    matplotlib.rcParams |= {"svg.hashsalt": "local study", "svg.fonttype": "none", "font.family": "sans-serif"}
    runs = [json.loads(file.read_text()) for file in sorted(folder.glob("*.json"))]
    figure, panels = pyplot.subplots(1, 2, figsize=(10.5, 4.4), sharey=True, layout="constrained")
    for name, (label, color, line) in SHOWN.items():
        steps, losses = curve(runs, name)
        job = next(run["job"] for run in runs if run["run"].startswith(name + "/"))
        tokens = job["training"]["globalBatchSize"] * study.TOKENS
        for panel, scale in zip(panels, (tokens / 1e6, seconds_of_step(job))):
            panel.plot([step * scale for step in steps], losses, color=color, linestyle=line, linewidth=1.5, label=label)
    panels[0].set_xlabel("million tokens")
    panels[0].set_ylabel("validation loss, nats a byte")
    panels[1].set_xlabel(f"seconds, at {MICROBATCH_SECONDS * 1e3:.0f} ms a microbatch and {LINE / 1e6:.0f} Mb/s (computed)")
    panels[1].set_xscale("log")
    for panel in panels:
        panel.grid(alpha=0.25)
        panel.spines[["top", "right"]].set_visible(False)
    panels[0].legend(fontsize=9, frameon=False)
    figure.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    main()
