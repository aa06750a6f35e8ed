"""The network between the machines: a bridge, which also carries the control plane."""
import subprocess

CONTROL_PLANE = "10.99.0.1"
SERVICES = "10.96.0.0/16"
KUBERNETES_SERVICE = "10.96.0.1"
PODS = "10.200.0.0/16"
BRIDGE = "fabric"


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
    ip("addr", "add", f"{CONTROL_PLANE}/24", "dev", BRIDGE)
    ip("link", "set", BRIDGE, "up")
    sysctl("net.ipv4.ip_forward=1")
    for interface in ("all", BRIDGE):  # packets between nodes may pass through the bridge's owner
        sysctl(f"net.ipv4.conf.{interface}.send_redirects=0")


def address(index):
    """The address of the machine with this index (1 and up)."""
    return f"10.99.0.{10 + index}"


def pod_range(index):
    """The addresses of that machine's pods."""
    return f"10.200.{index}.0/24"


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
