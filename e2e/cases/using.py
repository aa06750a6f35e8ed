"""What a user does with kubectl, and what the cluster's administrator forbids."""
import copy
import time

from harness.case import case
from harness.kubectl import Refused, eventually
from harness.page import ui


@case("kubectl scale, up and down", "fast")
def scale(world):
    job = world.job(replicas=2).submit().await_step(20)
    world.kubectl("scale", "swarmjob", job.name, "-n", world.namespace, "--replicas=4")
    job.await_ready(4)
    world.note("four workers are ready")
    world.kubectl("scale", "swarmjob", job.name, "-n", world.namespace, "--replicas=3")
    eventually("three workers", lambda: len(job.pod_names("worker")) == 3, 60)
    job.stop()
    job.verify(world, complete=False)
    world.check("no worker is lost", not job.status.get("failures") and not job.status.get("preemptions"), job.status)


@case("A HorizontalPodAutoscaler keeps a job that leaves its replicas open between its bounds")
def autoscaler(world):
    job = world.job()
    del job.manifest["spec"]["workers"]["replicas"]
    job.submit().await_step(20)

    def keep_between(least, most):
        # Without a server of metrics only the bounds count.
        world.kubectl.apply({
            "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
            "metadata": {"name": job.name, "namespace": world.namespace},
            "spec": {"minReplicas": least, "maxReplicas": most,
                     "scaleTargetRef": {"apiVersion": "swarmjob.dev/v1alpha1", "kind": "SwarmJob", "name": job.name}}})
        world.note(f"the autoscaler may have {least} to {most} workers")
    keep_between(4, 6)
    job.await_ready(4)
    world.check("the stored object has the autoscaler's number",
                job.object()["spec"]["workers"]["replicas"] == 4, job.object()["spec"]["workers"])
    keep_between(2, 3)
    eventually("three workers", lambda: len(job.pod_names("worker")) == 3, 60)
    eventually("the autoscaler to see them", lambda: world.kubectl.get(
        "hpa", job.name, world.namespace)["status"].get("currentReplicas") == 3, 60)
    job.stop()
    job.verify(world, complete=False)
    world.check("no worker is lost", not job.status.get("failures") and not job.status.get("preemptions"), job.status)


@case("swarmctl shows a job and drains one of its workers", "fast")
def swarmctl(world):
    job = world.job().submit().await_step(20)
    job.await_ready(4)
    shown = world.run_swarmctl("top", job.name, "--once")
    world.check("it shows the job, its stages and its pods",
                "Running" in shown and all(name in shown for name in job.pod_names("worker")), shown)
    leaving = job.pod_names("worker")[0]
    world.run_swarmctl("drain", leaving)
    job.await_ready(4, without=[leaving])
    try:
        world.run_swarmctl("drain", job.trainer()["metadata"]["name"])
        refused = ""
    except Refused as refusal:
        refused = str(refusal)
    world.check("it drains workers only, and says so", "is not a worker" in refused, refused)
    job.stop()
    job.verify(world, complete=False)


@case("swarmctl ui shows a job in a browser, follows it over its trainer's end, and leaves on Ctrl-C", seconds=420)
def page_of_a_job(world):
    job = world.job().submit().await_step(20)
    job.await_ready(4)
    with ui(world, job.name) as page:
        step = "Number(/^Step ([0-9]+) of/.exec(document.getElementById('step').textContent)?.[1] ?? -1)"

        def moves():
            before = page.browser.value(step)
            page.wait(f"{step} > {max(before, 0)} && document.getElementById('away').hidden")
        page.wait("document.querySelectorAll('.tile.ready').length === 4")
        page.browser.value("window.opened = true")
        page.wait("document.querySelectorAll('.stages > li').length === 2")
        moves()
        shown = page.browser.value("[...document.querySelectorAll('.tile.ready b')].map(name => name.textContent).sort()")
        world.check("the tiles are the job's workers, and the steps move", shown == job.pod_names("worker"), shown)

        leaving = shown[0]
        world.kill_pod(leaving, world.namespace)
        page.wait(f"document.querySelectorAll('.tile.ready').length === 4 && "
                  f"![...document.querySelectorAll('.tile.ready b')].some(name => name.textContent === {leaving!r})", 120)
        world.check("it shows the worker that has taken the place of one that is gone", True)

        trainer = job.trainer()["metadata"]["name"]
        world.kill_pod(trainer, world.namespace)
        eventually("another trainer", lambda: job.trainer() and job.trainer()["metadata"]["name"] != trainer, 60)
        page.wait("fetch('/state').then(answer => answer.json()).then(({status}) => status?.term > 1, () => false)", 120)
        page.wait("document.querySelectorAll('.tile.ready').length === 4", 120)
        moves()
        world.check("it follows the next trainer without being loaded again", page.browser.value("window.opened"))

        elsewhere = [event["request"]["url"] for method, event in page.browser.events
                     if method == "Network.requestWillBeSent" and not event["request"]["url"].startswith(page.address)]
        world.check("the browser asks no other address", not elsewhere, elsewhere)
        world.check("Ctrl-C ends it with exit code 0", page.interrupt() == 0, page.program.returncode)
    job.stop()
    job.verify(world, complete=False)


