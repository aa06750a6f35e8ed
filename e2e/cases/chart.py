"""An administrator upgrades, removes and reinstalls the chart while a job trains, and confines the operator."""
import time

from harness.case import case
from harness.kubectl import Refused, eventually
from harness.world import OPERATOR_NAMESPACE


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


def may(world, verb, resource, *where):
    """Whether the operator's account may do that."""
    account = world.operator_pods()[0]["spec"]["serviceAccountName"]
    try:
        answer = world.kubectl("auth", "can-i", verb, resource, *where,
                               "--as", f"system:serviceaccount:{OPERATOR_NAMESPACE}:{account}")
    except Refused as refusal:
        if str(refusal) != "no":
            raise
        return False
    return answer.strip() == "yes"


def check_rights(world, watched, other):
    """The operator's account has its rights in each watched namespace, and none in the other one or beyond."""
    theirs = [("-n", each) for each in watched]
    for verb, resource in (("list", "pods"), ("create", "pods"), ("get", "secrets"), ("list", "swarmjobs")):
        found = [where for where in (*theirs, ("-n", other), ("--all-namespaces",)) if may(world, verb, resource, *where)]
        world.check(f"the operator may {verb} {resource} in the watched namespaces alone", found == theirs, found)


def lose_worker(world, job):
    """Deletes a worker's pod, and returns its name."""
    victim = job.pod_names("worker")[0]
    world.kubectl.delete("pod", victim, job.namespace)
    return victim


@case("The operator looks after two namespaces with Roles there, and one Role taken away costs the other nothing",
      seconds=600)
def restricted_namespaces(world):
    watched = [world.namespace, world.another_namespace("second")]
    other = world.another_namespace("other")
    confined = "--set", f"watchNamespaces={{{','.join(watched)}}}"
    try:
        world.install(*confined)
        check_rights(world, watched, other)
        ignored = world.job("ignored", namespace=other).submit()
        short = [world.job("short", steps=60, replicas=2, namespace=each).submit() for each in watched]
        for job in short:
            job.await_success()
            job.verify(world)

        # Each stage has two workers, so a job trains on without one that nobody replaces.
        kept, cut = (world.job(replicas=4, namespace=each).submit() for each in watched)
        for job in (kept, cut):
            job.await_ready(4).await_step(20)
        (binding,) = world.kubectl.list("rolebindings", cut.namespace)
        world.kubectl.delete("rolebinding", binding["metadata"]["name"], cut.namespace)
        eventually("the operator to have no rights there", lambda: not may(world, "list", "pods", "-n", cut.namespace), 30)
        world.note("the RoleBinding of one namespace is gone")
        if world.cluster:
            # A watch that was allowed when it began goes on, so none from before shall be left.
            api = world.cluster.control_plane.api
            api.kill()
            api.start()
            world.note("the API server was restarted")
        lost = lose_worker(world, cut)
        kept.await_ready(4, without=[lose_worker(world, kept)])
        for job in (kept, cut):
            job.await_step(job.step() + 30)
        world.check("both jobs train on, and a lost worker of the other one is replaced", True)
        world.check("here nobody replaces a lost worker", len(cut.pod_names("worker")) == 3, cut.pod_names("worker"))

        world.install(*confined)
        world.note("the chart has put the RoleBinding back")
        cut.await_ready(4, without=[lost])
        for job in (kept, cut):
            job.stop()
            job.verify(world, complete=False)
        world.check("a job elsewhere is left alone", not ignored.status and not ignored.pods(), ignored.object())
    finally:
        world.install()
