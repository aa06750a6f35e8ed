"""A machine outside all clusters, behind a router that lets nobody in: it reaches the machines of the clusters, and no pod;
whoever it calls sees the router's address."""
import contextlib
import pathlib
import subprocess

from . import network
from .daemon import wait_until

LINK = "10.88.0.0/30"
ROUTER, OWN = "10.88.0.1", "10.88.0.2"
ROUTER_END, OWN_END = "r-outside", "eth0"


class Outsider:
    """The machine: a network namespace of its own, behind this process's, which is the router."""

    def __init__(self):
        self.holder = subprocess.Popen(["unshare", "--net", "sleep", "infinity"], stdin=subprocess.DEVNULL)
        own = pathlib.Path("/proc/self/ns/net").readlink()
        wait_until(lambda: self._namespace() not in (own, None), 20, "the machine outside")
        network.ip("link", "add", ROUTER_END, "type", "veth", "peer", "name", OWN_END, "netns", self.holder.pid)
        network.ip("addr", "add", f"{ROUTER}/30", "dev", ROUTER_END)
        network.ip("link", "set", ROUTER_END, "up")
        for command in (["link", "set", "lo", "up"], ["addr", "add", f"{OWN}/30", "dev", OWN_END],
                        ["link", "set", OWN_END, "up"], ["route", "add", "default", "via", ROUTER]):
            subprocess.run([*self._inside(), "ip", *command], check=True)
        pods = ", ".join(each for each in network.HOME.pods if ":" not in each)
        _nft(f"""table ip outside {{
  chain forward {{
    type filter hook forward priority 0; policy accept;
    iifname {ROUTER_END} ip daddr {{ {pods} }} drop
    oifname {ROUTER_END} ct state new drop
  }}
  chain postrouting {{
    type nat hook postrouting priority 100; policy accept;
    ip saddr {LINK} oifname != {ROUTER_END} masquerade
  }}
}}
""")

    def _namespace(self):
        with contextlib.suppress(OSError):
            return pathlib.Path(f"/proc/{self.holder.pid}/ns/net").readlink()
        return None

    def _inside(self):
        return ["nsenter", f"--net=/proc/{self.holder.pid}/ns/net"]

    def start(self, command, log, environment):
        """Starts a program there, whose output goes to the file `log`."""
        with open(log, "ab") as out:
            return subprocess.Popen([*self._inside(), *map(str, command)], stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                                    env=environment)

    def set_connected(self, connected):
        """Pulls its cable, or plugs it in again."""
        network.ip("link", "set", ROUTER_END, "up" if connected else "down")

    def close(self):
        """Removes the machine. Its programs have ended."""
        _nft("table ip outside\ndelete table ip outside\n")
        network.ip("link", "del", ROUTER_END, check=False)
        self.holder.kill()
        self.holder.wait()


def _nft(rules):
    subprocess.run(["nft", "-f", "-"], input=rules, text=True, check=True)
