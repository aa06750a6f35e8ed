#!/usr/bin/env python3
"""Trains with hollow workers: real endpoints over mutual TLS, the code of swarm-worker, and compute that only takes
time, beside one real trainer. Says what the trainer and the connections of a large swarm cost, and what a loss costs.

Usage: bench/hollow/hollow.py [--build FOLDER] [--workers 1000] [--stages 32] [--each 100] [--tokens 2048] ...

The device is a T4 at 20 TFLOP/s with four layers of width 4096, as in bench/goodput.py: 250 us a token, forward and
backward. Bytes are tiny. `floor` is the part of the rate that the timed compute allows; where this machine has fewer
processors than the swarm needs for its messages, the cores that trainer and workers use say so. The workers have a
lower priority than the trainer, which otherwise has a machine of its own.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

MICROSECONDS_PER_TOKEN = 250  # of one stage: forward and backward
FORWARD_PART = 1 / 3
TICKS = os.sysconf("SC_CLK_TCK")


class Hollow:
    """A process with some workers."""

    def __init__(self, options, folder, address, number, count):
        milliseconds = options.tokens * MICROSECONDS_PER_TOKEN * 1e-3
        self.count = count
        with open(folder / f"workers-{number}.log", "wb") as log:
            self.process = subprocess.Popen(
                ["nice", "-n", "19", options.build / "bench" / "hollow_workers", "--authority", folder, "--job-uid",
                 "hollow", "--trainer", address, "--prefix", f"p{number:02d}-", "--count", str(count), "--forward-ms",
                 str(milliseconds * FORWARD_PART), "--backward-ms", str(milliseconds * (1 - FORWARD_PART))],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True)

    def ask(self, command):
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())


def write_job(options, folder):
    corpus = folder / "corpus.txt"
    corpus.write_text("".join(f"{number}\n" for number in range(200000)))
    manifest = {
        "apiVersion": "swarmjob.dev/v1alpha1", "kind": "SwarmJob", "metadata": {"name": "hollow"},
        "spec": {
            "model": {"config": {"hidden_size": 64, "num_hidden_layers": options.stages, "num_attention_heads": 4,
                                 "intermediate_size": 128, "vocab_size": 256}},
            "data": {"uri": str(corpus)},
            "training": {"maxSteps": 1000000, "globalBatchSize": options.microbatches, "microbatchSize": 1,
                         "sequenceLength": 16, "stepMode": "Delayed"},
            "pipeline": {"stages": options.stages}, "checkpoint": {"intervalSteps": 1000000}}}
    text = subprocess.run([options.build / "bin" / "swarmctl", "validate", "-", "--json"], check=True,
                          input=json.dumps(manifest), text=True, stdout=subprocess.PIPE).stdout
    (folder / "job.json").write_text(text)


def await_that(what, condition, seconds):
    limit = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > limit:
            raise RuntimeError(f"hollow: {what}: not within {seconds} s")
        time.sleep(0.1)


def steps_of(folder):
    path = folder / "out" / "steps.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    return [json.loads(line) for line in lines if line.endswith("}")]


def lost_workers(folder):
    """How many the trainer has given up so far. A busy machine may cost some before the measurement."""
    lines = (folder / "out" / "events.jsonl").read_text().splitlines()
    return sum('"kind":"WorkerLost"' in line for line in lines)


def processor_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def resident_mib(pid):
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1]) / 1024


def folds_by_time(reports):
    """(time, folds in the bin that begins then), added over all processes."""
    bins = {}
    for report in reports:
        for i, folds in enumerate(report.get("folds", [])):
            at = round((report["begin"] + i * report["bin"]) / report["bin"])
            bins[at] = bins.get(at, 0) + folds
    return bins


def newest_epoch(reports):
    return max((int(epoch) for report in reports for epoch in report.get("epochs", {})), default=0)


def measure_roster(options, folder, hollows):
    """Ends one worker; seconds until half of the others and all of them know."""
    reports = [hollow.ask("report") for hollow in hollows]
    before = newest_epoch(reports)

    def lacks(number):  # workers of this process that do not know the roster: the trainer may have lost them
        return hollows[number].count - len(reports[number].get("epochs", {}).get(str(before), []))
    at = hollows[min(range(len(hollows)), key=lacks)].ask("kill 1")["at"]

    def all_know():
        reports = [hollow.ask("report") for hollow in hollows]
        times = sorted(t for report in reports for t in report.get("epochs", {}).get(str(before + 1), []))
        return len(times) >= options.workers - max(1, lost_workers(folder)) and times
    times = await_that("a roster change to all", all_know, 60)
    return times[len(times) // 2] - at, times[-1] - at


def measure_rate(options, folder, trainer, hollows):
    """Rates over some steps, from the end of one to the end of another."""
    begin = steps_of(folder)
    pids = [hollow.process.pid for hollow in hollows]
    clock, used, busy = time.monotonic(), processor_seconds(trainer), sum(map(processor_seconds, pids))
    await_that("steps", lambda: len(steps_of(folder)) >= len(begin) + options.steps, options.patience)
    seconds = time.monotonic() - clock
    lines = steps_of(folder)[len(begin):]
    ideal = options.microbatches / (options.workers // options.stages) * options.tokens * MICROSECONDS_PER_TOKEN * 1e-6
    step = sum(line["seconds"] for line in lines) / len(lines)
    return {"step_seconds": round(step, 3), "microbatches_a_second": round(options.microbatches / step, 1),
            "floor": round(ideal / step, 3), "trainer_cores": round((processor_seconds(trainer) - used) / seconds, 3),
            "workers_cores": round((sum(map(processor_seconds, pids)) - busy) / seconds, 3),
            "trainer_mib": round(resident_mib(trainer)),
            "workers_mib": round(sum(resident_mib(hollow.process.pid) for hollow in hollows) / options.workers, 2)}


def measure_kill(options, folder, trainer, hollows):
    """Kills processes of workers at once. Looks at the folds of all others in the twenty seconds after that: when half
    a second without any has ended for the last time, and when each second brings 0.7 of those before the loss."""
    killed = []
    while sum(hollow.count for hollow in killed) < options.kill:
        killed.append(hollows.pop(0))
        killed[-1].process.kill()
    at = time.monotonic()
    for hollow in killed:
        hollow.process.wait()
    steps, used = len(steps_of(folder)), processor_seconds(trainer)
    step_at = await_that("a step after the loss", lambda: len(steps_of(folder)) > steps and time.monotonic(),
                         options.patience)
    await_that("folds after the loss", lambda: time.monotonic() > at + 22, 30)
    seconds = time.monotonic() - at
    bins = folds_by_time([hollow.ask("report") for hollow in hollows])
    key = round(at * 10)

    def mean(begin, count):
        return sum(bins.get(key + begin + i, 0) for i in range(count)) / count
    before = mean(-100, 100)
    still = [i for i in range(200) if mean(i, 5) == 0]
    low = [i for i in range(200) if mean(i, 10) < 0.7 * before]
    return {"killed": sum(hollow.count for hollow in killed), "goes_on_after": (still[-1] + 5) / 10 if still else 0,
            "rate_is_back_after": (low[-1] + 10) / 10 if low else 0, "rate_after": round(mean(100, 100) / before, 3),
            "next_step_after": round(step_at - at, 2),
            "trainer_cores": round((processor_seconds(trainer) - used) / seconds, 3),
            "trainer_mib": round(resident_mib(trainer))}


def run(options, folder):
    program = options.build / "bench" / "hollow_workers"
    subprocess.run([program, "--make-authority", folder, "--job-uid", "hollow"], check=True)
    write_job(options, folder)
    layout = [options.workers // options.stages] * options.stages
    with open(folder / "trainer.log", "wb") as log:
        trainer = subprocess.Popen(
            [options.build / "bin" / "swarm-worker", "--role=trainer", "--listen", "127.0.0.1:0", "--job-uid", "hollow",
             "--tls-ca", folder / "ca.pem", "--tls-cert", folder / "trainer.pem", "--tls-key", folder / "trainer.key",
             "--job", folder / "job.json", "--out", folder / "out", "--address-file", folder / "address",
             "--balance", "None", "--layout", ",".join(map(str, layout))], stdin=subprocess.DEVNULL, stderr=log)
    hollows = []
    try:
        await_that("the trainer's address", lambda: (folder / "address").exists(), 60)
        address = (folder / "address").read_text().strip()
        began = time.monotonic()
        for number, first in enumerate(range(0, options.workers, options.each)):
            count = min(options.each, options.workers - first)
            hollows.append(Hollow(options, folder, address, number, count))
        result = {"workers": options.workers, "stages": options.stages, "microbatches": options.microbatches,
                  "tokens": options.tokens}
        await_that("the first step", lambda: steps_of(folder), options.patience)
        result["first_step_after"] = round(time.monotonic() - began, 1)
        await_that("warm steps", lambda: len(steps_of(folder)) > options.warm, options.patience)
        result.update(measure_rate(options, folder, trainer.pid, hollows))
        result["lost_before"] = lost_workers(folder)
        reports = [hollow.ask("report") for hollow in hollows]
        result["connections_a_worker"] = round(sum(r["connections"] for r in reports) / options.workers, 1)
        half, to_all = measure_roster(options, folder, hollows)
        result.update({"roster_to_half": round(half, 3), "roster_to_all": round(to_all, 3)})
        print(json.dumps(result), flush=True)
        if 0 < options.kill < options.workers:
            print(json.dumps(measure_kill(options, folder, trainer.pid, hollows)), flush=True)
        if options.events:
            print((folder / "out" / "events.jsonl").read_text())
    except (RuntimeError, BrokenPipeError, json.JSONDecodeError):
        for log in sorted(folder.glob("*.log")):
            print(f"{log.name}: {log.read_text()[-1500:]}", file=sys.stderr)
        raise
    finally:
        for process in [trainer, *(hollow.process for hollow in hollows)]:
            process.kill()
            process.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build/release"))
    parser.add_argument("--workers", type=int, default=1000)
    parser.add_argument("--stages", type=int, default=32)
    parser.add_argument("--each", type=int, default=100, help="workers of a process, which serve all stages")
    parser.add_argument("--kill", type=int, default=100, help="workers that end at once, at the end: whole processes")
    parser.add_argument("--microbatches", type=int, default=0, help="of a step; 0: 32 for each replica of a stage")
    parser.add_argument("--tokens", type=int, default=2048, help="of a microbatch")
    parser.add_argument("--warm", type=int, default=2, help="steps before the measurement")
    parser.add_argument("--steps", type=int, default=3, help="measured steps")
    parser.add_argument("--patience", type=float, default=300, help="seconds for each part")
    parser.add_argument("--events", action="store_true", help="print the events of the trainer")
    options = parser.parse_args()
    options.build = options.build.resolve()
    options.workers -= options.workers % options.stages
    options.microbatches = options.microbatches or 32 * (options.workers // options.stages)
    with tempfile.TemporaryDirectory() as folder:
        run(options, pathlib.Path(folder))


if __name__ == "__main__":
    main()
