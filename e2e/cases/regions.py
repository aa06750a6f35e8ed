"""One job in two clusters."""
from harness.case import case
from harness.job import ON_DEMAND, RESOURCES
from harness.kubectl import eventually
from harness.world import OPERATOR_NAMESPACE

WEST = {"name": "there", "cluster": "west", "resources": RESOURCES}


def workers_there(world, west):
    return {pod["metadata"]["name"] for pod in west.list("pods", world.namespace, "swarmjob.dev/role=worker")
            if "deletionTimestamp" not in pod["metadata"]}


def await_ready(job, count):
    """By the job's status: kubectl shows the pods of one cluster."""
    eventually(f"{count} ready workers", lambda: job.status.get("readyReplicas") == count, 90)


@case("A job trains in two clusters, and loses machines and the satellite of one of them", "regions", machines=True,
      seconds=600)
def two_clusters(world):
    try:
        home = world.home_for_satellites()
        with world.west() as west:
            world.make_satellite(west, "west", home)
            world.note("the other cluster's operator is a satellite")
            here = {"name": "here", "maxReplicas": 2, "resources": RESOURCES, **ON_DEMAND}
            job = world.job(steps=900, replicas=4, workers__pools=[here, WEST]).submit()
            await_ready(job, 4)
            there = workers_there(world, west)
            world.check("two of the four workers are in the other cluster", len(there) == 2, there)
            world.check("and two in the job's own", len(job.pod_names("worker")) == 2, job.pod_names("worker"))
            job.await_step(40)

            lost = sorted(there)[0]
            west.delete("pod", lost, world.namespace, "--grace-period=0", "--force")
            world.note(f"killed in the other cluster: {lost}")
            eventually("another worker there", lambda: len(workers_there(world, west) - {lost}) == 2, 90)
            await_ready(job, 4)

            west("scale", "deployment", "--all", "-n", OPERATOR_NAMESPACE, "--replicas=0")
            world.note("the satellite is switched off")
            step = job.status["step"]
            job.await_step(step + 30)
            world.check("without the satellite training goes on, with the same pods there",
                        len(workers_there(world, west)) == 2, workers_there(world, west))
            reason, message = job.await_condition("ClustersConnected", "False", 120)
            world.check("the job says that the cluster is away, and what goes on there",
                        reason == "ClusterAway" and "2 of 2 ready, go on" in message, message)
            west("scale", "deployment", "--all", "-n", OPERATOR_NAMESPACE, "--replicas=1")
            world.note("the satellite is switched on")
            eventually("the job to say no more that it is away",
                       lambda: job.condition("ClustersConnected")[0] != "False", 120)

            job.await_success()
            job.verify(world)
            eventually("the workers there to be deleted", lambda: not workers_there(world, west), 90)
            world.kubectl.delete("swarmjob", job.name, world.namespace)
            eventually("nothing of the job to be left there",
                       lambda: not west.list("pods,services,secrets,endpointslices,poddisruptionbudgets",
                                             world.namespace, "swarmjob.dev/job"), 120)
    finally:
        world.install()  # without satellites, as other cases expect it
