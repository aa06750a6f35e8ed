"""Kueue's controller beside the programs of the control plane."""
from . import controller
from .daemon import Daemon

NAME = "kueue"


def can_run(binaries):
    """Whether it has been built."""
    return controller.can_run(binaries, NAME)


def start(cluster, number=0):
    """Defines Kueue's kinds and starts its controller, without its webhooks. Returns its Daemon. `number` tells several
    on one machine apart."""
    plane = cluster.control_plane
    controller.define(cluster.kubectl, cluster.binaries, NAME)
    config, certificates = controller.configure(plane, cluster.folder, NAME, 18081 + 10 * number, 19443 + 10 * number, {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2", "integrations": {"frameworks": ["batch/job"]},
        "multiKueue": {"externalFrameworks": [{"name": "SwarmJob.v1alpha1.swarmjob.dev"}]},
        "featureGates": {"VisibilityOnDemand": False}})
    # It reads the certificate of its metrics from a fixed place below /etc.
    script = ('mount -t tmpfs tmpfs /etc && mkdir -p /etc/kueue/metrics && ln -s "$1" /etc/kueue/metrics/certs &&'
              ' exec "$2" --config="$3" --kubeconfig="$4"')
    daemon = Daemon(NAME, ["unshare", "--mount", "sh", "-c", script, "sh", certificates, cluster.binaries / NAME,
                           config, plane.admin], plane.logs)
    daemon.start()
    return daemon
