#!/usr/bin/env python3
"""Compares routes that follow measured links with plain ones, over an emulated network (docs/protocol.md, rule 29).

Usage: bench/wan_wiring.py [--build FOLDER] [--rate 40] [--rtt 100] [--steps 10] ...      (as root)

Two stages of two workers in two regions; in each region one stage has the fast device and the other the slow one, half
as fast. Links within a region have 1 Gb/s and 1 ms, between regions those of the arguments. Compute is timed and bytes
are real, as in goodput.py. Both runs use the same programs; in the plain one the workers say nothing of their links.
"""
import json
import pathlib
import tempfile
import time

import goodput
from goodput import sandbox, subprocess, wan

# In the order in which they come: stages 0, 1, 0, 1.
WORKERS = [("eu0", "eu", 1), ("eu1", "eu", 2), ("us0", "us", 2), ("us1", "us", 1)]
STAGES = 2
BACKWARD_PART = 2 / 3


def topology(options):
    """The trainer is near to both regions: what it sends is little."""
    return {"nodes": [{"name": "trainer", "region": "home"},
                      *({"name": name, "region": region} for name, region, _ in WORKERS)],
            "links": [{"between": ["*", "*"], "rateMbps": 1000, "oneWayMs": 0.5},
                      {"between": ["eu", "us"], "rateMbps": options.rate, "oneWayMs": options.rtt / 2}]}


def await_event(path, text, seconds=60):
    """Waits until the trainer has reported an event with that text."""
    limit = time.monotonic() + seconds
    while not path.exists() or text not in path.read_text():
        if time.monotonic() > limit:
            raise RuntimeError(f"wan_wiring: the trainer has not said: {text}")
        time.sleep(0.02)


def train(network, options, plain, folder):
    """Runs a job; returns the lines of its steps.jsonl and what the trainer said of routes."""
    with goodput.programs(network, options.build, folder) as (start, processes):
        trainer, address = goodput.start_trainer(start, folder, [len(WORKERS) // STAGES] * STAGES)
        for number, (name, _, slowness) in enumerate(WORKERS):
            milliseconds = options.milliseconds * slowness
            start(name, "bench/timed_worker", "--id", name, "--trainer", address,
                  "--forward-ms", milliseconds * (1 - BACKWARD_PART), "--backward-ms", milliseconds * BACKWARD_PART,
                  "--boundary-bytes", options.bytes, *(["--silent-on-links"] if plain else []))
            await_event(folder / "out" / "events.jsonl", f"{name} serves stage {number % STAGES}")
        goodput.await_end(trainer, processes, folder, options.patience)
        events = [json.loads(line) for line in (folder / "out" / "events.jsonl").read_text().splitlines()]
        return ([json.loads(line) for line in (folder / "out" / "steps.jsonl").read_text().splitlines()],
                [event["text"] for event in events if event["kind"] == "RoutesPlanned"])


def measure(options, plain):
    """Microbatches a second in the last steps, and the plans."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="job-", dir=options.folder)) / "run"
    folder.mkdir()
    options.stages, options.tokens = STAGES, 64
    goodput.write_job(options, "Delayed", folder)
    with wan.Wan(topology(options), options.build) as network:
        steps, plans = train(network, options, plain, folder)
    counted = steps[-options.counted:]
    return options.microbatches * len(counted) / sum(step["seconds"] for step in counted), plans


def main():
    parser = wan.command_line(__doc__, rate=40, rtt=100, milliseconds=64, boundary_bytes=1_000_000)
    parser.add_argument("--counted", type=int, default=6, help="the last steps of a run, which count")
    options = parser.parse_args()
    wan.sandboxed()
    options.folder = sandbox.Sandbox.current().folder
    devices = 1.5e3 / options.milliseconds
    rates = {}
    for name, plain in (("plain", True), ("by links", False)):
        rates[name], plans = measure(options, plain)
        print(f"{name:8} {rates[name]:6.2f} microbatches/s, {rates[name] / devices:.2f} of what the devices can do",
              flush=True)
        for text in plans:
            print(f"          {text}")
    print(f"by links / plain: {rates['by links'] / rates['plain']:.2f}")


if __name__ == "__main__":
    main()
