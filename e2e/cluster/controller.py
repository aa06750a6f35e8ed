"""A controller of Kubernetes' own workload projects, as e2e/build.sh builds it, beside the programs of a control plane."""
import json


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
    kubectl("wait", "--for=condition=Established", "--timeout=60s", "-f", folder)
