"""A controller of Kubernetes' own workload projects, as e2e/build.sh builds it, beside the programs of a control plane."""
import json

from cluster.daemon import wait_until


def kinds(binaries, name):
    """The folder with the definitions of the kinds of a controller."""
    return binaries / f"{name}-crds"


def can_run(binaries, name):
    """Whether the program and the definitions of its kinds are there."""
    return (binaries / name).exists() and kinds(binaries, name).is_dir()


def configure(plane, folder, name, health_port, webhook_port, configuration):
    """Writes the configuration, with what these controllers share: no election, no metrics, and a webhook server that
    nothing calls but that wants a certificate. Returns the path of the file, and of the folder of the certificate."""
    plane.authority.issue(name, f"/CN={name}", "subjectAltName=DNS:localhost")
    certificates = folder / name / "certificates"
    certificates.mkdir(parents=True, exist_ok=True)
    for suffix, as_name in (("crt", "tls.crt"), ("key", "tls.key")):
        (certificates / as_name).write_bytes((folder / "pki" / f"{name}.{suffix}").read_bytes())
    config = folder / name / "config.yaml"
    config.write_text(json.dumps({
        "kind": "Configuration", "health": {"healthProbeBindAddress": f"127.0.0.1:{health_port}"},
        "metrics": {"bindAddress": "0"}, "webhook": {"port": webhook_port, "certDir": str(certificates)},
        "leaderElection": {"leaderElect": False}, "internalCertManagement": {"enable": False}, **configuration}))
    return config, certificates


def define(kubectl, binaries, name):
    """Defines the kinds of a controller."""
    folder = str(kinds(binaries, name))
    kubectl("apply", "--server-side", "-f", folder)
    await_established(kubectl, "-f", folder)


def await_established(kubectl, *definitions):
    """Waits until the API server serves the kinds. `kubectl wait` takes a definition at which the server has not yet
    looked, and which has no conditions therefore, for an error."""
    def established():
        found = json.loads(kubectl("get", *definitions, "-o", "json"))
        return all(any(condition["type"] == "Established" and condition["status"] == "True"
                       for condition in each.get("status", {}).get("conditions") or [])
                   for each in found.get("items", [found]))
    wait_until(established, 60, "the API server to serve " + " ".join(definitions))
