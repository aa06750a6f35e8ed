#!/usr/bin/env python3
"""Checks that every panel about the operator shows numbers. The operator runs on a real API server without
nodes, and a Prometheus scrapes it. Panels that need a trainer as well are drawn by render.py.

Usage: tests/dashboards/operator_test.py SWARM_OPERATOR. Without .deps/kube/kube-apiserver (e2e/build.sh makes it) the
test exits with 77, which ctest reports as skipped.
"""

import itertools
import pathlib
import sys
import tempfile

sys.dont_write_bytecode = True
from bare_cluster import AWAY, Operator  # noqa: E402
from panels import queries, servers  # noqa: E402
from prometheus import Prometheus, await_numbers  # noqa: E402

PATIENCE = 180  # seconds, until every query has returned something


def main():
    wanted = sorted({(name, panel["title"], expr) for name, panel, expr in queries() if servers(expr) == {"operator"}})
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        operator = Operator(sys.argv[1], folder, AWAY)
        prometheus = Prometheus(folder)
        try:
            prometheus.scrape(operator.targets())
            replicas = itertools.cycle((4, 3))

            def keep_busy():
                operator.kubectl("scale", "swarmjob/panels", f"--replicas={next(replicas)}")

            silent = await_numbers(prometheus.address, wanted, PATIENCE, keep_busy)
        finally:
            operator.stop()
            prometheus.stop()
    print(f"{len(wanted)} queries about the operator, {len(wanted) - len(silent)} of them with numbers")
    for dashboard, title, expr in silent:
        print(f"{dashboard}: {title!r} shows nothing: {expr}", file=sys.stderr)
    sys.exit(1 if silent else 0)


if __name__ == "__main__":
    main()
