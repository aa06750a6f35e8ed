#!/usr/bin/env python3
"""Compares `swarmctl simulate --fleet` with real runs: eight workers on this machine whose compute is timed
(bench/timed_worker.cc), all else as in a cluster, against the simulation of the same fleet.

Usage: bench/fleet/against_real.py [--build FOLDER] [--seconds 25] [--only NAME]

Four stages of two workers, 64 microbatches of 256 tokens a step; a microbatch takes 180 ms at a stage. In the
third run half of the workers need 270 ms. In the fourth a worker is killed in the middle, and another one comes. The
fifth has four workers at each stage.
"""
import argparse
import json
import pathlib
import subprocess
import tempfile
import time

STAGES, MICROBATCHES, TOKENS, WARM_UP_STEPS = 4, 64, 256, 2
BOUNDARY_BYTES = 262144
FORWARD_PART = 1 / 3
FAST, SLOW = 0.18, 0.27  # seconds a microbatch
RUNS = {
    "Sync": {"mode": "Sync", "speeds": [FAST] * 8},
    "Delayed": {"mode": "Delayed", "speeds": [FAST] * 8},
    "Delayed, half of them slower": {"mode": "Delayed", "speeds": [FAST] * 4 + [SLOW] * 4},
    "Delayed, a kill and a join": {"mode": "Delayed", "speeds": [FAST] * 8, "kill": True},
    "Delayed, sixteen workers": {"mode": "Delayed", "speeds": [FAST] * 16},
}


def manifest(run, corpus, steps):
    """The part of the job that the trainer reads."""
    return {
        "apiVersion": "swarmjob.dev/v1alpha1", "kind": "SwarmJob", "metadata": {"name": "real"},
        "spec": {
            "model": {"config": {"hidden_size": 64, "num_hidden_layers": STAGES, "num_attention_heads": 4,
                                 "intermediate_size": 128, "vocab_size": 256}},
            "data": {"uri": str(corpus)},
            "training": {"maxSteps": steps, "globalBatchSize": MICROBATCHES, "microbatchSize": 1,
                         "sequenceLength": TOKENS, "stepMode": run["mode"]},
            "pipeline": {"stages": STAGES}, "checkpoint": {"intervalSteps": 1000000}}}


def ideal_seconds(run):
    """Of a step, if no worker ever waited."""
    return MICROBATCHES * STAGES / sum(1 / speed for speed in run["speeds"])


def real(build, run, seconds):
    """Tokens a second of a run with processes."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="real-"))
    corpus = folder / "corpus.txt"
    corpus.write_text("".join(f"{number}\n" for number in range(100000)))
    steps = WARM_UP_STEPS + max(4, round(seconds / ideal_seconds(run)))
    job = subprocess.run([build / "bin" / "swarmctl", "validate", "-", "--json"], check=True, text=True,
                         input=json.dumps(manifest(run, corpus, steps)), stdout=subprocess.PIPE).stdout
    (folder / "job.json").write_text(job)
    processes = []

    def start(name, program, *arguments):
        with open(folder / f"{name}.log", "wb") as log:
            processes.append(subprocess.Popen([str(a) for a in (build / program, *arguments)],
                                              stdin=subprocess.DEVNULL, stdout=log, stderr=log))
        return processes[-1]

    def worker(number, speed):
        return start(f"w{number}", "bench/timed_worker", "--id", f"w{number}", "--trainer", address,
                     "--forward-ms", 1e3 * speed * FORWARD_PART, "--backward-ms", 1e3 * speed * (1 - FORWARD_PART),
                     "--boundary-bytes", BOUNDARY_BYTES)
    try:
        trainer = start("trainer", "bin/swarm-worker", "--role=trainer", "--listen", "127.0.0.1:0", "--plaintext",
                        "--job", folder / "job.json", "--out", folder / "out", "--address-file", folder / "address",
                        "--layout", ",".join([str(len(run["speeds"]) // STAGES)] * STAGES), "--balance", "None")
        while not (folder / "address").exists():
            time.sleep(0.05)
        address = (folder / "address").read_text().strip()
        for number, speed in enumerate(run["speeds"]):
            victim = worker(number, speed)
            time.sleep(0.3)  # the order of arrival decides who serves which stage
        if run.get("kill"):
            time.sleep(seconds / 2)
            victim.kill()
            time.sleep(5)
            worker(len(run["speeds"]), run["speeds"][0])
        if trainer.wait(timeout=10 * seconds) != 0:
            raise RuntimeError((folder / "trainer.log").read_text()[-2000:])
        lines = [json.loads(line) for line in (folder / "out" / "steps.jsonl").read_text().splitlines()]
        counted = lines[WARM_UP_STEPS:]
        return sum(line["tokens"] for line in counted) / sum(line["seconds"] for line in counted)
    finally:
        for process in processes:
            process.kill()
            process.wait()


def simulated(build, run, seconds):
    """Tokens a second of the same fleet in virtual time."""
    speeds = sorted(set(run["speeds"]))
    groups = [{"name": f"g{speed}", "count": run["speeds"].count(speed), "microbatchSeconds": speed}
              for speed in speeds]
    warm_up = WARM_UP_STEPS * ideal_seconds(run)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="simulated-"))
    if run.get("kill"):
        lost = 1000 * seconds / 2
        events = [(0, "add", f"m{n}") for n in range(8)] + [(lost, "remove", "m7"), (lost + 5000, "add", "m8")]
        (folder / "nodes.csv").write_text("".join(f"{at:.0f},{what},{node}\n" for at, what, node in events))
        groups[0]["trace"] = "nodes.csv"
    fleet = {
        "job": {"stages": STAGES, "microbatches": MICROBATCHES, "sequenceLength": TOKENS, "stepMode": run["mode"],
                "parameters": 1, "boundaryBytes": BOUNDARY_BYTES, "forwardShare": FORWARD_PART, "balance": "None"},
        # A process that dies breaks its connection; no silence has to be noticed.
        "detectSeconds": 0, "groups": groups, "warmUpSeconds": warm_up, "seconds": warm_up + seconds}
    (folder / "fleet.yaml").write_text(json.dumps(fleet))
    output = subprocess.run([build / "bin" / "swarmctl", "simulate", "--fleet", folder / "fleet.yaml", "--json"],
                            check=True, stdout=subprocess.PIPE).stdout
    return json.loads(output)["tokensPerSecond"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path(__file__).parents[2] / "build" / "release")
    parser.add_argument("--seconds", type=float, default=25, help="of each run, about")
    parser.add_argument("--only", default="", help="part of the name of the runs to make")
    options = parser.parse_args()
    print(f"{'four stages':30}{'real':>10}{'simulated':>11}{'simulated/real':>16}  tokens/s")
    for name, run in RUNS.items():
        if options.only not in name:
            continue
        measured = real(options.build, run, options.seconds)
        computed = simulated(options.build, run, options.seconds)
        print(f"{name:30}{measured:10.0f}{computed:11.0f}{computed / measured:16.3f}", flush=True)


if __name__ == "__main__":
    main()
