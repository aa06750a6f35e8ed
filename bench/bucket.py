#!/usr/bin/env python3
"""What shards in a bucket cost a trainer: time until the first step, memory, and steps that wait for data.

Starts a server of the S3 protocol on this machine (moto, which `make deps` installs), fills a bucket with shards,
and trains a tiny model on them with `swarmctl run`. Prints: seconds from the first complete pipeline to the first
step; the trainer's memory while it trains, least and most; its reads, sequences that a microbatch had to wait for,
and retries, from its metrics. With --failing, the server refuses that part of the reads of shards with status 500.
Shards lie in a temporary folder ($TMPDIR); the server reads a part of one there itself, since moto reads all of it.
Targets: first step <= 5 s; memory flat, and below what the program itself takes + data.cacheBytes; no late sequence
after the first step; no step that fails.

Usage: .deps/python/bin/python bench/bucket.py [--gigabytes 20] [--seconds 60] [--cache-mib 256] [--failing 0.05]
       [--build build/release]
"""
import argparse
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import tempfile
import threading
import time
import urllib.request

SEQUENCE = 256
SHARD_BYTES = 256 << 20
JOB = """
apiVersion: swarmjob.dev/v1alpha1
kind: SwarmJob
metadata: {{name: bucket}}
spec:
  model:
    config: {{hidden_size: 64, num_hidden_layers: 2, num_attention_heads: 4, intermediate_size: 128, vocab_size: 512}}
  data: {{uri: "s3://bench/shards", cacheBytes: {cache}}}
  storage: {{endpoint: "{url}"}}
  training: {{maxSteps: 1000000, globalBatchSize: 32, microbatchSize: 4, sequenceLength: {sequence}}}
  schedule: {{type: Constant}}
  pipeline: {{stages: 2}}
  checkpoint: {{intervalSteps: 100000}}
"""


def part_of_shard(path, wanted):
    """What moto keeps of a shard from the first to the last byte of `wanted`, a Range; and the size of the shard."""
    from moto.s3.models import s3_backends
    key = s3_backends["123456789012"]["aws"].buckets["bench"].keys[path.split("/", 2)[2]]
    first, last = (int(number) for number in wanted.removeprefix("bytes=").split("-"))
    with key.lock:
        key._value_buffer.seek(first)
        return key._value_buffer.read(last + 1 - first), key.size


class Server:
    """moto, in a thread. It refuses a part of the reads of shards: `failing`, from 0 to 1."""

    def __init__(self, failing):
        from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
        from werkzeug.serving import make_server
        moto = DomainDispatcherApplication(create_backend_app)
        draws = random.Random(0)
        self.reads = self.refused = 0

        def answer(environ, start_response):
            if environ["REQUEST_METHOD"] == "GET" and environ["PATH_INFO"].endswith(".bin"):
                self.reads += 1
                if draws.random() < failing:
                    self.refused += 1
                    start_response("500 Internal Server Error", [("Content-Length", "0")])
                    return [b""]
                wanted = environ.get("HTTP_RANGE")
                if wanted:
                    content, size = part_of_shard(environ["PATH_INFO"], wanted)
                    start_response("206 Partial Content", [
                        ("Content-Length", str(len(content))),
                        ("Content-Range", f"{wanted.replace('=', ' ')}/{size}")])
                    return [content]
            return moto(environ, start_response)

        self.server = make_server("127.0.0.1", 0, answer, True, request_handler=MotoRequestHandler)
        self.url = "http://127.0.0.1:%d" % self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def stop(self):
        self.server.shutdown()


def fill(client, total):
    client.create_bucket(Bucket="bench")
    block = b"".join(int(i * i % 509).to_bytes(2, "little") for i in range(1 << 19))
    for number, at in enumerate(range(0, total, SHARD_BYTES)):
        content = block * (min(SHARD_BYTES, total - at) // len(block))
        client.put_object(Bucket="bench", Key=f"shards/{number:05}.bin", Body=content)


def trainer_of(folder):
    """The process id of the run's trainer; none before it is there."""
    for entry in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = entry.read_bytes()
        except OSError:
            continue
        if b"--role=trainer" in command and str(folder).encode() in command:
            return int(entry.parent.name)
    return None


def resident(pid):
    """MiB of memory of its own: without pages of files."""
    match = re.search(r"RssAnon:\s+(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text())
    return int(match.group(1)) / 1024


def lines(path):
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text().splitlines(True) if line.endswith("\n")]


def metrics(folder):
    address = (folder / "metrics" / "trainer").read_text().strip()
    text = urllib.request.urlopen(f"http://{address}/metrics", timeout=5).read().decode()
    return {name: float(value) for name, value in re.findall(r"^(swarmjob_trainer_data_\w+) (\S+)$", text, re.M)}


def measure(folder, seconds):
    started, first, sizes, late = None, None, [], 0
    begin = time.time()
    while first is None or time.time() - first < seconds:
        if time.time() - begin > seconds + 300:
            raise SystemExit("no first step after five minutes; see " + str(folder))
        for event in lines(folder / "events.jsonl"):
            if event["kind"] == "TrainingStarted":
                started = event["time"]
        if first is None and lines(folder / "steps.jsonl"):
            first = time.time()
            late = metrics(folder)["swarmjob_trainer_data_late_sequences_total"]
        pid = trainer_of(folder)
        if pid and first:
            sizes.append(resident(pid))
        time.sleep(0.05 if first is None else 1)
    half = len(sizes) // 2
    print(f"first step {first - started:.2f} s after the pipeline was complete")
    print(f"steps: {len(lines(folder / 'steps.jsonl'))}; trainer's memory, MiB: {min(sizes):.0f} to {max(sizes):.0f}, "
          f"second half {min(sizes[half:]):.0f} to {max(sizes[half:]):.0f}")
    at_end = metrics(folder)
    for name, value in sorted(at_end.items()):
        print(f"{name} {value:.0f}")
    print(f"late after the first step: {at_end['swarmjob_trainer_data_late_sequences_total'] - late:.0f}")
    undisturbed = {"WorkerJoined", "TrainingStarted", "CheckpointWritten"}
    others = [event["kind"] for event in lines(folder / "events.jsonl") if event["kind"] not in undisturbed]
    print(f"other events: {', '.join(others) or 'none'}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", type=float, default=20)
    parser.add_argument("--seconds", type=float, default=60, help="of training, after the first step")
    parser.add_argument("--cache-mib", type=int, default=256)
    parser.add_argument("--failing", type=float, default=0, help="part of the reads that the server refuses")
    parser.add_argument("--build", default="build/release")
    arguments = parser.parse_args()
    os.environ["NO_PROXY"] = "*"
    os.environ.update(AWS_ACCESS_KEY_ID="bench", AWS_SECRET_ACCESS_KEY="bench")
    import boto3
    import logging
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = Server(arguments.failing)
    fill(boto3.client("s3", endpoint_url=server.url, region_name="us-east-1"), int(arguments.gigabytes * 1e9))
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary) / "out"
        job = pathlib.Path(temporary) / "job.yaml"
        job.write_text(JOB.format(cache=arguments.cache_mib << 20, url=server.url, sequence=SEQUENCE))
        with open(pathlib.Path(temporary) / "log", "w") as log:
            command = [f"{arguments.build}/bin/swarmctl", "run", "-f", job, "--out", folder, "--plaintext"]
            run = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        try:
            measure(folder, arguments.seconds)
            print(f"the server refused {server.refused} of {server.reads} reads")
        finally:
            run.send_signal(signal.SIGINT)
            run.wait()
    server.stop()


if __name__ == "__main__":
    main()
