"""Machines that disappear: suddenly, with notice, for good, or replaced by another one."""
from harness.case import case
from harness.job import ON_DEMAND, RESOURCES, SPOT
from harness.kubectl import Refused, eventually


@case("A node vanishes without notice", "fast", machines=True)
def node_vanishes(world):
    job = world.job().submit().await_step(30)
    lost = job.workers_on("spot-a")
    world.check("the node has workers of the job", lost)
    world.vanish("spot-a")
    began = world.notes.seconds()
    job.await_step(job.step() + 20)
    seconds = world.notes.seconds() - began
    world.note(f"20 more steps {seconds:.1f} s after the power cut")
    world.check("training continued before Kubernetes missed the node",
                seconds < world.cluster.node_grace_seconds, f"{seconds:.1f} s")
    job.await_ready(4, without=lost)
    job.stop()
    job.verify(world, complete=False)
    world.check("the losses count as preemptions", job.status.get("preemptions", 0) >= len(lost), job.status)
    world.check("none counts as a failure", not job.status.get("failures"), job.status)


@case("A cloud's notice: the workers of a tainted node hand over before it ends", "fast", machines=True)
def notice_taint(world):
    job = world.job().submit().await_step(30)
    lost = job.workers_on("spot-b")
    world.check("the node has workers of the job", lost)
    world.taint("spot-b", "aws-node-termination-handler/spot-itn=now:NoSchedule")
    eventually("the workers to leave the node", lambda: job.is_gone_from("spot-b"), 30)
    world.note("its workers have handed over and are gone")
    world.vanish("spot-b")
    job.await_ready(4, without=lost)
    job.stop()
    job.verify(world, complete=False)
    world.check("the losses count as preemptions", job.status.get("preemptions", 0) >= len(lost), job.status)


@case("A machine is replaced by another one of the same name", machines=True)
def same_name_new_uid(world):
    job = world.job().submit().await_step(30)
    lost = job.workers_on("spot-a")
    uid = world.uid_of_node("spot-a")
    world.replace_node("spot-a")
    world.check("the node has another UID", world.uid_of_node("spot-a") != uid)
    job.await_ready(4, without=lost)
    job.stop()
    job.verify(world, complete=False)
    world.check("the losses count as preemptions", job.status.get("preemptions", 0) >= len(lost), job.status)


@case("A user deletes a worker's pod", "fast")
def pod_deleted(world):
    job = world.job().submit().await_step(30)
    victim = job.pod_names("worker")[0]
    world.kubectl.delete("pod", victim, world.namespace)
    job.await_ready(4, without=[victim])
    world.check("the operator does not use its name again", victim not in job.pod_names("worker"))
    job.stop()
    job.verify(world, complete=False)
    world.check("it does not count as a failure", not job.status.get("failures"), job.status)


@case("kubectl drain waits for replacements, as the disruption budget requires")
def drain_respects_budget(world):
    job = world.job().submit().await_step(30)
    budgets = world.kubectl.list("pdb", world.namespace)
    world.check("there is a disruption budget", budgets)
    world.kubectl("drain", "spot-a", "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=120s", seconds=150)
    world.check("the node is empty", not job.workers_on("spot-a"))
    job.await_ready(4)
    world.kubectl("uncordon", "spot-a")
    job.stop()
    job.verify(world, complete=False)
    world.check("the losses do not count as failures", not job.status.get("failures"), job.status)


@case("The kernel kills a worker for its memory: a failure", "fast")
def worker_oom_killed(world):
    # Files in memory count against the limit, and the worker is the only process that the kernel
    # can kill for them.
    memory = {"volumes": [{"name": "memory", "emptyDir": {"medium": "Memory"}}], "containers": [
        {"name": "worker", "volumeMounts": [{"name": "memory", "mountPath": "/memory"}]}]}
    job = world.job(workers__template={"spec": memory}).submit().await_step(30)
    victim = job.pod_names("worker")[0]
    try:
        world.kubectl("exec", "-n", world.namespace, victim, "--", "dd", "if=/dev/zero", "of=/memory/file", "bs=1M",
                      "count=2048")
    except Refused as refusal:
        world.note(f"as it should: {str(refusal).splitlines()[-1]}")
    eventually("a failure to be counted", lambda: job.status.get("failures") == 1, 30)
    job.await_ready(4, without=[victim])
    job.stop()
    job.verify(world, complete=False)
    world.check("it does not count as a preemption", not job.status.get("preemptions"), job.status)


