"""The network between the machines: a bridge, which also carries the control planes. SWARM_E2E_IP says of which families
machines, pods and services have addresses: 4 (the default), 6, 46 or 64. The first is the one that control planes use and
that Kubernetes prefers."""
import dataclasses
import ipaddress
import os
import subprocess

_FAMILIES = os.environ.get("SWARM_E2E_IP", "4")
if _FAMILIES not in ("4", "6", "46", "64"):
    raise SystemExit(f"SWARM_E2E_IP is {_FAMILIES}, and not 4, 6, 46 or 64")


def _of_each(ipv4, ipv6):
    """What is given for each family, for those that the network has."""
    return [ipv4 if family == "4" else ipv6 for family in _FAMILIES]


NODES = [ipaddress.ip_network(nodes) for nodes in _of_each("10.99.0.0/24", "fd00:99::/64")]
CONTROL_PLANE = str(NODES[0][1])
PODS = _of_each("10.200.0.0/16", "fd00:200::/48")
ANYWHERE = _of_each("0.0.0.0/0", "::/0")
BRIDGE = "fabric"


@dataclasses.dataclass(frozen=True)
class Place:
    """Where a cluster is in the network. All clusters' pods and machines reach each other; names and services
    are each cluster's own."""

    name: str
    control_plane: str  # the address of its API server and its DNS
    services: list      # the addresses of its services, a range for each family
    ports: int = 0      # what is added to the usual ports of its control plane
    first_index: int = 1  # of its machines

    @property
    def kubernetes_service(self):
        """The address of its API server among its services."""
        return str(ipaddress.ip_network(self.services[0])[1])


HOME = Place("home", CONTROL_PLANE, _of_each("10.96.0.0/16", "fd00:96::/112"))
WEST = Place("west", str(NODES[0][2]), _of_each("10.97.0.0/16", "fd00:97::/112"), ports=1000, first_index=101)
EAST = Place("east", str(NODES[0][3]), _of_each("10.98.0.0/16", "fd00:98::/112"), ports=2000, first_index=151)


def in_url(host):
    """An address as it is written in a URL."""
    return f"[{host}]" if ":" in host else host


def nft_family(address):
    """What rules of nftables call the family of an address, or of a range."""
    return "ip6" if ":" in address else "ip"


def ip(*arguments, check=True):
    """Runs ip(8)."""
    subprocess.run(["ip", *map(str, arguments)], check=check, capture_output=not check)


def sysctl(setting):
    """Sets NAME=VALUE of this network namespace."""
    subprocess.run(["sysctl", "-qw", setting], check=True)


def make():
    """Makes the bridge in this process's network namespace."""
    ip("link", "set", "lo", "up")
    ip("link", "add", BRIDGE, "type", "bridge")
    for nodes in NODES:
        _add_to_bridge(nodes[1], nodes)
    ip("link", "set", BRIDGE, "up")
    for setting in _of_each("net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1"):
        sysctl(setting)
    for interface in ("all", BRIDGE):  # packets between nodes may pass through the bridge's owner
        sysctl(f"net.ipv4.conf.{interface}.send_redirects=0")


def add_control_plane(place):
    """Gives the bridge the address of another cluster's control plane, unless it has it."""
    _add_to_bridge(place.control_plane, NODES[0])


def _add_to_bridge(own, nodes):
    # Without a search for duplicates, an address of IPv6 can be used at once.
    ip("addr", "replace", f"{own}/{nodes.prefixlen}", "dev", BRIDGE, *(["nodad"] if nodes.version == 6 else []))


def addresses(index):
    """The addresses of the machine with this index (1 and up), one of each family."""
    return [str(nodes[10 + index]) for nodes in NODES]


def links(index):
    """The same with the lengths of their prefixes."""
    return [f"{nodes[10 + index]}/{nodes.prefixlen}" for nodes in NODES]


def gateways():
    """The addresses of the bridge, one of each family."""
    return [str(nodes[1]) for nodes in NODES]


def pod_ranges(index):
    """The addresses of that machine's pods, a range for each family."""
    return _of_each(f"10.200.{index}.0/24", f"fd00:200:0:{index:x}::/64")


def plug_in(name, index, pid):
    """Connects the network namespace of process `pid`, in which the interface becomes eth0."""
    cable = f"v-{name}"
    ip("link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", pid)
    ip("link", "set", cable, "master", BRIDGE, "up")
    for pods, machine in zip(pod_ranges(index), addresses(index)):
        ip("route", "replace", pods, "via", machine)


def pull_out(name):
    """Cuts the machine's cable permanently."""
    ip("link", "del", f"v-{name}", check=False)


def set_connected(name, connected):
    """Cuts the machine off, or connects it again: a black hole, nothing is refused."""
    ip("link", "set", f"v-{name}", "up" if connected else "down")
