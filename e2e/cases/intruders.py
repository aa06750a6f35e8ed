"""Peers that do not belong to a job, and readers without a right."""
import base64
import pathlib
import ssl
import tempfile
import urllib.error
import urllib.request

from cluster.daemon import can_connect
from cluster.network import in_url
from cluster.pki import Authority
from harness.case import case
from harness.kubectl import Refused, eventually
from harness.world import OPERATOR_NAMESPACE


def intruder(world, job, name, secret, called=None):
    """Starts a pod that asks the job's trainer for work, with the certificates of the given Secret. It calls itself as
    the pod, or `called`."""
    files = [{"key": "ca.crt", "path": "ca.crt"}, {"key": "tls.crt", "path": "tls.crt"},
             {"key": "tls.key", "path": "tls.key"}]
    uid = job.object()["metadata"]["uid"]
    world.kubectl.apply({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": world.namespace, "labels": {
            "swarmjob.dev/job": job.name, "swarmjob.dev/role": "worker"}},
        "spec": {
            "restartPolicy": "Never", "automountServiceAccountToken": False,
            "nodeSelector": {"swarmjob.dev/capacity": "on-demand"},
            "securityContext": {"runAsNonRoot": True, "runAsUser": 65532, "fsGroup": 65532,
                                "seccompProfile": {"type": "RuntimeDefault"}},
            "volumes": [{"name": "tls", "secret": {"secretName": secret, "items": files}}],
            "containers": [{
                "name": "worker", "image": world.images["worker"],
                "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
                "volumeMounts": [{"name": "tls", "mountPath": "/etc/swarmjob/tls"}],
                "env": [{"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
                "command": [
                    "swarm-worker", "--role=stage", f"--id={called or name}",
                    f"--trainer={job.name}-trainer.{world.namespace}.svc:7000", "--listen=0.0.0.0:7000",
                    "--advertise=$(POD_IP):7000", "--threads=1", f"--job-uid={uid}",
                    "--tls-ca=/etc/swarmjob/tls/ca.crt", "--tls-cert=/etc/swarmjob/tls/tls.crt",
                    "--tls-key=/etc/swarmjob/tls/tls.key"]}]}})


def make_secret(world, name, files):
    """Creates a Secret with the given content."""
    world.kubectl.apply({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": world.namespace},
                         "data": {key: base64.b64encode(value).decode() for key, value in files.items()}})


def copy_identity(world, pod, name):
    """Creates a Secret with the certificates and the key of a pod."""
    own = world.kubectl.get("secret", f"{pod}-identity", world.namespace)["data"]
    make_secret(world, name, {file: base64.b64decode(own[file]) for file in ("ca.crt", "tls.crt", "tls.key")})


@case("The trainer refuses a foreign peer and a peer of another job", "fast")
def foreign_peers(world):
    job = world.job(replicas=2).submit().await_step(10)
    other = world.job("other", replicas=2).submit().await_step(10)
    copy_identity(world, other.pod_names("worker")[0], "neighbour")
    # Two jobs at full speed would leave the other pods of a small machine no processor.
    other.change({"suspend": True})
    with tempfile.TemporaryDirectory() as folder:
        authority = Authority(pathlib.Path(folder) / "pki")
        uid = job.object()["metadata"]["uid"]
        authority.issue("tls", "/CN=stranger", f"subjectAltName=URI:spiffe://swarmjob.local/job/{uid}/worker/stranger")
        make_secret(world, "stranger", {name: (authority.folder / name).read_bytes()
                                        for name in ("ca.crt", "tls.crt", "tls.key")})
    for name in ("stranger", "neighbour"):
        intruder(world, job, name, name)
    for name in ("stranger", "neighbour"):
        eventually(f"{name} to run", lambda name=name: world.kubectl.get("pod", name, world.namespace)["status"]
                   .get("phase") in ("Running", "Failed"), 60)
    before = job.step()
    job.await_step(before + 100)
    workers = job.metrics()["swarmjob_trainer_workers"]
    world.check("the trainer has only its own workers", workers == 2, workers)
    for name in ("stranger", "neighbour"):
        log = world.kubectl("logs", "-n", world.namespace, name)
        world.check(f"{name} was told that it is not trusted", any(
            word in log.lower() for word in ("certificate", "tls", "handshake", "verif", "unreachable")), log[-300:])


