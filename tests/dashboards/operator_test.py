#!/usr/bin/env python3
"""Checks that every panel about the operator shows numbers. The operator runs on a real API server without
nodes, and a Prometheus scrapes it.

Usage: tests/dashboards/operator_test.py SWARM_OPERATOR. Without .deps/kube/kube-apiserver (e2e/build.sh makes it) the
test exits with 77, which ctest reports as skipped.
"""

import itertools
import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
from panels import ROOT, of_operator, queries  # noqa: E402
from prometheus import Prometheus, await_numbers  # noqa: E402

KUBE = pathlib.Path(os.environ.get("SWARM_DEPS") or ROOT / ".deps") / "kube"
PATIENCE = 180  # seconds, until every query has returned something
TOKEN = "panels"
JOB = {
    "apiVersion": "swarmjob.dev/v1alpha1", "kind": "SwarmJob", "metadata": {"name": "panels", "namespace": "default"},
    "spec": {
        "model": {"config": {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2,
                             "intermediate_size": 64, "vocab_size": 256}},
        "data": {"uri": "s3://bucket/text"},
        "training": {"maxSteps": 10, "globalBatchSize": 4, "microbatchSize": 2, "sequenceLength": 16},
        "pipeline": {"stages": 2}, "workers": {"replicas": 3}, "checkpoint": {"uri": "s3://bucket/checkpoints"},
    },
}


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Programs:
    """The programs of the test, each with its own log; they end with the test."""

    def __init__(self, folder):
        self.folder = folder
        self.running = []

    def start(self, *command):
        log = self.folder / f"{pathlib.Path(command[0]).name}.log"
        self.running.append((log, subprocess.Popen(list(map(str, command)), stdout=log.open("w"),
                                                   stderr=subprocess.STDOUT)))

    def check(self):
        """Ends the test if one of the programs has ended."""
        for log, process in self.running:
            if process.poll() is not None:
                raise SystemExit(f"{log.stem} ended:\n{log.read_text()[-3000:]}")

    def stop(self):
        for _, process in reversed(self.running):
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()


def start_api_server(folder, programs):
    """Starts etcd and kube-apiserver; returns the path of a kubeconfig with all rights."""
    client, peer, port = free_port(), free_port(), free_port()
    etcd = f"http://127.0.0.1:{client}"
    peers = f"http://127.0.0.1:{peer}"
    programs.start(KUBE / "etcd", "--data-dir", folder / "etcd", "--unsafe-no-fsync", "--log-level=error",
                   "--listen-client-urls", etcd, "--advertise-client-urls", etcd, "--listen-peer-urls", peers,
                   "--initial-advertise-peer-urls", peers, "--initial-cluster", f"default={peers}")
    key = folder / "service-accounts.key"
    subprocess.run(["openssl", "genrsa", "-out", key, "2048"], check=True, capture_output=True)
    (folder / "tokens.csv").write_text(f'{TOKEN},admin,1,"system:masters"\n')
    programs.start(KUBE / "kube-apiserver", "--etcd-servers", etcd, f"--secure-port={port}",
                   "--bind-address=127.0.0.1", f"--cert-dir={folder / 'certificates'}",
                   f"--token-auth-file={folder / 'tokens.csv'}", "--authorization-mode=RBAC",
                   "--service-cluster-ip-range=10.0.0.0/24", f"--service-account-key-file={key}",
                   f"--service-account-signing-key-file={key}", "--service-account-issuer=https://kubernetes.default.svc",
                   "--disable-admission-plugins=ServiceAccount")
    kubeconfig = folder / "kubeconfig"
    kubeconfig.write_text(json.dumps({
        "apiVersion": "v1", "kind": "Config", "current-context": "test",
        "clusters": [{"name": "test", "cluster": {"server": f"https://127.0.0.1:{port}",
                                                  "insecure-skip-tls-verify": True}}],
        "users": [{"name": "test", "user": {"token": TOKEN}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}]}))
    return kubeconfig


def kubectl(kubeconfig, programs, *arguments, stdin=None, seconds=90):
    """Repeats the command until it succeeds, because the API server has only just started."""
    deadline = time.monotonic() + seconds
    while True:
        programs.check()
        run = subprocess.run([KUBE / "kubectl", "--kubeconfig", kubeconfig, *arguments], input=stdin,
                             capture_output=True, text=True, check=False)
        if run.returncode == 0:
            return run.stdout
        if time.monotonic() > deadline:
            raise SystemExit(f"kubectl {' '.join(map(str, arguments))}: {run.stderr}")
        time.sleep(0.5)


def main():
    if not (KUBE / "kube-apiserver").exists():
        print(f"SKIPPED: there is no kube-apiserver in {KUBE}; e2e/build.sh makes one", file=sys.stderr)
        sys.exit(77)
    wanted = sorted({(name, panel["title"], expr) for name, panel, expr in queries() if of_operator(expr)})
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        programs = Programs(folder)
        prometheus = Prometheus(folder)
        try:
            kubeconfig = start_api_server(folder, programs)
            kubectl(kubeconfig, programs, "apply", "-f", ROOT / "crds/swarmjob.yaml")
            kubectl(kubeconfig, programs, "apply", "-f", "-", stdin=json.dumps(JOB))
            metrics = f"127.0.0.1:{free_port()}"
            programs.start(sys.argv[1], f"--kubeconfig={kubeconfig}", "--allow-insecure", "--worker-image=none",
                           "--leader-elect", "--lease-namespace=default", f"--metrics-listen={metrics}",
                           f"--health-listen=127.0.0.1:{free_port()}")
            prometheus.scrape([{"targets": [metrics], "labels": {"namespace": "default"}}])
            replicas = itertools.cycle((4, 3))

            def keep_busy():
                kubectl(kubeconfig, programs, "scale", "swarmjob/panels", f"--replicas={next(replicas)}")

            silent = await_numbers(prometheus.address, wanted, PATIENCE, keep_busy)
        finally:
            programs.stop()
            prometheus.stop()
    print(f"{len(wanted)} queries about the operator, {len(wanted) - len(silent)} of them with numbers")
    for dashboard, title, expr in silent:
        print(f"{dashboard}: {title!r} shows nothing: {expr}", file=sys.stderr)
    sys.exit(1 if silent else 0)


if __name__ == "__main__":
    main()
