"""Others in the cluster: a workload that takes the room of a job, and a tenant whose programs are not what they should be."""
from harness.case import case
from harness.job import RESOURCES
from harness.kubectl import eventually
from harness.world import OPERATOR_NAMESPACE

MIB = 1 << 20
UNITS = {"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30}


def memory_of(node):
    """The bytes that pods may ask for there."""
    text = node["status"]["allocatable"]["memory"]
    return int(text[:-2]) * UNITS[text[-2:]] if text[-2:] in UNITS else int(text)


def asking_for(size):
    """Resources with so many bytes of memory, which are the pod's own."""
    memory = f"{size // MIB}Mi"
    return {"requests": {**RESOURCES["requests"], "memory": memory}, "limits": {**RESOURCES["limits"], "memory": memory}}


def idle_pod(world, name, priority, size):
    """A pod of a priority class that needs so many bytes on a spot node, and does nothing."""
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": world.namespace}, "spec": {
        "priorityClassName": priority, "automountServiceAccountToken": False, "terminationGracePeriodSeconds": 0,
        "nodeSelector": {"swarmjob.dev/capacity": "spot"},
        "securityContext": {"runAsNonRoot": True, "runAsUser": 65532, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [{"name": "idle", "image": world.images["worker"], "command": ["sleep", "infinity"],
                        "resources": asking_for(size),
                        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}}]}}


@case("Pods of a higher priority take the room of a job's workers, and give it back", seconds=420)
def priority_preemption(world):
    nodes = world.kubectl.list("nodes", selector="swarmjob.dev/capacity=spot")
    room = min(map(memory_of, nodes))
    # A node has room for two workers, or for the urgent pod.
    job = world.job(replicas=2 * len(nodes))
    job.manifest["spec"]["workers"]["pools"][0]["resources"] = asking_for(room * 2 // 5)
    job.submit().await_ready(job.replicas).await_step(20)
    before = {pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in job.pods("worker")}
    urgent = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "e2e-urgent"},
              "value": 1000, "description": "Of the case priority_preemption"}
    try:
        world.kubectl.apply(urgent, idle_pod(world, "urgent", "e2e-urgent", room * 7 // 10))
        eventually("the urgent pod to run", lambda: world.kubectl.get(
            "pod", "urgent", world.namespace)["status"].get("phase") == "Running", 90)
        node = job.node_of("urgent")
        lost = {worker for worker, place in before.items() if place == node}
        world.note(f"the urgent pod runs on {node}, in the place of {', '.join(sorted(lost))}")
        preempted = {event["involvedObject"]["name"] for event in world.kubectl.list("events", world.namespace)
                     if event.get("reason") == "Preempted"}
        world.check("the scheduler preempted the workers there, and no other", preempted == lost and len(lost) == 2,
                    (preempted, lost))
        eventually("the losses to be counted", lambda: job.status.get("preemptions") == 2, 60)
        eventually("the job to say that it has no room", lambda: job.condition("CapacityAvailable")[0] == "False", 90)
        told = job.condition("CapacityAvailable")[2]
        world.check("in the scheduler's words", "Insufficient memory" in told, told)
        job.await_step(job.step() + 20)
        world.check("the job trains on with the workers that are left", set(job.ready_workers()) == set(before) - lost,
                    job.ready_workers())
        world.kubectl.delete("pod", "urgent", world.namespace)
        world.note("the urgent pod is gone")
        job.await_ready(job.replicas, without=lost)
    finally:
        world.kubectl.delete("priorityclass", "e2e-urgent")
    job.await_step(job.step() + 20)
    job.stop()
    job.verify(world, complete=False)
    world.check("each loss counts as a preemption, once", job.status.get("preemptions") == 2, job.status)
    world.check("none counts as a failure", not job.status.get("failures") and not job.status.get("unexplained"), job.status)


TENANT = "localhost/tenant:1"
STATED_STEP = 4321  # by e2e/tenant/swarm_worker.py


def containers_of_operator(world):
    """Which containers the operator's pods run. Others, if one of them has ended."""
    return sorted(container.get("containerID", "") for pod in world.kubectl.list("pods", OPERATOR_NAMESPACE)
                  for container in pod["status"].get("containerStatuses", []))


def trainer_that_sends(what):
    """A trainer's template with the tenant's program."""
    return {"template": {"spec": {"containers": [{"name": "trainer", "image": TENANT, "resources": RESOURCES,
                                                  "env": [{"name": "TENANT_SENDS", "value": what}]}]}}}


class Tenant:
    """A job with programs of its user in the place of trainer and workers."""

    def __init__(self, world, what):
        self.world = world
        self.job = world.job("hostile", trainer=trainer_that_sends(what), workers__template={
            "spec": {"containers": [{"name": "worker", "image": TENANT}]}}).submit()

    def send(self, what):
        """Replaces the trainer by one that sends something else."""
        old = self.job.trainer()["metadata"]["name"]
        self.job.change({"trainer": trainer_that_sends(what)})
        self.world.kill_pod(old, self.job.namespace)
        eventually("another trainer", lambda: (now := self.job.trainer()) and now["metadata"]["name"] != old, 60)

    def await_words(self, *words):
        """Waits until the trainer's log has all of these."""
        def said():
            trainer = self.job.trainer()
            log = trainer and self.world.kubectl("logs", "-n", self.job.namespace, trainer["metadata"]["name"])
            return log and all(each in log for each in words)
        eventually(f"the trainer to say: {', '.join(words)}", said, 120)


@case("A tenant's trainer sends what no trainer sends, and the operator looks after the jobs of others", needs=["tenant"],
      seconds=600)
def hostile_trainer(world):
    neighbour = world.job("neighbour", namespace=world.another_namespace("neighbour"), replicas=2).submit()
    neighbour.await_ready(2).await_step(10)
    operator = containers_of_operator(world)

    def check_others(after):
        victim = neighbour.pod_names("worker")[0]
        world.kubectl.delete("pod", victim, neighbour.namespace)
        world.check(f"after {after} the operator's containers are those of before",
                    containers_of_operator(world) == operator, (operator, containers_of_operator(world)))
        neighbour.await_ready(2, without=[victim])
        world.check(f"after {after} a neighbour's lost worker is replaced", True)

    tenant = Tenant(world, "sizes")
    job = tenant.job
    tenant.await_words("hung up on a message of", "hung up on a payload of")
    check_others("messages that are too large")

    tenant.send("stages")
    tenant.await_words("has taken a stage 10 times")
    eventually("the operator to believe the rest of the status", lambda: job.status.get("step") == STATED_STEP, 90)
    world.kubectl("scale", "swarmjob", job.name, "-n", job.namespace, "--replicas=2")
    eventually("two workers, or the operator's end",
               lambda: len(job.pod_names("worker")) == 2 or containers_of_operator(world) != operator, 90)
    check_others("a stage that the job does not have")

    tenant.send("terms")
    tenant.await_words("has taken a term 10 times")
    term = job.status["trainer"]["term"]
    world.kill_pod(job.trainer()["metadata"]["name"], job.namespace)
    eventually("the next trainer", lambda: job.status["trainer"]["term"] != term, 60)
    check_others("the last of all terms")
    world.check("the next trainer's term is the next one", job.status["trainer"]["term"] == term + 1, job.status["trainer"])
