#!/usr/bin/env python3
"""A job over clusters whose pods reach each other by gateways alone: the chart's configuration in a real HAProxy, and
real programs.

Usage: tests/gateway/gateway_test.py FOLDER_OF_PROGRAMS

The clusters' DNS is a server of the test. Pods are addresses of the loopback range, since the gateway knows one port.
"""

import json
import os
import pathlib
import random
import shutil
import signal
import socket
import socketserver
import ssl
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
CONFIGURATION = ROOT / "helm/swarmjob/files/gateway.cfg"
PROGRAMS = pathlib.Path(sys.argv.pop())
UID = "1-2-3"
PATIENCE = 120  # seconds, far beyond what a busy machine takes
NOWHERE = "127.0.0.1:1"  # refuses connections


class Dns(socketserver.BaseRequestHandler):
    """Answers with the IPv4 address of a name that it knows, and else that there is no such name."""

    def handle(self):
        data, reply = self.request
        end, labels = 12, []
        while data[end]:
            labels.append(data[end + 1:end + 1 + data[end]].decode())
            end += 1 + data[end]
        question = data[12:end + 5]
        kind = struct.unpack("!H", data[end + 1:end + 3])[0]
        address = self.server.names.get(".".join(labels))
        self.server.asked.append(".".join(labels))
        answers = b""
        if address and kind == 1:
            answers = struct.pack("!HHHIH", 0xC00C, 1, 1, 1, 4) + socket.inet_aton(address)
        flags = 0x8180 if address else 0x8183
        reply.sendto(data[:2] + struct.pack("!HHHHH", flags, 1, 1 if answers else 0, 0, 0) + question + answers,
                     self.client_address)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def pod_address():
    """An address of the loopback range at which nothing listens yet."""
    while True:
        address = f"127.{random.randint(16, 250)}.{random.randint(1, 250)}.{random.randint(1, 250)}"
        with socket.socket() as probe:
            try:
                probe.bind((address, 7000))
                return address
            except OSError:
                continue


