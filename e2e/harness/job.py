"""A SwarmJob of a case: this module creates it, watches it, and compares it with a run in one process."""
import collections
import re
import urllib.request

from cluster.network import in_url

from . import reference
from .kubectl import Refused, eventually

SPOT = {"nodeSelector": {"swarmjob.dev/capacity": "spot"}}
ON_DEMAND = {"nodeSelector": {"swarmjob.dev/capacity": "on-demand"}}
# Small enough for many workers on one machine. The limit keeps a job from finishing before its case.
RESOURCES = {"requests": {"cpu": "50m", "memory": "128Mi"}, "limits": {"cpu": "500m", "memory": "1Gi"}}


class Job:
    """One SwarmJob in a namespace, that of the case unless another is named. Nothing is created before submit()."""

    def __init__(self, world, name, steps=reference.ENDLESS, replicas=4, namespace=None, **changes):
        self.world = world
        self.kubectl = world.kubectl
        self.namespace = namespace or world.namespace
        self.name = name
        self.steps = steps
        self.replicas = replicas
        self.prefix = f"runs/{self.namespace}/{name}/"
        spec = reference.spec(world.data_uri, steps)
        spec.update({
            "storage": {"endpoint": world.bucket.url, "region": world.bucket.region, "secretName": "s3-keys"},
            "checkpoint": {"uri": world.bucket.uri(self.prefix), "intervalSteps": reference.CHECKPOINT_INTERVAL,
                           "keepLast": 3},
            "workers": {"replicas": replicas, "pools": [
                {"name": "spot", "pendingSeconds": 20, "returnAfterSeconds": 20, "resources": RESOURCES, **SPOT}]},
            "trainer": {"template": {"spec": {"containers": [{"name": "trainer", "resources": RESOURCES}]}}},
            "preemption": {"drainSeconds": 5},
        })
        for path, value in changes.items():
            place = spec
            *folders, last = path.split("__")
            for folder in folders:
                place = place.setdefault(folder, {})
            place[last] = value
        self.manifest = {"apiVersion": "swarmjob.dev/v1alpha1", "kind": "SwarmJob",
                         "metadata": {"name": name, "namespace": self.namespace}, "spec": spec}

    def submit(self):
        """kubectl apply."""
        self.kubectl.apply(self.manifest)
        return self

    def change(self, spec):
        """Merges a patch into the spec."""
        self.kubectl.patch("swarmjob", self.name, self.namespace, {"spec": spec})

    def object(self):
        """The object in the API server, or None."""
        return self.kubectl.get("swarmjob", self.name, self.namespace)

    @property
    def status(self):
        """The status; empty before the operator has seen the job."""
        found = self.object()
        return found.get("status", {}) if found else {}

    def condition(self, kind):
        """(status, reason, message) of a condition; "Missing" without one."""
        for condition in self.status.get("conditions", []):
            if condition["type"] == kind:
                return condition["status"], condition.get("reason", ""), condition.get("message", "")
        return "Missing", "", ""

    def await_condition(self, kind, status="True", seconds=60):
        """Waits for a condition and returns (reason, message)."""
        eventually(f"{self.name}: {kind}={status}", lambda: self.condition(kind)[0] == status, seconds)
        return self.condition(kind)[1:]

    def pods(self, role=None):
        """Its living pods, without pods that are being deleted."""
        selector = f"swarmjob.dev/job={self.name}" + (f",swarmjob.dev/role={role}" if role else "")
        return [pod for pod in self.kubectl.list("pods", self.namespace, selector)
                if pod["status"].get("phase") in ("Pending", "Running")
                and "deletionTimestamp" not in pod["metadata"]]

    def pod_names(self, role=None):
        """The names of pods()."""
        return sorted(pod["metadata"]["name"] for pod in self.pods(role))

    def workers_on(self, node):
        """The names of its workers' pods on that node."""
        return sorted(pod["metadata"]["name"] for pod in self.pods("worker") if pod["spec"].get("nodeName") == node)

    def is_gone_from(self, node):
        """Whether the node has none of its pods, not even one that is being deleted."""
        selector = f"swarmjob.dev/job={self.name}"
        return not any(pod["spec"].get("nodeName") == node and pod["status"].get("phase") == "Running"
                       for pod in self.kubectl.list("pods", self.namespace, selector))

    def node_of(self, pod):
        """The node of a pod."""
        return self.kubectl.get("pod", pod, self.namespace)["spec"].get("nodeName")

    def trainer(self):
        """The trainer's current pod, or None."""
        pods = self.pods("trainer")
        return max(pods, key=lambda pod: int(pod["metadata"]["labels"]["swarmjob.dev/term"])) if pods else None

    def metrics(self):
        """The trainer's metrics, see scrape(). Raises Refused if the trainer does not answer."""
        pod = self.trainer()
        if not pod or not pod["status"].get("podIP"):
            raise Refused("no trainer with an address")
        return scrape(self.world, pod)

    def step(self):
        """The number of committed steps, from the trainer's metrics."""
        return int(self.metrics()["swarmjob_trainer_version"])

    def await_step(self, step, seconds=90):
        """Waits until the trainer has committed this many steps."""
        def reached():
            try:
                return self.step() >= step
            except Refused:
                if self.condition("Succeeded")[0] == "True":
                    return True  # and gone
                raise
        eventually(f"{self.name}: step {step}", reached, seconds, interval=1)
        return self

    def ready_workers(self):
        """The names of its Ready workers' pods: these workers are in the roster and have the job's state."""
        return sorted(pod["metadata"]["name"] for pod in self.pods("worker") if is_ready(pod))

    def await_ready(self, count, seconds=90, without=()):
        """Waits until this many workers are ready, not counting `without`."""
        def enough():
            return len(set(self.ready_workers()) - set(without)) >= count
        eventually(f"{self.name}: {count} ready workers", enough, seconds)
        return self

    def await_success(self, seconds=180):
        """Waits for Succeeded."""
        def done():
            failed = self.condition("Failed")
            if failed[0] == "True":
                raise AssertionError(f"{self.name} failed: {failed[1]}: {failed[2]}")
            return self.condition("Succeeded")[0] == "True"
        eventually(f"{self.name} to succeed", done, seconds, interval=2)
        return self

    def stop(self):
        """Suspends the job for good; it writes a checkpoint."""
        self.change({"suspend": True})
        self.await_condition("Suspended", seconds=120)

    def verify(self, notes, complete=True):
        """Compares losses and weights with one undisturbed process: bit for bit."""
        steps = self.world.bucket.checkpoint_steps(self.prefix)
        newest = steps[-1] if steps else 0
        if complete:
            notes.check(f"the last checkpoint is of step {self.steps}", newest == self.steps, steps)
        else:
            notes.check("there is a checkpoint", newest > 0, steps)
        expected = {line["step"]: line for line in self.world.reference.losses(newest)}
        found = self.world.bucket.steps(self.prefix)
        missing = [step for step in expected if step not in found]
        notes.check(f"the loss of each of {newest} steps is in the storage", not missing, missing[:10])
        wrong = [f"step {step}: {found[step]['loss']!r}, not {line['loss']!r}" for step, line in expected.items()
                 if step in found and (line["loss"], line["grad_norm"]) != (found[step]["loss"], found[step]["grad_norm"])]
        notes.check("the losses equal those of one undisturbed process, bit for bit", not wrong,
                          "; ".join(wrong[:3]))
        mine = reference.digest_of(self.world.swarmctl, self.world.bucket.uri(self.prefix),
                                   self.world.bucket.environment())
        notes.check(f"the weights of step {newest} equal those of that process, bit for bit",
                          mine == self.world.reference.weights(newest), mine)


def is_ready(pod):
    """Whether the kubelet reports the pod as ready."""
    return any(condition["type"] == "Ready" and condition["status"] == "True"
               for condition in pod["status"].get("conditions", []))


def metrics_text(world, pod):
    """The metrics of a pod, in Prometheus' format."""
    try:
        if world.cluster:  # this program reaches the pods' network even when the API server is down
            url = f"http://{in_url(pod['status']['podIP'])}:9090/metrics"
            with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url, timeout=5) as answer:
                return answer.read().decode()
        where = pod["metadata"]
        return world.kubectl.raw(f"/api/v1/namespaces/{where['namespace']}/pods/{where['name']}:9090/proxy/metrics")
    except OSError as error:
        raise Refused(f"{pod['metadata']['name']} serves no metrics: {error}") from None


def scrape(world, pod):
    """The metrics of a pod: a dict from each name to its sum over all labels."""
    sums = collections.Counter()
    for match in re.finditer(r"^(\w+)(?:\{.*\})? ([-+\w.]+)$", metrics_text(world, pod), re.MULTILINE):
        sums[match[1]] += float(match[2])
    return sums
