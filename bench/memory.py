#!/usr/bin/env python3
"""Reads the metrics of a run's workers while it lasts: memory.py OUT PID. See memory.sh."""
import json
import os
import pathlib
import re
import sys
import time
import urllib.request

SAMPLE = re.compile(r'^swarmjob_worker_memory(_budget)?_bytes\{(.*)\} (\S+)$', re.M)
KIND = re.compile(r'kind="([^"]*)"')


def scrape(address):
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=2) as answer:
        text = answer.read().decode()
    held, shares = {}, {}
    for budget, labels, value in SAMPLE.findall(text):
        (shares if budget else held)[KIND.search(labels).group(1)] = float(value)
    return held, shares


def resident(children_of):
    """Resident bytes of each worker among the children of a process, by the worker's name."""
    found = {}
    for folder in pathlib.Path("/proc").iterdir():
        try:
            arguments = (folder / "cmdline").read_bytes().decode().split("\0")
            status = (folder / "status").read_text()
        except (OSError, UnicodeDecodeError):
            continue
        names = [a[len("--id="):] for a in arguments if a.startswith("--id=")]
        if names and any(children_of in a for a in arguments):
            rss = re.search(r"^VmRSS:\s+(\d+) kB", status, re.M)
            found[names[0]] = int(rss.group(1)) * 1024 if rss else 0
    return found


def main():
    out, pid = pathlib.Path(sys.argv[1]), int(sys.argv[2])
    most, shares, totals, rss = {}, {}, {}, {}
    while os.path.exists(f"/proc/{pid}") and open(f"/proc/{pid}/stat").read().split()[2] != "Z":
        for file in (out / "metrics").glob("worker-*"):
            try:
                held, budget = scrape(file.read_text().strip())
            except OSError:
                continue
            shares = budget or shares
            totals[file.name] = max(totals.get(file.name, 0), sum(held.values()))
            for kind, value in held.items():
                most[kind] = max(most.get(kind, 0), value)
        for name, value in resident(str(out)).items():
            rss[name] = max(rss.get(name, 0), value)
        time.sleep(0.2)
    if not shares:
        sys.exit("no worker served its metrics")
    events = [json.loads(line) for line in (out / "events.jsonl").read_text().splitlines()]
    kinds = {}
    for event in events:
        kinds[event["kind"]] = kinds.get(event["kind"], 0) + 1
    print("events:", ", ".join(f"{kind} {count}" for kind, count in sorted(kinds.items())))
    print(f"steps: {len((out / 'steps.jsonl').read_text().splitlines())}")
    print(f"{'kind':14}{'most MiB':>10}{'share MiB':>11}")
    for kind, share in shares.items():
        print(f"{kind:14}{most[kind] / 2**20:10.1f}{share / 2**20:11.1f}")
    budget = sum(shares.values())
    for name in sorted(totals):
        print(f"{name}: at most {totals[name] / 2**20:.1f} of {budget / 2**20:.1f} MiB; resident {rss.get(name, 0) / 2**20:.0f} MiB")
    sys.exit(0 if max(totals.values()) <= budget else "a worker held more than its budget")


main()