@case("swarmctl ui without a job shows all jobs of a namespace in a browser, and follows them")
def page_of_all_jobs(world):
    job = world.job().submit().await_step(20)
    job.await_condition("Ready")
    rejected = world.job("unsupported")
    rejected.manifest["spec"]["model"]["config"] = {**rejected.manifest["spec"]["model"]["config"],
                                                    "architectures": ["GPT2LMHeadModel"]}
    rejected.submit().await_condition("Accepted", "False", 30)
    said = "(document.querySelector('[data-key=\"{}/{}\"]')?.innerText ?? '')".format
    with ui(world) as page:
        page.wait(f"{said(world.namespace, 'job')}.includes('running')")
        page.wait(f"{said(world.namespace, 'job')}.includes('swarmctl ui job -n {world.namespace}')")
        page.wait(f"{said(world.namespace, 'unsupported')}.includes('GPT2LMHeadModel')")
        world.check("it shows the state of each job, and why one is rejected", True)
        job.change({"suspend": True})
        page.wait(f"{said(world.namespace, 'job')}.includes('suspended')", 90)
        rejected.kubectl.delete("swarmjob", "unsupported", world.namespace)
        page.wait("document.querySelectorAll('#jobs > li').length === 1")
        world.check("it follows a job that is suspended and one that is deleted", True)
        world.check("Ctrl-C ends it with exit code 0", page.interrupt() == 0, page.program.returncode)


@case("Suspending a job writes a checkpoint and frees its pods; resuming continues", "fast")
def suspend_and_resume(world):
    job = world.job(steps=300).submit().await_step(30)
    job.change({"suspend": True})
    job.await_condition("Suspended", seconds=90)
    eventually("all pods to be gone", lambda: not job.pods(), 60)
    step = world.bucket.checkpoint_steps(job.prefix)[-1]
    world.check("the last step has a checkpoint", step >= 30 and step == job.status["lastCheckpoint"]["step"],
                f"{step}, {job.status.get('lastCheckpoint')}")
    job.change({"suspend": False})
    job.await_success()
    job.verify(world)


@case("A job whose budget is spent is suspended with a checkpoint; a higher budget continues it", "fast")
def budget(world):
    try:
        world.job("unpriced", budget={"dollars": 5}).submit()
        refused = ""
    except Refused as message:
        refused = str(message)
    world.check("a budget without prices is refused, and the message names the field",
                "dollarsPerHour" in refused, refused[:300])

    job = world.job(budget={"dollars": 100000})
    # Four workers at a quarter of a dollar a second.
    job.manifest["spec"]["workers"]["pools"][0]["machine"] = {"teraflops": 1, "dollarsPerHour": 900}
    begun = time.monotonic()
    job.submit().await_step(30)
    eventually("the status to say what four workers cost an hour",
               lambda: job.status.get("cost", {}).get("dollarsPerHour") == 3600, 90)
    limit = int(time.monotonic() - begun) + 20
    job.change({"budget": {"dollars": limit}})
    world.note(f"the budget is {limit} dollars")
    reason, message = job.await_condition("BudgetSpent", seconds=120)
    world.check("the condition says what to do", reason == "BudgetSpent" and "raise spec.budget.dollars" in message,
                message)
    job.await_condition("Suspended", seconds=90)
    eventually("all pods to be gone", lambda: not job.pods(), 60)
    step = world.bucket.checkpoint_steps(job.prefix)[-1]
    world.check("the last step has a checkpoint", step >= 30 and step == job.status["lastCheckpoint"]["step"],
                f"{step}, {job.status.get('lastCheckpoint')}")
    eventually("nothing to cost money", lambda: job.status["cost"]["dollarsPerHour"] == 0, 90)
    spent = job.status["cost"]["dollars"]
    world.check("it has cost the budget, and little more", limit <= spent < limit + 120, f"{spent} of {limit}")
    wide = world.kubectl("get", "swarmjob", job.name, "-n", world.namespace, "-o", "wide")
    world.check("kubectl shows it", job.status["cost"]["spent"] in wide, wide)
    warnings = {event["reason"] for event in world.kubectl.list("events", world.namespace)
                if event["type"] == "Warning" and event["involvedObject"]["name"] == job.name}
    world.check("its user was warned before, and told", {"BudgetLow", "BudgetSpent"} <= warnings, warnings)

    job.change({"budget": {"dollars": 100000}})
    job.await_ready(4)
    job.await_step(step + 10)
    world.check("the count went on", job.status["cost"]["dollars"] >= spent, job.status["cost"])
    job.stop()
    job.verify(world, complete=False)


