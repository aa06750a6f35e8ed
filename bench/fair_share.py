#!/usr/bin/env python3
"""Measures what training loses where it does not have the cores to itself.

Programs: one process that trains with a thread for each core (`swarmctl train`), and a swarm of two stages
whose workers have one thread each (`swarmctl run`). Conditions: alone; beside one busy process; under a CFS
quota of half the cores, where this program may make cgroups.

The yardstick is what the scheduler gives to as many threads that share nothing, under the same condition and
right before and after: the fair share. So other work on the machine disturbs both. A thread that waits at a
barrier while another one is not scheduled loses more than its share; waiting by spinning loses most. The
target is 0.85 of the fair share.

Usage: bench/fair_share.py [--build build/release] [--rounds 3] [--steps 8] [--width 512]
"""
import argparse
import contextlib
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

SPIN = """
import sys, time
end, count = time.monotonic() + float(sys.argv[1]), 0
while time.monotonic() < end:
    count += 1
print(count)
"""
JOB = """
apiVersion: swarmjob.dev/v1alpha1
kind: SwarmJob
metadata: {name: fair-share}
spec:
  model:
    config: {hidden_size: %(width)d, num_hidden_layers: 8, num_attention_heads: 8,
             intermediate_size: %(inner)d, vocab_size: 256}
  data: {uri: %(folder)s/numbers.txt}
  training: {maxSteps: %(steps)d, globalBatchSize: 8, microbatchSize: 1, sequenceLength: 256}
  pipeline: {stages: 2}
  checkpoint: {intervalSteps: 1000000}
"""


@contextlib.contextmanager
def busy():
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as process:
        try:
            yield []
        finally:
            process.kill()


class Quota:
    """A cgroup with processor time of half the cores, of version 2 or 1."""

    def __init__(self, cores):
        self.why = "no cgroups of processors here"
        quota = int(cores / 2 * 100000)
        for root, settings in (("/sys/fs/cgroup", {"cpu.max": f"{quota} 100000"}),
                               ("/sys/fs/cgroup/cpu", {"cpu.cfs_period_us": "100000",
                                                       "cpu.cfs_quota_us": str(quota)})):
            if not pathlib.Path(root, "cgroup.procs").exists():
                continue
            self.folder = pathlib.Path(root, f"swarmjob-fair-share-{os.getpid()}")
            try:
                self.folder.mkdir()
            except OSError as error:
                self.why = str(error)
                continue
            try:
                for file, value in settings.items():
                    with open(self.folder / file, "r+") as setting:  # never creates it
                        setting.write(value)
                self.why = None
                return
            except OSError as error:
                self.why = str(error)
                self.folder.rmdir()

    @contextlib.contextmanager
    def __call__(self):
        # The shell enters the group, and becomes the program.
        yield ["sh", "-c", f'echo $$ >{self.folder}/cgroup.procs && exec "$@"', "sh"]

    def remove(self):
        if self.why is None:
            self.folder.rmdir()


@contextlib.contextmanager
def alone():
    yield []


def spin(prefix, cores, seconds):
    """Rounds a second of as many threads as there are cores, which share nothing."""
    spinners = [subprocess.Popen([*prefix, sys.executable, "-c", SPIN, str(seconds)], stdout=subprocess.PIPE)
                for _ in range(cores)]
    return sum(int(spinner.communicate()[0]) for spinner in spinners) / seconds


def train(prefix, command):
    """Steps a second, without the first two steps."""
    out = tempfile.mkdtemp(dir=command[-1])
    done = subprocess.run([*prefix, *command[:-1], "--out", out + "/run"], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}")
    lines = [json.loads(line) for line in open(out + "/run/steps.jsonl")][2:]
    return len(lines) / sum(line["seconds"] for line in lines)


def main():
    flags = argparse.ArgumentParser()
    flags.add_argument("--build", default="build/release")
    flags.add_argument("--rounds", type=int, default=3)
    flags.add_argument("--steps", type=int, default=8)
    flags.add_argument("--width", type=int, default=512)
    flags.add_argument("--yardstick-seconds", type=float, default=2)
    flags = flags.parse_args()
    cores = len(os.sched_getaffinity(0))
    quota = Quota(cores)
    conditions = {"alone": alone, "beside a busy process": busy}
    if quota.why is None:
        conditions["half the cores by quota"] = quota
    else:
        print(f"left out: a CFS quota ({quota.why})")
    with contextlib.ExitStack() as last, tempfile.TemporaryDirectory() as folder:
        last.callback(quota.remove)
        pathlib.Path(folder, "numbers.txt").write_text("\n".join(map(str, range(200000))))
        job = pathlib.Path(folder, "job.yaml")
        job.write_text(JOB % {"width": flags.width, "inner": flags.width * 43 // 16, "folder": folder,
                              "steps": flags.steps + 2})
        swarmctl = str(pathlib.Path(flags.build).resolve() / "bin/swarmctl")
        programs = {
            f"one process, {cores} threads": [swarmctl, "train", "-f", str(job), "--threads", str(cores), folder],
            "two stages of one thread": [swarmctl, "run", "-f", str(job), "--threads-per-worker", "1", folder]}
        rates, fair = {}, {}
        for _ in range(flags.rounds):
            for condition, enter in conditions.items():
                with enter() as prefix:
                    for program, command in programs.items():
                        before = spin(prefix, cores, flags.yardstick_seconds)
                        rates.setdefault((program, condition), []).append(train(prefix, command))
                        after = spin(prefix, cores, flags.yardstick_seconds)
                        fair.setdefault((program, condition), []).append((before + after) / 2)
    print("%-26s %-24s %8s %9s %11s %7s" % ("", "", "steps/s", "of alone", "fair share", "of fair"))
    for program in programs:
        for condition in conditions:
            rate, share = (statistics.median(measured[program, condition]) for measured in (rates, fair))
            part = rate / statistics.median(rates[program, "alone"])
            fair_part = share / statistics.median(fair[program, "alone"])
            print("%-26s %-24s %8.2f %9.2f %11.2f %7.2f" %
                  (program, condition, rate, part, fair_part, part / fair_part))


if __name__ == "__main__":
    main()
