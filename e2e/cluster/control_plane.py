"""etcd, kube-apiserver with RBAC and the usual admission, controller-manager, scheduler, and DNS."""
import subprocess
import urllib.request

from . import network
from .daemon import Daemon
from .pki import Authority

PORT = 6443
# Kubernetes declares a silent node lost after this time (usually 40 to 50 s). It is long enough to show that
# a job's own detection does not wait for it.
NODE_GRACE_SECONDS = 16


class ControlPlane:
    """The programs of the control plane, on an address of the fabric's own."""

    def __init__(self, folder, binaries, place=network.HOME):
        self.folder = folder
        self.place = place
        self.port = PORT + place.ports
        self.server = f"https://{network.in_url(place.control_plane)}:{self.port}"
        self.etcd_url = f"http://127.0.0.1:{2379 + place.ports}"
        self.logs = folder / "logs"
        self.logs.mkdir(parents=True, exist_ok=True)
        self.authority = Authority(folder / "pki")
        self.authority.issue(
            "apiserver", "/CN=kube-apiserver",
            "subjectAltName=DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc,DNS:localhost,"
            f"IP:127.0.0.1,IP:{place.control_plane},IP:{place.kubernetes_service}")
        self.admin = self.authority.client("admin", "/O=system:masters/CN=admin", self.server)
        self.kubectl = binaries / "kubectl"
        self.etcd = self._etcd(binaries)
        self.api = self._api(binaries)
        self.controllers = self._controllers(binaries)
        self.scheduler = self._scheduler(binaries)
        self.dns = self._dns(binaries)

    def start(self):
        """Starts all programs."""
        for daemon in self.daemons:
            daemon.start()

    @property
    def daemons(self):
        """The programs, in the order of their start."""
        return [self.etcd, self.api, self.controllers, self.scheduler, self.dns]

    def _etcd(self, binaries):
        peers = f"http://127.0.0.1:{2380 + self.place.ports}"

        def healthy():
            try:
                with urllib.request.urlopen(f"{self.etcd_url}/health", timeout=2) as answer:
                    return answer.status == 200
            except OSError:
                return False
        return Daemon("etcd", [
            binaries / "etcd", "--data-dir", self.folder / "etcd", "--unsafe-no-fsync", "--log-level", "error",
            "--listen-client-urls", self.etcd_url, "--advertise-client-urls", self.etcd_url, "--listen-peer-urls", peers,
            "--initial-advertise-peer-urls", peers, "--initial-cluster", f"default={peers}",
        ], self.logs, healthy)

    def _api(self, binaries):
        pki = self.folder / "pki"

        def ready():
            return subprocess.run([self.kubectl, "--kubeconfig", self.admin, "get", "--raw", "/readyz"],
                                  capture_output=True, check=False).returncode == 0
        return Daemon("kube-apiserver", [
            binaries / "kube-apiserver", "--etcd-servers", self.etcd_url, f"--secure-port={self.port}",
            f"--advertise-address={self.place.control_plane}", f"--service-cluster-ip-range={','.join(self.place.services)}",
            f"--tls-cert-file={pki}/apiserver.crt", f"--tls-private-key-file={pki}/apiserver.key",
            f"--client-ca-file={self.authority.certificate}",
            f"--service-account-key-file={pki}/service-accounts.pub",
            f"--service-account-signing-key-file={pki}/service-accounts.key",
            "--service-account-issuer=https://kubernetes.default.svc", "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction", "--allow-privileged=true",
            f"--kubelet-client-certificate={pki}/admin.crt", f"--kubelet-client-key={pki}/admin.key",
            "--kubelet-preferred-address-types=InternalIP",
        ], self.logs, ready)

    def _client_of(self, name):
        kubeconfig = self.authority.client(name, f"/CN=system:{name}", self.server)
        return [f"--kubeconfig={kubeconfig}", f"--authentication-kubeconfig={kubeconfig}",
                f"--authorization-kubeconfig={kubeconfig}", "--leader-elect=false"]

    def _controllers(self, binaries):
        pki = self.folder / "pki"
        return Daemon("kube-controller-manager", [
            binaries / "kube-controller-manager", *self._client_of("kube-controller-manager"),
            f"--secure-port={10257 + self.place.ports}",
            f"--service-account-private-key-file={pki}/service-accounts.key",
            f"--root-ca-file={self.authority.certificate}", "--use-service-account-credentials",
            f"--cluster-signing-cert-file={self.authority.certificate}",
            f"--cluster-signing-key-file={pki}/ca.key",
            f"--node-monitor-grace-period={NODE_GRACE_SECONDS}s", "--node-monitor-period=2s",
        ], self.logs)

    def _scheduler(self, binaries):
        return Daemon("kube-scheduler", [binaries / "kube-scheduler", *self._client_of("kube-scheduler"),
                                         f"--secure-port={10259 + self.place.ports}"], self.logs)

    def _dns(self, binaries):
        corefile = self.folder / "Corefile"
        corefile.write_text(
            f".:53 {{\n  bind {self.place.control_plane}\n  kubernetes cluster.local {' '.join(self.place.services)} {{\n"
            f"    kubeconfig {self.admin}\n  }}\n  cache 5\n}}\n")
        return Daemon("coredns", [binaries / "coredns", "-conf", corefile], self.logs)
