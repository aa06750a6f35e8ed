"""The whole cluster: control plane and nodes, all inside one sandbox."""
import contextlib
import itertools
import shutil
import subprocess

from . import network, sandbox
from .control_plane import NODE_GRACE_SECONDS, ControlPlane
from .daemon import ClusterError, wait_until
from .node import Node, load_images
from .policies import PolicyAgent

ZONE = "topology.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"
CAPACITY = "swarmjob.dev/capacity"  # selects the nodes of the cases' pools: spot or on-demand
SPOT_LABEL = "swarmjob.dev/spot"    # operator and trainers avoid nodes with it
SPOT, ON_DEMAND = "spot", "on-demand"
CONTROL_PLANE_WEIGHT = 4            # of the processors, against 1 of a node
_NUMBERS = itertools.count(1)       # of the clusters beside the first one


class Cluster:
    """Call start(), then add_node(); everything ends with the sandbox."""

    node_grace_seconds = NODE_GRACE_SECONDS

    def __init__(self, box, binaries, archives, store, logs, place=network.HOME):
        self.sandbox = box
        self.place = place
        # A case may start another cluster where one has been; what that one left is in its own folder.
        self.name = place.name if place is network.HOME else f"{place.name}-{next(_NUMBERS)}"
        self.folder = box.folder / ("cluster" if place is network.HOME else f"cluster-{self.name}")
        self.folder.mkdir()
        self.binaries = binaries
        self.archives = archives
        self.images = store  # a containerd store with the archives, kept from run to run
        self.logs = logs
        self.nodes = {}
        self.control_plane = None
        self.policies = None
        self.unpack_seconds = {}
        self._next_index = place.first_index

    def start(self):
        """Brings up the network and the control plane, and unpacks the images once."""
        network.make()
        # With nodes that compute, the control plane and kubectl would wait for the processors of this machine.
        # Elsewhere they have their own.
        group = f"{self.sandbox.name}/control-plane"
        sandbox.make_cgroup(group, CONTROL_PLANE_WEIGHT)
        sandbox.join_cgroup(group)
        self._start_control_plane()
        if not self.images.exists():
            for other in self.images.parent.glob("store-*"):
                shutil.rmtree(other)
            new = self.sandbox.folder / "store"
            self.unpack_seconds = load_images(self.archives, new, self.sandbox.folder / "unpacking")
            # Not shutil.move: between file systems it would read the devices of an image, and wait for a terminal.
            part = self.images.with_name(f"{self.images.name}.part")
            subprocess.run(["mv", new, part], check=True)
            part.rename(self.images)

    def start_beside(self, other):
        """Brings up the control plane of a further cluster, in the network of another one that runs."""
        network.extend(self.place)
        self.unpack_seconds = other.unpack_seconds
        self._start_control_plane()

    def _start_control_plane(self):
        self.control_plane = ControlPlane(self.folder, self.binaries, self.place)
        self.control_plane.start()
        self.policies = PolicyAgent(self)
        self.policies.start()

    def stop(self):
        """Switches everything off, and removes it."""
        self.policies.stop()
        for node in self.nodes.values():
            if node.machine.poll() is None:
                node.vanish()
        for daemon in reversed(self.control_plane.daemons):
            daemon.kill()
        self.keep_all_logs()
        shutil.rmtree(self.folder, ignore_errors=True)

    def load(self, archives):
        """Loads images into the running nodes."""
        for node in self.nodes.values():
            if node.machine.poll() is None:
                node.load(archives)

    @property
    def kubeconfig(self):
        """The administrator's kubeconfig file."""
        return self.control_plane.admin

    def kubectl(self, *arguments):
        """Returns what kubectl prints."""
        done = subprocess.run([self.binaries / "kubectl", "--kubeconfig", self.kubeconfig, *arguments],
                              capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise ClusterError(f"kubectl {' '.join(arguments)}: {done.stderr.strip()}")
        return done.stdout

    def add_node(self, name, zone, capacity):
        """Switches on a machine; await_nodes() waits until it is ready. A name that was used before
        becomes another machine."""
        region = zone.rsplit("-", 1)[0]
        labels = {ZONE: zone, REGION: region, CAPACITY: capacity}
        if capacity == SPOT:
            labels[SPOT_LABEL] = "true"
        old = self.nodes.get(name)
        if old:
            index = old.index
        else:
            index, self._next_index = self._next_index, self._next_index + 1
        node = Node(self, name, index, labels)
        self.nodes[name] = node
        node.start(self.images)
        return node

    def await_nodes(self, seconds=90):
        """Waits until every running node is ready."""
        for node in self.nodes.values():
            if node.machine.poll() is None:
                wait_until(node.is_ready, seconds, f"node {node.name}; see its kubelet.log", interval=0.5)

    def keep_logs(self, node):
        """Copies a machine's logs before its folder is removed."""
        target = self.logs / "nodes" / f"{node.name}-{len(list((self.logs / 'nodes').glob(node.name + '-*')))}"
        target.mkdir(parents=True)
        for log in node.folder.glob("*.log"):
            shutil.copy(log, target)
        if (node.folder / "pods").exists():
            shutil.copytree(node.folder / "pods", target / "pods", symlinks=True)

    def keep_all_logs(self):
        """Copies the logs of every running machine and of the control plane."""
        (self.logs / "nodes").mkdir(parents=True, exist_ok=True)
        for node in self.nodes.values():
            if node.machine.poll() is None:
                self.keep_logs(node)
        with contextlib.suppress(FileExistsError):
            shutil.copytree(self.folder / "logs", self.logs / f"control-plane-{self.name}")
