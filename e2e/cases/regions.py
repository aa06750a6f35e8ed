"""One job in two clusters."""
import contextlib
import ipaddress
import json
import pathlib
import re
import signal
import statistics
import tempfile
import time
import urllib.request

from cluster import network
from cluster.network import in_url
from cluster.outsider import Outsider
from harness import reference
from harness.case import case
from harness.job import ON_DEMAND, RESOURCES, metrics_text
from harness.kubectl import Refused, eventually
from harness.world import OPERATOR_NAMESPACE, RELEASE, RESTRICTED

WEST = {"name": "there", "cluster": "west", "resources": RESOURCES}
HERE = {"name": "here", "resources": RESOURCES, **ON_DEMAND}
BOTH = [{**HERE, "maxReplicas": 2}, WEST]
DOLLARS_PER_GB = 90
REGION_BYTES = re.compile(r"^swarmjob_worker_region_bytes_total\{(.*)\} (\S+)$", re.MULTILINE)


def workers_there(world, west):
    return {pod["metadata"]["name"] for pod in west.list("pods", world.namespace, "swarmjob.dev/role=worker")
            if "deletionTimestamp" not in pod["metadata"]}


def await_ready(job, count):
    """By the job's status: kubectl shows the pods of one cluster."""
    eventually(f"{count} ready workers", lambda: job.status.get("readyReplicas") == count, 90)


@contextlib.contextmanager
def two(world):
    """A second cluster, west, whose operator is a satellite of this one's; yields its kubectl."""
    try:
        home = world.home_for_satellites()
        with world.west() as west:
            world.make_satellite(west, "west", home)
            world.note("the other cluster's operator is a satellite")
            yield west
    finally:
        world.install()  # without satellites, as other cases expect it


def train_in_both(world, west, steps, pools=BOTH, **changes):
    """A job with two workers in each cluster, once it trains; gives the job and its workers in the other cluster."""
    job = world.job(steps=steps, replicas=4, workers__pools=pools, **changes).submit()
    await_ready(job, 4)
    there = workers_there(world, west)
    world.check("two of the four workers are in the other cluster", len(there) == 2, there)
    world.check("and two in the job's own", len(job.pod_names("worker")) == 2, job.pod_names("worker"))
    job.await_step(40)
    return job, there


def contributors(job):
    """The workers that are in the sums of the last committed step, by the page of the trainer."""
    where = job.trainer()["status"]["podIP"]
    try:
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(
                f"http://{in_url(where)}:9091/account", timeout=5) as answer:
            line = json.load(answer)["line"] or {"groups": []}
    except OSError as error:
        raise Refused(f"the trainer's page has no account: {error}") from None
    return {part["worker"] for group in line["groups"] for part in group["participants"]}


def trains_on(job):
    """Waits for thirty more steps."""
    job.await_step(job.step() + 30)


def bytes_between_regions(world, west, job):
    """What the workers of both clusters say that they have exchanged with other regions."""
    total = 0
    for pod in job.pods("worker") + west.list("pods", world.namespace, "swarmjob.dev/role=worker"):
        for labels, value in REGION_BYTES.findall(metrics_text(world, pod)):
            label = dict(re.findall(r'(\w+)="(.*?)"', labels))
            total += float(value) if label["source_region"] != label["destination_region"] else 0
    return total


def check_price_of_traffic(world, west, job):
    """The job's status has every byte between its two regions once, at its price."""
    def traffic():
        (pair,) = job.status.get("traffic") or [{"bytes": 0}]
        return pair
    before = bytes_between_regions(world, west, job)
    eventually("the status to have the traffic of a minute ago", lambda: traffic()["bytes"] >= before > 0, 150)
    pair, cost = traffic(), job.status["cost"]
    after = bytes_between_regions(world, west, job)
    world.check("the status has no more bytes between the regions than the workers have exchanged",
                pair["bytes"] <= after, (before, pair, after))
    dollars = pair["bytes"] / 1e9 * DOLLARS_PER_GB
    world.check("the job costs its traffic", abs(pair["dollars"] - dollars) <= 1e-6 * dollars <= 1e-6 * cost["dollars"],
                (pair, cost))


def end_well(world, west, job):
    """The job succeeds, its losses are those of one process, and nothing of it is left in the other cluster."""
    job.await_success()
    job.verify(world)
    eventually("the workers there to be deleted", lambda: not workers_there(world, west), 90)
    world.kubectl.delete("swarmjob", job.name, world.namespace)
    eventually("nothing of the job to be left there",
               lambda: not west.list("pods,services,secrets,endpointslices,poddisruptionbudgets",
                                     world.namespace, "swarmjob.dev/job"), 120)


