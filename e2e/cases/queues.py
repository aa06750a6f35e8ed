"""Jobs that wait in a queue of Kueue."""
import pathlib

from harness.case import case
from harness.kubectl import eventually

QUEUE = "kueue.x-k8s.io/queue-name"
PRIORITY = "kueue.x-k8s.io/priority-class"
ONE_JOB = {"on-demand": "50m", "spot": "200m"}  # the processors of a trainer, and of four workers


def put_queue(world, kubectl=None, checks=()):
    """A queue with room for one job: its trainer on on-demand nodes, and its workers on spot nodes. In the cluster of
    `kubectl`, with the checks that must agree before a job is admitted."""
    def of(kind, name, **content):
        return {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": {"name": name}, **content}

    def quota(flavor, cpu):
        return {"name": flavor, "resources": [{"name": "cpu", "nominalQuota": cpu},
                                              {"name": "memory", "nominalQuota": "64Gi"}]}
    local = of("LocalQueue", "night", spec={"clusterQueue": "all"})
    local["metadata"]["namespace"] = world.namespace
    strategy = {"admissionChecksStrategy": {"admissionChecks": [{"name": each} for each in checks]}} if checks else {}
    (kubectl or world.kubectl).apply(
        *(of("ResourceFlavor", name, spec={"nodeLabels": {"swarmjob.dev/capacity": name}}) for name in ONE_JOB),
        of("WorkloadPriorityClass", "urgent", value=1000),
        of("ClusterQueue", "all", spec={
            **strategy, "namespaceSelector": {}, "preemption": {"withinClusterQueue": "LowerPriority"},
            "resourceGroups": [{"coveredResources": ["cpu", "memory"],
                                "flavors": [quota(*each) for each in ONE_JOB.items()]}]}),
        local)


def queued(job, priority=None):
    """The job, submitted to the queue."""
    job.manifest["metadata"]["labels"] = {QUEUE: "night", **({PRIORITY: priority} if priority else {})}
    return job.submit()


def workload(world, job):
    """The Workload of the job, or None."""
    return world.kubectl.get("workloads.kueue.x-k8s.io", f"swarmjob-{job.name}", world.namespace)


def told(world, job, kind):
    """(status, reason) of a condition of the job's Workload."""
    found = workload(world, job) or {}
    return next(((each["status"], each["reason"]) for each in found.get("status", {}).get("conditions", [])
                 if each["type"] == kind), ("Missing", ""))


@case("Kueue admits one job after the other, and one of higher priority takes the quota of another", needs=["kueue"],
      seconds=600)
def kueue(world):
    with world.kueue():
        put_queue(world)
        world.install("--set", "kueue.enabled=true")
        first = queued(world.job("first"))
        eventually("the first job's pods", lambda: len(first.pods()) == 5, 60)
        second = queued(world.job("second"))
        eventually("the second job to wait", lambda: second.condition("Admitted")[:2] == ("False", "Queued"), 30)
        first.await_step(20)
        world.check("its workers are where their flavor is", all(
            pod["spec"]["nodeSelector"].get("swarmjob.dev/capacity") == "spot" for pod in first.pods("worker")))
        world.check("the second job makes no pod", not second.pods(), second.pod_names())
        eventually("Kueue's words in its condition", lambda: "insufficient" in second.condition("Admitted")[2], 90)
        eventually("Kueue to hear that the first job trains",
                   lambda: told(world, first, "PodsReady")[0] == "True", 60)
        first.stop()
        eventually("its Workload to go, since a suspended job asks for no quota",
                   lambda: workload(world, first) is None, 60)
        eventually("the second job's pods", lambda: len(second.pods()) == 5, 60)
        second.await_step(20)
        world.note("the second job trains")
        urgent = queued(world.job("urgent", steps=150), "urgent")
        eventually("the second job to be evicted", lambda: second.condition("Admitted")[1] == "Evicted", 60)
        eventually("the urgent job's pods", lambda: len(urgent.pods()) == 5, 90)
        world.check("the second job gave all of its pods up before", not second.pods(), second.pod_names())
        world.check("it competes for quota again", told(world, second, "Requeued") == ("True", "Preempted"),
                    told(world, second, "Requeued"))
        step = world.bucket.checkpoint_steps(second.prefix)[-1]
        world.check("and has a checkpoint of its last step", step >= 20, step)
        urgent.await_success()
        eventually("Kueue to hear of its end", lambda: told(world, urgent, "Finished") == ("True", "Succeeded"), 30)
        second.await_step(step + 20)
        world.check("nothing is charged to it", not second.status.get("failures")
                    and not second.status.get("preemptions") and not second.status.get("unexplained"), second.status)
        second.stop()
        world.kubectl.delete("swarmjob", urgent.name, world.namespace)
        eventually("the urgent job's Workload to go with it", lambda: workload(world, urgent) is None, 60)
    first.verify(world, complete=False)
    second.verify(world, complete=False)
    urgent.verify(world)


def put_dispatch(world, other):
    """The check "elsewhere": MultiKueue runs in the cluster of the kubectl `other` what it is asked for."""
    whole = pathlib.Path(other.kubeconfig).with_suffix(".whole")  # MultiKueue takes no paths in it
    whole.write_text(other("config", "view", "--raw", "--flatten"))

    def of(kind, name, **spec):
        return {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": {"name": name}, "spec": spec}
    world.kubectl.apply(
        of("MultiKueueCluster", "west", clusterSource={"kubeConfig": {"locationType": "Path", "location": str(whole)}}),
        of("MultiKueueConfig", "all", clusters=["west"]),
        of("AdmissionCheck", "elsewhere", controllerName="kueue.x-k8s.io/multikueue",
           parameters={"apiGroup": "kueue.x-k8s.io", "kind": "MultiKueueConfig", "name": "all"}))


@case("MultiKueue runs a job in another cluster, and its own has the status", machines=True, needs=["kueue"], seconds=600)
def multikueue(world):
    with world.west() as west, world.kueue():
        put_dispatch(world, west)
        put_queue(world, checks=["elsewhere"])
        put_queue(world, west)
        for kubeconfig in (None, west.kubeconfig):
            world.install("--set", "kueue.enabled=true", kubeconfig=kubeconfig)
        job = world.job(steps=1200, managedBy="kueue.x-k8s.io/multikueue")
        queued(job)

        def there():
            return [pod for pod in west.list("pods", world.namespace, f"swarmjob.dev/job={job.name}")
                    if "deletionTimestamp" not in pod["metadata"]]
        eventually("the job's pods in the other cluster", lambda: len(there()) == 5, 120)
        eventually("the trainer's and the workers' words", lambda: job.condition("Ready")[0] == "True", 120)
        world.check("its own cluster has no pod of it", not job.pods(), job.pod_names())
        lost = next(pod["metadata"]["name"] for pod in there() if pod["metadata"]["labels"]["swarmjob.dev/role"] == "worker")
        west.delete("pod", lost, world.namespace, "--grace-period=0", "--force")
        world.note(f"killed in the other cluster: {lost}")
        job.await_success()
        eventually("Kueue to hear of its end", lambda: told(world, job, "Finished")[0] == "True", 60)
        eventually("the job to be removed from the other cluster",
                   lambda: west.get("swarmjob", job.name, world.namespace) is None, 90)
    job.verify(world)
