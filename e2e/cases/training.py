"""Jobs without faults."""
import ipaddress

from cluster import network
from harness.case import case


@case("A job trains on real text to success, under restricted Pod Security", "fast", seconds=240)
def trains_to_success(world):
    job = world.job(steps=150, replicas=3).submit()
    job.await_condition("Accepted")
    job.await_ready(3)
    world.note("all workers are ready")
    if world.cluster:
        pods = {pod["metadata"]["name"]: [each["ip"] for each in pod["status"]["podIPs"]] for pod in job.pods()}
        families = [pods.version for pods in map(ipaddress.ip_network, network.HOME.pods)]
        world.check("each pod has an address of each family, and the one that Kubernetes prefers first", all(
            [ipaddress.ip_address(each).version for each in own] == families for own in pods.values()), pods)
    columns = world.kubectl("get", "swarmjobs", "-n", world.namespace).splitlines()
    for column in ("STATE", "STEP", "READY", "DESIRED", "PREEMPTIONS", "AGE"):
        world.check(f"kubectl get has the column {column}", column in columns[0].split(), columns[0])
    job.await_success()
    job.verify(world)
    world.check("its workers are deleted", not job.pod_names("worker"), job.pod_names("worker"))
    status = job.status
    world.check(f"status has the step {job.steps}", status["step"] == job.steps, status.get("step"))
    world.check("the operator counted no loss", not status.get("preemptions") and not status.get("failures"), status)


@case("A job leaves its stages to the operator, which plans them for its pods", "fast")
def plans_its_stages(world):
    job = world.job(steps=60, replicas=2, pipeline__stages="Auto").submit()
    job.await_success()
    job.verify(world)
    plan = job.status["plan"]
    world.check("status.plan has the stages that it ran with", plan["choice"]["stages"] == len(plan["layout"]), plan)


@case("A job continues with another number of stages", seconds=300)
def resumes_at_other_stages(world):
    job = world.job(steps=200, replicas=2).submit().await_step(40)
    job.change({"suspend": True})
    job.await_condition("Suspended", seconds=90)
    job.change({"pipeline": {"stages": 4}, "workers": {"replicas": 4, "minReplicas": 4}})
    job.change({"suspend": False})
    job.await_success()
    job.verify(world)
    written = world.bucket.manifest(job.prefix, job.steps)
    world.check("the last checkpoint has four stages", len(
        [file for file in written["files"] if "stage-" in str(file)]) == 4, str(written["files"])[:300])
