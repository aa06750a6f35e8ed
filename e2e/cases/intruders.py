"""Peers that do not belong to a job, and readers without a right."""
import base64
import pathlib
import re
import ssl
import subprocess
import tempfile
import urllib.error
import urllib.request

from cluster.daemon import can_connect
from cluster.kwok import TAINT
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


def uris_of(certificates):
    """The URIs in certificates (PEM), in their order."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(b"".join(certificates))
        file.flush()
        text = subprocess.run(["openssl", "storeutl", "-noout", "-text", "-certs", file.name], capture_output=True, text=True,
                              check=True).stdout
    return re.findall(r"URI:([^,\s]+)", text)


def as_node(world, node, secret):
    """Whether the kubelet of a node may read that Secret."""
    try:
        world.kubectl("get", "secret", secret, "-n", world.namespace, "-o", "name",
                      f"--as=system:node:{node}", "--as-group=system:nodes")
        return True
    except Refused as refusal:
        if "Forbidden" in str(refusal):
            return False
        raise


@case("A thousand workers have a key each, which their own node alone may read, and which goes with them", needs=["kwok"],
      seconds=600)
def thousand_identities(world):
    count, secrets_max = 1000, 400
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few", "namespace": world.namespace},
             "spec": {"hard": {"count/secrets": str(secrets_max)}}}
    job = world.job(replicas=count, workers__pools=[{
        "name": "simulated", "nodeSelector": {"swarmjob.dev/capacity": "simulated"}, "tolerations": [TAINT],
        "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}}}])

    def running():
        return {pod["metadata"]["name"]: pod for pod in job.pods("worker") if pod["status"].get("phase") == "Running"}

    def identities():
        """The Secrets of workers, by the names of their pods."""
        found = {secret["metadata"]["name"].removesuffix("-identity"): secret
                 for secret in world.kubectl.list("secrets", world.namespace)}
        return {name: secret for name, secret in found.items() if re.fullmatch(rf"{job.name}-w\d+", name)}

    with world.simulated_nodes(10):
        world.kubectl.apply(quota)
        job.submit()
        eventually("the job to say that a quota stops it",
                   lambda: job.condition("CapacityAvailable")[:2] == ("False", "QuotaExceeded"), 180)
        eventually("the workers that the quota leaves", lambda: len(running()) == len(identities()), 60)
        some = len(running())
        world.check("they are as many as the quota allows but for few", secrets_max - 10 < some < secrets_max, some)
        world.check("the trainer runs, whatever is refused", job.step() == 0)
        world.kubectl.delete("resourcequota", "few", world.namespace)
        eventually(f"{count} workers with a Secret each",
                   lambda: len(running()) == count and running().keys() == identities().keys(), 240, interval=2)
        pods, secrets = running(), identities()
        files = {name: {file: base64.b64decode(text) for file, text in secret["data"].items()}
                 for name, secret in secrets.items()}
        world.check("each Secret has one key and its certificate", all(
            sorted(each) == ["ca.crt", "tls.crt", "tls.key"] for each in files.values()))
        world.check("each pod alone owns its Secret", all(
            [owner["uid"] for owner in secret["metadata"]["ownerReferences"]] == [pods[name]["metadata"]["uid"]]
            for name, secret in secrets.items()))
        world.check("all keys differ", len({each["tls.key"] for each in files.values()}) == count)
        uid = job.object()["metadata"]["uid"]
        names = uris_of([files[name]["tls.crt"] for name in sorted(files)])
        expected = [f"spiffe://swarmjob.local/job/{uid}/worker/{name}" for name in sorted(files)]
        world.check("each certificate names its own pod", names == expected, names[:3])
        first = min(pods)
        home = pods[first]["spec"]["nodeName"]
        elsewhere = next(name for name, pod in pods.items() if pod["spec"]["nodeName"] != home)
        world.check("the pod's node may read its Secret", as_node(world, home, f"{first}-identity"))
        world.check("and no Secret of a pod of another node", not as_node(world, home, f"{elsewhere}-identity"))
        world.check("nor that of the trainer", not as_node(world, home, f"{job.trainer()['metadata']['name']}-identity"))
        world.kubectl.delete("pod", first, world.namespace)
        eventually("its key to go with it", lambda: world.kubectl.get("secret", f"{first}-identity", world.namespace) is None, 60)
        eventually("a new worker in its place",
                   lambda: len(running()) == count and running().keys() == identities().keys(), 60, interval=2)
        (new,) = set(identities()) - set(secrets)
        world.check("it has a key of its own",
                    base64.b64decode(identities()[new]["data"]["tls.key"]) not in {each["tls.key"] for each in files.values()})
        job.change({"suspend": True})
        eventually("all workers to go", lambda: not job.pods("worker"), 180, interval=2)


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
