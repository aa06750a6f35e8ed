#!/usr/bin/env python3
"""Prints the losses of a disturbed run beside those of an undisturbed run, and the faults at their steps.

Usage: scripts/compare_curves.py DISTURBED_OUT UNDISTURBED_OUT

Exit code 1 if a loss differs, or a step is missing.
"""
import json
import os
import sys

TOLD = {"WorkerLost", "WorkerJoined", "TookOver", "RolledBack", "StageLost"}
LINES = 10
WIDTH = 40


def read(folder, name):
    path = os.path.join(folder, name)
    if not os.path.exists(path):
        return []
    with open(path) as file:
        return [json.loads(line) for line in file if line.endswith("\n")]


def told_since(events, time):
    """The trainer's events about members after a moment, oldest first."""
    return [event for event in events if event["kind"] in TOLD and event["time"] >= time]


def main():
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    disturbed, quiet = (read(folder, "steps.jsonl") for folder in sys.argv[1:])
    faults = [fault for fault in read(sys.argv[1], "chaos.jsonl") if not fault["over"]]
    happened = told_since(read(sys.argv[1], "events.jsonl"), min((f["time"] for f in faults), default=0))

    highest = max(line["loss"] for line in quiet)
    every = max(1, len(quiet) // LINES)
    waiting = list(faults)
    print("  step   swarm, disturbed   one process")
    for mine, other in zip(disturbed, quiet):
        step = other["step"]
        while waiting and waiting[0]["step"] <= step:
            print(f"         *** {waiting.pop(0)['text']} ***")
        if step % every == 0 or step == quiet[-1]["step"]:
            bar = "#" * round(WIDTH * other["loss"] / highest)
            same = "=" if mine["loss"] == other["loss"] else "DIFFERS"
            print(f"  {step:4}   {mine['loss']:16.12f} {same} {other['loss']:.12f}  {bar}")

    print("\nWhat the trainer saw:")
    begin = faults[0]["time"] if faults else 0
    for event in sorted(happened + [{**f, "kind": "Chaos"} for f in faults], key=lambda e: e["time"]):
        print(f"  {event['time'] - begin:+7.2f} s  {event['kind']}: {event['text']}")
    steps = max(len(disturbed), len(quiet))
    same = sum(mine["loss"] == other["loss"] for mine, other in zip(disturbed, quiet))
    print(f"\n{same} of {steps} losses are the same to the last bit.")
    return 0 if same == steps else 1


if __name__ == "__main__":
    sys.exit(main())
