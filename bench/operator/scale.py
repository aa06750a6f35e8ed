#!/usr/bin/env python3
"""Measures the operator with many jobs: a real control plane, with nodes and pods that kwok simulates.

    make scale                                     200 SwarmJobs of 50 pods, 500 lost at once
    bench/operator/scale.py --jobs 10 --pods 20    smaller
    bench/operator/scale.py --jobset               creates as many pods by JobSet's controller and by the operator,
                                                   both without a limit of their requests, and nothing else
    bench/operator/scale.py --kube-qps 1000        with another limit than that of the chart

Needs root and Go, like `make e2e`. Everything lives in its own namespaces and disappears at the end. The
operator runs as deployed, with the chart's rights and its election. Only the pods have no containers, so
no trainer ever answers. All times come from the API server's audit log. They include the time that API
server, etcd, scheduler, controllers and kwok take on the same machine.

Writes OUT/operator_scale.json and OUT/operator_scale.txt; the programs' logs are in OUT/operator_scale/.
"""
import argparse
import collections
import json
import os
import pathlib
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "e2e"))

from cluster import sandbox  # noqa: E402
from cluster.daemon import wait_until  # noqa: E402
from kwok_cluster import ON_DEMAND, SPOT, KwokCluster, Operator, Refused, processors  # noqa: E402
import jobset  # noqa: E402
from measure import Process, count, histogram_quantile, quantile  # noqa: E402

NAMESPACE = "bench"
TRAINERS_ON_A_NODE = 25
QUIET_SECONDS = 10
JOBS = "/apis/swarmjob.dev/v1alpha1/namespaces/bench/swarmjobs"


def parse_arguments():
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=200)
    parser.add_argument("--pods", type=int, default=50, help="of each job, its trainer among them")
    parser.add_argument("--lost", type=int, default=500, help="workers that are lost at once, with their nodes")
    parser.add_argument("--singles", type=int, default=50, help="workers that are lost one by one")
    parser.add_argument("--pods-on-a-node", type=int, default=25)
    parser.add_argument("--steady", type=int, default=60, help="seconds of the steady state")
    parser.add_argument("--kube-qps", type=float, help="of the operator; without it, its own")
    parser.add_argument("--jobset", action="store_true", help="only compare the creation of pods with JobSet's")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "out")
    return parser.parse_args()


PROVING = ["--satellites-listen=127.0.0.1:17443", "--pods-prove", "--proof-home=127.0.0.1:17443"]
REQUESTS = {"requests": {"cpu": "1", "memory": "1Gi"}}


def job(index, workers, gated=False):
    """A SwarmJob. No program reads its data. Gated, its pods are never scheduled."""
    gates = {"schedulingGates": jobset.NEVER} if gated else {}
    return {
        "apiVersion": "swarmjob.dev/v1alpha1", "kind": "SwarmJob",
        "metadata": {"name": f"{'gated' if gated else 'job'}-{index:04}", "namespace": NAMESPACE},
        "spec": {
            "model": {"config": {"architectures": ["LlamaForCausalLM"], "hidden_size": 2048, "num_hidden_layers": 22,
                                 "num_attention_heads": 32, "num_key_value_heads": 4, "intermediate_size": 5632,
                                 "vocab_size": 32000}},
            "data": {"uri": "s3://bench/data/"}, "storage": {"secretName": "s3-keys"},
            "training": {"maxSteps": 100000, "globalBatchSize": 512, "sequenceLength": 2048},
            "checkpoint": {"uri": f"s3://bench/runs/{index}/", "intervalSteps": 100},
            "pipeline": {"stages": 4},
            "workers": {"replicas": workers, "template": {"spec": gates}, "pools": [
                {"name": "spot", "nodeSelector": {"swarmjob.dev/capacity": SPOT}, "resources": REQUESTS}]},
            "trainer": {"template": {"spec": {"nodeSelector": {"swarmjob.dev/capacity": ON_DEMAND}, **gates}}},
            "preemption": {"drainSeconds": 20}}}


