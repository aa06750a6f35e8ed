"""What a case has at hand: the cluster, the bucket, the operator, and a namespace of its own."""
import json
import pathlib
import subprocess

from .case import Notes, Skip
from .job import Job
from .kubectl import Refused, eventually

OPERATOR_NAMESPACE = "swarmjob-system"
RELEASE = "swarmjob"
DATA = "data/bible.txt"
RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}


class World:
    """Shared by all cases of a run; namespace and notes are the case's own."""

    def __init__(self, kubectl, cluster, server, bucket, reference, programs, images):
        self.kubectl = kubectl
        self.cluster = cluster  # None: a cluster whose machines the cases cannot stop
        self.server = server    # None: storage that the cases cannot stop
        self.bucket = bucket
        self.reference = reference
        self.swarmctl = programs / "swarmctl"
        self.helm_program = "helm" if cluster is None else str(cluster.binaries / "helm")
        self.images = images    # {"operator": tag, "worker": tag}
        self.data_uri = bucket.upload(reference.data, DATA)
        self.namespace = ""
        self.notes = Notes()
        self.played = 0

    # The case's own part.

    def begin(self, name, labels=()):
        """A namespace and notes for the next case. Restricted Pod Security is the rule here."""
        self.notes = Notes()
        self.played += 1
        self.namespace = f"e2e-{self.played}-{name.replace('_', '-')}"[:50].strip("-")
        self.make_namespace(self.namespace, {**RESTRICTED, **dict(labels)})

    def make_namespace(self, name, labels):
        """With the keys of the bucket in it."""
        self.kubectl.apply(
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}},
            {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s3-keys", "namespace": name},
             "stringData": {"AWS_ACCESS_KEY_ID": self.bucket.key, "AWS_SECRET_ACCESS_KEY": self.bucket.secret}})

    def end(self):
        """Removes the case's namespace and mends the cluster."""
        if self.server:
            self.server.resume()
        self.heal()
        self.kubectl.delete("namespace", self.namespace, None, "--wait=false")

    def job(self, name="job", **settings):
        """A Job of the case; submit() creates it."""
        return Job(self, name, **settings)

    def check(self, what, holds, found=""):
        """See Notes."""
        self.notes.check(what, holds, found)

    def note(self, text):
        """See Notes."""
        self.notes.note(text)

    # Machines.

    def need_machines(self):
        """Skips the case where nobody can cut their power."""
        if self.cluster is None:
            raise Skip("needs power over the machines under the nodes")

    def vanish(self, node):
        """A power cut of that node's machine."""
        self.note(f"power cut: {node}")
        self.cluster.nodes[node].vanish()

    def replace_node(self, node):
        """Another machine under the same name: the object of the old one goes, as with a cloud's controller."""
        old = self.cluster.nodes[node]
        if old.machine.poll() is None:
            self.vanish(node)
        self.kubectl.delete("node", node)
        new = self.cluster.add_node(node, old.labels["topology.kubernetes.io/zone"],
                                    old.labels["swarmjob.dev/capacity"])
        eventually(f"{node} to be ready again", new.is_ready, 90)
        self.note(f"another machine is now {node}")

    def heal(self):
        """Every machine is on, connected and schedulable again, and the API server serves."""
        if self.cluster is None:
            return
        if self.cluster.control_plane.api.process.poll() is not None:
            self.cluster.control_plane.api.start()
        for name, node in list(self.cluster.nodes.items()):
            if node.machine.poll() is not None:
                self.replace_node(name)
            node = self.kubectl.get("node", name)
            if node["spec"].get("taints") or node["spec"].get("unschedulable"):
                self.kubectl("patch", "node", name, "--type=merge", "-p",
                             json.dumps({"spec": {"taints": None, "unschedulable": False}}))

    def uid_of_node(self, name):
        """Of the Node object."""
        return self.kubectl.get("node", name)["metadata"]["uid"]

    def taint(self, node, taint):
        """Such as KEY=VALUE:NoSchedule."""
        self.note(f"taint on {node}: {taint}")
        self.kubectl("taint", "node", node, taint, "--overwrite")

    # The operator.

    def helm(self, *arguments):
        """Runs helm. Raises Refused."""
        done = subprocess.run([self.helm_program, "--kubeconfig", self.kubectl.kubeconfig, *map(str, arguments)],
                              capture_output=True, text=True, timeout=240, check=False)
        if done.returncode != 0:
            raise Refused(f"helm {arguments[0]}: {done.stderr.strip()}")
        return done.stdout

    def run_swarmctl(self, command, *arguments):
        """Runs swarmctl against the cluster, in the case's namespace, and returns what it prints. Raises Refused."""
        done = subprocess.run([self.swarmctl, command, *arguments, "--kubeconfig", self.kubectl.kubeconfig,
                               "--namespace", self.namespace], capture_output=True, text=True, timeout=60, check=False)
        if done.returncode != 0:
            raise Refused(f"swarmctl {command}: {done.stderr.strip()}")
        return done.stdout

    def install(self, *extra):
        """helm upgrade --install of the chart with the images of this run, and waits until it is up."""
        chart = pathlib.Path(__file__).parents[2] / "helm" / "swarmjob"
        operator, worker = (self.images[name].rsplit(":", 1) for name in ("operator", "worker"))
        self.helm("upgrade", "--install", RELEASE, chart, "--namespace", OPERATOR_NAMESPACE, "--create-namespace",
                  "--set", f"image.repository={operator[0]}", "--set", f"image.tag={operator[1]}",
                  "--set", f"workerImage.repository={worker[0]}", "--set", f"workerImage.tag={worker[1]}",
                  "--wait", "--timeout", "120s", *extra)

    def uninstall(self):
        """helm uninstall."""
        self.helm("uninstall", RELEASE, "--namespace", OPERATOR_NAMESPACE, "--wait")

    def operator_pods(self):
        """The operator's pods that run."""
        return [pod for pod in self.kubectl.list("pods", OPERATOR_NAMESPACE)
                if pod["status"].get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"]]

    def leader(self):
        """The name of the operator's pod that leads, or None."""
        for lease in self.kubectl.list("leases", OPERATOR_NAMESPACE):
            holder = lease["spec"].get("holderIdentity", "")
            for pod in self.operator_pods():
                if pod["metadata"]["name"] in holder:
                    return pod["metadata"]["name"]
        return None

    def await_leader(self, other_than=None, seconds=60):
        """Waits for a leader, of another name if one is given."""
        return eventually("a leader", lambda: (leader := self.leader()) and leader != other_than and leader, seconds)

    def kill_pod(self, name, namespace):
        """Deletes it without waiting; its containers have two seconds."""
        self.note(f"killed: {name}")
        self.kubectl.delete("pod", name, namespace, "--grace-period=0", "--force")
