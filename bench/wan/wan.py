"""A wide-area network on one machine: a network namespace for every node, and wan_link between them.

    sandboxed()                         # the program continues in its own namespaces
    with Wan(topology, build) as wan:   # topology as in topology.h
        wan.popen("w0", [program, ...])
        wan.address("w0")

Everything lives in the sandbox's namespaces and its temporary folder. When the program ends, in any way, the
kernel ends all processes in the sandbox, and so removes the namespaces and their devices.
"""
import argparse
import contextlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "e2e"))

from cluster import sandbox  # noqa: E402
from cluster.daemon import ClusterError  # noqa: E402

IMPOSSIBLE = 77  # ctest reports this exit code as "skipped"
TUN = pathlib.Path("/dev/net/tun")
DEVICE = "wan0"
NAMESPACES = pathlib.Path("/run/netns")  # of the sandbox, which has its own mount there
# One flow fills 500 Mb/s at 200 ms: 12.5 MB under way, as much again in the queues, and half of a
# buffer is the kernel's own accounting.
SOCKET_BYTES_MAX = 64 << 20


def sandboxed():
    """Runs the program again inside a sandbox and exits with its code; inside, returns.

    Exits with 77 if this machine cannot have such a network.
    """
    if sandbox.Sandbox.current():
        # The measured programs take precedence over all others on this machine.
        with contextlib.suppress(OSError):
            pathlib.Path("/proc/self/autogroup").write_text("-19")
        return
    try:
        sandbox.refuse_without_rights()
    except ClusterError as error:
        print(f"SKIPPED: an emulated network needs root and namespaces: {error}", file=sys.stderr)
        sys.exit(IMPOSSIBLE)
    if not TUN.exists():
        print(f"SKIPPED: an emulated network needs {TUN}, which is not there", file=sys.stderr)
        sys.exit(IMPOSSIBLE)
    sys.exit(sandbox.run([sys.executable, "-B", *sys.argv]))


def uniform(nodes, rate, rtt, loss=0):
    """A topology in which all links are equal: Mb/s (0: unlimited), round trip in ms."""
    return {"nodes": [{"name": name, "region": name} for name in nodes],
            "links": [{"between": ["*", "*"], "rateMbps": rate, "oneWayMs": rtt / 2, "loss": loss}]}


def command_line(description, rate, rtt, milliseconds, boundary_bytes):
    """A parser with the options of a benchmark that trains one job between regions with timed workers, and these
    defaults."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release")
    parser.add_argument("--rate", type=float, default=rate, help="Mb/s between two regions")
    parser.add_argument("--rtt", type=float, default=rtt, help="ms between two regions")
    parser.add_argument("--milliseconds", type=float, default=milliseconds,
                        help="of a microbatch at a worker, the fastest if they differ")
    parser.add_argument("--bytes", type=int, default=boundary_bytes, help="of a microbatch at the boundary, each way")
    parser.add_argument("--microbatches", type=int, default=64, help="a step")
    parser.add_argument("--steps", type=int, default=10, help="of a run, and two before them")
    parser.add_argument("--patience", type=int, default=240, help="seconds for a run")
    return parser


class Wan:
    """The network of a topology; it is up while the object is entered."""

    def __init__(self, topology, build=ROOT / "build" / "release", congestion="cubic"):
        self.nodes = [node["name"] for node in topology["nodes"]]
        self.topology = topology
        self.program = pathlib.Path(build) / "bin" / "wan_link"
        self.congestion = congestion
        self.report = None  # of wan_link, set when the object is left
        self._link = None
        self._folder = pathlib.Path(tempfile.mkdtemp(prefix="wan-", dir=sandbox.Sandbox.current().folder))

    def __enter__(self):
        if not os.path.ismount(NAMESPACES):
            subprocess.run(["mount", "--make-rprivate", "/"], check=True)
            NAMESPACES.mkdir(exist_ok=True)
            subprocess.run(["mount", "-t", "tmpfs", "tmpfs", NAMESPACES], check=True)
        try:
            for node in self.nodes:
                self._make(node)
            self._connect()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        if self._link:
            self._link.terminate()
            self._link.wait(10)
            report = self._folder / "report.json"
            self.report = json.loads(report.read_text()) if report.exists() else None
        for node in self.nodes:
            subprocess.run(["ip", "netns", "del", node], capture_output=True, check=False)

    def address(self, node):
        """The address at which all other nodes reach this node."""
        return f"10.77.0.{self.nodes.index(node) + 1}"

    def popen(self, node, arguments, **options):
        """Starts a program on a node."""
        return subprocess.Popen(["nsenter", f"--net={NAMESPACES / node}", "--", *map(str, arguments)], **options)

    def _make(self, node):
        subprocess.run(["ip", "netns", "add", node], check=True)
        settings = {"net.ipv4.tcp_rmem": f"4096 131072 {SOCKET_BYTES_MAX}",
                    "net.ipv4.tcp_wmem": f"4096 65536 {SOCKET_BYTES_MAX}",
                    "net.ipv4.tcp_no_metrics_save": 1,  # no run learns from an earlier one
                    "net.ipv6.conf.all.disable_ipv6": 1}
        for command in (["ip", "link", "set", "lo", "up"],
                        ["ip", "tuntap", "add", "dev", DEVICE, "mode", "tun"],
                        ["ip", "link", "set", DEVICE, "mtu", "1500", "txqueuelen", "10000"],
                        ["ip", "addr", "add", f"{self.address(node)}/24", "dev", DEVICE],
                        ["ip", "link", "set", DEVICE, "up"],
                        # Set on the route, because the sysctl accepts only algorithms that the
                        # machine allows all users.
                        ["ip", "route", "change", "10.77.0.0/24", "dev", DEVICE, "src", self.address(node),
                         "congctl", self.congestion],
                        ["sysctl", "-qw", *(f"{key}={value}" for key, value in settings.items())]):
            with self.popen(node, command) as process:
                if process.wait() != 0:
                    raise RuntimeError(f"wan: {' '.join(command)} failed on {node}")

    def _connect(self):
        topology = self._folder / "topology.json"
        topology.write_text(json.dumps(self.topology))
        self._link = subprocess.Popen(
            [self.program, "--topology", topology, "--namespaces", NAMESPACES, "--device", DEVICE,
             "--report", self._folder / "report.json"], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
        if self._link.stdout.readline() != b"ready\n":
            raise RuntimeError("wan: wan_link did not start; it has said why above")
