"""A node: a machine made of namespaces, with its own containerd, kubelet and kube-proxy.

Its containers and daemons are processes of one PID namespace, so killing the first of them is a power
cut. A case can also freeze its control groups and cut its cable.
"""
import json
import pathlib
import shutil
import subprocess
import time

from . import network, sandbox
from .daemon import ClusterError, wait_until

PAUSE_IMAGE = "localhost/pause:1"
CONTAINERD = """version = 2
root = "{folder}/containerd"
state = "/run/containerd-state"
disabled_plugins = ["io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs",
  "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.aufs"]
[grpc]
  address = "{folder}/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  restrict_oom_score_adj = true
  sandbox_image = "{pause}"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "{folder}/cni"
"""


class Node:
    """One machine. Its kubelet registers it with `labels`."""

    def __init__(self, cluster, name, index, labels):
        self.cluster = cluster
        self.name = name
        self.index = index
        self.labels = labels
        self.addresses = cluster.place.addresses(index)
        self.address = self.addresses[0]
        self.pod_ranges = cluster.place.pod_ranges(index)
        self.folder = cluster.folder / name
        self.cgroup = f"{cluster.sandbox.name}/{name}"
        self.machine = None
        self.broken = False  # damaged for good: only another machine helps

    def start(self, images=None):
        """Switches a new machine on; `images` is its first containerd store (images.py)."""
        self.folder.mkdir()
        self._configure()
        if images:
            _copy_store(images, self.folder / "containerd")
        for group in ("", "/machine"):
            sandbox.make_cgroup(self.cgroup + group)
        init = pathlib.Path(__file__).with_name("node_init.sh")
        with open(self.folder / "machine.log", "ab") as log:
            self.machine = subprocess.Popen(
                ["unshare", "--net", "--pid", "--mount", "--ipc", "--uts", "--fork", "--kill-child", "--mount-proc",
                 "bash", init, self.folder, self.cgroup, ",".join(self.cluster.place.links(self.index)),
                 ",".join(self.cluster.place.routers), self.cluster.binaries],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        own = pathlib.Path("/proc/self/ns/net").readlink()
        wait_until(lambda: self._refuse_dead() and _net_namespace(self.machine.pid) not in (own, None), 20,
                   f"machine {self.name}")
        network.plug_in(self.cluster.place, self.name, self.index, self.machine.pid)

    def is_ready(self):
        """Whether Kubernetes reports it as ready."""
        self._refuse_dead()
        found = self.cluster.kubectl("get", "node", self.name, "--ignore-not-found", "-o", "json")
        conditions = json.loads(found)["status"].get("conditions", []) if found else []
        return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)

    def _refuse_dead(self):
        if self.machine.poll() is not None:
            raise ClusterError(f"machine {self.name} ended:\n{(self.folder / 'machine.log').read_text()}")
        return True

    def load(self, archives):
        """Unpacks docker archives."""
        for archive in archives:
            import_image(self.folder / "containerd.sock", archive)

    def name_image(self, image, name):
        """Gives one of its images another name."""
        _ctr(self.folder / "containerd.sock", "images", "tag", "--force", image, name)

    def forget_image(self, name):
        """Removes the name of an image. What runs from it goes on."""
        _ctr(self.folder / "containerd.sock", "images", "rm", "--sync", name)

    def refuse(self, sources, machine=False):
        """Drops what comes to its pods from these ranges, and with `machine` what comes to itself. An empty list: nothing is
        dropped."""
        rules = []
        for own, address in zip(self.pod_ranges, self.addresses):
            family = network.nft_family(own)
            others = [source for source in sources if network.nft_family(source) == family]
            to = [own, *([address] if machine else [])]
            if others:
                rules.append(f"{family} saddr {{ {', '.join(others)} }} {family} daddr {{ {', '.join(to)} }} drop")
        table = ("table inet apart\ndelete table inet apart\ntable inet apart {\n  chain prerouting {\n"
                 "    type filter hook prerouting priority raw; policy accept;\n    " + "\n    ".join(rules)
                 + "\n  }\n}\n")
        subprocess.run(["nsenter", f"--net=/proc/{self.machine.pid}/ns/net", "nft", "-f", "-"], input=table, text=True,
                       check=True)

    def break_program(self, path):
        """Makes this program of all its images unusable, as if it were for other processors. What runs goes on."""
        for program in self.folder.glob(f"containerd/*.overlayfs/snapshots/*/fs/{path}"):
            # The file is shared with other machines' stores; this one gets its own.
            own = program.with_suffix(".broken")
            own.write_text("no program\n")
            own.chmod(0o755)
            own.replace(program)
            self.broken = True
        if not self.broken:
            raise ClusterError(f"no image on {self.name} has {path}")

    def vanish(self):
        """Cuts the power without notice: the node object stays, and the disk is lost."""
        network.pull_out(self.name)
        self.machine.kill()
        self.machine.wait()
        self.cluster.keep_logs(self)
        sandbox.remove_cgroups(self.cgroup)
        shutil.rmtree(self.folder, ignore_errors=True)

    def freeze(self):
        """Stops all its processes; its connections stay open and silent."""
        self._set_frozen(True)

    def thaw(self):
        """Lets them continue."""
        self._set_frozen(False)

    def cut_off(self):
        """Drops all its packets until reconnect()."""
        network.set_connected(self.name, False)

    def reconnect(self):
        """Ends cut_off()."""
        network.set_connected(self.name, True)

    def _set_frozen(self, frozen):
        v1 = sandbox.CGROUPS / "freezer" / self.cgroup
        group = v1 if v1.exists() else sandbox.CGROUPS / self.cgroup
        if group == v1:
            (group / "freezer.state").write_text("FROZEN" if frozen else "THAWED")
        else:
            (group / "cgroup.freeze").write_text("1" if frozen else "0")

    def _configure(self):
        kubeconfig = self.cluster.control_plane.authority.client(
            f"node-{self.name}", f"/O=system:nodes/CN=system:node:{self.name}",
            self.cluster.control_plane.server)
        shutil.copy(kubeconfig, self.folder / "kubelet.kubeconfig")
        (self.folder / "name").write_text(self.name)
        (self.folder / "labels").write_text(",".join(f"{key}={value}" for key, value in self.labels.items()))
        (self.folder / "containerd.toml").write_text(CONTAINERD.format(folder=self.folder, pause=PAUSE_IMAGE))
        (self.folder / "cni").mkdir()
        (self.folder / "cni" / "pods.conflist").write_text(json.dumps({
            "cniVersion": "0.4.0", "name": "pods", "plugins": [{
                "type": "ptp", "ipam": {
                    "type": "host-local", "dataDir": str(self.folder / "ipam"),
                    "ranges": [[{"subnet": pods}] for pods in self.pod_ranges],
                    "routes": [{"dst": anywhere} for anywhere in self.cluster.place.anywhere]}}]}))
        (self.folder / "kubelet.json").write_text(json.dumps(self._kubelet()))
        (self.folder / "proxy.json").write_text(json.dumps({
            "apiVersion": "kubeproxy.config.k8s.io/v1alpha1", "kind": "KubeProxyConfiguration",
            "mode": "nftables", "clientConnection": {"kubeconfig": str(self.cluster.control_plane.admin)},
            "clusterCIDR": ",".join(self.cluster.place.pods), "hostnameOverride": self.name, "conntrack": {"maxPerCore": 0}}))

    def _kubelet(self):
        ca = str(self.cluster.control_plane.authority.certificate)
        return {
            "apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
            "failCgroupV1": False, "cgroupDriver": "cgroupfs", "cgroupRoot": f"/{self.cgroup}",
            "enforceNodeAllocatable": [], "failSwapOn": False,
            "containerRuntimeEndpoint": f"unix://{self.folder}/containerd.sock",
            "authentication": {"anonymous": {"enabled": False}, "webhook": {"enabled": True},
                               "x509": {"clientCAFile": ca}},
            "authorization": {"mode": "Webhook"},
            # Not a share: a hundredth of a large disk is more than a run needs.
            "evictionHard": {"nodefs.available": "256Mi", "imagefs.available": "256Mi"},
            "imageGCHighThresholdPercent": 100,
            "clusterDNS": [self.cluster.place.control_plane], "clusterDomain": "cluster.local",
            # The kubelet renews its lease four times in this time. The control plane waits this long
            # before it misses a node.
            "nodeLeaseDurationSeconds": 16, "nodeStatusUpdateFrequency": "4s",
            "volumePluginDir": str(self.folder / "plugins"), "podLogsDir": str(self.folder / "pods"),
        }


