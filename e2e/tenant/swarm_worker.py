#!/usr/bin/python3
"""A tenant's program in place of swarm-worker, for the case `hostile_trainer`.

As a worker it only answers the kubelet. As the trainer it serves the call that an operator makes, with the identity of the
job, and answers each `Observe` with what no trainer sends. The variable TENANT_SENDS says what that is:

  sizes   by turns a message that is larger than an operator takes, and one that only says so
  stages  workers of the job in a stage that it does not have
  terms   the same, in the last term that there is

It prints what it does, for the story.
"""
import concurrent.futures
import http.server
import itertools
import os
import signal
import socket
import struct
import sys
import threading
import time

import grpc
from swarmjob.v1 import frame_pb2, observers_pb2

STEP = 4321  # that the story finds in the job's status
STAGE = 10 ** 12
LAST_TERM = 2 ** 64 - 1
MESSAGE_BYTES, PAYLOAD_BYTES = 64 << 20, 1 << 40
WORKERS = 16
INSTANCE = time.time_ns()  # a later process has a larger one
CRC_TABLE = []
for byte in range(256):
    for _ in range(8):
        byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
    CRC_TABLE.append(byte)


def say(text):
    """A line of the pod's log."""
    print(text, flush=True)


def crc32c(data):
    """CRC-32C, Castagnoli's."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ CRC_TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def frame(sequence, header, payload=b"", payload_bytes=0):
    """The first frame of a message, as docs/wire_format.md has it: all fields, in order, those that are zero too."""
    body = (b"\x09" + struct.pack("<Q", sequence) + b"\x11" + struct.pack("<Q", payload_bytes) + b"\x19" + bytes(8)
            + frame_pb2.Frame(header=header).SerializeToString())
    return body + b"\x2d" + struct.pack("<I", crc32c(body + payload)) + b"\x32" + bytes([len(payload)]) + payload


def status(term):
    """A header with a status in which workers of this job serve a stage that it does not have."""
    job = socket.gethostname().rsplit("-trainer-", 1)[0]
    stage = observers_pb2.StageStatus(stage=STAGE, workers=[
        {"id": f"{job}-w{number}", "state": observers_pb2.StageStatus.READY} for number in range(WORKERS)])
    return frame_pb2.Header(job_status=observers_pb2.JobStatus(
        state="Training", step=STEP, max_steps=2 * STEP, stages=[stage], term=term))


class Trainer:
    """Serves Transport.Exchange."""

    def __init__(self, flags):
        self.job = flags["job-uid"]
        term = int(flags.get("term", "1"))  # the default is not said
        large = f"a message of {MESSAGE_BYTES} bytes", lambda _: bytes(MESSAGE_BYTES)
        boasting = (f"a payload of {PAYLOAD_BYTES} bytes",
                    lambda number: frame(number, status(term), b"beginning", PAYLOAD_BYTES))
        self.answers = itertools.cycle({
            "sizes": [large, boasting],
            "stages": [("a stage", lambda number: frame(number, status(term)))],
            "terms": [("a term", lambda number: frame(number, status(LAST_TERM)))],
        }[os.environ["TENANT_SENDS"]])

    def exchange(self, frames, context):
        """One call, of one lane: a hello for a hello, and then an answer for each question."""
        hello = frame_pb2.StreamHello.FromString(next(frames))
        yield frame_pb2.StreamHello(version_min=1, version_max=1, job=self.job, id="trainer", instance=INSTANCE,
                                    lane=hello.lane, connection=hello.connection).SerializeToString()
        sent = []
        context.add_callback(lambda: sent and say(f"{hello.id} hung up on {sent[-1]}"))
        for each in frames:
            if frame_pb2.Frame.FromString(each).header.WhichOneof("message") != "observe":
                continue
            what, make = next(self.answers)
            sent.append(what)
            yield make(len(sent))
            if len(sent) % 10 == 0:
                say(f"{hello.id} has taken {what} {len(sent)} times")

    def serve(self, flags):
        """Begins; returns the server."""
        files = {}
        for name in ("ca", "cert", "key"):
            with open(flags[f"tls-{name}"], "rb") as file:
                files[name] = file.read()
        server = grpc.server(concurrent.futures.ThreadPoolExecutor(16))
        handler = grpc.stream_stream_rpc_method_handler(self.exchange)
        server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(
            "swarmjob.v1.Transport", {"Exchange": handler})])
        server.add_secure_port("[::]:" + flags["listen"].rsplit(":", 1)[1], grpc.ssl_server_credentials(
            [(files["key"], files["cert"])], files["ca"], require_client_auth=True))
        server.start()
        return server


class Probes(http.server.BaseHTTPRequestHandler):
    """All is well, whatever the kubelet asks."""

    def do_GET(self):
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_):
        pass


def answer_kubelet(port):
    """Begins, in a thread."""
    server = http.server.ThreadingHTTPServer(("", port), Probes, bind_and_activate=False)
    server.socket = socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()


def main():
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    flags = dict(argument[2:].split("=", 1) for argument in sys.argv[1:] if "=" in argument)
    answer_kubelet(int(flags["metrics-listen"].rsplit(":", 1)[1]))
    server = Trainer(flags).serve(flags) if flags["role"] == "trainer" else None
    say(f"serves as {flags['role']}")
    while server is None or not server.wait_for_termination():
        signal.pause()


if __name__ == "__main__":
    main()
