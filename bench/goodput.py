#!/usr/bin/env python3
"""Measures the goodput of a swarm over wide-area links: tokens per second over the link, divided by tokens per
second over an unlimited link, with the same programs and machine in the same run.

Usage: bench/goodput.py [--build FOLDER] [--rates 80,200,500] [--rtts 10,80,200] [--codecs BF16,Int8,Int8Dynamic]
                        [--modes Sync,Delayed] [--stages 4] [--report FILE] ...      (as root)

The trainer and each worker have their own hosts (bench/wan), with a link of that rate and round trip between
every two. Compute is timed and bytes are real: the stages run timed_worker, where a microbatch takes as long
and produces as many bytes as on a real device. The device is a T4 at 20 TFLOP/s with four layers of width
4096 (805 M parameters, 5.0 GFLOP per token, forward and backward): 250 us per token. Write a codec that is
not in codec_bytes.py as NAME:BYTES, with its bytes per number.

Each line has: tokens/s, goodput, bytes per token and boundary (both ways together), load (the share of the
link's rate that these bytes take in each direction at full speed; above 1 the link is the limit), the largest goodput
at that load (without headers), microbatches in flight at the first stage (mean), and how busy this machine was.
"""
import argparse
import contextlib
import itertools
import json
import pathlib
import resource
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent / "wan"))

import wan  # noqa: E402
from codec_bytes import BYTES_PER_NUMBER  # noqa: E402
from cluster import sandbox  # noqa: E402

WIDTH = 4096
MICROSECONDS_PER_TOKEN = 250  # of one stage: forward and backward
FORWARD_PART = 1 / 3
WARM_UP_STEPS = 2


def bytes_per_number(codec):
    """Bytes per number of a name in BYTES_PER_NUMBER, or of NAME:BYTES."""
    return float(codec.split(":")[1]) if ":" in codec else BYTES_PER_NUMBER[codec]


def write_job(options, mode, folder):
    """Writes the job and its corpus."""
    corpus = folder / "corpus.txt"
    corpus.write_text("".join(f"{number}\n" for number in range(200000)))
    text = subprocess.run([options.build / "bin" / "swarmctl", "validate", "-", "--json"], check=True,
                          input=json.dumps(manifest(options, mode, corpus)), text=True,
                          stdout=subprocess.PIPE).stdout
    (folder / "job.json").write_text(text)


def manifest(options, mode, corpus):
    """The part of the job that the trainer reads."""
    return {
        "apiVersion": "swarmjob.dev/v1alpha1", "kind": "SwarmJob", "metadata": {"name": "goodput"},
        "spec": {
            "model": {"config": {
                "hidden_size": WIDTH, "num_hidden_layers": 4 * options.stages, "num_attention_heads": 32,
                "intermediate_size": 11008, "vocab_size": 256}},
            "data": {"uri": str(corpus)},
            "training": {
                "maxSteps": options.steps + WARM_UP_STEPS, "globalBatchSize": options.microbatches,
                "microbatchSize": 1, "sequenceLength": options.tokens, "stepMode": mode},
            "pipeline": {"stages": options.stages, "inFlightMax": getattr(options, "in_flight", 0)},
            "checkpoint": {"intervalSteps": 1000000}}}


def await_file(path, process, seconds=60):
    """Waits for a file that another process writes, and returns its content."""
    limit = time.monotonic() + seconds
    while not path.exists():
        if process.poll() is not None or time.monotonic() > limit:
            raise RuntimeError(f"goodput: {path.name} was not written")
        time.sleep(0.02)
    return path.read_text().strip()


def await_end(trainer, processes, folder, seconds):
    """Waits until the trainer has ended with success; raises an error after the deadline, or if a program fails."""
    limit = time.monotonic() + seconds
    while trainer.poll() is None and time.monotonic() < limit and not any(process.poll() for process in processes):
        time.sleep(0.05)
    if trainer.poll() != 0:
        logs = "\n".join(f"{log.name}: {log.read_text()[-1000:]}" for log in sorted(folder.glob("*.log")))
        raise RuntimeError(f"goodput: the job has not ended well after at most {seconds} s:\n{logs}")


@contextlib.contextmanager
def programs(network, build, folder):
    """Gives start(node, program, *arguments) and the list of what it has started; ends all of that behind."""
    processes = []

    def start(node, program, *arguments):
        with open(folder / f"{node}.log", "wb") as log:
            processes.append(network.popen(
                node, [build / program, "--listen", f"{network.address(node)}:0", *arguments],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log))
        return processes[-1]
    try:
        yield start, processes
    finally:
        for process in processes:
            process.kill()
            process.wait()


def start_trainer(start, folder, replicas, *more):
    """Starts the trainer of the job in the folder, with so many replicas in each stage; gives it and its address."""
    trainer = start("trainer", "bin/swarm-worker", "--role=trainer", "--plaintext", "--job", folder / "job.json",
                    "--out", folder / "out", "--address-file", folder / "address", "--balance", "None",
                    "--layout", ",".join(map(str, replicas)), *more)
    return trainer, await_file(folder / "address", trainer)


