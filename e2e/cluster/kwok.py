"""kwok beside the programs of a control plane: it plays the kubelets of nodes on which pods run without containers."""
from .daemon import Daemon

ANNOTATION = {"kwok.x-k8s.io/node": "fake"}
# Keeps the pods of others away from these nodes.
TAINT = {"key": "kwok.x-k8s.io/node", "value": "fake", "effect": "NoSchedule"}


def can_run(binaries):
    """Whether e2e/build.sh has built it."""
    return (binaries / "kwok").exists()


def start(binaries, plane, address, pods, *more):
    """Starts it for all nodes with ANNOTATION. Their address is `address`; their pods have addresses of the range `pods`.
    Returns its Daemon."""
    daemon = Daemon("kwok", [
        binaries / "kwok", f"--kubeconfig={plane.admin}", "--manage-all-nodes=false",
        "--manage-nodes-with-annotation-selector=" + ",".join(f"{key}={value}" for key, value in ANNOTATION.items()),
        f"--cidr={pods}", f"--node-ip={address}", *more], plane.logs)
    daemon.start()
    return daemon


def node(name, labels, pods=200, taints=()):
    """The Node object of a machine with room for that many pods."""
    room = {"cpu": "64", "memory": "256Gi", "pods": str(pods)}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "annotations": ANNOTATION, "labels": labels},
            "spec": {"taints": list(taints)}, "status": {"capacity": room, "allocatable": room}}
