#!/usr/bin/env python3
"""Judges OUT/ledger.jsonl: was every sample of every committed step counted exactly once?

Usage: tests/soak/audit.py OUT

The seed and the three numbers (step, microbatch, row) alone determine a sample's place in the data, so
the audit only counts: at each stage, exactly one participant of the sum that the commit names must
claim each microbatch of each committed step, and every step must be committed once. When a trainer is
killed, its successor may find a step already decided ("adopted"). The ledger then names the sums, but
not the participants.

The ledger is the trainer's word. Where the workers logged what they did (`swarmctl run --log-level debug`),
their logs are a second source: what each of them had folded when it began a sum that was committed, adopted
steps too. It must be what the ledger says, and all of them together must have each microbatch once.

Exit code 0: nothing is lost or doubled; 1: something is; 2: the files cannot be read.
"""
import collections
import glob
import json
import os
import sys


def read_lines(path):
    """The objects of a .jsonl file, without a last line that a crash cut off."""
    with open(path) as file:
        return [json.loads(line) for line in file if line.endswith("\n")]


class Job:
    def __init__(self, folder):
        with open(os.path.join(folder, "job.json")) as file:
            spec = json.load(file)["spec"]
        training = spec["training"]
        self.stages = spec["pipeline"]["stages"]
        self.rows = training["microbatchSize"]
        self.microbatches = training["globalBatchSize"] // self.rows


def read_accounts(folder):
    """What the workers say that they had folded when they began a sum, from their logs:
    (generation, step, group, k) -> worker -> (stage, microbatches, with repetitions). Empty without such logs."""
    sums = collections.defaultdict(dict)
    for path in glob.glob(os.path.join(folder, "workers", "*.log")):
        worker = os.path.basename(path)[: -len(".log")]
        stage, folds = None, collections.defaultdict(list)
        with open(path, errors="replace") as file:
            for line in file:
                _, found, text = line.partition(" account: ")
                if not found or not line.endswith("\n"):
                    continue
                verb, *words = text.split()
                generation, number, *rest = map(int, words)
                if verb == "serves":  # a state, without any folds
                    stage, folds = number, collections.defaultdict(list)
                elif verb == "folds":
                    folds[generation, number] += rest
                elif verb == "clears":
                    folds.pop((generation, number), None)
                elif verb == "sums":
                    group, *k = rest
                    sums[generation, number, group, tuple(k)][worker] = (stage, sorted(folds[generation, number]))
    return sums


def judge_by_workers(job, line, sums):
    """Sentences about the difference between a line of the ledger and what the workers say."""
    problems, witnessed = [], []
    for group in line["groups"]:
        name = f"step {line['step']}, group {group['group']}"
        said = sums.get((line["generation"], line["step"], group["group"], tuple(group["k"])), {})
        for part in group.get("participants", []):
            stage, folded = said.get(part["worker"], (part["stage"], None))
            if (stage, folded) != (part["stage"], sorted(part["microbatches"])):
                problems.append(f"{name}: {part['worker']} says that it summed {folded} at stage {stage}, "
                                f"the ledger says {part['microbatches']} at stage {part['stage']}")
        witnessed.append({"group": group["group"], "participants": [
            {"worker": worker, "stage": stage, "microbatches": folded} for worker, (stage, folded) in said.items()]})
    for what, cells in zip(("lack", "repeat"), judge_step(job, {"groups": witnessed})):
        problems += [f"step {line['step']}: the workers' sums {what} microbatch {microbatch} at stage {stage}"
                     for stage, microbatch in cells]
    return problems


def judge_step(job, line):
    """(lost, doubled): lists of (stage, microbatch) in one line, over all its groups."""
    lost, doubled = [], []
    for group in line["groups"]:
        counts = collections.Counter()
        stages = {part["stage"] for part in group["participants"]}
        if group["group"] < job.stages:
            stages.add(group["group"])
        for part in group["participants"]:
            counts.update((part["stage"], m) for m in part["microbatches"])
        for stage in stages:
            for microbatch in range(job.microbatches):
                count = counts.pop((stage, microbatch), 0)
                if count == 0:
                    lost.append((stage, microbatch))
                elif count > 1:
                    doubled.append((stage, microbatch))
        doubled.extend(counts)  # microbatches that the step does not have
    missing_groups = set(range(job.stages)) - {group["group"] for group in line["groups"]}
    lost.extend((stage, m) for stage in missing_groups for m in range(job.microbatches))
    return lost, doubled


def audit(folder):
    """The result of the audit as a dict; `problems` has sentences, and is empty if all is well."""
    job = Job(folder)
    ledger = read_lines(os.path.join(folder, "ledger.jsonl"))
    steps = collections.Counter(
        line["step"] for line in read_lines(os.path.join(folder, "steps.jsonl"))
    )
    problems, adopted, lost, doubled, judged = [], [], 0, 0, 0
    sums = read_accounts(folder)
    seen = collections.Counter(line["step"] for line in ledger)
    for step in sorted(set(steps) | set(seen) | set(range(max(seen, default=-1) + 1))):
        if seen[step] != 1:
            problems.append(f"step {step} is committed {seen[step]} times")
        if steps[step] != 1:
            problems.append(f"step {step} has {steps[step]} lines in steps.jsonl")
    for before, after in zip(ledger, ledger[1:]):
        if after["generation"] < before["generation"]:
            problems.append(f"step {after['step']} is of an earlier generation than the one before")
    for line in ledger:
        if sums:
            problems += judge_by_workers(job, line, sums)
        if line.get("adopted"):
            adopted.append(line["step"])
            continue
        judged += 1
        absent, twice = judge_step(job, line)
        for what, cells in (("not counted", absent), ("counted more than once", twice)):
            for stage, microbatch in cells:
                problems.append(f"step {line['step']}: microbatch {microbatch} is {what} at stage {stage}")
        lost += len({m for _, m in absent}) * job.rows
        doubled += len({m for _, m in twice}) * job.rows
    return {
        "steps": len(ledger),
        "samples": judged * job.microbatches * job.rows,
        "lost": lost,
        "doubled": doubled,
        "adopted_steps": adopted,
        "witnessed": len(ledger) if sums else 0,
        "problems": problems,
    }


def main():
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        result = audit(sys.argv[1])
    except (OSError, ValueError, KeyError) as error:
        print(f"audit: {error!r}", file=sys.stderr)
        return 2
    for problem in result["problems"][:20]:
        print(problem)
    print(
        f"{result['steps']} steps: {result['samples']} samples judged, {result['lost']} lost, "
        f"{result['doubled']} doubled; adopted from a trainer before: {len(result['adopted_steps'])} steps; "
        f"{result['witnessed']} compared with the workers' own accounts"
    )
    return 1 if result["problems"] else 0


if __name__ == "__main__":
    sys.exit(main())