def train(network, options, codec, mode, folder):
    """Runs a job on the network; returns the lines of its steps.jsonl."""
    folder.mkdir()
    write_job(options, mode, folder)
    milliseconds = options.tokens * MICROSECONDS_PER_TOKEN * 1e-3
    with programs(network, options.build, folder) as (start, processes):
        trainer, address = start_trainer(start, folder, [1] * options.stages, "--trace-progress")
        for stage in range(options.stages):
            start(f"w{stage}", "bench/timed_worker", "--id", f"w{stage}", "--trainer", address,
                  "--forward-ms", milliseconds * FORWARD_PART, "--backward-ms", milliseconds * (1 - FORWARD_PART),
                  "--boundary-bytes", round(options.tokens * WIDTH * bytes_per_number(codec)))
        await_end(trainer, processes, folder, options.patience)
        return [json.loads(line) for line in (folder / "out" / "steps.jsonl").read_text().splitlines()]


def in_flight(progress):
    """The mean number of microbatches between forward and backward at the first stage, after the warm-up."""
    begin = next(line["time"] for line in progress
                 if line["event"] == "Committed" and line["step"] == WARM_UP_STEPS - 1)
    held, since, area = 0, begin, 0.0
    for line in progress:
        if line["time"] > since:
            area, since = area + held * (line["time"] - since), line["time"]
        if line["event"] != "Committed" and line["stage"] == 0:
            held += 1 if line["event"] == "Forwarded" else -1
    return area / (since - begin)


def measure(options, rate, rtt, codec, mode):
    """Tokens per second, bytes per token and boundary, processor seconds per second."""
    nodes = ["trainer", *(f"w{stage}" for stage in range(options.stages))]
    folder = pathlib.Path(tempfile.mkdtemp(prefix="job-", dir=options.folder)) / "run"
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    with wan.Wan(wan.uniform(nodes, rate, rtt), options.build) as network:
        steps = train(network, options, codec, mode, folder)[WARM_UP_STEPS:]
    progress = [json.loads(line) for line in (folder / "out" / "progress.jsonl").read_text().splitlines()]
    after, wall = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic() - begun
    if options.keep:
        subprocess.run(["cp", "-r", folder, f"{options.keep}/{rate}-{rtt}-{codec}-{mode}"], check=True)
    tokens, seconds = sum(s["tokens"] for s in steps), sum(s["seconds"] for s in steps)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"rate": rate, "rtt": rtt, "codec": codec, "mode": mode, "tokensPerSecond": tokens / seconds,
            "bytesPerToken": sum(s["boundary_bytes"] for s in steps) / tokens / (options.stages - 1),
            "inFlight": in_flight(progress), "processors": cpu / wall, "lateMs": network.report["maxLateUs"] / 1e3}


def show(result, free):
    """One line of the table."""
    result["goodput"] = result["tokensPerSecond"] / free["tokensPerSecond"]
    # Each direction carries half the bytes.
    load = result["bytesPerToken"] / 2 * 8 / MICROSECONDS_PER_TOKEN / result["rate"] if result["rate"] else 0
    print(f"{result['rate'] or 'free':>6} {result['rtt']:6} {result['codec'][:14]:14} {result['mode']:8}"
          f"{result['tokensPerSecond']:9.0f} {result['goodput']:8.3f} {result['bytesPerToken']:9.0f} {load:6.2f}"
          f" {min(1, 0.965 / load) if load else 1:6.2f} {result['inFlight']:9.1f} {result['processors']:5.2f}"
          f" {result['lateMs']:7.2f}", flush=True)


def parse_arguments():
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=wan.ROOT / "build" / "release")
    parser.add_argument("--rates", default="80,200,500", help="Mb/s")
    parser.add_argument("--rtts", default="10,80,200", help="round trips in ms")
    parser.add_argument("--codecs", default="BF16,Int8,Int8Dynamic")
    parser.add_argument("--modes", default="Sync,Delayed")
    parser.add_argument("--stages", type=int, default=4)
    parser.add_argument("--steps", type=int, default=3, help="that count, after the first two")
    parser.add_argument("--microbatches", type=int, default=64, help="a step")
    parser.add_argument("--tokens", type=int, default=256, help="a microbatch")
    parser.add_argument("--in-flight", type=int, default=0, help="pipeline.inFlightMax")
    parser.add_argument("--patience", type=int, default=300, help="seconds for a run")
    parser.add_argument("--report", type=pathlib.Path, help="written: all results as JSON")
    parser.add_argument("--keep", type=pathlib.Path, help="folder to copy each run's files to")
    options = parser.parse_args()
    for program in ("bin/swarmctl", "bin/swarm-worker", "bin/wan_link", "bench/timed_worker"):
        if not (options.build / program).exists():
            parser.error(f"there is no {options.build / program}: build first, the target benchmarks as well")
    return options


def main():
    options = parse_arguments()
    wan.sandboxed()
    options.folder = sandbox.Sandbox.current().folder
    results = []
    print(f"S = {options.stages}, timed compute with real bytes: {WIDTH} wide, {MICROSECONDS_PER_TOKEN} us a token "
          f"and stage, {options.tokens} tokens a microbatch, {options.microbatches} microbatches a step\n"
          "  Mb/s RTT ms codec          mode    tokens/s  goodput bytes/tok   load  most in flight  CPUs late ms")
    for codec in options.codecs.split(","):
        for mode in options.modes.split(","):
            free = measure(options, 0, 0, codec, mode)
            cells = [(int(rate), int(rtt)) for rate in options.rates.split(",") for rtt in options.rtts.split(",")]
            for result in itertools.chain([free], (measure(options, *cell, codec, mode) for cell in cells)):
                show(result, free)
                results.append(result)
    if options.report:
        options.report.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
