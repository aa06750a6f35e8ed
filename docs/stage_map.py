#!/usr/bin/env python3
"""Draws docs/stage_map.svg, the picture of the README, from a run of the demo.

Usage: docs/stage_map.py RUN UNDISTURBED >docs/stage_map.svg    (make demo leaves out/demo and out/demo-undisturbed)

Above, it draws the loss of each step of both folders. Below, each worker has a row and each step a column: the color
is the stage whose sum contains the worker's gradients, its strength the share of the microbatches (RUN/ledger.jsonl).
Steps that a new trainer found already decided have no account there; they stay gray. Vertical lines are the faults in
RUN/chaos.jsonl.
"""
import json
import pathlib
import re
import sys

WIDTH, LEFT, RIGHT = 900, 84, 16
LOSS_TOP, LOSS_HEIGHT = 34, 120
MAP_TOP, ROW, GAP = 186, 20, 4
COLORS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00")  # color-blind people can tell these apart
SHARES = 4  # strengths of a color
FAULT, INK, PALE = "#C00000", "#222222", "#DDDDDD"


def read_lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def text(x, y, words, size=12, **attributes):
    more = "".join(f' {name.replace("_", "-")}="{value}"' for name, value in attributes.items())
    return f'<text x="{x:g}" y="{y:g}" font-size="{size}"{more}>{words}</text>'


def number_in(worker):
    return int(re.search(r"\d+$", worker)[0])


def contributions(ledger):
    """(worker, step) -> (stage, share of the step's microbatches); and the steps without an account."""
    cells, unknown = {}, set()
    for line in ledger:
        for group in line["groups"]:
            members = group.get("participants")
            if members is None:
                unknown.add(line["step"])
                continue
            for member in members:
                total = sum(len(other["microbatches"]) for other in members if other["stage"] == member["stage"])
                cells[member["worker"], line["step"]] = (member["stage"], len(member["microbatches"]) / total)
    return cells, unknown


class Picture:
    def __init__(self, steps):
        self.parts = []
        self.column = (WIDTH - LEFT - RIGHT) / steps

    def x(self, step):
        return LEFT + step * self.column

    def draw_losses(self, disturbed, undisturbed):
        top = max(disturbed + undisturbed)

        def points(losses):
            return " ".join(f"{self.x(step + 0.5):.1f},{LOSS_TOP + LOSS_HEIGHT * (1 - loss / top):.1f}"
                            for step, loss in enumerate(losses))

        for value in range(int(top) + 1):
            y = LOSS_TOP + LOSS_HEIGHT * (1 - value / top)
            self.parts += [f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="{PALE}"/>',
                           text(LEFT - 8, y + 4, value, text_anchor="end")]
        self.parts += [text(LEFT, LOSS_TOP - 14, "training loss, nats per byte:"),
                       f'<path d="M{LEFT + 178} {LOSS_TOP - 18}h26" stroke="{PALE}" stroke-width="7"/>',
                       text(LEFT + 210, LOSS_TOP - 14, "one undisturbed process"),
                       f'<path d="M{LEFT + 384} {LOSS_TOP - 18}h26" stroke="{INK}" stroke-width="1.6"/>',
                       text(LEFT + 416, LOSS_TOP - 14, "the swarm"),
                       f'<polyline points="{points(undisturbed)}" fill="none" stroke="{PALE}" stroke-width="7"/>',
                       f'<polyline points="{points(disturbed)}" fill="none" stroke="{INK}" stroke-width="1.6"/>']

    def draw_map(self, cells, unknown, steps):
        workers = sorted({worker for worker, _ in cells}, key=number_in)
        paths = {}
        for row, worker in enumerate(workers):
            y = MAP_TOP + row * (ROW + GAP)
            self.parts.append(text(LEFT - 8, y + ROW / 2 + 4, worker, text_anchor="end"))
            for step in range(steps):
                stage, share = cells.get((worker, step), (None, 0))
                key = (stage, max(1, round(share * SHARES))) if stage is not None else None
                if key or step in unknown:
                    paths.setdefault(key, []).append(
                        f"M{self.x(step):.1f} {y}h{self.column:.2f}v{ROW}h-{self.column:.2f}z")
        for key, cells_of_key in sorted(paths.items(), key=lambda item: (item[0] is not None, item[0])):
            color, strength = (COLORS[key[0] % len(COLORS)], 0.25 + 0.75 * key[1] / SHARES) if key else (PALE, 1)
            self.parts.append(f'<path d="{"".join(cells_of_key)}" fill="{color}" fill-opacity="{strength:g}"/>')
        bottom = MAP_TOP + len(workers) * (ROW + GAP)
        for step in range(0, steps + 1, max(1, steps // 10)):
            self.parts.append(text(self.x(step), bottom + 14, step, text_anchor="middle"))
        x = LEFT
        for stage in sorted({stage for stage, _ in cells.values()}):
            self.parts += [f'<rect x="{x}" y="{bottom + 28}" width="14" height="14" fill="{COLORS[stage % len(COLORS)]}"/>',
                           text(x + 20, bottom + 40, f"stage {stage}")]
            x += 90
        self.parts.append(text(x, bottom + 40, "strength: share of the step's microbatches"
                               + ("; gray: decided by the trainer before" if unknown else "")))
        self.parts.append(text(WIDTH - RIGHT, bottom + 40, "step", text_anchor="end"))
        return bottom

    def draw_faults(self, faults, bottom):
        for fault in faults:
            x = self.x(fault["step"])
            self.parts += [f'<path d="M{x:.1f} {LOSS_TOP}V{bottom}" stroke="{FAULT}" stroke-dasharray="4 3"/>',
                           text(x + 5, LOSS_TOP + LOSS_HEIGHT + 20, fault["text"], fill=FAULT)]


def main():
    run, undisturbed = map(pathlib.Path, sys.argv[1:])
    losses = [[line["loss"] for line in read_lines(folder / "steps.jsonl")] for folder in (run, undisturbed)]
    cells, unknown = contributions(read_lines(run / "ledger.jsonl"))
    picture = Picture(len(losses[0]))
    picture.draw_losses(*losses)
    bottom = picture.draw_map(cells, unknown, len(losses[0]))
    picture.draw_faults([fault for fault in read_lines(run / "chaos.jsonl") if not fault["over"]], bottom)
    height = bottom + 52
    print(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
          f'font-family="Helvetica, Arial, sans-serif" fill="{INK}">')
    print("<title>Which worker served which stage in each step of the demo, and its loss</title>")
    print(f'<rect width="{WIDTH}" height="{height}" fill="white"/>')
    print("\n".join(picture.parts))
    print("</svg>")


if __name__ == "__main__":
    main()
