#!/usr/bin/env python3
"""Checks that every panel about a job shows numbers: a real Prometheus scrapes a real job under faults, and
each query must return numbers. operator_test.py checks the queries about the operator.

Usage: tests/dashboards/prometheus_test.py BUILD_FOLDER
"""

import pathlib
import signal
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
from panels import of_operator, queries  # noqa: E402
from prometheus import Prometheus, await_numbers  # noqa: E402

PATIENCE = 240  # seconds, until every query has returned something
JOB = """apiVersion: swarmjob.dev/v1alpha1
kind: SwarmJob
metadata: {{name: panels}}
spec:
  model:
    config: {{hidden_size: 32, num_hidden_layers: 3, num_attention_heads: 2, intermediate_size: 64, vocab_size: 256}}
  data: {{uri: {data}, validationUri: {data}}}
  training: {{maxSteps: 1000000, globalBatchSize: 8, microbatchSize: 1, sequenceLength: 32, validationIntervalSteps: 5}}
  schedule: {{type: Constant}}
  pipeline: {{stages: 3}}
  workers: {{replicas: 6}}
  checkpoint: {{intervalSteps: 10}}
"""
# These faults cause recovery: swarmctl replaces departed workers, and workers refuse late messages.
CHAOS = "kill any every 3s after step 5; drain any every 5s after step 5; stop any every 4s after step 5 for 2s"
LABELS = {"namespace": "default", "swarmjob": "panels", "pool": "local", "zone": "here"}


def silent_queries(build, wanted):
    """The queries of `wanted` that return nothing while a job trains under faults."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "text").write_text("In the beginning was the word, and nobody had compressed it. " * 200)
        (folder / "job.yaml").write_text(JOB.format(data=folder / "text"))
        prometheus = Prometheus(folder)
        job = subprocess.Popen(
            [build / "bin/swarmctl", "run", "-f", folder / "job.yaml", "--out", folder / "out",
             "--threads-per-worker", "1", "--chaos", CHAOS],
            stdout=(folder / "job.log").open("w"), stderr=subprocess.STDOUT)

        def follow():
            if job.poll() is not None:
                raise SystemExit(f"the job ended:\n{(folder / 'job.log').read_text()[-4000:]}")
            files = (folder / "out/metrics").glob("*")
            addresses = sorted({path.read_text().strip() for path in files if path.suffix != ".next"})
            prometheus.scrape([{"targets": addresses, "labels": LABELS}])

        try:
            return await_numbers(prometheus.address, wanted, PATIENCE, follow)
        finally:
            job.send_signal(signal.SIGINT)
            try:
                job.wait(60)
            finally:
                job.kill()
                prometheus.stop()


def main():
    drawn = {(name, panel["title"], expr) for name, panel, expr in queries()}
    wanted = sorted(query for query in drawn if not of_operator(query[2]))
    silent = silent_queries(pathlib.Path(sys.argv[1]), wanted)
    print(f"{len(wanted)} queries about a job, {len(wanted) - len(silent)} of them with numbers; "
          f"{len(drawn) - len(wanted)} are about the operator")
    for dashboard, title, expr in silent:
        print(f"{dashboard}: {title!r} shows nothing: {expr}", file=sys.stderr)
    sys.exit(1 if silent else 0)


if __name__ == "__main__":
    main()