class Bench:
    """One run; each phase leaves its figures in `figures`."""

    def __init__(self, options, cluster):
        self.options = options
        self.cluster = cluster
        self.figures = {"jobs": options.jobs, "pods": options.jobs * options.pods, "machine": processors()}
        qps = options.kube_qps or (jobset.QPS if options.jobset else None)
        self.arguments = [f"--kube-qps={qps}", f"--kube-burst={2 * qps}"] if qps else []
        self.operator = self.jobset_controller = None
        self.sample = None  # a pod of the phase before
        self.memory_without_pods = 0

    def new_operator(self, index):
        """Starts an operator."""
        return Operator(self.cluster, self.options.build / "bin" / "swarm-operator", index, self.arguments).start()

    def await_quiet(self, seconds=240):
        """Waits until the operator has sent no request for a while, except for its Lease."""
        def quiet():
            recent = self.cluster.audit.between(time.time() - QUIET_SECONDS)
            return all(request.resource == "leases" for request in recent)
        wait_until(quiet, seconds, "the operator to have nothing to do", interval=0.5)

    def play(self):
        """All phases, in order."""
        print("bench: nodes", flush=True)
        workers = self.options.jobs * (self.options.pods - 1)
        self.cluster.add_nodes(-(-(workers + self.options.lost) // self.options.pods_on_a_node), SPOT)
        self.cluster.add_nodes(-(-self.options.jobs // TRAINERS_ON_A_NODE), ON_DEMAND)
        self.cluster.await_nodes()
        self.cluster.kubectl("create", "namespace", NAMESPACE)
        self.operator = self.new_operator(0)
        self.operator.await_looked_at(0)
        if self.options.jobset:
            return self.compare()
        time.sleep(3)
        self.memory_without_pods = self.operator.process.memory_mib()
        for phase in (self.create, self.steady, self.lose_one_by_one, self.lose_nodes, self.standby, self.restart):
            self.run(phase)
        return None

    def compare(self):
        """JobSet and the controller of Jobs make as many pods as the operator: bare ones, and such as the operator's."""
        self.run(self.create_gated)
        self.operator.stop()
        self.arguments += PROVING
        self.operator = self.new_operator(1)
        self.operator.await_looked_at(0)
        self.run(self.create_proving)
        self.operator.stop()
        self.jobset_controller = jobset.start(self.cluster)
        time.sleep(10)  # until its caches are full
        self.run(self.create_by_jobset)
        self.run(self.create_bare_by_jobset)

    def run(self, phase):
        """A phase, whose figures stand under its name."""
        begun = time.monotonic()
        print(f"bench: {phase.__name__}", flush=True)
        self.figures[phase.__name__] = figures = phase()
        figures["phase_seconds"] = round(time.monotonic() - begun, 1)
        print(f"bench: {json.dumps(figures)}", flush=True)

    def await_pods(self, audit, daemon, since):
        """When the last pod of all was made after that moment, by the programs of an audit log."""
        total = self.figures["pods"]

        def made():
            return [request.end for request in audit.between(since)
                    if request.verb == "create" and request.resource == "pods" and request.code == 201]
        wait_until(lambda: len(made()) >= total, 1800, f"{total} pods to be there", watched=daemon, interval=0.5)
        return max(made())

    def create_gated(self):
        """The operator. No pod is scheduled."""
        return self.create_and_delete(JOBS, lambda index: job(index, self.options.pods - 1, gated=True),
                                      self.cluster.audit, self.operator.daemon)

    def create_proving(self):
        """The same, of workers that prove which pods they are when they start (these never do): they have no Secrets."""
        return self.create_gated()

    def create_by_jobset(self, spec=None):
        """JobSet, with pods of a spec; without one, with that of the operator's last ones."""
        spec = spec or jobset.like(self.sample)
        return self.create_and_delete(
            jobset.PATH.format(NAMESPACE), lambda index: jobset.jobset(NAMESPACE, index, self.options.pods - 1, spec),
            self.cluster.audit_of_others, self.jobset_controller)

    def create_bare_by_jobset(self):
        """The same, with the least that a pod needs."""
        return self.create_by_jobset(jobset.bare(REQUESTS))

    def create_and_delete(self, path, make, audit, daemon):
        """From no job to all pods, and back. `make(index)` gives a job, whose pods `daemon` or others make."""
        programs = [daemon, *self.cluster.programs()]

        def processor_seconds():
            return {each.name: Process(each.process.pid).cpu_seconds() for each in programs}
        begin, before = time.time(), processor_seconds()
        for index in range(self.options.jobs):
            self.cluster.api("POST", path, make(index))
        submitted = time.time()
        there = self.await_pods(audit, daemon, begin)
        self.sample = self.cluster.api("GET", f"/api/v1/namespaces/{NAMESPACE}/pods?limit=2")["items"][-1]
        cpu = {name: seconds - before[name] for name, seconds in processor_seconds().items()}
        self.cluster.kubectl("delete", path.rsplit("/", maxsplit=1)[1], "--all", "--namespace", NAMESPACE, "--wait=false")
        wait_until(lambda: not self.cluster.api.pods("limit=1"), 1800, "all pods to be gone", interval=1)
        # Kubernetes collects them after their pods, and needs the cores for it.
        wait_until(lambda: not self.cluster.api.secrets(NAMESPACE, "limit=1"), 1800, "all Secrets to be gone", interval=1)
        return {"submitted_seconds": submitted - begin, "pods_there_seconds": there - begin,
                "pods_a_second": self.figures["pods"] / (there - begin), "cpu_seconds": cpu}

    def create(self):
        """From no job to all pods running."""
        begin = time.time()
        for index in range(self.options.jobs):
            self.cluster.api("POST", JOBS, job(index, self.options.pods - 1))
        submitted = time.time()
        total = self.figures["pods"]
        there = self.await_pods(self.cluster.audit, self.operator.daemon, begin)
        wait_until(lambda: not self.cluster.api.some_pod_is_not("Running"), 1800, "all pods to run", interval=0.5)
        running = time.time()
        self.await_quiet()
        requests = self.cluster.audit.between(begin)
        return {"submitted_seconds": submitted - begin, "pods_there_seconds": there - begin,
                "pods_running_seconds": running - begin, "pods_a_second": total / (there - begin),
                "requests": count(requests), "cpu_seconds": self.operator.process.cpu_seconds(),
                **self.reconciles(None)}

    def reconciles(self, earlier):
        """Quantiles of the durations of reconciles since an earlier reading."""
        name = "controller_runtime_reconcile_time_seconds"
        now = self.operator.metrics()
        buckets = now.buckets(name), (earlier.buckets(name) if earlier else None)
        reconciles = now.sum("controller_runtime_reconcile_total")
        return {"reconciles": reconciles - (earlier.sum("controller_runtime_reconcile_total") if earlier else 0),
                "reconcile_p50_ms": milliseconds(histogram_quantile(0.5, *buckets)),
                "reconcile_p99_ms": milliseconds(histogram_quantile(0.99, *buckets))}

    def steady(self):
        """The steady state: the operator only dials trainers that do not answer, all the time."""
        before, earlier = self.operator.process.cpu_seconds(), self.operator.metrics()
        begin = time.time()
        time.sleep(self.options.steady)
        requests = self.cluster.audit.between(begin, begin + self.options.steady)
        cpu = self.operator.process.cpu_seconds() - before
        writes = [request for request in requests if request.is_write]
        memory = self.operator.process.memory_mib()
        first = self.memory_without_pods
        return {"writes": count(request for request in writes if not request.is_own),
                "lease_and_event_writes": count(request for request in writes if request.is_own),
                "reads": count(request for request in requests if not request.is_write),
                "cpu_percent_of_a_core": 100 * cpu / self.options.steady,
                "threads": self.operator.process.threads(),
                "memory_mib": memory, "memory_without_pods_mib": first,
                "memory_a_pod_kib": 1024 * (memory["own"] - first["own"]) / self.figures["pods"],
                **self.reconciles(earlier)}

    def lose_one_by_one(self):
        """The bench deletes workers, one at a time, and the operator replaces each."""
        earlier = self.operator.metrics()
        totals, beside = [], []
        begin = time.time()
        for index in range(self.options.singles):
            name = f"job-{index % self.options.jobs:04}"
            victim = next(pod for pod in self.cluster.api.pods(
                f"labelSelector=swarmjob.dev/job%3D{name},swarmjob.dev/role%3Dworker")
                if "deletionTimestamp" not in pod["metadata"])["metadata"]["name"]
            gone = time.time()
            self.cluster.api("DELETE", f"/api/v1/namespaces/{NAMESPACE}/pods/{victim}?gracePeriodSeconds=0")
            created = self.await_creations({name: 1}, gone, 30)[0]
            served = sum(request.end - request.begin for request in self.cluster.audit.between(gone)
                         if request.end <= created and request.resource != "leases")
            totals.append(created - gone)
            beside.append(created - gone - served)
            time.sleep(0.3)
        self.await_quiet()
        return {"pods": len(totals), "replaced_ms": quantiles_ms(totals), "beside_api_ms": quantiles_ms(beside),
                "requests": count(self.cluster.audit.between(begin)), **self.reconciles(earlier)}

    def await_creations(self, wanted, since, seconds):
        """The times at which workers were created after that moment, once each job has as many as it wants."""
        made = collections.defaultdict(list)

        def all_there():
            made.clear()
            for request in self.cluster.audit.between(since):
                if request.verb == "create" and request.resource == "pods" and request.code == 201:
                    made[request.name.rsplit("-", 1)[0]].append(request.end)
            return all(len(made[name]) >= number for name, number in wanted.items())
        wait_until(all_there, seconds, f"{sum(wanted.values())} replacements", watched=self.operator.daemon,
                   interval=0.02 if seconds < 60 else 0.3)
        return [end for name, number in wanted.items() for end in sorted(made[name])[:number]]

    def lose_nodes(self):
        """The bench deletes many nodes at once, with their workers."""
        victims = []  # (job, node)
        for index in range(1_000_000):
            node = f"{SPOT}-{index:04}"
            victims += [(pod["metadata"]["labels"]["swarmjob.dev/job"], node)
                        for pod in self.cluster.api.pods(f"fieldSelector=spec.nodeName%3D{node}")]
            if len(victims) >= self.options.lost:
                break
        earlier, before = self.operator.metrics(), self.operator.process.cpu_seconds()
        begin = time.time()
        gone = {}
        for node in sorted({node for _, node in victims}):
            self.cluster.api("DELETE", f"/api/v1/nodes/{node}")
            gone[node] = time.time()
        wanted = collections.Counter(name for name, _ in victims)
        made = collections.defaultdict(list)
        self.await_creations(wanted, begin, 600)
        for request in self.cluster.audit.between(begin):
            if request.verb == "create" and request.resource == "pods" and request.code == 201:
                made[request.name.rsplit("-", 1)[0]].append(request.end)
        seconds = []
        for name in wanted:
            lost = sorted(gone[node] for other, node in victims if other == name)
            seconds += [end - begun for begun, end in zip(lost, sorted(made[name]))]
        storm = self.cluster.audit.between(begin, begin + max(seconds) + 1)
        pace = [request.end - request.begin for request in storm if request.resource != "leases"]
        figures = {"lost": len(victims), "jobs_hit": len(wanted), "nodes": len(gone),
                   "nodes_deleted_seconds": max(gone.values()) - begin,
                   "replaced_seconds": {key: round(value, 2) for key, value in (
                       ("p50", quantile(seconds, 0.5)), ("p99", quantile(seconds, 0.99)), ("max", max(seconds)))},
                   "api_request_ms": quantiles_ms(pace)}
        self.await_quiet()
        requests = self.cluster.audit.between(begin)
        writes = [request for request in requests if request.is_write and not request.is_own]
        return {**figures, "writes": count(writes), "writes_a_pod": len(writes) / len(victims),
                "reads": count(request for request in requests if not request.is_write),
                "events": sum(request.resource == "events" for request in requests),
                "refused": count(request for request in requests if request.code >= 400),
                "cpu_seconds": self.operator.process.cpu_seconds() - before, **self.reconciles(earlier)}

    def standby(self):
        """A second replica, which fills its caches and waits."""
        standby = self.new_operator(1)
        figures = {"synced_seconds": standby.await_synced()}
        time.sleep(5)
        before = standby.process.cpu_seconds()
        time.sleep(10)
        figures.update(memory_mib=standby.process.memory_mib(),
                       cpu_percent_of_a_core=100 * (standby.process.cpu_seconds() - before) / 10)
        standby.stop()
        return figures

    def restart(self):
        """The only replica ends, and the bench starts it again."""
        self.operator.stop()
        begin = time.time()
        self.operator = self.new_operator(0)
        figures = {"synced_seconds": self.operator.await_synced(),
                   "all_looked_at_seconds": self.operator.await_looked_at(self.options.jobs)}
        figures["cpu_seconds"] = self.operator.process.cpu_seconds()
        self.await_quiet()
        requests = self.cluster.audit.between(begin)
        memory = self.operator.process.memory_mib()
        return {**figures, "memory_mib": memory,
                "memory_a_pod_kib": 1024 * (memory["own"] - self.memory_without_pods["own"]) / self.figures["pods"],
                "writes": count(request for request in requests if request.is_write),
                "reads": count(request for request in requests if not request.is_write), **self.reconciles(None)}


def milliseconds(seconds):
    """Rounded; None stays."""
    return None if seconds is None else round(1000 * seconds, 1)


def quantiles_ms(seconds):
    """p50, p99 and the largest."""
    return {"p50": milliseconds(quantile(seconds, 0.5)), "p99": milliseconds(quantile(seconds, 0.99)),
            "max": milliseconds(max(seconds))} if seconds else {}


def table(figures):
    """The figures, one per line."""
    lines = []

    def add(prefix, value):
        if isinstance(value, dict) and value and any(isinstance(each, dict) for each in value.values()):
            for key, each in value.items():
                add(f"{prefix} {key}".strip(), each)
        elif isinstance(value, dict):
            text = ", ".join(f"{key} {round(each, 2) if isinstance(each, float) else each}"
                             for key, each in value.items())
            lines.append((prefix, text or "none"))
        else:
            lines.append((prefix, str(round(value, 2) if isinstance(value, float) else value)))
    for key, value in figures.items():
        if isinstance(value, dict):
            for inner, each in value.items():
                add(f"{key}: {inner}", each)
        else:
            add(key, value)
    width = max(len(name) for name, _ in lines)
    return "\n".join(f"{name.replace('_', ' '):{width}}  {text}" for name, text in lines)


def take_the_machine(box):
    """Gives this process and its children more weight, so that other programs of the machine disturb the
    measurement less."""
    group = f"{box.name}/bench"
    sandbox.make_cgroup(group)
    for hierarchy in sandbox.hierarchies():
        if (hierarchy / group / "cpu.shares").exists() or (hierarchy / "cgroup.controllers").exists():
            (hierarchy / group / "cgroup.procs").write_text("0")


def inside(options):
    """The first process of the sandbox."""
    take_the_machine(sandbox.Sandbox.current())
    binaries = pathlib.Path(os.environ.get("SWARM_DEPS", ROOT / ".deps")) / "kube"
    cluster = KwokCluster(sandbox.Sandbox.current().folder / "cluster", binaries)
    options.out.mkdir(parents=True, exist_ok=True)
    bench = Bench(options, cluster)
    try:
        cluster.start()
        bench.play()
    finally:
        cluster.keep_logs(options.out / "operator_scale")
        (options.out / "operator_scale.json").write_text(json.dumps(bench.figures, indent=1) + "\n")
        text = table(bench.figures)
        (options.out / "operator_scale.txt").write_text(text + "\n")
        print(text, flush=True)
    return 0


def main():
    options = parse_arguments()
    options.build, options.out = options.build.resolve(), options.out.resolve()
    if sandbox.Sandbox.current():
        try:
            return inside(options)
        except Refused as refusal:
            print(f"bench: {refusal}", file=sys.stderr)
            return 1
    subprocess.run([ROOT / "e2e" / "build.sh", "--jobset" if options.jobset else "--kwok"], check=True)
    return sandbox.run([sys.executable, *sys.argv])


if __name__ == "__main__":
    sys.exit(main())
