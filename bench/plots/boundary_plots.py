#!/usr/bin/env python3
"""Plots of the boundary study's runs: FOLDER/boundary_study/{curves,gaps}.svg. Needs matplotlib (setup.sh).

Usage: boundary_plots.py RUNS FOLDER [SUFFIX=svg]
"""
import pathlib
import statistics
import sys

import matplotlib

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))

import boundary_report as report  # noqa: E402
import boundary_study as study  # noqa: E402

matplotlib.use("Agg")
from matplotlib import pyplot  # noqa: E402

COLORS = {"None": "#222222", "Int8": "#E69F00", "Int8Dynamic": "#B07AA1", "Bottleneck": "#8C6D31", "Maxout": "#CC79A7",
          "Subspace": "#0072B2", "Anchored": "#D55E00", "4Tokens": "#009E73"}
LINES = {"8x": ":", "16x": "-", "32x": "--", "1x": "-."}
GAPS = (-10, 12)  # the drawn range in percent; an arrow marks values beyond
TOKENS_A_STEP = 4 * 128


def style(variant):
    """The color depends on the codec, the line on how many times fewer numbers cross."""
    parts = variant.split("-")
    line = LINES.get(parts[1] if len(parts) > 1 else "", "-")
    color = COLORS["4Tokens" if "4Tokens" in parts else parts[0]]
    return {"color": color, "linestyle": line, "linewidth": 1.0 if "Int8" in parts[1:] else 1.6}


def curve(runs, length, variant, relative):
    """Tokens, and the mean over seeds of the validation loss, or of its excess over None in percent."""
    sums = {}
    for seed in study.SEEDS:
        run, base = (runs.get(f"{length}/{name}/{seed}") for name in (variant, study.BASE))
        if not run or not base:
            continue
        for (step, loss), (_, reference) in zip(run["validation"], base["validation"]):
            sums.setdefault(step, []).append(100 * (loss / reference - 1) if relative else loss)
    return [step * TOKENS_A_STEP for step in sums], [statistics.mean(values) for values in sums.values()]


def plot_curves(runs, path):
    """One row of panels per length: losses, and gaps. Shows learned directions only with bfloat16, for legibility."""
    ranked = ("Subspace", "Anchored")
    shown = [name for name in study.VARIANTS if name != study.CHECK and not name.endswith(("-Refresh", "-Narrow", "-FullRate"))
             and not (name.startswith(ranked) and name.endswith("-Int8"))]
    figure, panels = pyplot.subplots(2, 2, figsize=(10.5, 7.6), layout="constrained")
    for row, length in zip(panels, study.LENGTHS):
        for panel, relative in zip(row, (False, True)):
            for variant in shown:
                if relative and variant == study.BASE:
                    continue
                tokens, values = curve(runs, length, variant, relative)
                if tokens:
                    panel.plot([count / 1e3 for count in tokens], values, label=variant, **style(variant))
            panel.set_xlabel("thousand tokens")
            panel.set_ylabel("above None of the same step, %" if relative else "validation loss, nats a byte")
            panel.set_title(f"{length}: {study.LENGTHS[length]} steps", fontsize=10)
            panel.grid(alpha=0.25)
            panel.spines[["top", "right"]].set_visible(False)
            if relative:
                panel.axhline(0, color=COLORS["None"], linewidth=0.8)
                panel.set_ylim(GAPS)
            else:
                base = curve(runs, length, study.BASE, False)[1]
                if base:
                    panel.set_ylim(0.92 * base[-1], base[0])
    handles, labels = panels[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=5, fontsize=8, frameon=False)
    figure.savefig(path, metadata={"Date": None})


def plot_gaps(runs, path):
    """One line per variant: a dot for each seed at its gap, and a bar at the mean."""
    shown = [study.CHECK, *(name for name in study.VARIANTS if name not in (study.BASE, study.CHECK))]
    figure, panels = pyplot.subplots(1, len(study.LENGTHS), figsize=(10.5, 5.6), sharex=True, sharey=True, layout="constrained")
    for panel, length in zip(panels, study.LENGTHS):
        for height, variant in enumerate(reversed(shown)):
            gaps = list(report.changes(runs, length, variant).values())
            color = style(variant)["color"]
            if gaps:
                mean = statistics.mean(gaps)
                panel.plot([0, mean], [height, height], color=color, linewidth=5, alpha=0.25, solid_capstyle="butt")
                panel.plot(gaps, [height] * len(gaps), "o", color=color, markersize=4)
                if mean > GAPS[1]:
                    panel.text(GAPS[1], height, f"{mean:+.0f} % \N{RIGHTWARDS ARROW}", fontsize=7, ha="right", va="center")
            elif (length, variant, study.SEEDS[0]) in study.order():
                panel.text(0.05, height, "missing", fontsize=7, color="#888888", va="center")
        panel.axvline(0, color=COLORS["None"], linewidth=0.8)
        panel.axvline(0.5, color="#888888", linewidth=0.8, linestyle=":")
        panel.set_yticks(range(len(shown)), list(reversed(shown)), fontsize=8)
        panel.set_title(f"{length}: {study.LENGTHS[length]} steps", fontsize=10)
        panel.set_xlabel("above None of the same seed, % (dotted: +0.5 %)")
        panel.set_xlim(GAPS)
        panel.set_ylim(-0.7, len(shown) - 0.3)
        panel.grid(axis="x", alpha=0.25)
        panel.spines[["top", "right", "left"]].set_visible(False)
        panel.tick_params(left=False)
    figure.savefig(path, metadata={"Date": None})


def main():
    folder = pathlib.Path(sys.argv[2])
    matplotlib.rcParams |= {"svg.hashsalt": "boundary study", "svg.fonttype": "none", "font.family": "sans-serif"}
    runs = study.read_runs(pathlib.Path(sys.argv[1]))
    suffix = sys.argv[3] if len(sys.argv) > 3 else "svg"
    plot_curves(runs, folder / f"boundary_study/curves.{suffix}")
    plot_gaps(runs, folder / f"boundary_study/gaps.{suffix}")


if __name__ == "__main__":
    main()
