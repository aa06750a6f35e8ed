"""Enforces NetworkPolicies: one agent serves all nodes.

It reads pods, namespaces and policies once a second and writes nftables rules into each node's network.
The rules apply to forwarded packets, so probes of a node's own kubelet always pass, as they should.
"""
import http.client
import ipaddress
import json
import ssl
import subprocess
import threading

from . import network

INTERVAL_SECONDS = 1.0


class PolicyAgent:
    """Runs in its own thread from start() to stop()."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.written = {}  # (node's name, process id of its machine): rules

    def start(self):
        """Starts the thread."""
        self.thread.start()

    def stop(self):
        """Ends the thread; the rules stay."""
        self.stopping.set()
        self.thread.join()

    def _run(self):
        pki = self.cluster.folder / "pki"
        context = ssl.create_default_context(cafile=pki / "ca.crt")
        context.load_cert_chain(pki / "admin.crt", pki / "admin.key")
        plane = self.cluster.control_plane
        connection = None
        while not self.stopping.wait(INTERVAL_SECONDS):
            try:
                if connection is None:
                    connection = http.client.HTTPSConnection(plane.place.control_plane, plane.port, timeout=5, context=context)
                self._look(connection)
            except (OSError, http.client.HTTPException, ValueError):
                connection = None  # the API server is down: the rules stay as they are

    def _look(self, connection):
        def items(path):
            connection.request("GET", path)
            return json.loads(connection.getresponse().read())["items"]
        pods = [pod for pod in items("/api/v1/pods")
                if pod["status"].get("podIP") and not pod["spec"].get("hostNetwork")
                and pod["status"].get("phase") in ("Pending", "Running")]
        namespaces = {item["metadata"]["name"]: item["metadata"].get("labels", {})
                      for item in items("/api/v1/namespaces")}
        policies = items("/apis/networking.k8s.io/v1/networkpolicies")
        for node in list(self.cluster.nodes.values()):
            if node.machine is None or node.machine.poll() is not None:
                continue
            mine = [pod for pod in pods if pod["spec"].get("nodeName") == node.name]
            rules = ruleset(mine, pods, namespaces, policies)
            key = node.name, node.machine.pid
            if self.written.get(key) != rules:
                subprocess.run(["nsenter", f"--net=/proc/{node.machine.pid}/ns/net", "nft", "-f", "-"], input=rules,
                               text=True, check=False, capture_output=True)
                self.written[key] = rules


def ruleset(mine, pods, namespaces, policies):
    """The nftables rules of the node with the pods `mine`."""
    chains, jumps = [], []
    each_address = [(address, pod) for pod in mine for address in addresses_of(pod)]
    for address, pod in sorted(each_address, key=lambda each: each[0]):
        for direction, field, peers, own, other, verdict in (
                # When a packet may leave, its destination must still admit it.
                ("Egress", "egress", "to", "saddr", "daddr", "return"),
                ("Ingress", "ingress", "from", "daddr", "saddr", "accept")):
            applying = [policy for policy in policies
                        if policy["metadata"]["namespace"] == pod["metadata"]["namespace"]
                        and direction in policy["spec"].get("policyTypes", ["Ingress"])
                        and selects(policy["spec"].get("podSelector", {}), pod["metadata"].get("labels", {}))]
            if not applying:
                continue
            name = f"{field}-{address.replace('.', '-').replace(':', '-')}"
            lines = [line for policy in applying for rule in policy["spec"].get(field) or []
                     for line in rule_lines(rule, peers, other, verdict, pod, address, policy, pods, namespaces)]
            chains.append(f"  chain {name} {{\n" + "".join(f"    {line}\n" for line in lines) + "    drop\n  }\n")
            jumps.append((field, f"    {network.nft_family(address)} {own} {address} jump {name}\n"))
    ordered = "".join(line for _, line in sorted(jumps, key=lambda jump: jump[0]))  # egress comes first
    return ("table inet policies\ndelete table inet policies\ntable inet policies {\n" + "".join(chains)
            + "  chain forward {\n    type filter hook forward priority 10; policy accept;\n"
            "    ct state established,related accept\n" + ordered + "  }\n}\n")


def addresses_of(pod):
    """Its addresses, one of each family."""
    return [each["ip"] for each in pod["status"]["podIPs"]]


def rule_lines(rule, peers, other, verdict, pod, own, policy, pods, namespaces):
    """One allow rule of a policy as lines of nftables, for packets from or to this address of the pod."""
    family = network.nft_family(own)
    named = {port["name"]: port["containerPort"] for container in pod["spec"]["containers"]
             for port in container.get("ports", []) if "name" in port}
    matches = []
    for port in rule.get("ports") or [{}]:
        protocol = port.get("protocol", "TCP").lower()
        if "port" not in port:
            matches.append("" if not rule.get("ports") else f"meta l4proto {protocol}")
            continue
        number = named.get(port["port"], port["port"])
        if isinstance(number, int):
            last = port.get("endPort", number)
            matches.append(f"{protocol} dport {number}-{last}" if last != number else f"{protocol} dport {number}")
    sources = [""]
    if rule.get(peers):
        addresses = sorted({address for peer in rule[peers] for address in peer_addresses(
            peer, policy["metadata"]["namespace"], pods, namespaces) if network.nft_family(address) == family})
        if not addresses:
            return []
        sources = [f"{family} {other} {{ {', '.join(addresses)} }}"]
    return [" ".join(part for part in (source, match, verdict) if part) for source in sources for match in matches]


def peer_addresses(peer, namespace, pods, namespaces):
    """The addresses of one peer of a policy."""
    if "ipBlock" in peer:
        allowed = [ipaddress.ip_network(peer["ipBlock"]["cidr"])]
        for excluded in map(ipaddress.ip_network, peer["ipBlock"].get("except", [])):
            allowed = [part for block in allowed for part in (
                block.address_exclude(excluded) if excluded.subnet_of(block) else [block])]
        return [str(part) for block in allowed for part in (
            [block] if block.prefixlen else block.subnets())]  # a set of nftables takes no range of length 0
    wanted = {name for name, labels in namespaces.items() if selects(peer["namespaceSelector"], labels)} \
        if "namespaceSelector" in peer else {namespace}
    return [address for pod in pods if pod["metadata"]["namespace"] in wanted
            and selects(peer.get("podSelector", {}), pod["metadata"].get("labels", {})) for address in addresses_of(pod)]


def selects(selector, labels):
    """Whether a label selector matches an object with these labels."""
    if any(labels.get(key) != value for key, value in selector.get("matchLabels", {}).items()):
        return False
    for expression in selector.get("matchExpressions", []):
        value, values = labels.get(expression["key"]), expression.get("values", [])
        if not {"In": value in values, "NotIn": value not in values, "Exists": value is not None,
                "DoesNotExist": value is None}[expression["operator"]]:
            return False
    return True
