"""The trainer, the operator and the API server fail; training continues."""
import time

from harness.case import case
from harness.job import scrape
from harness.kubectl import Refused, eventually
from harness.world import OPERATOR_NAMESPACE


@case("The trainer's node is lost: the next trainer continues the step", "fast", machines=True)
def trainer_node_lost(world):
    job = world.job().submit().await_step(30)
    old = job.trainer()["metadata"]["name"]
    node = job.node_of(old)
    before = job.step()
    world.vanish(node)
    eventually("another trainer", lambda: (now := job.trainer()) and now["metadata"]["name"] != old, 90)
    world.note(f"the trainer is {job.trainer()['metadata']['name']}")
    job.await_step(before + 50)
    world.check("the status contains the term", job.status["trainer"]["term"] >= 2, job.status["trainer"])
    job.stop()
    job.verify(world, complete=False)


@case("The operator is killed while a lost worker is being replaced", "fast", machines=True)
def operator_killed_mid_recovery(world):
    job = world.job().submit().await_step(30)
    lost = job.workers_on("spot-a")
    leader = world.await_leader()
    world.vanish("spot-a")
    eventually("the operator to notice", lambda: job.status.get("preemptions") or set(lost) - set(job.pod_names("worker"))
               or len(job.pod_names("worker")) > 4, 40, interval=0.2)
    world.kill_pod(leader, OPERATOR_NAMESPACE)
    world.await_leader(other_than=leader)
    job.await_ready(4, without=lost)
    eventually("the losses to be counted", lambda: job.status.get("preemptions", 0) >= len(lost), 60)
    job.stop()
    job.verify(world, complete=False)
    status = job.status
    world.check("the operator counted each loss once",
                len(lost) <= status.get("preemptions", 0) <= status["nextWorkerOrdinal"] - 4, status)


@case("Operator and trainer are lost together")
def operator_and_trainer_lost(world):
    job = world.job().submit().await_step(30)
    old = job.trainer()["metadata"]["name"]
    for pod in world.operator_pods():
        world.kill_pod(pod["metadata"]["name"], OPERATOR_NAMESPACE)
    world.kill_pod(old, world.namespace)
    eventually("another trainer", lambda: (now := job.trainer()) and now["metadata"]["name"] != old, 90)
    job.stop()
    job.verify(world, complete=False)


@case("The API server is down for a minute and a half", machines=True, seconds=600)
def api_server_away(world):
    job = world.job().submit().await_step(30)
    trainer = job.trainer()
    api = world.cluster.control_plane.api
    before = job.step()
    api.kill()
    world.note("the API server is gone")
    end = time.monotonic() + 90
    while time.monotonic() < end:
        time.sleep(5)
        step = scrape(world, trainer)["swarmjob_trainer_version"]
    world.note(f"it comes back at step {step:.0f}")
    world.check("training continued without it", step > before + 50, f"from {before} to {step:.0f}")
    api.start()
    victim = eventually("the workers", lambda: job.pod_names("worker"), 60)[0]
    world.kubectl.delete("pod", victim, world.namespace)
    eventually("the operator to work again",
               lambda: victim not in job.pod_names("worker") and len(job.pod_names("worker")) == 4, 90)
    world.check("the job lost no worker by it", not job.status.get("failures"), job.status)
    job.stop()
    job.verify(world, complete=False)


@case("Another replica of the operator takes over", "fast")
def leader_failover(world):
    world.check("two replicas run", len(world.operator_pods()) == 2)
    leader = world.await_leader()
    job = world.job().submit().await_step(20)
    world.kill_pod(leader, OPERATOR_NAMESPACE)
    victim = job.pod_names("worker")[0]
    world.kubectl.delete("pod", victim, world.namespace)
    new = world.await_leader(other_than=leader)
    world.note(f"{new} leads")
    job.await_ready(4)
    job.stop()
    job.verify(world, complete=False)
    ordinals = [pod["metadata"]["name"] for pod in world.kubectl.list("pods", world.namespace)]
    world.check("the operator created no pod twice", len(ordinals) == len(set(ordinals)))


@case("The operator writes almost nothing while a job trains undisturbed")
def steady_state_is_silent(world):
    job = world.job().submit().await_step(30)
    job.await_ready(4)
    time.sleep(5)

    def versions():
        objects = [job.object()] + [world.kubectl.get(kind, f"{job.name}-{name}", world.namespace) for kind, name in (
            ("configmap", "job"), ("service", "trainer"), ("pdb", "workers"))]
        return [item["metadata"]["resourceVersion"] for item in objects if item]
    before = versions()
    time.sleep(30)
    changed = sum(a != b for a, b in zip(before, versions()))
    world.check("the operator wrote at most the status, once a minute", changed <= 1, changed)
    try:
        job.change({"suspend": True})
    except Refused as refusal:
        world.note(str(refusal))