@case("The job reports that a quota refuses pods, and continues when the quota is lifted")
def quota(world):
    world.kubectl.apply({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few", "namespace": world.namespace},
                         "spec": {"hard": {"pods": "2"}}})
    job = world.job(steps=200).submit()
    eventually("the job to report the refusal", lambda: "quota" in job.condition("CapacityAvailable")[2].lower()
               or "quota" in job.condition("Ready")[2].lower(), 60)
    world.note(f"{job.condition('CapacityAvailable')} {job.condition('Ready')}")
    world.kubectl.delete("resourcequota", "few", world.namespace)
    job.await_success()
    job.verify(world)


@case("The API server and the operator refuse bad manifests with helpful messages", "fast")
def bad_manifests(world):
    def refusal(**changes):
        try:
            world.job("bad", **changes).submit()
        except Refused as message:
            return str(message)
        return ""
    for path, value, words in (
            ("training__globalBatchSize", 0, ["globalBatchSize"]),
            ("training__accumulation", "exact", ["accumulation", "Exact"]),
            ("pipeline__boundary", {"codec": "Zip"}, ["codec"]),
            ("pipeline__stages", "auto", ["stages"]),
            ("pipeline__stages", 5, ["workers.replicas", "pipeline.stages"]),
            ("training__sequenceLength", "long", ["sequenceLength"])):
        message = refusal(**{path: value})
        world.check(f"{path} = {value!r} is refused by the API server, naming {words}",
                    message and all(word in message for word in words), message[:300])
    rejected = world.job("unsupported").manifest
    rejected = copy.deepcopy(rejected)
    rejected["spec"]["model"]["config"]["architectures"] = ["GPT2LMHeadModel"]
    world.kubectl.apply(rejected)
    job = world.job("unsupported")
    reason, message = job.await_condition("Accepted", "False", 30)
    world.check("the operator rejects an unsupported architecture, and the message names it",
                "GPT2LMHeadModel" in message, f"{reason}: {message}")
    world.check("the operator started nothing for it", not job.pods())
    good = world.job("good").submit()
    good.await_condition("Accepted")
    try:
        good.change({"training": {"seed": 8}})
        message = ""
    except Refused as refused:
        message = str(refused)
    world.check("the seed of a job cannot be changed", "seed" in message or "immutable" in message, message[:300])


@case("A job that no retry can mend fails at once and says why", "fast")
def hopeless_jobs(world):
    image = world.job("no-image", workers__template={"spec": {"containers": [
        {"name": "worker", "image": "localhost/No-Such-Name:1"}]}}).submit()
    forbidden = world.job("forbidden", checkpoint__uri=world.bucket.uri("forbidden/")).submit()
    missing = world.job("no-data", data__uri=world.bucket.uri("data/nothing.txt")).submit()
    for job, words in ((missing, "nothing.txt"), (forbidden, "bucket/forbidden"), (image, "InvalidImageName")):
        def told(job=job, words=words):
            return any(words in condition.get("message", "") for condition in job.status.get("conditions", []))
        eventually(f"{job.name}: a condition that names {words}", told, 120)
        world.check(f"{job.name}: the condition names {words}", True)
    world.check("it fails where data are missing", missing.await_condition("Failed", seconds=60))
    world.check("it fails where storage refuses", forbidden.await_condition("Failed", seconds=90))


@case("The storage is down: training continues, and writes checkpoints again afterwards", machines=True)
def storage_outage(world):
    job = world.job().submit().await_step(30)
    world.server.pause()
    before = job.step()
    time.sleep(20)
    world.check("training continues without storage", job.step() > before, job.step())
    world.server.resume()
    steps = world.bucket.checkpoint_steps(job.prefix)
    eventually("a newer checkpoint", lambda: world.bucket.checkpoint_steps(job.prefix)[-1] > steps[-1], 60)
    job.stop()
    job.verify(world, complete=False)


@case("A deleted job and a deleted namespace leave nothing behind", "fast")
def deletion_leaves_nothing(world):
    job = world.job().submit().await_step(10)
    world.kubectl.delete("swarmjob", job.name, world.namespace)
    kinds = "pods,services,configmaps,secrets,pdb,networkpolicies,endpointslices"

    def left():
        names = world.kubectl("get", kinds, "-n", world.namespace, "-o", "name").split()
        return [name for name in names if not name.endswith(("/kube-root-ca.crt", "/s3-keys"))]
    eventually("everything of the job to be gone", lambda: not left(), 90)
    world.check("nothing of the job is left", not left(), left())
    again = world.job("another").submit()
    again.await_step(5)
    world.kubectl.delete("namespace", world.namespace)
    world.check("the namespace is gone", world.kubectl.get("namespace", world.namespace) is None)
