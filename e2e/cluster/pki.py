"""The certificates and kubeconfig files of a cluster, made with openssl."""
import json
import subprocess


def openssl(*arguments):
    """Runs openssl; the error contains its message."""
    done = subprocess.run(["openssl", *map(str, arguments)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"openssl {arguments[0]}: {done.stderr.strip()}")


class Authority:
    """The cluster's certificate authority, in a folder of its own."""

    def __init__(self, folder):
        self.folder = folder
        folder.mkdir(parents=True)
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", 30,
                "-subj", "/CN=e2e-cluster", "-keyout", folder / "ca.key", "-out", folder / "ca.crt")
        openssl("genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256",
                "-out", folder / "service-accounts.key")
        openssl("pkey", "-in", folder / "service-accounts.key", "-pubout", "-out", folder / "service-accounts.pub")

    @property
    def certificate(self):
        """The authority's certificate, which all clients need."""
        return self.folder / "ca.crt"

    def issue(self, name, subject, extensions):
        """Writes NAME.key and NAME.crt."""
        key, request = self.folder / f"{name}.key", self.folder / f"{name}.csr"
        description = self.folder / f"{name}.ext"
        description.write_text(extensions)
        openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", subject,
                "-keyout", key, "-out", request)
        openssl("x509", "-req", "-in", request, "-CA", self.certificate, "-CAkey", self.folder / "ca.key",
                "-CAcreateserial", "-days", 30, "-extfile", description, "-out", self.folder / f"{name}.crt")

    def client(self, name, subject, server):
        """Writes a kubeconfig file for a client with that subject."""
        self.issue(name, subject, "extendedKeyUsage=clientAuth")
        path = self.folder.parent / f"{name}.kubeconfig"
        path.write_text(json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "e2e",
            "clusters": [{"name": "e2e", "cluster": {"server": server,
                                                     "certificate-authority": str(self.certificate)}}],
            "users": [{"name": name, "user": {"client-certificate": str(self.folder / f"{name}.crt"),
                                              "client-key": str(self.folder / f"{name}.key")}}],
            "contexts": [{"name": "e2e", "context": {"cluster": "e2e", "user": name}}]}, indent=2))
        return path
