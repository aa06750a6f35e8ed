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


# Of each family.
_MACHINES = {"4": "10.99.0.0/24", "6": "fd00:99::/64"}
_PODS = {"4": "10.200.0.0/16", "6": "fd00:200::/48"}
_ANYWHERE = {"4": "0.0.0.0/0", "6": "::/0"}
_FORWARDING = {"4": "net.ipv4.ip_forward=1", "6": "net.ipv6.conf.all.forwarding=1"}
BRIDGE = "fabric"


@dataclasses.dataclass(frozen=True)
class Place:
    """Where a cluster is in the network. Pods and machines of all clusters that have a family in common reach each other;
    names and services are each cluster's own."""

    name: str
    number: int       # tells its control plane, and the addresses of its services, from those of the others
    first_index: int  # of its machines
    families: str = _FAMILIES

    @property
    def machines(self):
        """The addresses of machines, a range for each family, as of all that follows."""
        return [ipaddress.ip_network(_MACHINES[family]) for family in self.families]

    @property
    def control_plane(self):
        """The address of its API server and its DNS."""
        return str(self.machines[0][self.number])

    @property
    def ports(self):
        """What is added to the usual ports of its control plane."""
        return 100 * (self.number - 1)

    @property
    def services(self):
        ranges = {"4": f"10.{95 + self.number}.0.0/16", "6": f"fd00:{95 + self.number}::/112"}
        return [ranges[family] for family in self.families]

    @property
    def kubernetes_service(self):
        """The address of its API server among its services."""
        return str(ipaddress.ip_network(self.services[0])[1])

    @property
    def pods(self):
        return [_PODS[family] for family in self.families]

    @property
    def simulated_pods(self):
        """Those of pods without a machine, which no packet reaches. No machine has an index so high."""
        return {"4": "10.200.128.0/17", "6": "fd00:200:0:8000::/64"}[self.families[0]]

    @property
    def anywhere(self):
        return [_ANYWHERE[family] for family in self.families]

    @property
    def routers(self):
        """The addresses of the bridge."""
        return [str(machines[1]) for machines in self.machines]

    def addresses(self, index):
        """Those of the machine with this index (1 and up)."""
        return [str(machines[10 + index]) for machines in self.machines]

    def links(self, index):
        """The same with the lengths of their prefixes."""
        return [f"{machines[10 + index]}/{machines.prefixlen}" for machines in self.machines]

    def pod_ranges(self, index):
        """The addresses of that machine's pods."""
        ranges = {"4": f"10.200.{index}.0/24", "6": f"fd00:200:0:{index:x}::/64"}
        return [ranges[family] for family in self.families]


HOME = Place("home", 1, first_index=1)
WEST = Place("west", 2, first_index=101)
EAST = Place("east", 3, first_index=151)
# With addresses of one family alone, which home's pods do not have, or not first.
WEST_OF_OTHER_FAMILY = dataclasses.replace(WEST, families="4" if _FAMILIES[0] == "6" else "6")


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
    extend(HOME)
    ip("link", "set", BRIDGE, "up")
    for interface in ("all", BRIDGE):  # packets between nodes may pass through the bridge's owner
        sysctl(f"net.ipv4.conf.{interface}.send_redirects=0")


def extend(place):
    """Lets the bridge carry a cluster's families, and gives it the address of the cluster's control plane."""
    for family, router, machines in zip(place.families, place.routers, place.machines):
        _add_to_bridge(router, machines)
        sysctl(_FORWARDING[family])
    _add_to_bridge(place.control_plane, place.machines[0])


def _add_to_bridge(own, machines):
    # Without a search for duplicates, an address of IPv6 can be used at once.
    ip("addr", "replace", f"{own}/{machines.prefixlen}", "dev", BRIDGE, *(["nodad"] if machines.version == 6 else []))


def plug_in(place, name, index, pid):
    """Connects the network namespace of process `pid`, a machine of this place; the interface becomes eth0 there."""
    cable = f"v-{name}"
    ip("link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", pid)
    ip("link", "set", cable, "master", BRIDGE, "up")
    for pods, machine in zip(place.pod_ranges(index), place.addresses(index)):
        ip("route", "replace", pods, "via", machine)


def pull_out(name):
    """Cuts the machine's cable permanently."""
    ip("link", "del", f"v-{name}", check=False)


def set_connected(name, connected):
    """Cuts the machine off, or connects it again: a black hole, nothing is refused."""
    ip("link", "set", f"v-{name}", "up" if connected else "down")
