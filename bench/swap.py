#!/usr/bin/env python3
"""Trains a model whose state is on a disk (pipeline.residency Swap), beside the same in memory.

Each run is one worker with a thread for each core. Prints the seconds of a step without the first, the most memory of
its own that the worker had (a tenth of a second apart), what it read from and wrote to disks, and, of runs in a control
group with a limit, the most that the group held, page cache included; all until the last step is committed. Prints what
a plan predicts for a machine as `swarmctl probe` measures this one. With --planned the job runs once more, with the
segments that a plan chooses. Ends with an error if losses differ by more than 1e-5.

Usage: bench/swap.py [--build build/release] [--width 512] [--layers 16] [--vocabulary 256] [--memory-mib 96]
                     [--microbatches 8] [--tokens 256] [--steps 3]
                     [--mode Sync|Delayed|Local] [--inner-steps 4] [--recompute None|Layers|Full] [--scratch FOLDER] [--planned]
       bench/swap.py --limit-mib 6144 --alone ...     Swap alone, in a control group with that limit (root)
"""
import argparse
import contextlib
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

JOB = """
apiVersion: swarmjob.dev/v1alpha1
kind: SwarmJob
metadata: {name: swap}
spec:
  model:
    config: {hidden_size: %(width)d, num_hidden_layers: %(layers)d, num_attention_heads: %(heads)d,
             intermediate_size: %(inner)d, vocab_size: %(vocabulary)d, tie_word_embeddings: true}
  data: {uri: %(folder)s/numbers.txt}
  training: {maxSteps: %(steps)d, globalBatchSize: %(batch)d, microbatchSize: 1, sequenceLength: %(tokens)d,
             stepMode: %(mode)s%(local)s}
  pipeline: %(pipeline)s
  checkpoint: {intervalSteps: 1000000}
"""


class Group:
    """A control group for memory, of version 2 or 1."""

    def __init__(self, limit):
        for root, limits, self.peak_file in (
                ("/sys/fs/cgroup", {"memory.max": limit, "memory.swap.max": 0}, "memory.peak"),
                ("/sys/fs/cgroup/memory", {"memory.limit_in_bytes": limit}, "memory.max_usage_in_bytes")):
            if not pathlib.Path(root, "cgroup.procs").exists():
                continue
            self.folder = pathlib.Path(root, f"swarmjob-swap-{os.getpid()}")
            self.folder.mkdir()
            for file, value in limits.items():
                with contextlib.suppress(FileNotFoundError), open(self.folder / file, "r+") as setting:
                    setting.write(str(value))
            return
        sys.exit("this machine has no control groups for memory")

    def prefix(self):
        # The shell enters the group, and becomes the program.
        return ["sh", "-c", f'echo $$ >{self.folder}/cgroup.procs && exec "$@"', "sh"]

    def peak(self):
        return int((self.folder / self.peak_file).read_text())

    def remove(self):
        for _ in range(50):
            try:
                return self.folder.rmdir()
            except OSError:  # the last process has just ended
                time.sleep(0.1)


def worker_of(folder):
    """The process of the worker whose run is in the folder."""
    for process in pathlib.Path("/proc").iterdir():
        with contextlib.suppress(OSError, UnicodeDecodeError):
            arguments = (process / "cmdline").read_bytes().decode().split("\0")
            if any(a.startswith("--id=worker") for a in arguments) and any(folder in a for a in arguments):
                return process
    return None


def watch(run, folder, steps, group):
    """Until the last step is committed (a checkpoint follows): the most bytes of the worker's own memory, what the
    group held, and the bytes that the worker has read and written."""
    most = {"own": 0, "read": 0, "written": 0}
    lines = pathlib.Path(folder, "steps.jsonl")
    while run.poll() is None:
        process = worker_of(folder)
        if not lines.exists() or len(lines.read_text().splitlines()) < steps:
            with contextlib.suppress(OSError, TypeError, AttributeError):
                status, io = (process / "status").read_text(), (process / "io").read_text()
                most["own"] = max(most["own"], int(re.search(r"RssAnon:\s+(\d+)", status).group(1)) * 1024)
                most["read"] = int(re.search(r"^read_bytes: (\d+)", io, re.M).group(1))
                most["written"] = int(re.search(r"^write_bytes: (\d+)", io, re.M).group(1))
                if group:
                    most["group"] = group.peak()
        time.sleep(0.1)
    return most


def swarmctl_of(flags):
    return str(pathlib.Path(flags.build).resolve() / "bin/swarmctl")


def write_job(flags, folder, name):
    """The manifest of a run: Resident; Swap, with the segments that a worker takes; or Planned, which leaves them open."""
    memory = {"host": flags.memory_mib << 20, "scratch": flags.scratch or folder}
    if name == "Swap":
        memory["device"] = memory["host"]  # so a plan takes them, too
    pipeline = {"stages": 1, **({"residency": "Resident", "recompute": flags.recompute} if name == "Resident" else
                                {"residency": "Swap", "memory": memory})}
    job = pathlib.Path(folder, f"{name}.yaml")
    job.write_text(JOB % {**vars(flags), "heads": flags.width // 64, "inner": flags.inner or flags.width * 43 // 16,
                          "steps": flags.steps + 1, "folder": folder, "pipeline": json.dumps(pipeline),
                          "local": f", local: {{innerSteps: {flags.inner_steps}, microbatches: {flags.microbatches}}}"
                                   if flags.mode == "Local" else "",
                          "batch": flags.microbatches * (flags.inner_steps if flags.mode == "Local" else 1)})
    return job