def _net_namespace(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/ns/net").readlink()
    except OSError:
        return None


def _copy_store(source, target):
    """Copies a containerd store. Hard links share the files that containerd never changes in place."""
    target.mkdir()
    for part in source.iterdir():
        shared = part.name.endswith(("content.v1.content", "snapshotter.v1.overlayfs"))
        if shared and subprocess.run(["cp", "-al", part, target / part.name], capture_output=True,
                                     check=False).returncode == 0:
            continue
        shutil.rmtree(target / part.name, ignore_errors=True)  # on another file system
        subprocess.run(["cp", "-a", part, target / part.name], check=True)
    for database in target.rglob("*.db"):
        own = database.with_suffix(".own")
        shutil.copy(database, own)
        own.replace(database)


def import_image(socket, archive):
    """Makes the containerd at that socket unpack a docker archive."""
    _ctr(socket, "images", "import", archive)


def _ctr(socket, *command):
    done = subprocess.run(["ctr", "--address", socket, "--namespace", "k8s.io", *command],
                          capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ClusterError(f"ctr {' '.join(map(str, command))}: {done.stderr.strip()}")


def load_images(archives, store, folder):
    """Unpacks docker archives into a containerd store; returns the seconds that each one took."""
    folder.mkdir(parents=True, exist_ok=True)
    socket = folder / "containerd.sock"
    (folder / "containerd.toml").write_text(
        f'version = 2\nroot = "{store}"\nstate = "{folder}/state"\n'
        'disabled_plugins = ["io.containerd.grpc.v1.cri", "io.containerd.snapshotter.v1.btrfs", '
        '"io.containerd.snapshotter.v1.zfs", "io.containerd.snapshotter.v1.devmapper", '
        '"io.containerd.snapshotter.v1.aufs"]\n'
        f'[grpc]\n  address = "{socket}"\n')
    seconds = {}
    with open(folder / "containerd.log", "ab") as log:
        daemon = subprocess.Popen(["containerd", "--config", folder / "containerd.toml"],
                                  stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        wait_until(socket.exists, 20, "containerd")
        for archive in archives:
            begun = time.monotonic()
            import_image(socket, archive)
            seconds[pathlib.Path(archive).stem] = time.monotonic() - begun
    finally:
        daemon.terminate()
        daemon.wait(20)
    return seconds