@case("A job trains in two clusters, and loses machines and the satellite of one of them", "regions", machines=True,
      seconds=600)
def two_clusters(world):
    with two(world) as west:
        job, there = train_in_both(world, west, steps=2400,
                                   workers__traffic=[{"between": ["*", "*"], "dollarsPerGB": DOLLARS_PER_GB}])
        check_price_of_traffic(world, west, job)

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
        end_well(world, west, job)


@case("The satellite of a cluster is uninstalled and installed again, and its workers train on", "regions",
      machines=True, seconds=600)
def satellite_installed_again(world):
    with two(world) as west:
        job, there = train_in_both(world, west, steps=2400)
        world.uninstall(west.kubeconfig)
        world.note("the satellite is uninstalled")
        job.await_condition("ClustersConnected", "False", 120)
        trains_on(job)
        world.check("the workers there train on", workers_there(world, west) == there, workers_there(world, west))
        world.install_satellite(west)
        world.note("the satellite is installed again, without a token")
        eventually("the job to say no more that it is away",
                   lambda: job.condition("ClustersConnected")[0] != "False", 120)
        world.check("no worker there was replaced", workers_there(world, west) == there, workers_there(world, west))
        lost = sorted(there)[0]
        west.delete("pod", lost, world.namespace, "--grace-period=0", "--force")
        world.note(f"killed in the other cluster: {lost}")
        eventually("another worker there", lambda: len(workers_there(world, west) - {lost}) == 2, 90)
        end_well(world, west, job)


@case("The namespace of a job is deleted in another cluster, and made again", "regions", machines=True, seconds=600)
def namespace_deleted_elsewhere(world):
    with two(world) as west:
        job, there = train_in_both(world, west, steps=900)
        west.delete("namespace", world.namespace, None, "--wait=false")
        world.note("the job's namespace there is deleted")
        eventually("the workers there to be gone", lambda: not workers_there(world, west), 90)
        trains_on(job)
        world.check("the job's own cluster keeps its workers", len(job.ready_workers()) == 2, job.ready_workers())
        eventually("the namespace to be gone", lambda: west.get("namespace", world.namespace) is None, 120)
        trains_on(job)
        world.make_namespace(world.namespace, RESTRICTED, west)
        world.note("the namespace is made again")
        eventually("two new workers there",
                   lambda: len(workers_there(world, west)) == 2 and not workers_there(world, west) & there, 120)
        await_ready(job, 4)
        end_well(world, west, job)


@case("Home's operator is down for a while, and the workers of both clusters train on", "regions", machines=True,
      seconds=600)
def home_down(world):
    with two(world) as west:
        job, there = train_in_both(world, west, steps=900)
        world.kubectl("scale", "deployment", "--all", "-n", OPERATOR_NAMESPACE, "--replicas=0")
        eventually("home's operator to be gone", lambda: not world.operator_pods(), 60)
        world.note("home's operator is switched off")
        trains_on(job)
        world.check("the workers there train on", workers_there(world, west) == there, workers_there(world, west))
        lost = sorted(there)[0]
        west.delete("pod", lost, world.namespace, "--grace-period=0", "--force")
        world.note(f"killed in the other cluster: {lost}")
        trains_on(job)
        world.check("the satellite makes nothing by itself", workers_there(world, west) == there - {lost},
                    workers_there(world, west))
        world.kubectl("scale", "deployment", "--all", "-n", OPERATOR_NAMESPACE, "--replicas=1")
        world.note("home's operator is switched on")
        eventually("another worker there", lambda: len(workers_there(world, west) - {lost}) == 2, 120)
        world.check("the other one was not replaced", there - {lost} <= workers_there(world, west),
                    workers_there(world, west))
        await_ready(job, 4)
        end_well(world, west, job)


@case("The line between two clusters is cut for a minute, and nothing counts twice when they meet again", "regions",
      machines=True, seconds=600)