def train(flags, folder, name, job, group):
    """One run: a row of the table, and its losses."""
    out = f"{folder}/{name}"
    with open(f"{folder}/{name}.log", "wb") as log:
        with subprocess.Popen([*(group.prefix() if group else []), swarmctl_of(flags), "run", "-f", str(job), "--out", out,
                               "--threads-per-worker", str(os.cpu_count())],
                              stdin=subprocess.DEVNULL, stdout=log, stderr=log) as run:
            row = watch(run, out, flags.steps + 1, group)
    if run.returncode != 0:
        sys.exit(f"{name}: swarmctl ended with {run.returncode}\n" + pathlib.Path(log.name).read_text()[-3000:])
    lines = [json.loads(line) for line in open(f"{out}/steps.jsonl")]
    row["seconds"] = statistics.median(line["seconds"] for line in lines[1:])
    return row, [line["loss"] for line in lines]


def probe(flags, folder, job):
    """Writes this machine's line of a fleet file."""
    fleet = subprocess.run([swarmctl_of(flags), "probe", "-f", job, "--scratch", flags.scratch or folder, "--scratch-gib",
                            str(flags.scratch_gib), "--threads", str(os.cpu_count())],
                           stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True)
    print("this machine: " + fleet.stdout.splitlines()[1].strip(" -"))
    pathlib.Path(folder, "fleet.yaml").write_text(fleet.stdout)


def plan(flags, folder, job, planned):
    """The best plan for this machine; writes the job with it."""
    said = subprocess.run([swarmctl_of(flags), "plan", "-f", job, "--fleet", f"{folder}/fleet.yaml", "--json", "--write",
                           planned], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True)
    return json.loads(said.stdout)["plans"][0]


def compare(best, row, name):
    seconds, memory = best["stepSeconds"], best["stages"][0]["memoryGiB"] * 2**30
    print(f"a plan predicts {seconds:.2f} s for {name}, {seconds / row['seconds']:.2f} of what was measured, and "
          f"{memory / 2**20:.0f} MiB, {memory / row['own']:.2f} of it", flush=True)


def main():
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--build", default="build/release")
    flags.add_argument("--width", type=int, default=512)
    flags.add_argument("--inner", type=int, default=0)
    flags.add_argument("--layers", type=int, default=16)
    flags.add_argument("--vocabulary", type=int, default=256)
    flags.add_argument("--memory-mib", type=int, default=96)
    flags.add_argument("--microbatches", type=int, default=8)
    flags.add_argument("--tokens", type=int, default=256)
    flags.add_argument("--steps", type=int, default=3)
    flags.add_argument("--mode", default="Sync", choices=["Sync", "Delayed", "Local"], help="Local: a step is a round")
    flags.add_argument("--inner-steps", type=int, default=4, help="of Local, each of so many microbatches")
    flags.add_argument("--recompute", default="None", choices=["None", "Layers", "Full"], help="of Resident; Swap does")
    flags.add_argument("--scratch", default="")
    flags.add_argument("--scratch-gib", type=float, default=2, help="of the probe")
    flags.add_argument("--limit-mib", type=int, default=0)
    flags.add_argument("--alone", action="store_true")
    flags.add_argument("--planned", action="store_true")
    flags = flags.parse_args()
    results = {}
    with contextlib.ExitStack() as last, tempfile.TemporaryDirectory(dir=flags.scratch or None) as folder:
        pathlib.Path(folder, "numbers.txt").write_text("\n".join(map(str, range(200000))))
        group = Group(flags.limit_mib << 20) if flags.limit_mib else None
        if group:
            last.callback(group.remove)

        def run(name, job):
            results[name] = train(flags, folder, name, job, None if name == "Resident" else group)
            row, losses = results[name]
            print(f"{name}: " + ", ".join(
                f"{column} {value:.2f} s" if column == "seconds" else f"{column} {value / 2**20:.0f} MiB"
                for column, value in row.items()) + f", losses {losses[0]:.6f} to {losses[-1]:.6f}", flush=True)

        if not flags.alone:
            run("Resident", write_job(flags, folder, "Resident"))
        job = write_job(flags, folder, "Swap")
        run("Swap", job)
        probe(flags, folder, job)
        compare(plan(flags, folder, job, f"{folder}/as_it_is.json"), results["Swap"][0], "Swap")
        if flags.planned:
            planned = f"{folder}/Planned.json"
            best = plan(flags, folder, write_job(flags, folder, "Planned"), planned)
            swap = best["stages"][0]["swap"]
            print(f"the best plan: {swap['segments']} segments, {swap['together']} microbatches together, "
                  f"memory.device {json.loads(pathlib.Path(planned).read_text())['spec']['pipeline']['memory'].get('device', 0) >> 20} MiB")
            run("Planned", planned)
            compare(best, results["Planned"][0], "it")
            print(f"Planned against Swap: {results['Swap'][0]['seconds'] / results['Planned'][0]['seconds']:.2f} of the "
                  "tokens a second")
    if not flags.alone:
        (resident, expected), (swapped, _) = results["Resident"], results["Swap"]
        print(f"Swap against Resident: {resident['seconds'] / swapped['seconds']:.2f} of the tokens a second")
        for name, (_, losses) in results.items():
            if any(abs(a - b) > 1e-5 * abs(b) for a, b in zip(losses, expected)):
                sys.exit(f"losses of {name} differ: {losses} and {expected}")


if __name__ == "__main__":
    main()