@unittest.skipUnless(shutil.which("haproxy"), "no HAProxy: `make test-deps` installs it")
class Gateway(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.dns = self.enterContext(socketserver.UDPServer(("127.0.0.1", 0), Dns))
        self.dns.names, self.dns.asked = {}, []
        threading.Thread(target=self.dns.serve_forever, daemon=True).start()
        self.addCleanup(self.dns.shutdown)
        self.port = free_port()
        # In a pod, the nameserver is that of the pod.
        text = CONFIGURATION.read_text(encoding="utf-8")
        self.assertEqual(text.count("parse-resolv-conf"), 1)
        (self.folder / "gateway.cfg").write_text(
            text.replace("parse-resolv-conf", f"nameserver cluster 127.0.0.1:{self.dns.server_address[1]}"))
        self.processes = {}
        self.start_gateway()

    def tearDown(self):
        for process in self.processes.values():
            if process.poll() is None:
                process.kill()
            process.wait()

    def start(self, name, arguments, **environment):
        with (self.folder / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen([*map(str, arguments)], stdout=log, stderr=log,
                                                    env={**os.environ, **environment})

    def start_gateway(self):
        self.start("gateway", ["haproxy", "-db", "-f", self.folder / "gateway.cfg"],
                   SWARM_GATEWAY_LISTEN=f"127.0.0.1:{self.port}", SWARM_GATEWAY_NAMESPACES="(?:team|other)",
                   SWARM_CLUSTER_DOMAIN="cluster.local")
        self.wait("the gateway", self.gateway_listens)

    def gateway_listens(self):
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def wait(self, what, happened):
        deadline = time.monotonic() + PATIENCE
        while not happened():
            self.assertLess(time.monotonic(), deadline, what + "\n" + self.logs())
            time.sleep(0.05)

    def logs(self):
        return "\n".join(f"== {path.name}\n{path.read_text()[-1500:]}" for path in self.folder.glob("*.log"))

    def openssl(self, *arguments):
        subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True, cwd=self.folder)

    def identities(self, uris):
        """An authority, and for each name a certificate of it with this URI."""
        self.openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", 2,
                     "-subj", "/CN=test", "-keyout", "ca.key", "-out", "ca.crt")
        for name, uri in uris.items():
            self.openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", f"/CN={name}",
                         "-keyout", f"{name}.key", "-out", f"{name}.csr")
            (self.folder / "extensions").write_text(
                f"subjectAltName=URI:{uri}\nkeyUsage=digitalSignature\nextendedKeyUsage=serverAuth,clientAuth\n")
            self.openssl("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial",
                         "-days", 2, "-extfile", "extensions", "-out", f"{name}.crt")

    def greets(self, server_name):
        """Whether a TLS handshake that asks for this name meets a server behind the gateway."""
        context = ssl.create_default_context(cafile=self.folder / "ca.crt")
        context.check_hostname = False
        with socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE) as connection:
            try:
                with context.wrap_socket(connection, server_hostname=server_name) as session:
                    return session.recv(5).decode()
            except (ssl.SSLError, ConnectionError):
                return None

    def serve_hello(self, address, port, word):
        """A TLS server that says `word` to each caller."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.folder / "pod.crt", self.folder / "pod.key")

        class Hello(socketserver.BaseRequestHandler):
            def handle(self):
                with context.wrap_socket(self.request, server_side=True) as session:
                    session.sendall(word.encode())

        server = self.enterContext(socketserver.ThreadingTCPServer((address, port), Hello))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.shutdown)

    def test_names_of_jobs_lead_to_their_pods_and_others_nowhere(self):
        self.identities({"pod": "spiffe://swarmjob.local/any"})
        pod, trainer, secret = pod_address(), pod_address(), pod_address()
        self.dns.names = {
            "tiny-w3.tiny-workers.team.svc.cluster.local": pod,
            "tiny-trainer.team.svc.cluster.local": trainer,
            # These exist, and are not a job's, or are of a namespace without jobs.
            "database.team.svc.cluster.local": secret,
            "kubernetes.default.svc.cluster.local": secret,
            "tiny-w3.other-workers.team.svc.cluster.local": secret,
            "tiny-trainer.kube-system.svc.cluster.local": secret,
            "tiny-w3.tiny-workers.team.svc.evil.svc.cluster.local": secret}
        for address, port, word in ((pod, 7000, "first"), (pod, 7002, "third"), (trainer, 7000, "train"),
                                    (secret, 7000, "wrong")):
            self.serve_hello(address, port, word)
        self.assertEqual(self.greets("tiny-w3.tiny-workers.team.svc"), "first")
        self.assertEqual(self.greets("2.tiny-w3.tiny-workers.team.svc"), "third")
        self.assertEqual(self.greets("TINY-trainer.team.svc"), "train")
        for name in ("database.team.svc", "kubernetes.default.svc", "tiny-w3.other-workers.team.svc",
                     "tiny-trainer.kube-system.svc", "tiny-w3.tiny-workers.team.svc.evil.svc", "localhost",
                     "64.tiny-w3.tiny-workers.team.svc.x", "example.com"):
            with self.subTest(name):
                self.assertIsNone(self.greets(name))
        self.assertFalse([name for name in self.dns.asked if self.dns.names.get(name) == secret], "nobody looks them up")
        self.assertIsNone(self.greets("tiny-w9.tiny-workers.team.svc"), "there is no such pod")

    def job(self, steps):
        text = self.folder / "text.txt"
        text.write_text("".join(f"word {i * i % 97}{chr(10) if i % 7 == 0 else ' and '}" for i in range(2000)))
        return {"apiVersion": "swarmjob.dev/v1alpha1", "kind": "SwarmJob", "metadata": {"name": "tiny"}, "spec": {
            "model": {"config": {"hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4,
                                 "intermediate_size": 64, "vocab_size": 256}},
            "data": {"uri": str(text)},
            "training": {"seed": 7, "maxSteps": steps, "globalBatchSize": 6, "microbatchSize": 1, "sequenceLength": 16,
                         "accumulation": "Exact"},
            "schedule": {"type": "Constant"}, "pipeline": {"stages": 3}, "workers": {"replicas": 4}}}

    def common(self, name, address):
        return [PROGRAMS / "swarm-worker", f"--listen={address}:7000", f"--advertise={NOWHERE}", f"--job-uid={UID}",
                f"--tls-ca={self.folder / 'ca.crt'}", f"--tls-cert={self.folder / name}.crt",
                f"--tls-key={self.folder / name}.key"]

    def losses(self, folder):
        path = self.folder / folder / "steps.jsonl"
        if not path.exists():
            return []
        lines = path.read_text().splitlines(keepends=True)
        return [json.loads(line)["loss"] for line in lines if line.endswith("\n")]

    def test_a_job_trains_over_gateways_alone_and_goes_on_when_one_was_killed(self):
        """Each worker is in a cluster of its own, where no address but its gateway's leads to it."""
        steps = 60
        names = [f"tiny-w{n}" for n in range(4)]
        self.identities({"trainer": f"spiffe://swarmjob.local/job/{UID}/trainer",
                         **{name: f"spiffe://swarmjob.local/job/{UID}/worker/{name}" for name in names}})
        (self.folder / "job.json").write_text(json.dumps(self.job(steps)))
        (self.folder / "out").mkdir()
        addresses = {name: pod_address() for name in names}
        home = pod_address()
        self.dns.names = {f"{name}.tiny-workers.team.svc.cluster.local": each for name, each in addresses.items()}
        self.dns.names["tiny-trainer.team.svc.cluster.local"] = home
        self.start("trainer", [*self.common("trainer", home), "--role=trainer", f"--job={self.folder / 'job.json'}",
                               f"--out={self.folder / 'out'}", "--layout=2,1,1", "--keep-workers"])
        for name, address in addresses.items():
            self.start(name, [*self.common(name, address), "--role=stage", f"--id={name}", f"--trainer={NOWHERE}"],
                       SWARM_CLUSTER=f"cluster-of-{name}",
                       SWARM_GATEWAY=f"127.0.0.1:{self.port}/{name}.tiny-workers.team.svc",
                       SWARM_TRAINER_GATEWAY=f"127.0.0.1:{self.port}/tiny-trainer.team.svc")
        self.wait("some steps", lambda: len(self.losses("out")) >= 10)
        self.processes["gateway"].send_signal(signal.SIGKILL)
        self.processes["gateway"].wait()
        self.assertLess(len(self.losses("out")), steps, "it ended before the gateway did")
        self.start_gateway()
        self.assertEqual(self.processes["trainer"].wait(PATIENCE), 0, self.logs())
        subprocess.run([PROGRAMS / "swarmctl", "train", "-f", self.folder / "job.json", "--threads", "1", "--out",
                        self.folder / "alone"], check=True, capture_output=True)
        self.assertEqual(len(self.losses("out")), steps)
        self.assertEqual(self.losses("out"), self.losses("alone"), "to the last bit")
        self.assertTrue({f"{name}.tiny-workers.team.svc.cluster.local" for name in names} & set(self.dns.asked))


if __name__ == "__main__":
    unittest.main()
