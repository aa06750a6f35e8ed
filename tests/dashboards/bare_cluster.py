"""An operator on a real API server without nodes, for tests that look at its metrics. The test plays the kubelets."""

import copy
import json
import os
import pathlib
import socket
import subprocess
import sys
import time

from panels import ROOT

KUBE = pathlib.Path(os.environ.get("SWARM_DEPS") or ROOT / ".deps") / "kube"
TOKEN = "panels"
JOB = {
    "apiVersion": "swarmjob.dev/v1alpha1", "kind": "SwarmJob", "metadata": {"name": "panels", "namespace": "default"},
    "spec": {
        "model": {"config": {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2,
                             "intermediate_size": 64, "vocab_size": 256}},
        "data": {"uri": "s3://bucket/text"},
        "training": {"maxSteps": 10, "globalBatchSize": 4, "microbatchSize": 2, "sequenceLength": 16},
        "pipeline": {"stages": 2}, "budget": {"dollars": 1000000},
        "workers": {"replicas": 3, "pools": [{"name": "priced", "machine": {"teraflops": 1, "dollarsPerHour": 1}}]},
        "checkpoint": {"uri": "s3://bucket/checkpoints"},
    },
}
# Where all pods run. A pod without a node costs nothing yet.
NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "machine"}}
# A pool in a cluster that has no satellite: the operator has something to say of it, and all pods stay here.
AWAY = {"name": "away", "cluster": "west", "machine": {"teraflops": 1, "dollarsPerHour": 1}}


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
                   "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition")
    kubeconfig = folder / "kubeconfig"
    kubeconfig.write_text(json.dumps({
        "apiVersion": "v1", "kind": "Config", "current-context": "test",
        "clusters": [{"name": "test", "cluster": {"server": f"https://127.0.0.1:{port}",
                                                  "insecure-skip-tls-verify": True}}],
        "users": [{"name": "test", "user": {"token": TOKEN}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}]}))
    return kubeconfig


def kubectl(kubeconfig, programs, *arguments, stdin=None, seconds=90):
    """Repeats the command until it succeeds, because the API server has only just started. What is about an object that
    has gone meanwhile does nothing."""
    deadline = time.monotonic() + seconds
    while True:
        programs.check()
        run = subprocess.run([KUBE / "kubectl", "--kubeconfig", kubeconfig, *arguments], input=stdin,
                             capture_output=True, text=True, check=False)
        if run.returncode == 0 or "Error from server (NotFound): pods " in run.stderr:
            return run.stdout
        if time.monotonic() > deadline:
            raise SystemExit(f"kubectl {' '.join(map(str, arguments))}: {run.stderr}")
        time.sleep(0.5)


class Operator:
    """An API server with the definition and the job above, with `more` pools, and the operator; all run from its making
    until stop(). Exits with 77, which ctest reports as skipped, where there are no programs of Kubernetes."""

    def __init__(self, program, folder, *more):
        if not (KUBE / "kube-apiserver").exists():
            print(f"SKIPPED: there is no kube-apiserver in {KUBE}; e2e/build.sh makes one", file=sys.stderr)
            sys.exit(77)
        self.programs = Programs(folder)
        try:
            self.kubeconfig = start_api_server(folder, self.programs)
            self.kubectl("apply", "-f", ROOT / "crds/swarmjob.yaml")
            self.kubectl("apply", "-f", "-", stdin=json.dumps(NODE))
            job = copy.deepcopy(JOB)
            job["spec"]["workers"]["pools"] += more
            self.kubectl("apply", "-f", "-", stdin=json.dumps(job))
            self.metrics = f"127.0.0.1:{free_port()}"
            self.programs.start(program, f"--kubeconfig={self.kubeconfig}", "--allow-insecure", "--worker-image=none",
                                "--leader-elect", "--lease-namespace=default", f"--metrics-listen={self.metrics}",
                                f"--health-listen=127.0.0.1:{free_port()}")
        except BaseException:
            self.programs.stop()
            raise

    def targets(self):
        """The operator, as Prometheus.scrape takes it."""
        return [{"targets": [self.metrics], "labels": {"namespace": "default"}}]

    def kubectl(self, *arguments, stdin=None):
        return kubectl(self.kubeconfig, self.programs, *arguments, stdin=stdin)

    def pods(self, role):
        """The names of the job's pods in this role that have not ended, in the order of their making."""
        return [pod["metadata"]["name"] for pod in self._alive(role)]

    def run_pods(self):
        """As the scheduler and a kubelet do: every pod is bound to the node, runs, and is ready."""
        ready = [{"type": kind, "status": "True"} for kind in ("PodScheduled", "Ready")]
        for pod in self._alive("trainer") + self._alive("worker"):
            name = pod["metadata"]["name"]
            if "nodeName" not in pod["spec"]:
                self.kubectl("create", "--raw", f"/api/v1/namespaces/default/pods/{name}/binding", "-f", "-",
                             stdin=json.dumps({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name},
                                               "target": {"kind": "Node", "name": NODE["metadata"]["name"]}}))
            self._report(name, {"phase": "Running", "podIP": "127.0.0.1", "conditions": ready})

    def fail(self, pod, exit_code=1):
        """As a kubelet does: the program of a worker's pod ended with an error of its own."""
        self._report(pod, {"phase": "Failed", "containerStatuses": [
            {"name": "worker", "image": "none", "imageID": "none", "ready": False, "restartCount": 0,
             "state": {"terminated": {"exitCode": exit_code, "reason": "Error"}}}]})

    def preempt(self, pod):
        """As a kubelet does whose machine shuts down."""
        self._report(pod, {"phase": "Failed", "conditions": [
            {"type": "DisruptionTarget", "status": "True", "reason": "TerminationByKubelet"}]})

    def _alive(self, role):
        listed = json.loads(self.kubectl("get", "pods", "-o", "json", "--sort-by=.metadata.creationTimestamp",
                                         "-l", f"swarmjob.dev/role={role}"))["items"]
        return [pod for pod in listed if pod["status"].get("phase") not in ("Failed", "Succeeded")
                and "deletionTimestamp" not in pod["metadata"]]

    def _report(self, pod, status):
        self.kubectl("patch", "pod", pod, "--subresource=status", "--type=merge", "-p", json.dumps({"status": status}))

    def stop(self):
        self.programs.stop()
