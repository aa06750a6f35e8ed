"""A control plane on this machine, with simulated nodes (kwok), and operators beside it."""
import http.client
import json
import os
import pathlib
import ssl
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "e2e"))

from cluster import kwok, network  # noqa: E402
from cluster.control_plane import PORT, ControlPlane  # noqa: E402
from cluster.controller import await_established  # noqa: E402
from cluster.daemon import Daemon, wait_until  # noqa: E402
from measure import AuditLog, Process, scrape  # noqa: E402

SYSTEM = "swarmjob-system"
OPERATOR = "swarm-operator"  # release, service account and lease
SPOT, ON_DEMAND = "spot", "on-demand"
# For the cluster's own programs: with their default limits, the bench would measure them instead of the
# operator.
UNLIMITED = ["--kube-api-qps=2000", "--kube-api-burst=4000"]
USER = f"system:serviceaccount:{SYSTEM}:{OPERATOR}"
METADATA_ONLY = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"


class Refused(Exception):
    """The API server refused."""


class Api:
    """A client of the API server with the administrator's rights, on one connection."""

    def __init__(self, pki):
        self.context = ssl.create_default_context(cafile=pki / "ca.crt")
        self.context.load_cert_chain(pki / "admin.crt", pki / "admin.key")
        self.connection = None

    def __call__(self, method, path, body=None, accept="application/json"):
        tries = 3 if method == "GET" else 1
        for left in reversed(range(tries)):
            try:
                answer, text = self._ask(method, path, body, accept)
                break
            except (http.client.HTTPException, OSError):
                self.connection = None
                if left == 0:
                    raise
        if answer.status >= 300:
            raise Refused(f"{method} {path}: {answer.status} {text[:500].decode(errors='replace')}")
        return json.loads(text)

    def _ask(self, method, path, body, accept):
        if self.connection is None:
            self.connection = http.client.HTTPSConnection(network.HOME.control_plane, PORT, timeout=60,
                                                          context=self.context)
        self.connection.request(method, path, json.dumps(body) if body is not None else None,
                                {"Accept": accept, "Content-Type": "application/json"})
        answer = self.connection.getresponse()
        return answer, answer.read()

    def pods(self, query=""):
        """The metadata of pods."""
        return self("GET", f"/api/v1/pods?resourceVersion=0&{query}", accept=METADATA_ONLY)["items"]

    def secrets(self, namespace, query=""):
        """The metadata of Secrets."""
        return self("GET", f"/api/v1/namespaces/{namespace}/secrets?{query}", accept=METADATA_ONLY)["items"]

    def some_pod_is_not(self, phase):
        """Whether a pod now has another phase."""
        return bool(self("GET", f"/api/v1/pods?limit=1&fieldSelector=status.phase%21%3D{phase}",
                         accept=METADATA_ONLY)["items"])


