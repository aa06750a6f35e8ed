"""Kueue's controller, as e2e/build.sh --kueue builds it, beside the programs of the control plane."""
import json

from .daemon import Daemon

KINDS = "kueue-crds"


def can_run(binaries):
    """Whether the program and the definitions of its kinds are there."""
    return (binaries / "kueue").exists() and (binaries / KINDS).is_dir()


def start(cluster):
    """Defines Kueue's kinds and starts its controller, without its webhooks. Returns its Daemon."""
    plane = cluster.control_plane
    cluster.kubectl("apply", "--server-side", "-f", str(cluster.binaries / KINDS))
    cluster.kubectl("wait", "--for=condition=Established", "--timeout=60s", "-f", str(cluster.binaries / KINDS))
    plane.authority.issue("kueue", "/CN=kueue", "subjectAltName=DNS:localhost")
    folder = cluster.folder / "kueue"
    certificates = folder / "certificates"
    certificates.mkdir(parents=True, exist_ok=True)
    for suffix, name in (("crt", "tls.crt"), ("key", "tls.key")):
        (certificates / name).write_bytes((cluster.folder / "pki" / f"kueue.{suffix}").read_bytes())
    config = folder / "config.yaml"
    config.write_text(json.dumps({
        "apiVersion": "config.kueue.x-k8s.io/v1beta2", "kind": "Configuration",
        "health": {"healthProbeBindAddress": "127.0.0.1:18081"}, "metrics": {"bindAddress": "0"},
        "webhook": {"port": 19443, "certDir": str(certificates)}, "leaderElection": {"leaderElect": False},
        "internalCertManagement": {"enable": False}, "integrations": {"frameworks": ["batch/job"]},
        "featureGates": {"VisibilityOnDemand": False}}))
    # It reads the certificate of its metrics from a fixed place below /etc.
    script = ('mount -t tmpfs tmpfs /etc && mkdir -p /etc/kueue/metrics && ln -s "$1" /etc/kueue/metrics/certs &&'
              ' exec "$2" --config="$3" --kubeconfig="$4"')
    daemon = Daemon("kueue", ["unshare", "--mount", "sh", "-c", script, "sh", certificates, cluster.binaries / "kueue",
                              config, plane.admin], plane.logs)
    daemon.start()
    return daemon