@case("A registry is away when the trainer of a job that has worked is replaced", machines=True)
def registry_outage(world):
    # With the policy Never the kubelet misses an image at once, instead of after minutes of tries.
    image = "localhost/trainer-of-its-own:1"
    world.name_image(world.images["worker"], image)
    trainer = {"name": "trainer", "image": image, "imagePullPolicy": "Never", "resources": RESOURCES}
    job = world.job(trainer__template={"spec": {"containers": [trainer]}}).submit().await_step(30)
    job.await_ready(4)
    step = job.step()
    world.forget_image(image)
    world.kill_pod(job.trainer()["metadata"]["name"], world.namespace)
    eventually("Ready to tell of the image", lambda: "image cannot be pulled" in job.condition("Ready")[2], 60)
    eventually("a failure to be counted", lambda: job.status.get("failures"), 120)
    eventually("an event with the reason", lambda: "ErrImageNeverPull" in events(world, "TrainerFailed"), 30)
    world.check("the job goes on", job.condition("Failed")[0] == "False", job.condition("Failed"))
    world.name_image(world.images["worker"], image)
    job.await_step(step + 20)
    job.stop()
    job.verify(world, complete=False)


@case("A node on which no program starts is avoided", machines=True)
def black_hole_node(world):
    job = world.job(failurePolicy={"maxFailures": 1, "windowSeconds": 3600}).submit().await_step(30)
    lost = job.workers_on("spot-b")
    world.check("the node has workers of the job", lost)
    world.break_workers("spot-b")
    world.kubectl("cordon", "spot-a")  # so that the scheduler has no choice
    for name in lost:
        world.kill_pod(name, world.namespace)
    eventually("three failures", lambda: job.status.get("failures", 0) >= 3, 90)
    world.check("the status names the node", [(node["name"], node["avoided"]) for node in job.status["nodes"]]
                == [("spot-b", True)], job.status["nodes"])
    eventually("an event with the reason", lambda: "exec format error" in events(world, "NodeAvoided"), 30)
    world.check("the job goes on", job.condition("Failed")[0] == "False", job.condition("Failed"))
    world.kubectl("uncordon", "spot-a")
    job.await_ready(4)
    world.check("all workers are on the other node", len(job.workers_on("spot-a")) == 4, job.pod_names("worker"))
    job.stop()
    job.verify(world, complete=False)


@case("A cluster of spot nodes alone: the trainer fits nowhere, until it may run on them")
def spot_nodes_alone(world):
    on_demand = [node["metadata"]["name"] for node in world.kubectl.list("nodes", selector="swarmjob.dev/capacity=on-demand")]
    for node in on_demand:
        world.kubectl("cordon", node)
    job = world.job().submit()
    eventually("Ready to tell it", lambda: job.condition("Ready")[1] == "TrainerUnschedulable", 60)
    told = job.condition("Ready")[2]
    world.check("in the scheduler's words", "Unschedulable: 0/" in told and "trainer.allowSpot" in told, told)
    job.change({"trainer": {"allowSpot": True}})
    job.await_step(30)
    world.check("the trainer is on a spot node", job.trainer()["spec"]["nodeName"] not in on_demand, job.trainer()["spec"])
    world.check("it is the second", job.status["trainer"]["term"] == 2, job.status["trainer"])
    eventually("the status to have numbers", lambda: job.status.get("progress", {}).get("loss"), 90)
    for node in on_demand:
        world.kubectl("uncordon", node)
    job.stop()
    job.verify(world, complete=False)
    world.check("none counts as an end", not job.status.get("failures") and not job.status.get("unexplained"), job.status)


def events(world, reason):
    """The messages of the events with that reason."""
    return " ".join(event.get("message", "") for event in world.kubectl.list("events", world.namespace)
                    if event.get("reason") == reason)


@case("All spot capacity disappears and returns", machines=True, seconds=420)
def all_spot_gone(world):
    pools = [{"name": "spot", "pendingSeconds": 15, "returnAfterSeconds": 15, "resources": RESOURCES, **SPOT},
             {"name": "on-demand", "maxReplicas": 2, "resources": RESOURCES, **ON_DEMAND}]
    job = world.job(replicas=3, workers__pools=pools, workers__minReplicas=2).submit().await_step(30)
    world.check("all workers are on spot nodes", len(job.workers_on("spot-a") + job.workers_on("spot-b")) == 3)
    step = world.bucket.checkpoint_steps(job.prefix)[-1]
    world.vanish("spot-a")
    world.vanish("spot-b")
    eventually("workers on demand", lambda: len(job.workers_on("od-a") + job.workers_on("od-b")) == 2, 90)
    world.note("fallen back to the second pool")
    eventually("CapacityAvailable=False or training", lambda: job.condition("CapacityAvailable")[0] in ("True", "False"), 30)
    job.await_step(step + 20)
    world.heal()
    world.note("spot capacity is back")
    eventually("all workers on spot nodes again",
               lambda: len(job.workers_on("spot-a") + job.workers_on("spot-b")) == 3
               and not job.workers_on("od-a") + job.workers_on("od-b"), 150)
    job.stop()
    job.verify(world, complete=False)
    world.check("none counts as a failure", not job.status.get("failures"), job.status)