class KwokCluster:
    """Call start(), then add_nodes(). Everything ends with the sandbox of this process."""

    def __init__(self, folder, binaries):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir()
        self.binaries = binaries
        network.make()
        self.plane = ControlPlane(self.folder, binaries)
        self.audit = AuditLog(self.folder / "audit.log", lambda user: user == USER)
        self.audit_of_others = AuditLog(self.audit.path, lambda user: user != USER)  # pods that they make, and no more
        self.api = None
        self.kwok = None
        self.token = ""

    def start(self):
        """Control plane, kwok, and the chart without its Deployment: the operators run beside it."""
        policy = self.folder / "audit.yaml"
        made = [{"group": "", "resources": ["pods"]}]
        policy.write_text(json.dumps({
            "apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"],
            "rules": [{"level": "Metadata", "users": [USER]},
                      {"level": "Metadata", "verbs": ["create"], "resources": made}, {"level": "None"}]}))
        plane = self.plane
        plane.api.command += [f"--audit-policy-file={policy}", f"--audit-log-path={self.audit.path}"]
        # On a busy machine, kwok sends the heartbeats of its nodes late.
        plane.controllers.command += [*UNLIMITED, "--node-monitor-grace-period=180s"]
        plane.scheduler.command += UNLIMITED
        for daemon in (plane.etcd, plane.api, plane.controllers, plane.scheduler):
            daemon.start()
        self.api = Api(self.folder / "pki")
        self.kwok = kwok.start(self.binaries, plane, network.HOME.control_plane, network.HOME.pods[0],
                               "--node-lease-duration-seconds=120")
        self._install()

    def _install(self):
        self.kubectl("create", "namespace", SYSTEM)
        chart = subprocess.run(
            [self.binaries / "helm", "template", OPERATOR, ROOT / "helm" / "swarmjob", "--namespace", SYSTEM,
             "--kube-version", "1.36.0", "--set", "proof.enabled=true", "-s", "templates/crd.yaml", "-s", "templates/rbac.yaml",
             "-s", "templates/serviceaccount.yaml"], capture_output=True, text=True, check=False)
        if chart.returncode != 0:
            raise RuntimeError(f"helm template: {chart.stderr}")
        self.kubectl("apply", "--server-side", "-f", "-", stdin=chart.stdout)
        await_established(self.kubectl, "crd/swarmjobs.swarmjob.dev")
        self.token = self.kubectl("create", "token", OPERATOR, "-n", SYSTEM, "--duration=8h").strip()

    def programs(self):
        """The cluster's own, as Daemons."""
        plane = self.plane
        return [plane.etcd, plane.api, plane.controllers, plane.scheduler, self.kwok]

    def kubectl(self, *arguments, stdin=None):
        """Returns what kubectl prints."""
        done = subprocess.run([self.binaries / "kubectl", "--kubeconfig", self.plane.admin, *arguments],
                              input=stdin, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise Refused(f"kubectl {' '.join(arguments)}: {done.stderr.strip()}")
        return done.stdout

    def add_nodes(self, count, capacity):
        """Adds nodes. They are ready when kwok has seen them."""
        spot = {"swarmjob.dev/spot": "true"} if capacity == SPOT else {}
        for index in range(count):
            self.api("POST", "/api/v1/nodes",
                     kwok.node(f"{capacity}-{index:04}", {"swarmjob.dev/capacity": capacity, **spot}))

    def await_nodes(self):
        """Waits until all of them are ready."""
        def ready():
            nodes = self.api("GET", "/api/v1/nodes")["items"]
            return all(condition["status"] == "True" for node in nodes
                       for condition in node["status"].get("conditions", [{"type": "Ready", "status": "False"}])
                       if condition["type"] == "Ready")
        wait_until(ready, 60, "all nodes to be ready", watched=self.kwok, interval=0.5)

    def keep_logs(self, target):
        """Copies the logs of all programs."""
        target.mkdir(parents=True, exist_ok=True)
        for log in [*self.plane.logs.glob("*.log"), self.audit.path]:
            (target / log.name).write_bytes(log.read_bytes())


class Operator:
    """swarm-operator as a process beside the cluster, with the rights of the chart."""

    def __init__(self, cluster, program, index, arguments):
        self.base = 18080 + 10 * index
        kubeconfig = cluster.folder / f"operator-{index}.kubeconfig"
        kubeconfig.write_text(json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "bench",
            "clusters": [{"name": "bench", "cluster": {
                "server": f"https://{network.HOME.control_plane}:{PORT}",
                "certificate-authority": str(cluster.plane.authority.certificate)}}],
            "users": [{"name": "operator", "user": {"token": cluster.token}}],
            "contexts": [{"name": "bench", "context": {"cluster": "bench", "user": "operator"}}]}))
        self.daemon = Daemon(f"operator-{index}", [
            program, f"--kubeconfig={kubeconfig}", "--worker-image=bench/worker:1", "--leader-elect",
            f"--lease-namespace={SYSTEM}", f"--metrics-listen=127.0.0.1:{self.base}",
            f"--health-listen=127.0.0.1:{self.base + 1}", *arguments], cluster.plane.logs)
        self.started = None

    def start(self):
        """Returns as soon as the process is there."""
        self.started = time.monotonic()
        self.daemon.start()
        return self

    @property
    def process(self):
        """The figures of the process in /proc."""
        return Process(self.daemon.process.pid)

    def metrics(self):
        """Its metrics, or None while it does not answer."""
        return scrape(f"http://127.0.0.1:{self.base}/metrics")

    def await_synced(self, seconds=120):
        """Waits until its caches are full; returns the seconds since its start."""
        wait_until(lambda: scrape(f"http://127.0.0.1:{self.base + 1}/readyz") is not None, seconds,
                   "the operator's caches", watched=self.daemon, interval=0.02)
        return time.monotonic() - self.started

    def await_looked_at(self, jobs, seconds=300):
        """Waits until it leads and has looked at that many jobs; returns the seconds since its start."""
        def done():
            now = self.metrics()
            return (now and now.sum("controller_runtime_reconcile_total") >= jobs
                    and now.sum("workqueue_depth") == 0 and now.sum("controller_runtime_active_workers") == 0)
        wait_until(done, seconds, "the first look at all jobs", watched=self.daemon, interval=0.1)
        return time.monotonic() - self.started

    def stop(self):
        """Asks it to end, and waits."""
        self.daemon.signal(15)
        self.daemon.process.wait(timeout=30)


def processors():
    """How busy the machine is, for the report."""
    return {"count": os.cpu_count(), "load": [round(value, 1) for value in os.getloadavg()]}
