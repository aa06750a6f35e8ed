#!/usr/bin/env python3
"""Draws every dashboard over a run with faults, so that one sees what a user sees: OUT/NAME.html, and with a Chromium
OUT/NAME.png. A real job trains on this machine, an operator looks after a job of the same name on a real API server
whose kubelets this program plays, and a real Prometheus scrapes both. Fails if a panel has no numbers, or nothing but
zeros where the list below has no reason for that.

Usage: tests/dashboards/render.py BUILD_FOLDER OUT [SECONDS]

It draws after SECONDS (60), or later, when all panels have something to show. Exits with 77 where there is no
kube-apiserver in .deps/kube.
"""

import pathlib
import sys
import tempfile
import time

sys.dont_write_bytecode = True
from bare_cluster import AWAY, Operator  # noqa: E402
from disturbed_job import DisturbedJob  # noqa: E402
from draw import page, size  # noqa: E402
from panels import ROOT, dashboards, filled, panels  # noqa: E402
from prometheus import Prometheus, ask_range  # noqa: E402

sys.path.insert(0, str(ROOT / "tests/page"))
import chromium  # noqa: E402

PATIENCE = 240  # seconds
PACE = 4  # seconds between two acts of the kubelets
# So seldom that the job makes progress in between.
CHAOS = "kill any every 11s after step 5; drain any every 17s after step 5; stop any every 13s after step 5 for 2s"
STEP = 1  # seconds between two points
INTERVALS = {"rate_interval": "10s", "within": "10m"}  # for Grafana's variables
# Panels in which a run with these faults may show nothing but zeros.
ZERO = {
    "Jobs running": "the operator's trainer is played, and says nothing",
    "Workers missing": "all pods may run when it is drawn",
    "Reads of data": "one small text is not read by shards",
    "Data in memory": "one small text is not read by shards",
    "Queue": "the operator is fast enough for one job",
    "Depth": "the operator is fast enough for one job",
    "Unfinished work": "a scrape seldom meets a reconcile at work",
    "Errors": "the API server answers",
    "Reconcile errors": "the API server answers",
    "Watches lost": "the API server answers",
    "Own limit": "the operator asks less than its own limit allows",
    "Avoided nodes": "pods fail too seldom for their node to be avoided",
    "Drains": "no node has given a notice",
    "Checkpoint failures": "the disk takes them",
    "Jobs without capacity": "no pod has been pending for long",
    "Relayed": "all pairs reach each other",
    "Unheard neighbours": "a stopped worker is back before it is missed",
    "Malformed messages": "every peer is ours",
    "Parked frames": "a scrape seldom meets one",
    "Refused frames": "a frame is late by chance alone",
    "Audits": "the job has none",
    "Rollbacks": "a stage seldom loses both of its workers at once",
    "Rebalancing moves": "swarmctl replaces a worker where it was",
    "Clusters connected": "the job's other cluster has no satellite",
}
# Panels that show nothing, since nobody here has their numbers.
NOTHING = {
    "Satellite connected": "the operator is no satellite",
    "Pods of home": "the operator is no satellite",
    "Refused to home": "the operator is no satellite",
    "Satellite's certificate": "the operator is no satellite",
}


class Kubelets:
    """What happens to the operator's job: its pods run, and now and then one is preempted or fails."""

    def __init__(self, operator):
        self.operator = operator
        self.turn = 0

    def go_on(self):
        self.turn += 1
        self.operator.run_pods()
        workers = self.operator.pods("worker")
        if workers and self.turn % 3 == 0:
            end = self.operator.preempt if self.turn % 2 else self.operator.fail
            end(workers[0])


def read(prometheus, dashboard, start, end):
    """What each query of the dashboard returns over the time: (panel's id, refId) → series."""
    return {(panel["id"], target["refId"]):
            ask_range(prometheus.address, filled(target["expr"], **INTERVALS), start, end, STEP)
            for panel in panels(dashboard) for target in panel["targets"]}


def as_drawn(dashboard, results, end):
    """The same, with the numbers of the end alone where a panel shows these."""
    instant = {(panel["id"], target["refId"]) for panel in panels(dashboard) for target in panel["targets"]
               if not target["range"]}
    return {key: [one for one in series if key not in instant or one["values"][-1][0] > end - STEP]
            for key, series in results.items()}


def complaints(name, dashboard, results):
    """A line for each panel that shows nothing, or nothing but zeros without a reason."""
    for panel in panels(dashboard):
        answers = [results[panel["id"], target["refId"]] for target in panel["targets"]]
        numbers = [number for answer in answers for one in answer for _, number in one["values"]]
        if panel["title"] in NOTHING:
            continue
        if not all(answers):
            yield f"{name}: {panel['title']!r} has a query without numbers"
        elif not any(numbers) and panel["title"] not in ZERO:
            yield f"{name}: {panel['title']!r} shows nothing but zeros, and nobody has said why"


def take_pictures(out, names, work):
    """Has Chromium photograph the pages."""
    browser = chromium.Chromium(work)
    try:
        for name, dashboard in names.items():
            browser.size(*size(dashboard))
            browser.call("Page.navigate", url=(out / name).with_suffix(".html").as_uri())
            browser.wait("document.readyState === 'complete' && document.querySelector('.panel')")
            browser.picture((out / name).with_suffix(".png"))
    finally:
        browser.close()


def observe(build, work, seconds):
    """Lets the job and the operator go on. Returns dashboard's file → (results, start, end), and what is wrong."""
    operator = Operator(build / "bin/swarm-operator", work, AWAY)
    prometheus, job = Prometheus(work), DisturbedJob(build, work, CHAOS)
    try:
        kubelets, begun = Kubelets(operator), time.time()
        while True:
            prometheus.scrape(job.targets() + operator.targets())
            if time.time() > begun + PACE * kubelets.turn:
                kubelets.go_on()
            time.sleep(0.25)
            end = int(time.time())
            if end - begun < seconds:
                continue
            seen = {name: read(prometheus, dashboard, int(begun), end) for name, dashboard in dashboards().items()}
            wrong = [line for name, results in seen.items()
                     for line in complaints(name, dashboards()[name], results)]
            if not wrong or end - begun > PATIENCE:
                return {name: (results, int(begun), end) for name, results in seen.items()}, wrong
    finally:
        job.stop()
        operator.stop()
        prometheus.stop()


def main():
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    build, out = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]).resolve()
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        work = pathlib.Path(name)
        seen, wrong = observe(build, work, int(sys.argv[3]) if len(sys.argv) == 4 else 60)
        for file, (results, start, end) in seen.items():
            text = page(dashboards()[file], as_drawn(dashboards()[file], results, end), start, end, STEP)
            (out / file).with_suffix(".html").write_text(text, encoding="utf-8")
        if chromium.find():
            take_pictures(out, dashboards(), work)
    print(f"{sum(len(list(panels(each))) for each in dashboards().values())} panels drawn in {out}")
    sys.exit("\n".join(wrong) if wrong else 0)


if __name__ == "__main__":
    main()
