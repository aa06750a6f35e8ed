"""The network between the machines: a bridge, which also carries the control planes. All addresses are of
one family: IPv4, or IPv6 where SWARM_E2E_IP is 6."""
import dataclasses
import ipaddress
import os
import subprocess

IPV6 = os.environ.get("SWARM_E2E_IP") == "6"
NODES = ipaddress.ip_network("fd00:99::/64" if IPV6 else "10.99.0.0/24")
CONTROL_PLANE = str(NODES[1])
PODS = "fd00:200::/48" if IPV6 else "10.200.0.0/16"
ANYWHERE = "::/0" if IPV6 else "0.0.0.0/0"
FORWARDING = "net.ipv6.conf.all.forwarding=1" if IPV6 else "net.ipv4.ip_forward=1"
NFT_FAMILY = "ip6" if IPV6 else "ip"
BRIDGE = "fabric"


@dataclasses.dataclass(frozen=True)
class Place:
    """Where a cluster is in the network. All clusters' pods and machines reach each other; names and services
    are each cluster's own."""

    name: str
    control_plane: str  # the address of its API server and its DNS
    services: str       # the addresses of its services
    ports: int = 0      # what is added to the usual ports of its control plane
    first_index: int = 1  # of its machines

    @property
    def kubernetes_service(self):
        """The address of its API server among its services."""
        return str(ipaddress.ip_network(self.services)[1])


HOME = Place("home", CONTROL_PLANE, "fd00:96::/112" if IPV6 else "10.96.0.0/16")
WEST = Place("west", str(NODES[2]), "fd00:97::/112" if IPV6 else "10.97.0.0/16", ports=1000, first_index=101)
EAST = Place("east", str(NODES[3]), "fd00:98::/112" if IPV6 else "10.98.0.0/16", ports=2000, first_index=151)


def in_url(host):
    """An address as it is written in a URL."""
    return f"[{host}]" if ":" in host else host


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
    # Without a search for duplicates, an address of IPv6 can be used at once.
    ip("addr", "add", f"{CONTROL_PLANE}/{NODES.prefixlen}", "dev", BRIDGE, *(["nodad"] if IPV6 else []))
    ip("link", "set", BRIDGE, "up")
    sysctl(FORWARDING)
    for interface in ("all", BRIDGE):  # packets between nodes may pass through the bridge's owner
        sysctl(f"net.ipv4.conf.{interface}.send_redirects=0")


def add_control_plane(place):
    """Gives the bridge the address of another cluster's control plane, unless it has it."""
    ip("addr", "replace", f"{place.control_plane}/{NODES.prefixlen}", "dev", BRIDGE, *(["nodad"] if IPV6 else []))


def address(index):
    """The address of the machine with this index (1 and up)."""
    return str(NODES[10 + index])


def pod_range(index):
    """The addresses of that machine's pods."""
    return f"fd00:200:0:{index:x}::/64" if IPV6 else f"10.200.{index}.0/24"


def plug_in(name, index, pid):
    """Connects the network namespace of process `pid`, in which the interface becomes eth0."""
    cable = f"v-{name}"
    ip("link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", pid)
    ip("link", "set", cable, "master", BRIDGE, "up")
    ip("route", "replace", pod_range(index), "via", address(index))


def pull_out(name):
    """Cuts the machine's cable permanently."""
    ip("link", "del", f"v-{name}", check=False)


def set_connected(name, connected):
    """Cuts the machine off, or connects it again: a black hole, nothing is refused."""
    ip("link", "set", f"v-{name}", "up" if connected else "down")