def line_cut(world):
    with two(world) as west:
        # Else the workers of a stage could all be there, and the job would wait.
        job, there = train_in_both(world, west, steps=2400, pipeline__surviveRegionLoss=True)
        eventually("workers of both clusters to contribute", lambda: there <= contributors(job), 60)
        with world.cut():
            begin = time.monotonic()
            eventually("no worker there to contribute", lambda: not there & contributors(job), 60)
            trains_on(job)
            world.note("the workers here train on")
            eventually("the job to say that the cluster is away",
                       lambda: job.condition("ClustersConnected")[0] == "False", 90)
            world.check("its message says which", "west" in job.condition("ClustersConnected")[2],
                        job.condition("ClustersConnected"))
            while time.monotonic() < begin + 60:
                time.sleep(1)
        eventually("the cluster to be connected again", lambda: job.condition("ClustersConnected")[0] == "True", 120)
        eventually("workers there to contribute again", lambda: contributors(job) & workers_there(world, west), 180)
        both = set(job.pod_names("worker")) & workers_there(world, west)
        world.check("no name is that of two workers", not both, both)
        end_well(world, west, job)


@case("A cluster is lost for good, and then home's operator is restarted", "regions", machines=True, seconds=600)
def cluster_lost(world):
    with two(world) as west:
        job, there = train_in_both(world, west, steps=reference.ENDLESS, pools=[{**WEST, "maxReplicas": 2}, HERE])
        west("scale", "deployment", "--all", "-n", OPERATOR_NAMESPACE, "--replicas=0")
        eventually("the satellite to be gone", lambda: not west.list("pods", OPERATOR_NAMESPACE), 60)
        job.await_condition("ClustersConnected", "False", 120)
        world.kubectl("delete", "pods", "--all", "-n", OPERATOR_NAMESPACE, "--wait=false")
        world.note("home's operator begins anew, and sees nothing of the other cluster")
        lost = sorted(job.ready_workers())[0]
        world.kubectl.delete("pod", lost, world.namespace, "--grace-period=0", "--force")
        world.note(f"killed at home: {lost}")
        job.await_ready(2, 120, without=[lost])
        trains_on(job)
        world.check("no more workers than were wanted", len(job.pod_names("worker")) == 2, job.pod_names("worker"))
        world.check("those in the other cluster train on", workers_there(world, west) == there, workers_there(world, west))
        west("delete", "pods", "--all", "-n", world.namespace, "--grace-period=0", "--force")
        world.note("the other cluster's workers are lost, too")
        job.await_ready(4, 240, without=[lost])
        trains_on(job)
        job.stop()
        job.verify(world, complete=False)
        world.kubectl.delete("swarmjob", job.name, world.namespace)


@case("From the installation of a second cluster to its first contribution, five times", "regions", machines=True,
      seconds=900)
def first_contribution(world):
    """A measurement: it prints seconds, and judges none."""
    home = world.home_for_satellites()
    try:
        with world.west() as west:
            taken = []
            for _ in range(5):
                job = world.job(replicas=4, workers__pools=BOTH).submit()
                await_ready(job, 2)
                token = world.run_swarmctl("satellite", "token", "west", "--home", home, namespace=OPERATOR_NAMESPACE)
                begin = time.monotonic()
                world.install_satellite(west, "--set", f"satellite.token={token.strip()}")
                eventually("a worker there to contribute", lambda: contributors(job) & workers_there(world, west), 180,
                           interval=0.2)
                taken.append(time.monotonic() - begin)
                world.note(f"from helm install to the first contribution: {taken[-1]:.1f} s")
                world.kubectl.delete("swarmjob", job.name, world.namespace)
                eventually("the workers there to be deleted", lambda: not workers_there(world, west), 120)
                world.run_swarmctl("satellite", "revoke", "west", namespace=OPERATOR_NAMESPACE)
                world.uninstall(west.kubeconfig)
                west.delete("secret", "swarm-satellite", OPERATOR_NAMESPACE)
            world.note(f"median {statistics.median(taken):.1f} s, worst {max(taken):.1f} s")
            world.check("each time a worker there contributed", len(taken) == 5)
    finally:
        world.install()  # without satellites, as other cases expect it


# helm would wait for the addresses of load balancers.
GATEWAY = ["--wait=false", "--set", "gateway.enabled=true", "--set", "gateway.image.repository=localhost/gateway",
           "--set-string", "gateway.image.tag=1"]


def install_with_gateway(world):
    """Lets this cluster's operator expect satellites and machines, and have a gateway."""
    world.install("--set", "satellites.enabled=true", *GATEWAY)
    world.give_addresses()
    # Pods that are made before it is known never learn it.
    eventually("the operator to know its gateway", lambda: "clusters reach the gateway at" in world.kubectl(
        "logs", "-n", OPERATOR_NAMESPACE, world.leader()), 60)


