#!/usr/bin/env python3
"""Trains a small model under a storm of faults, and judges the result.

Usage: tests/soak/soak.py [MINUTES=10] [BUILD_FOLDER=build/release] [--out FOLDER]

Nine workers in three stages train under tests/soak/chaos.txt; then one undisturbed process
(`swarmctl train`) trains the same steps. The test checks:
  - the audit of OUT/ledger.jsonl finds no sample lost or doubled, and nothing that the workers' own
    logs of what they summed do not confirm;
  - losses, gradient norms and final weights equal those of the undisturbed run, bit for bit
    (`accumulation: Exact`);
  - the memory of programs that live long enough does not grow, neither that of the median program nor
    that of the worst;
  - there was at least one fault per second, and training continued until the end.
Exit code 0: all of this holds.
"""
import argparse
import collections
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import audit

# The test judges a program's memory over at least this many seconds, and from this long after its start:
# before that, caches and arenas fill.
SECONDS_WATCHED_MIN = 60
SECONDS_OF_WARM_UP = 60
# For the median program, since an allocator under churn makes single programs grow and shrink; for the worst, what
# a leak of one activation (16 KiB) per microbatch would be at the least.
GROWTH_MAX_MIB_A_MINUTE = 3.0
GROWTH_MAX_OF_THE_WORST = 10.0

JOB = """apiVersion: swarmjob.dev/v1alpha1
kind: SwarmJob
metadata: {{name: soak}}
spec:
  model:
    config: {{hidden_size: 64, num_hidden_layers: 6, num_attention_heads: 4, intermediate_size: 128, vocab_size: 256}}
  data: {{uri: {data}}}
  training: {{maxSteps: {steps}, globalBatchSize: 16, microbatchSize: 1, sequenceLength: 64, accumulation: Exact}}
  schedule: {{type: Constant}}
  pipeline: {{stages: 3}}
  workers: {{replicas: 9}}
  checkpoint: {{intervalSteps: 20}}
"""


class Memory:
    """Samples the resident sizes of a process's children."""

    def __init__(self, parent):
        self.parent = parent
        self.lives = collections.defaultdict(list)  # (name, pid) -> [[(seconds, MiB)]]

    def sample(self):
        now = time.monotonic()
        for pid in self._children():
            try:
                with open(f"/proc/{pid}/cmdline") as file:
                    words = file.read().split("\0")
                with open(f"/proc/{pid}/status") as file:
                    status = dict(line.split(":", 1) for line in file if ":" in line)
            except (OSError, ProcessLookupError):
                continue  # the process has ended meanwhile
            if "VmRSS" not in status or not any(word.startswith("--role") for word in words):
                continue
            name = next((word[len("--id="):] for word in words if word.startswith("--id=")), "trainer")
            mib = int(status["VmRSS"].split()[0]) / 1024
            lives = self.lives[name, pid]
            # An evicted worker restarts as a new image of the same process.
            if not lives or mib < 0.8 * lives[-1][-1][1]:
                lives.append([])
            lives[-1].append((now, mib))

    def _children(self):
        try:
            with open(f"/proc/{self.parent}/task/{self.parent}/children") as file:
                return file.read().split()
        except OSError:
            return []

    def write(self, path):
        """One line for each life of a program: its name and (seconds, MiB), once a second."""
        with open(path, "w") as file:
            for (name, _), lives in self.lives.items():
                for life in lives:
                    samples = [(round(t - life[0][0], 1), round(mib, 2)) for t, mib in life]
                    file.write(json.dumps({"program": name, "samples": samples}) + "\n")

    def slopes(self):
        """The growth of each program that lived long enough: (name, MiB per minute, seconds, MiB)."""
        result = []
        for name, samples in [(name, life) for (name, _), lives in self.lives.items() for life in lives]:
            steady = [(t, mib) for t, mib in samples if t >= samples[0][0] + SECONDS_OF_WARM_UP]
            if not steady or steady[-1][0] - steady[0][0] < SECONDS_WATCHED_MIN:
                continue
            mean_t = sum(t for t, _ in steady) / len(steady)
            mean_m = sum(m for _, m in steady) / len(steady)
            spread = sum((t - mean_t) ** 2 for t, _ in steady)
            slope = sum((t - mean_t) * (m - mean_m) for t, m in steady) / spread
            result.append((name, 60 * slope, steady[-1][0] - steady[0][0], steady[-1][1]))
        return sorted(result, key=lambda life: -life[1])


