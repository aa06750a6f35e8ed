#!/usr/bin/env python3
"""Checks that the alerts reach a user: a real Prometheus has the file of rules as it is and scrapes a real job and a
real operator, to which bad things happen. Those alerts fire that do so without waiting, and no others. `promtool test
rules` tests all of them, on written numbers.

Usage: tests/dashboards/firing_test.py BUILD_FOLDER. Exits with 77, which ctest reports as skipped, where there is no
kube-apiserver in .deps/kube.
"""

import pathlib
import re
import sys
import tempfile
import time

sys.dont_write_bytecode = True
from bare_cluster import Operator  # noqa: E402
from disturbed_job import DisturbedJob  # noqa: E402
from panels import DASHBOARDS, ROOT  # noqa: E402
from prometheus import Prometheus, firing  # noqa: E402

PATIENCE = 400  # seconds
# Stage 0 has one worker, so each of these kills takes the job back to its checkpoint. A worker of stage 1 computes
# wrongly.
CHAOS = "corrupt any of stage 1 at step 12; kill any of stage 0 every 5s after step 30"
JOB = ("--workers", "0=1,1=3", "--no-moves", "--set", "pipeline.stages=2", "--set", "training.accumulation=Exact",
       "--set", "training.audit.fraction=1", "--set", "checkpoint.intervalSteps=2")
OF_TRAINER = {"SwarmJobRollsBack", "SwarmJobWorkerErrs"}
EXPECTED = OF_TRAINER | {"SwarmJobWorkersFail", "SwarmJobFailed"}
WRONG_CONFIGURATION = 2  # the exit code that ends a job at once


def let_workers_fail(operator, seen):
    """Every worker's pod fails; once that has alerted, one fails in a way that ends the job."""
    for pod in operator.pods("worker"):
        operator.fail(pod, WRONG_CONFIGURATION if "SwarmJobWorkersFail" in seen else 1)


def record(prometheus, seen):
    """Adds the alerts that fire, by name, and prints what a user is told of each."""
    for alert in firing(prometheus.address):
        name = alert["labels"]["alertname"]
        if name not in seen:
            seen[name] = alert
            told = [f"  {alert['annotations'][key]}" for key in ("summary", "description", "runbook_url")]
            print(f"{alert['activeAt'][11:19]} {name} ({alert['labels']['severity']})", *told, sep="\n", flush=True)


def problems(seen):
    """What is wrong with the alerts that have fired."""
    for name in sorted(EXPECTED - seen.keys()):
        yield f"{name} has not fired"
    for name in sorted(seen.keys() - EXPECTED):
        yield f"{name} has fired, and nothing happened that it is for"
    for name, alert in seen.items():
        page, _, heading = alert["annotations"]["runbook_url"].partition("#")
        if f"\n## {name}\n" not in (ROOT / page).read_text(encoding="utf-8") or heading != name.lower():
            yield f"{name} leads to {alert['annotations']['runbook_url']}, which does not explain it"
        if "default/panels" not in alert["annotations"]["summary"]:
            yield f"{name} does not name the job: {alert['annotations']['summary']}"
        if re.search(r"\{\{|<no value>", str(alert["annotations"])):
            yield f"{name} has a text that Prometheus did not fill: {alert['annotations']}"


def main():
    build = pathlib.Path(sys.argv[1])
    seen = {}
    with tempfile.TemporaryDirectory() as name:
        work = pathlib.Path(name)
        operator = Operator(build / "bin/swarm-operator", work)
        prometheus = Prometheus(work, rules=[DASHBOARDS / "alerts.yaml"])
        job = DisturbedJob(build, work, CHAOS, JOB)
        try:
            deadline = time.monotonic() + PATIENCE
            while EXPECTED - seen.keys() and time.monotonic() < deadline:
                prometheus.scrape(job.targets() + operator.targets())
                record(prometheus, seen)
                # One after the other: an increase counts from what was scraped first, so programs that have just begun
                # must not wait for kubectl.
                if not OF_TRAINER - seen.keys():
                    let_workers_fail(operator, seen)
                time.sleep(0.1)
        finally:
            job.stop()
            operator.stop()
            prometheus.stop()
    wrong = list(problems(seen))
    sys.exit("\n".join(wrong) if wrong else 0)


if __name__ == "__main__":
    main()