@contextlib.contextmanager
def two_with_gateways(world, place=network.WEST):
    """Like two(), but the pods of the clusters reach each other by their gateways alone."""
    try:
        with world.west(place) as west, world.apart():
            install_with_gateway(world)
            token = eventually("home to give a token", lambda: world.run_swarmctl(
                "satellite", "token", "west", namespace=OPERATOR_NAMESPACE), 60)
            world.install_satellite(west, "--set", f"satellite.token={token.strip()}", *GATEWAY)
            world.give_addresses()
            eventually("home to know the gateway there", lambda: "gateway at" in world.run_swarmctl(
                "satellite", "list", namespace=OPERATOR_NAMESPACE), 60)
            yield west
    finally:
        world.install()  # without satellites, as other cases expect it


def gateways_of(world, kubectl, variable="SWARM_GATEWAY"):
    """host:port of the gateways that the worker pods in a cluster know: those of their own cluster, or of another one."""
    pods = kubectl.list("pods", world.namespace, "swarmjob.dev/role=worker")
    return {each["value"].split("/")[0] for pod in pods for each in pod["spec"]["containers"][0]["env"]
            if each["name"] == variable}


@case("Two clusters whose pods do not reach each other train through their gateways, and lose them", "regions",
      machines=True, needs=["gateway"], seconds=600)
def gateways(world):
    with two_with_gateways(world) as west:
        job, there = train_in_both(world, west, steps=900)
        known = gateways_of(world, world.kubectl)
        world.check("the pods know the gateway of their cluster, by its load balancer", len(known) == 1, known)
        eventually("workers of both clusters to contribute", lambda: there <= contributors(job), 60)

        for kubectl in (world.kubectl, west):
            for pod in kubectl.list("pods", OPERATOR_NAMESPACE, "app.kubernetes.io/name=swarm-gateway"):
                kubectl.delete("pod", pod["metadata"]["name"], OPERATOR_NAMESPACE, "--grace-period=0", "--force")
        world.note("all gateways were killed")
        trains_on(job)
        # Those that were replaced meanwhile are others.
        eventually("workers of both clusters to contribute again", lambda: len(now := workers_there(
            world, west)) == len(there) and now <= contributors(job), 60)

        deployment = f"{RELEASE}-swarm-operator-gateway"
        for kubectl in (world.kubectl, west):
            kubectl("scale", "deployment", deployment, "-n", OPERATOR_NAMESPACE, "--replicas=0")
        eventually("the workers there to be out of the sums, as there is no other way",
                   lambda: not contributors(job) & (there | workers_there(world, west)), 60)
        world.note("without gateways no worker there contributes")
        trains_on(job)
        for kubectl in (world.kubectl, west):
            kubectl("scale", "deployment", deployment, "-n", OPERATOR_NAMESPACE, "--replicas=2")
        world.note("the gateways are back")
        eventually("workers there to contribute again",
                   lambda: contributors(job) & workers_there(world, west), 180)
        end_well(world, west, job)


def families_of(pods):
    """Of which families each of the pods has addresses, in order."""
    return [[ipaddress.ip_address(each["ip"]).version for each in pod["status"]["podIPs"]] for pod in pods]


@case("A cluster with addresses of IPv6 alone and one of IPv4 train one job through their gateways", "regions",
      machines=True, needs=["gateway"], seconds=600)
def families(world):
    """Home has IPv4, unless SWARM_E2E_IP says otherwise; the other cluster has the other family."""
    place = network.WEST_OF_OTHER_FAMILY
    with two_with_gateways(world, place) as west:
        job, there = train_in_both(world, west, steps=1200, storage__endpoint=world.name_storage())
        (here,), (elsewhere,) = [{tuple(each) for each in families_of(kubectl.list("pods", world.namespace))}
                                 for kubectl in (world.kubectl, west)]
        world.check("the pods there have addresses of one family alone, which those here do not have first",
                    len(elsewhere) == 1 and elsewhere[0] != here[0], (here, elsewhere))
        to_home, to_west = (f"{in_url(callers.routers[0])}:7444" for callers in (place, network.HOME))
        known = [gateways_of(world, world.kubectl), gateways_of(world, west, "SWARM_TRAINER_GATEWAY"),
                 gateways_of(world, west)]
        world.check("all pods know each gateway by an address of its callers' family",
                    known == [{to_home}, {to_home}, {to_west}], known)
        eventually("workers of both clusters to contribute", lambda: there <= contributors(job), 60)

        lost = sorted(there)[0]
        west.delete("pod", lost, world.namespace, "--grace-period=0", "--force")
        world.note(f"killed in the other cluster: {lost}")
        eventually("another worker there to contribute",
                   lambda: contributors(job) & (workers_there(world, west) - there), 120)
        world.note("another one contributes there")
        end_well(world, west, job)


