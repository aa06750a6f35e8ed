"""What a case can use: the cluster, the bucket, the operator, and its own namespace."""
import contextlib
import dataclasses
import json
import pathlib
import subprocess
import sys
import urllib.parse

from cluster import kueue, kwok, network
from cluster.cluster import ON_DEMAND, SPOT, Cluster
from cluster.daemon import Daemon, can_connect

from . import extras
from .case import Notes, Skip
from .job import Job
from .kubectl import Kubectl, Refused, eventually

OPERATOR_NAMESPACE = "swarmjob"  # as the pages of the documentation have it
RELEASE = "swarmjob"
DATA = "data/bible.txt"
CHART = pathlib.Path("helm") / "swarmjob"  # below a checkout
RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}


@dataclasses.dataclass(frozen=True)
class Version:
    """What an administrator installs: a chart, and the images {"operator": tag, "worker": tag}."""

    chart: pathlib.Path
    images: dict


class World:
    """All cases of a run share it; each case has its own namespace and notes."""

    def __init__(self, kubectl, cluster, server, bucket, reference, programs, version, old):
        self.kubectl = kubectl
        self.cluster = cluster  # None: the cases cannot stop the cluster's machines
        self.server = server    # None: the cases cannot stop the storage
        self.bucket = bucket
        self.reference = reference
        self.swarmctl = programs / "swarmctl"
        self.helm_program = "helm" if cluster is None else str(cluster.binaries / "helm")
        self.version = version  # that this run is about
        self.old = old          # an earlier one; None: it was not given
        self.data_uri = bucket.upload(reference.data, DATA)
        self.beside = []        # the other clusters that run now
        self.balancers = []     # what passes connections of one family on to the other, while they run
        self.namespace = ""
        self.further = []       # namespaces of the case beside its own
        self.notes = Notes()
        self.played = 0

    @property
    def images(self):
        """The images of this run's version."""
        return self.version.images

    # The case's own part.

    def begin(self, name, labels=()):
        """Makes a namespace and notes for the next case. The namespace enforces restricted Pod Security."""
        self.notes = Notes()
        self.played += 1
        self.namespace = f"e2e-{self.played}-{name.replace('_', '-')}"[:50].strip("-")
        self.further = []
        self.make_namespace(self.namespace, {**RESTRICTED, **dict(labels)})

    def another_namespace(self, name):
        """Makes a further namespace of the case, like its own. Returns its name, of which `name` is the end."""
        self.further.append(f"{self.namespace}-{name}")
        self.make_namespace(self.further[-1], RESTRICTED)
        return self.further[-1]

    @property
    def namespaces(self):
        """All namespaces of the case, its own first."""
        return [self.namespace, *self.further]

    def make_namespace(self, name, labels, kubectl=None):
        """Makes the namespace, with the keys of the bucket, in this cluster or in that of `kubectl`."""
        (kubectl or self.kubectl).apply(
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}},
            {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s3-keys", "namespace": name},
             "stringData": {"AWS_ACCESS_KEY_ID": self.bucket.key, "AWS_SECRET_ACCESS_KEY": self.bucket.secret}})

    def end(self):
        """Removes the case's namespaces and repairs the cluster."""
        if self.server:
            self.server.resume()
        self.heal()
        for namespace in self.namespaces:
            self.kubectl.delete("namespace", namespace, None, "--wait=false")

    def job(self, name="job", **settings):
        """A Job of the case; submit() creates it."""
        return Job(self, name, **settings)

    def check(self, what, holds, found=""):
        """See Notes."""
        self.notes.check(what, holds, found)

    def note(self, text):
        """See Notes."""
        self.notes.note(text)

    # Another cluster.

    @contextlib.contextmanager
    def west(self, place=network.WEST):
        """Another cluster beside this one, with two machines and the case's namespace; yields its kubectl."""
        with self._other(place, {"west-od": ON_DEMAND, "west-spot": SPOT}) as kubectl:
            yield kubectl

    @contextlib.contextmanager
    def east(self):
        """Like west(), with one machine."""
        with self._other(network.EAST, {"east-od": ON_DEMAND}) as kubectl:
            yield kubectl

    @contextlib.contextmanager
    def _other(self, place, machines):
        self.need_machines()
        here = self.cluster
        other = Cluster(here.sandbox, here.binaries, here.archives, here.images, here.logs, place)
        try:
            other.start_beside(here)
            for name, capacity in machines.items():
                other.add_node(name, f"{place.name}-a", capacity)
            other.await_nodes()
            kubectl = Kubectl(here.binaries / "kubectl", other.kubeconfig)
            self.make_namespace(self.namespace, RESTRICTED, kubectl)
            self.beside.append(other)
            self.note(f"another cluster runs: {place.name}")
            yield kubectl
        finally:
            if other in self.beside:
                self.beside.remove(other)
            other.stop()
            while self.balancers:
                self.balancers.pop().kill()

    @contextlib.contextmanager
    def apart(self):
        """Meanwhile no pod reaches the address of a pod in another cluster, as where networks are not routed. Machines
        reach each other."""
        clusters = (self.cluster, *self.beside)
        try:
            for cluster in clusters:
                others = [pods for other in clusters if other is not cluster
                          for node in other.nodes.values() for pods in node.pod_ranges]
                for node in cluster.nodes.values():
                    node.refuse(others)
            self.note("the pods of the clusters do not reach each other")
            yield
        finally:
            for cluster in clusters:
                for node in cluster.nodes.values():
                    node.refuse([])

    @contextlib.contextmanager
    def cut(self):
        """Meanwhile no packet goes from one cluster to another, neither of pods nor of machines: their line is cut."""
        clusters = (self.cluster, *self.beside)
        try:
            for cluster in clusters:
                others = [source for other in clusters if other is not cluster for node in other.nodes.values()
                          for source in (*node.pod_ranges, *node.addresses)]
                for node in cluster.nodes.values():
                    node.refuse(others, machine=True)
            self.note("the line between the clusters is cut")
            yield
        finally:
            for cluster in clusters:
                for node in cluster.nodes.values():
                    node.refuse([])
            self.note("the line between the clusters is back")

    def home_for_satellites(self):
        """Lets this cluster's operator expect satellites, and returns the address at which they reach it."""
        self.install("--set", "satellites.enabled=true", "--set", "satellites.service.type=NodePort")
        (service,) = [each for each in self.kubectl.list("services", OPERATOR_NAMESPACE)
                      if each["spec"]["type"] == "NodePort"]
        node = self.cluster.nodes["od-a"]
        return f"{network.in_url(node.address)}:{service['spec']['ports'][0]['nodePort']}"

    def make_satellite(self, kubectl, name, home):
        """Makes the operator of the other cluster a satellite, as its administrator does."""
        token = eventually("home to give a token", lambda: self.run_swarmctl(
            "satellite", "token", name, "--home", home, namespace=OPERATOR_NAMESPACE), 60)
        self.install_satellite(kubectl, "--set", f"satellite.token={token.strip()}")

    def install_satellite(self, kubectl, *extra):
        """Installs the chart in the other cluster, as a satellite. Without a token it needs an identity of before."""
        self.install("--set", "satellite.enabled=true", "--set", "crds.enabled=false", *extra,
                     kubeconfig=kubectl.kubeconfig)

    # Machines.

    def need_machines(self):
        """Skips the case if the cluster's machines cannot be switched off."""
        if self.cluster is None:
            raise Skip("needs machines that it can switch off")

    def need_extras(self, names):
        """Skips the case if the cluster lacks one of extras.ALL."""
        for name in sorted(names):
            if self.cluster is None or not extras.ALL[name].is_in(self.cluster):
                raise Skip(f"needs a cluster of its own, and {name}, which is built where the case is chosen from the beginning")

    @contextlib.contextmanager
    def simulated_nodes(self, count):
        """Meanwhile the cluster has further nodes, of the capacity `simulated`, on which kwok runs pods without containers.
        They have kwok.TAINT. The case needs kwok."""
        plane = self.cluster.control_plane
        daemon = kwok.start(self.cluster.binaries, plane, plane.place.control_plane, plane.place.simulated_pods)
        real = self.kubectl.get("node", next(iter(self.cluster.nodes)))["metadata"]["labels"]
        labels = {"swarmjob.dev/capacity": "simulated",
                  **{label: real[label] for label in ("kubernetes.io/os", "kubernetes.io/arch")}}
        nodes = [kwok.node(f"simulated-{number}", labels, taints=[kwok.TAINT]) for number in range(count)]
        names = [each["metadata"]["name"] for each in nodes]
        try:
            self.kubectl.apply(*nodes)
            self.kubectl("wait", "node", *names, "--for=condition=Ready", "--timeout=50s")
            self.note(f"{count} simulated nodes are ready")
            yield
        finally:
            self.kubectl("delete", "node", "--ignore-not-found", *names)
            daemon.kill()

    def vanish(self, node):
        """Cuts the power of that node's machine."""
        self.note(f"power cut: {node}")
        self.cluster.nodes[node].vanish()

    def replace_node(self, node):
        """Starts another machine under the same name and deletes the old object, like a cloud's controller."""
        old = self.cluster.nodes[node]
        if old.machine.poll() is None:
            self.vanish(node)
        self.kubectl.delete("node", node)
        new = self.cluster.add_node(node, old.labels["topology.kubernetes.io/zone"],
                                    old.labels["swarmjob.dev/capacity"])
        eventually(f"{node} to be ready again", new.is_ready, 90)
        self.note(f"another machine is now {node}")

    def name_image(self, image, name):
        """Gives an image another name on all machines, those of other clusters too."""
        for cluster in (self.cluster, *self.beside):
            for node in cluster.nodes.values():
                node.name_image(image, name)

    def give_addresses(self):
        """Does what the clouds of the clusters do: a Service of type LoadBalancer gets an address, of the family that the pods
        of other clusters have. It is that of a machine, or that of a balancer before the machine."""
        for cluster in (self.cluster, *self.beside):
            kubectl = Kubectl(cluster.binaries / "kubectl", cluster.kubeconfig)
            for service in kubectl.list("services"):
                if service["spec"]["type"] == "LoadBalancer" and not service["status"]["loadBalancer"]:
                    where, address = service["metadata"], self._give_address(cluster, service)
                    kubectl.patch("service", where["name"], where["namespace"],
                                  {"status": {"loadBalancer": {"ingress": [{"ip": address}]}}}, "status")
                    self.note(f"{where['name']} is at {address}")

    def _give_address(self, cluster, service):
        machine = next(iter(cluster.nodes.values())).address
        callers = [other.place for other in (self.cluster, *self.beside) if other is not cluster]
        if not callers or callers[0].families[0] == cluster.place.families[0]:
            return machine
        for port in service["spec"]["ports"]:
            self._balance(callers[0], port["port"], machine, port["nodePort"])
        return callers[0].routers[0]

    def _balance(self, callers, port, *target):
        """Starts a balancer at this port of the address that machines and pods of a place see of the bridge."""
        address = callers.routers[0]
        program = pathlib.Path(network.__file__).with_name("balancer.py")
        balancer = Daemon(f"balancer-{address}-{port}", [sys.executable, program, address, port, *target],
                          self.cluster.folder / "logs", lambda: can_connect(address, port))
        self.balancers.append(balancer)
        balancer.start()

    def name_storage(self):
        """Lets the pods of all clusters reach the storage by one name, each at an address of its own family. Returns the
        URL."""
        storage = urllib.parse.urlsplit(self.bucket.url)
        for cluster in (self.cluster, *self.beside):
            address = storage.hostname
            if cluster.place.families[0] != self.cluster.place.families[0]:
                self._balance(cluster.place, storage.port, address, storage.port)
                address = cluster.place.routers[0]
            where = {"name": "storage", "namespace": self.namespace}
            ports = [{"name": "s3", "port": storage.port, "protocol": "TCP"}]
            Kubectl(cluster.binaries / "kubectl", cluster.kubeconfig).apply(
                {"apiVersion": "v1", "kind": "Service", "metadata": where, "spec": {"clusterIP": "None", "ports": ports}},
                {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
                 "metadata": {**where, "labels": {"kubernetes.io/service-name": "storage"}},
                 "addressType": "IPv6" if ":" in address else "IPv4", "endpoints": [{"addresses": [address]}],
                 "ports": ports})
        return f"http://storage.{self.namespace}.svc:{storage.port}"

    def forget_image(self, name):
        """Removes the name of an image from all machines."""
        self.note(f"no machine has {name} any more")
        for node in self.cluster.nodes.values():
            node.forget_image(name)

    def break_workers(self, node):
        """Makes swarm-worker unusable on that node."""
        self.note(f"no swarm-worker starts on {node} any more")
        self.cluster.nodes[node].break_program("usr/local/bin/swarm-worker")

    def heal(self):
        """Switches on, repairs, connects and uncordons every machine, and starts the API server if it is down."""
        if self.cluster is None:
            return
        if self.cluster.control_plane.api.process.poll() is not None:
            self.cluster.control_plane.api.start()
        for name, node in list(self.cluster.nodes.items()):
            if node.broken or node.machine.poll() is not None:
                self.replace_node(name)
            node = self.kubectl.get("node", name)
            if node["spec"].get("taints") or node["spec"].get("unschedulable"):
                self.kubectl("patch", "node", name, "--type=merge", "-p",
                             json.dumps({"spec": {"taints": None, "unschedulable": False}}))

    def uid_of_node(self, name):
        """The UID of the Node object."""
        return self.kubectl.get("node", name)["metadata"]["uid"]

    def taint(self, node, taint):
        """Adds a taint such as KEY=VALUE:NoSchedule."""
        self.note(f"taint on {node}: {taint}")
        self.kubectl("taint", "node", node, taint, "--overwrite")

    # The operator.

    def helm(self, *arguments, kubeconfig=None):
        """Runs helm. Raises Refused."""
        done = subprocess.run([self.helm_program, "--kubeconfig", kubeconfig or self.kubectl.kubeconfig,
                               *map(str, arguments)],
                              capture_output=True, text=True, timeout=240, check=False)
        if done.returncode != 0:
            raise Refused(f"helm {arguments[0]}: {done.stderr.strip()}")
        return done.stdout

    def run_swarmctl(self, command, *arguments, namespace=None):
        """Runs swarmctl against the cluster, in the case's namespace, and returns what it prints. Raises Refused."""
        done = subprocess.run([self.swarmctl, command, *arguments, "--kubeconfig", self.kubectl.kubeconfig,
                               "--namespace", namespace or self.namespace], capture_output=True, text=True, timeout=60, check=False)
        if done.returncode != 0:
            raise Refused(f"swarmctl {command}: {done.stderr.strip()}")
        return done.stdout

    def need_old_version(self):
        """Returns an earlier version. Skips the case if none was given."""
        if self.old is None:
            raise Skip("needs an earlier version: --old CHECKOUT")
        return self.old

    def install(self, *extra, version=None, kubeconfig=None):
        """Installs a version, this run's unless another is named, or replaces the one that is there. Waits until
        the operator runs. In this cluster, or in that of `kubeconfig`."""
        version = version or self.version
        operator, worker = (version.images[name].rsplit(":", 1) for name in ("operator", "worker"))
        self.helm("upgrade", "--install", RELEASE, version.chart, "--namespace", OPERATOR_NAMESPACE, "--create-namespace",
                  "--set", f"image.repository={operator[0]}", "--set", f"image.tag={operator[1]}",
                  "--set", f"workerImage.repository={worker[0]}", "--set", f"workerImage.tag={worker[1]}",
                  "--wait", "--timeout", "120s", *extra, kubeconfig=kubeconfig)

    @contextlib.contextmanager
    def kueue(self):
        """Runs Kueue's controller meanwhile, in each cluster that there is. At its end the operator is as before. The case
        needs kueue."""
        controllers = []
        try:
            for number, cluster in enumerate([self.cluster, *self.beside]):
                controllers.append(kueue.start(cluster, number))
            yield
        finally:
            for controller in controllers:
                controller.kill()
            self.install()

    def uninstall(self, kubeconfig=None):
        """Uninstalls the chart, in this cluster or in that of `kubeconfig`."""
        self.helm("uninstall", RELEASE, "--namespace", OPERATOR_NAMESPACE, "--wait", kubeconfig=kubeconfig)

    def operator_pods(self):
        """The operator's running pods."""
        return [pod for pod in self.kubectl.list("pods", OPERATOR_NAMESPACE)
                if pod["status"].get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"]]

    def leader(self):
        """The name of the operator's leading pod, or None."""
        for lease in self.kubectl.list("leases", OPERATOR_NAMESPACE):
            holder = lease["spec"].get("holderIdentity", "")
            for pod in self.operator_pods():
                if pod["metadata"]["name"] in holder:
                    return pod["metadata"]["name"]
        return None

    def await_leader(self, other_than=None, seconds=60):
        """Waits for a leader; if a name is given, for a leader with another name."""
        return eventually("a leader", lambda: (leader := self.leader()) and leader != other_than and leader, seconds)

    def kill_pod(self, name, namespace):
        """Deletes a pod without waiting; its containers have two seconds."""
        self.note(f"killed: {name}")
        self.kubectl.delete("pod", name, namespace, "--grace-period=0", "--force")
