"""JobSet's controller beside a simulated cluster: the same number of pods by another way."""
from cluster import controller
from cluster.daemon import Daemon

NAME = "jobset"
PATH = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/{}/jobsets"
NEVER = [{"name": "bench/never"}]
QPS = 2000  # more than any API server of this size answers


def start(cluster):
    """Defines its kinds and starts it, without its webhooks. Returns its Daemon."""
    plane = cluster.plane
    controller.define(cluster.kubectl, cluster.binaries, NAME)
    config, _ = controller.configure(plane, cluster.folder, NAME, 18082, 19444,
                                     {"apiVersion": "config.jobset.x-k8s.io/v1alpha1"})
    daemon = Daemon(NAME, [cluster.binaries / NAME, f"--config={config}", f"--kubeconfig={plane.admin}",
                           f"--kube-api-qps={QPS}", f"--kube-api-burst={2 * QPS}"], plane.logs)
    daemon.start()
    return daemon


def bare(requests):
    """The least that a pod needs. It is never scheduled, since simulated pods of a Job succeed at once."""
    return {"restartPolicy": "Never", "schedulingGates": NEVER,
            "containers": [{"name": "main", "image": "bench/worker:1", "resources": requests}]}


def like(pod):
    """The spec of a pod that is there, without what the API server fills in for each."""
    return {key: value for key, value in pod["spec"].items() if key not in ("priority", "preemptionPolicy")}


def jobset(namespace, index, workers, spec):
    """One trainer and its workers, all with that spec, with the defaults that the webhook would fill in."""
    def job(name, pods):
        return {"name": name, "replicas": 1, "groupName": "default", "template": {"spec": {
            "parallelism": pods, "completions": pods, "completionMode": "Indexed", "backoffLimit": 0,
            "template": {"spec": spec}}}}
    name = f"jobset-{index:04}"
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": name, "namespace": namespace},
        "spec": {"network": {"enableDNSHostnames": True, "subdomain": name, "publishNotReadyAddresses": True},
                 "successPolicy": {"operator": "All"}, "startupPolicy": {"startupPolicyOrder": "AnyOrder"},
                 "replicatedJobs": [job("trainer", 1), job("worker", workers)]}}