def run_swarm(program, folder, minutes):
    """Runs the job under chaos for the given time, then asks it to end. Returns (exit code, Memory)."""
    log = open(os.path.join(folder, "swarm.log"), "w")
    chaos = os.path.join(os.path.dirname(os.path.abspath(__file__)), "chaos.txt")
    process = subprocess.Popen(
        [program, "run", "-f", f"{folder}/job.yaml", "--out", f"{folder}/swarm", "--chaos", chaos,
         "--log-level", "debug"],
        stdout=log,
        stderr=subprocess.STDOUT,
    )
    memory = Memory(process.pid)
    try:
        end = time.monotonic() + 60 * minutes
        while time.monotonic() < end and process.poll() is None:
            memory.sample()
            time.sleep(1)
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
        return process.wait(timeout=330), memory
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def export_digest(program, checkpoint, folder):
    """The digest of a run's final weights; it does not depend on the number of stages."""
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run(
        [program, "export", "--checkpoint", checkpoint, "--out", folder],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    digest = hashlib.sha256()
    for name in sorted(name for name in os.listdir(folder) if name.endswith(".safetensors")):
        with open(os.path.join(folder, name), "rb") as file:
            digest.update(file.read())
    return digest.hexdigest()


def compare(program, folder, steps):
    """Sentences about the differences between the swarm and one process."""
    subprocess.run(
        [program, "train", "-f", f"{folder}/job.yaml", "--out", f"{folder}/reference",
         "--set", f"training.maxSteps={steps}"],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    differences = []
    ours = audit.read_lines(f"{folder}/swarm/steps.jsonl")
    theirs = audit.read_lines(f"{folder}/reference/steps.jsonl")
    for mine, other in zip(ours, theirs):
        for what in ("step", "loss", "grad_norm", "lr", "tokens"):
            if mine[what] != other[what]:
                differences.append(f"step {other['step']}: {what} {mine[what]!r}, not {other[what]!r}")
    if len(ours) != len(theirs):
        differences.append(f"{len(ours)} steps, not {len(theirs)}")
    mine, other = (
        export_digest(program, f"{folder}/{name}", f"{folder}/{name}-exported")
        for name in ("swarm", "reference")
    )
    if mine != other:
        differences.append(f"the final weights differ: {mine}, not {other}")
    return differences


def judge(program, folder, minutes):
    code, memory = run_swarm(program, folder, minutes)
    problems = [] if code == 0 else [f"swarmctl run ended with exit code {code}: {folder}/swarm.log"]
    faults = [line for line in audit.read_lines(f"{folder}/swarm/chaos.jsonl") if not line["over"]]
    kinds = collections.Counter(
        line["fault"] + (" trainer" if line["target"] == "trainer" else "") for line in faults
    )
    seconds = faults[-1]["seconds"] - faults[0]["seconds"] if len(faults) > 1 else 1
    print(f"{len(faults)} faults, {len(faults) / seconds:.2f} a second: "
          + ", ".join(f"{kind} {count}" for kind, count in kinds.most_common()))
    if len(faults) / seconds < 1:
        problems.append("there was less than a fault a second")
    events = collections.Counter(line["kind"] for line in audit.read_lines(f"{folder}/swarm/events.jsonl"))
    print("events: " + ", ".join(f"{kind} {count}" for kind, count in events.most_common()))

    account = audit.audit(f"{folder}/swarm")
    print(f"audit: {account['steps']} steps, {account['samples']} samples judged, {account['lost']} lost, "
          f"{account['doubled']} doubled; {len(account['adopted_steps'])} steps adopted by a new trainer; "
          f"{account['witnessed']} steps compared with the workers' own accounts")
    problems += account["problems"]
    if account["witnessed"] == 0:
        problems.append("no worker has logged what it summed")

    memory.write(f"{folder}/memory.jsonl")
    slopes = memory.slopes()
    for name, slope, watched, mib in slopes:
        print(f"memory: {name:10} {slope:+6.2f} MiB a minute over {watched:4.0f} s, {mib:.0f} MiB at the end")
    if slopes:
        median = slopes[len(slopes) // 2][1]
        if median > GROWTH_MAX_MIB_A_MINUTE:
            problems.append(f"the memory of the median program grows by {median:.1f} MiB a minute")
        name, worst = slopes[0][:2]  # the steepest comes first
        if worst > GROWTH_MAX_OF_THE_WORST:
            problems.append(f"the memory of {name} grows by {worst:.1f} MiB a minute")
    else:
        print("memory: no program lived long enough to be judged")

    if code == 0:
        differences = compare(program, folder, account["steps"])
        print(f"against one undisturbed process: {len(differences)} differences in "
              f"{account['steps']} steps and the final weights")
        problems += differences
    for problem in problems[:30]:
        print("PROBLEM:", problem)
    print("soak: " + ("FAILED" if problems else "all is well"))
    return 1 if problems else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("minutes", nargs="?", type=float, default=10)
    parser.add_argument("build", nargs="?", default="build/release")
    parser.add_argument("--out", help="keep everything there (default: a temporary folder, removed if all is well)")
    options = parser.parse_args()
    program = os.path.abspath(os.path.join(options.build, "bin", "swarmctl"))
    folder = os.path.abspath(options.out) if options.out else tempfile.mkdtemp(prefix="swarm-soak-")
    os.makedirs(folder, exist_ok=True)
    with open(f"{folder}/numbers.txt", "w") as file:
        file.write("\n".join(map(str, range(60000))))
    with open(f"{folder}/job.yaml", "w") as file:
        file.write(JOB.format(data=f"{folder}/numbers.txt", steps=1000000))
    result = judge(program, folder, options.minutes)
    if result == 0 and not options.out:
        shutil.rmtree(folder)
    else:
        print("everything is in " + folder)
    return result


if __name__ == "__main__":
    sys.exit(main())
