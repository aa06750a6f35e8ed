#!/usr/bin/env python3
"""Computes the cost of faults from the files of a run with --chaos and --trace-progress.

Usage: bench/recovery.py OUT MICROBATCHES_A_STEP QUIET_UNTIL_STEP

For each worker that was killed (or stopped) while it served a stage, the time from the fault:
  next     until any worker completes the next microbatch at that stage
  taken    until other workers have completed all microbatches that were under way at the victim
  commit   until the next commit
The times are those at which the trainer knew, so they are upper bounds.

Throughput: committed microbatches from the first fault to the last commit, divided by what the living
workers could do. Before the faults a replica did r microbatches per second; if the stage with the fewest
replicas has n of them, n * r are possible. A worker serves a stage from its first piece of work there to
its death, or to its last piece of work there. On a shared machine, each program is faster when there are
fewer, so the first ratio flatters; the ratio to the undisturbed time does not.
"""
import collections
import json
import os
import sys


def read(folder, name):
    with open(os.path.join(folder, name)) as file:
        return [json.loads(line) for line in file if line.endswith("\n")]


def quantile(values, q):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(q * len(ordered)))]


class Trace:
    def __init__(self, folder, quiet_until):
        progress = read(folder, "progress.jsonl")
        self.commits = [(line["time"], line["step"]) for line in progress if line["event"] == "Committed"]
        self.work = [line for line in progress if line["event"] in ("Forwarded", "Folded")]
        self.folds = [line for line in self.work if line["event"] == "Folded"]
        self.faults = [f for f in read(folder, "chaos.jsonl") if not f["over"] and "error" not in f
                       and f["fault"] != "slow"]
        self.quiet_until = quiet_until
        self.stages = 1 + max(line["stage"] for line in self.work)

    def stage_of(self, worker, time):
        """The stage of the worker's last work before that moment; None without work in the ten seconds before."""
        last = [w for w in self.work if w["worker"] == worker and time - 10 < w["time"] <= time]
        return last[-1]["stage"] if last else None

    def under_way(self, worker, time):
        """Microbatches that the worker had forwarded but not folded."""
        open_cells = set()
        for line in self.work:
            if line["time"] > time:
                break
            cell = (line["step"], line["microbatch"], line["stage"])
            if line["event"] == "Folded":
                open_cells.discard(cell)
            elif line["worker"] == worker:
                open_cells.add(cell)
        committed = {step for when, step in self.commits if when <= time}
        return {cell for cell in open_cells if cell[0] not in committed}

    def recoveries(self, kind):
        """(next, taken or None, commit) in seconds, for each fault of the kind that hit a serving worker."""
        result = []
        for fault in self.faults:
            stage = self.stage_of(fault["target"], fault["time"])
            if fault["fault"] != kind or stage is None:
                continue
            later = [f for f in self.folds if f["time"] > fault["time"] and f["worker"] != fault["target"]]
            following = [f["time"] for f in later if f["stage"] == stage]
            cells = self.under_way(fault["target"], fault["time"])
            taken = {}
            for fold in later:
                cell = (fold["step"], fold["microbatch"], fold["stage"])
                if cell in cells:
                    taken.setdefault(cell, fold["time"])
            commits = [when for when, _ in self.commits if when > fault["time"]]
            if following and commits:
                result.append((following[0] - fault["time"],
                               max(taken.values()) - fault["time"] if taken else None,
                               commits[0] - fault["time"]))
        return result

    def serving(self):
        """(begin, end, stage) of each period in which a worker served a stage."""
        deaths = collections.defaultdict(list)
        for fault in self.faults:
            if fault["fault"] in ("kill", "drain", "stop"):
                deaths[fault["target"]].append(fault["time"])
        spells = {}
        result = []
        for line in self.work:
            worker, stage, time = line["worker"], line["stage"], line["time"]
            spell = spells.get(worker)
            died = spell and any(spell[0] <= death < time for death in deaths[worker])
            if spell is None or spell[2] != stage or died:
                if spell:
                    result.append(self._close(spell, deaths[worker], time if died else spell[1]))
                spells[worker] = [time, time, stage]
            else:
                spell[1] = time
        end = self.commits[-1][0]
        for worker, spell in spells.items():
            dead = any(death >= spell[0] for death in deaths[worker])
            # A worker that worked a moment ago still serves.
            last = end if not dead and end - spell[1] < 5 else spell[1]
            result.append(self._close(spell, deaths[worker], last))
        return result

    @staticmethod
    def _close(spell, deaths, last):
        death = [d for d in deaths if d >= spell[0]]
        return spell[0], min(death + [last]) if death else last, spell[2]

    def throughput(self, microbatches):
        """(before, during, attainable) in committed microbatches a second; None without faults."""
        times = dict((step, when) for when, step in self.commits)
        begin = times[5]
        quiet_end = times[self.quiet_until]
        before = (self.quiet_until - 5) * microbatches / (quiet_end - begin)
        spells = self.serving()

        def fewest(time):
            return min(sum(b <= time < e and s == stage for b, e, s in spells) for stage in range(self.stages))

        samples = [begin + (quiet_end - begin) * (i + 0.5) / 200 for i in range(200)]
        rate = before / (sum(map(fewest, samples)) / len(samples))
        start, end = quiet_end, self.commits[-1][0]
        during = sum(when > start for when, _ in self.commits) * microbatches / (end - start)
        samples = [start + (end - start) * (i + 0.5) / 2000 for i in range(2000)]
        attainable = rate * sum(map(fewest, samples)) / len(samples)
        return before, during, attainable


def main():
    if len(sys.argv) != 4:
        print(__doc__, file=sys.stderr)
        return 2
    trace = Trace(sys.argv[1], int(sys.argv[3]))
    if not trace.commits or trace.commits[-1][1] <= trace.quiet_until:
        print("recovery: the run ended before its faults began: give it more time", file=sys.stderr)
        return 1
    for kind, name in (("kill", "killed"), ("stop", "silent (SIGSTOP)")):
        rows = trace.recoveries(kind)
        if not rows:
            print(f"{name:18} no fault of this kind hit a serving worker")
            continue
        for what, values in zip(("next microbatch", "taken over", "next commit"), zip(*rows)):
            values = [v for v in values if v is not None]
            if values:
                print(f"{name:18} {what:16} p50 {quantile(values, 0.5):6.3f} s  p99 {quantile(values, 0.99):6.3f} s"
                      f"  largest {max(values):6.3f} s  of {len(values)}")
    before, during, attainable = trace.throughput(int(sys.argv[2]))
    print(f"throughput         before {before:.1f}/s, disturbed {during:.1f}/s; the living workers could do "
          f"{attainable:.1f}/s: ratio {during / attainable:.3f}, of the undisturbed {during / before:.3f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