@case("The key of a worker whose pod is gone opens nothing", "fast")
def stolen_key(world):
    job = world.job(replicas=3).submit().await_step(10)
    victim = job.pod_names("worker")[0]
    copy_identity(world, victim, "stolen")
    world.kubectl.delete("pod", victim, world.namespace)
    job.await_ready(3, without=[victim])
    intruder(world, job, "thief", "stolen", called=victim)

    def refused():
        return "its pod is gone" in world.kubectl("logs", "-n", world.namespace, "thief")

    eventually("the thief to hear that its certificate counts no more", refused, 60)
    job.await_step(job.step() + 50)
    workers = job.metrics()["swarmjob_trainer_workers"]
    world.check("the trainer has only workers whose pods are there", workers == 3, workers)
    world.kubectl.delete("pod", "thief", world.namespace)
    job.stop()
    job.verify(world, complete=False)


@case("Workers prove which pods they are, and no Secret has a key of theirs")
def proofs(world):
    world.install("--set", "proof.enabled=true")
    try:
        job = world.job(replicas=3).submit().await_step(20)
        own = f"{job.trainer()['metadata']['name']}-identity"

        def keys():
            return {secret["metadata"]["name"] for secret in world.kubectl.list("secrets", world.namespace)
                    if "tls.key" in secret.get("data", {})}
        world.check("the trainer's pod alone has its key from a Secret", keys() == {own}, keys())
        leader = world.await_leader()
        world.kill_pod(leader, OPERATOR_NAMESPACE)
        victim = job.pod_names("worker")[0]
        world.kubectl.delete("pod", victim, world.namespace)
        world.note(f"{world.await_leader(other_than=leader)} leads")
        job.await_ready(3, without=[victim])
        job.await_step(job.step() + 20)
        world.check("a new worker proves itself to the next leader", keys() == {own}, keys())
        refused = [event for event in world.kubectl.list("events.events.k8s.io", world.namespace)
                   if event.get("reason") == "IdentityRefused"]
        world.check("the operator has refused no pod", not refused, refused)
        job.stop()
        job.verify(world, complete=False)
    finally:
        world.install()


def ask(url, token=""):
    """The status and the text of the answer of a server that makes its certificate itself. Raises Refused."""
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"} if token else {})
    unknown = ssl.create_default_context()
    unknown.check_hostname, unknown.verify_mode = False, ssl.CERT_NONE
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=unknown))
    try:
        with opener.open(request, timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except OSError as error:
        raise Refused(f"{url}: {error}") from None


@case("The operator's metrics and its page need a token that may read them", needs=["rbac-proxy"])
def metrics_need_a_token(world):
    accounts = {name: {"name": name, "namespace": world.namespace} for name in ("prometheus", "stranger")}
    bindings = {f"e2e-{what}": f"swarmjob-swarm-operator-{what}-reader" for what in ("metrics", "page")}
    world.kubectl.apply(
        *({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": where} for where in accounts.values()),
        *({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": name},
           "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
           "subjects": [{"kind": "ServiceAccount", **accounts["prometheus"]}]} for name, role in bindings.items()))
    reader, stranger = (world.kubectl("create", "token", name, "-n", world.namespace).strip() for name in accounts)
    try:
        world.install("--set", "metrics.authProxy.enabled=true", "--set", "page.enabled=true",
                      "--set", "metrics.authProxy.image=localhost/kube-rbac-proxy:1")
        leader = world.await_leader()
        address = world.kubectl.get("pod", leader, OPERATOR_NAMESPACE)["status"]["podIP"]
        for port, path, shows in ((8443, "/metrics", "leader_election_master_status"), (8444, "/jobs.html", "<html")):
            url = f"https://{in_url(address)}:{port}{path}"
            code, text = eventually(f"an answer at {port}", lambda url=url: ask(url, reader), 30)
            world.check(f"a reader with the right gets {path}", code == 200 and shows in text, f"{code}: {text[:300]}")
            for who, token, expected in (("nobody known", "", 401), ("an invented token", "a.b.c", 401),
                                         ("an account without the right", stranger, 403)):
                code, text = ask(url, token)
                world.check(f"{who} is refused {path}", code == expected and shows not in text, f"{code}: {text[:300]}")
        code, _ = ask(f"https://{in_url(address)}:8443/healthz", reader)
        world.check("the right is for nothing else at that port", code == 404, code)
        world.check("no port is open without the proxy", not any(can_connect(address, port) for port in (8080, 8082)))
    finally:
        world.install()
        for name in bindings:
            world.kubectl.delete("clusterrolebinding", name)
