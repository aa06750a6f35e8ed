"""An administrator upgrades, removes and reinstalls the chart while a job trains."""
import time

from harness.case import case
from harness.kubectl import eventually


def image_of_replacement(world, job):
    """Deletes a worker's pod; gives the image of the one that comes instead."""
    before = set(job.pod_names("worker"))
    world.kubectl.delete("pod", min(before), world.namespace)
    new = eventually("a replacement", lambda: set(job.pod_names("worker")) - before, 60)
    return world.kubectl.get("pod", new.pop(), world.namespace)["spec"]["containers"][0]["image"]


@case("The chart is upgraded, uninstalled and installed again during a run", seconds=420)
def chart_lifecycle(world):
    job = world.job().submit().await_step(30)
    pods = job.pod_names()
    later = world.images["worker"].rsplit(":", 1)[0] + ":later"
    world.name_image(world.images["worker"], later)
    upgrade = "--set", "operator.logLevel=debug", "--set", "workerImage.tag=later"
    world.install(*upgrade)
    job.await_step(job.step() + 20)
    world.check("the upgrade touched no pod of the job", set(pods) <= set(job.pod_names()), job.pod_names())
    world.check("a replacement has the image of the others", image_of_replacement(world, job) == world.images["worker"])
    world.kubectl("annotate", "swarmjob", job.name, "swarmjob.dev/update-image=later", "-n", world.namespace)
    eventually("the status to name the new image", lambda: job.status["image"]["name"] == later, 30)
    world.check("the next one has the new image", image_of_replacement(world, job) == later)
    world.uninstall()
    world.note("uninstalled")
    world.check("the job is still there", job.object() is not None)
    before = job.step()
    victim = job.pod_names("worker")[0]
    world.kubectl.delete("pod", victim, world.namespace)
    time.sleep(5)
    job.await_step(before + 30)
    world.check("training goes on without the operator", True)
    world.install()
    eventually("the lost worker's replacement", lambda: len(job.pod_names("worker")) == 4, 60)
    job.await_ready(4)
    job.stop()
    world.forget_image(later)
    job.verify(world, complete=False)


@case("Operator and programs of two versions train one job together", seconds=600)
def versions(world):
    old = world.need_old_version()
    try:
        world.install(version=old)
        job = world.job().submit().await_step(20)
        image = job.status["image"]["name"]
        world.check("the job runs the programs of the earlier version", image == old.images["worker"], image)
        pods = job.pod_names()
        world.install()
        job.await_step(job.step() + 20)
        world.check("the upgrade touched no pod of the job", set(pods) <= set(job.pod_names()), job.pod_names())
        world.check("a replacement has the image of the others", image_of_replacement(world, job) == image)
        job.await_ready(4).await_step(job.step() + 20)
        job.change({"suspend": True})
        job.await_condition("Suspended", seconds=120)
        job.change({"suspend": False})
        eventually("the image of this version", lambda: job.status["image"]["name"] == world.images["worker"], 60)
        job.await_ready(4).await_step(job.step() + 20)
        world.install(version=old)
        world.note("downgraded")
        world.check("a replacement has the image of the others, newer than the operator",
                    image_of_replacement(world, job) == world.images["worker"])
        job.await_ready(4).await_step(job.step() + 20)
        job.stop()
    finally:
        world.install()
    job.verify(world, complete=False)
