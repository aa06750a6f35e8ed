#!/usr/bin/env python3
"""Checks that every panel about a job shows numbers: a real Prometheus scrapes a real job under faults, and
each query must return numbers. operator_test.py checks the queries about the operator.

Usage: tests/dashboards/prometheus_test.py BUILD_FOLDER
"""

import pathlib
import sys
import tempfile

sys.dont_write_bytecode = True
from disturbed_job import DisturbedJob  # noqa: E402
from panels import of_operator, queries  # noqa: E402
from prometheus import Prometheus, await_numbers  # noqa: E402

PATIENCE = 240  # seconds, until every query has returned something


def silent_queries(build, wanted):
    """The queries of `wanted` that return nothing while a job trains under faults."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        prometheus = Prometheus(folder)
        job = DisturbedJob(build, folder)
        try:
            return await_numbers(prometheus.address, wanted, PATIENCE, lambda: prometheus.scrape(job.targets()))
        finally:
            job.stop()
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
