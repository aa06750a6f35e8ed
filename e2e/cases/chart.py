"""An administrator upgrades, removes and reinstalls the chart while a job trains."""
import time

from harness.case import case
from harness.kubectl import eventually


@case("The chart is upgraded, uninstalled and installed again during a run", seconds=420)
def chart_lifecycle(world):
    job = world.job().submit().await_step(30)
    pods = job.pod_names()
    world.install("--set", "operator.logLevel=debug")
    job.await_step(job.step() + 20)
    world.check("the upgrade touched no pod of the job", set(pods) <= set(job.pod_names()), job.pod_names())
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
    job.verify(world, complete=False)