class Joiner:
    """`swarmctl join` on a machine outside, and what it has said."""

    def __init__(self, world, machine, folder, name, command):
        self.log = folder / f"{name}.log"
        self.program = machine.start(
            [world.swarmctl, *command.split()[1:], "--out", folder / name, "--threads", "1", "--region", "outside",
             "--drain-seconds", "5"], self.log, world.bucket.environment())

    def said(self, words):
        return words in self.log.read_text()

    def await_words(self, words, seconds=90):
        eventually(f"the machine to say: {words}", lambda: self.said(words) or self.program.poll() is not None, seconds)
        if not self.said(words):
            logs = [self.log, *sorted(self.log.with_suffix("").glob("workers/*.log"))]
            raise AssertionError(f"the machine did not say: {words}; but:\n" + "\n".join(each.read_text() for each in logs))

    def worker(self):
        """The id of the worker that it became last."""
        return [line for line in self.log.read_text().splitlines() if line.startswith("starting ")][-1].split()[1].rstrip(";")

    def code(self):
        """Its exit code, once it has ended."""
        return self.program.wait(120)

    def stop(self):
        if self.program.poll() is None:
            self.program.kill()
            self.program.wait()


def machines_of(job):
    return [f"{job.name}-w{machine['ordinal']}" for machine in job.status.get("machines", [])]


def new_token(world, job, *terms):
    return eventually("a token", lambda: world.run_swarmctl(
        "token", "create", job.name, "--pool", "friends", "--operator-namespace", OPERATOR_NAMESPACE, *terms), 60).strip()


@case("A machine behind a router joins a job with a token, loses its network, and is revoked", "regions", machines=True,
      needs=["gateway"], seconds=600)
def machine_joins(world):
    world.need_machines()
    machine = folder = None
    joiners = []

    def join(name, command):
        joiners.append(Joiner(world, machine, folder, name, command))
        return joiners[-1]
    try:
        install_with_gateway(world)
        machine = Outsider()
        folder = pathlib.Path(tempfile.mkdtemp(dir=world.cluster.folder))
        job = world.job(steps=1200, replicas=2, workers__machinePools=[{"name": "friends", "maxReplicas": 3}]).submit()
        await_ready(job, 2)
        job.await_step(20)

        single = new_token(world, job, "--uses", "1")
        laptop = join("laptop", single)
        laptop.await_words("a router is between, so the worker only dials")
        laptop.await_words("serves stage")
        worker = laptop.worker()
        world.check("the status lists the machine", machines_of(job) == [worker], job.status.get("machines"))
        eventually("the machine to contribute", lambda: worker in contributors(job), 60)
        listed = world.run_swarmctl("token", "list", job.name)
        world.check("`swarmctl token list` says who has joined", f"used up; joined with it: {worker}" in listed, listed)

        expired = new_token(world, job, "--ttl", "1s")
        time.sleep(1)
        for name, bad, words in (("replayed", single, "the token is used up"), ("late", expired, "the token has expired"),
                                 ("cut", single[:-1], "this is no join token")):
            refused = join(name, bad)
            world.check(f"a token that is {name} lets nobody in", refused.code() == 2 and refused.said(words),
                        refused.log.read_text())

        machine.set_connected(False)
        eventually("the machine to be out of the sums", lambda: worker not in contributors(job), 90)
        trains_on(job)
        world.note("the machine lost its network, and the job trains on")
        machine.set_connected(True)
        eventually("it to contribute again by itself", lambda: worker in contributors(job), 180)

        world.run_swarmctl("token", "revoke", job.name, worker)
        eventually("it to be out", lambda: worker not in contributors(job) and not machines_of(job), 90)
        code = laptop.code()
        world.check("swarmctl join says that it was put out, and ends", code == 1 and laptop.said("put this machine out"),
                    laptop.log.read_text()[-500:])
        trains_on(job)

        desktop = join("desktop", new_token(world, job))
        desktop.await_words("serves stage")
        desktop.program.send_signal(signal.SIGINT)
        world.check("at Ctrl-C it hands over and leaves", desktop.code() == 0, desktop.log.read_text()[-500:])

        job.await_success()
        job.verify(world)
    finally:
        for each in joiners:
            each.stop()
        if machine:
            machine.close()
        world.install()  # without satellites, as other cases expect it
