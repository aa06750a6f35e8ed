"""The bucket for data and checkpoints: on our own server, or on a given one."""
import json
import os
import pathlib
import subprocess
import sys

import boto3

from cluster.network import in_url

PORT = 9000


class Bucket:
    """S3-compatible storage that pods and this program reach at one address."""

    def __init__(self, url, name, key, secret, region="us-east-1"):
        self.url, self.name, self.key, self.secret, self.region = url, name, key, secret, region
        self.client = boto3.client("s3", endpoint_url=url, region_name=region, aws_access_key_id=key,
                                   aws_secret_access_key=secret)

    def upload(self, path, name):
        """Uploads a file and returns its uri."""
        self.client.upload_file(str(path), self.name, name)
        return self.uri(name)

    def uri(self, name):
        """s3://..."""
        return f"s3://{self.name}/{name}"

    def names(self, prefix):
        """The objects below a prefix."""
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=self.name, Prefix=prefix)
        return [item["Key"] for page in pages for item in page.get("Contents", [])]

    def checkpoint_steps(self, prefix):
        """The steps of the checkpoints below it, in order. A checkpoint counts if it has a manifest."""
        folders = [name.split("/")[-2] for name in self.names(prefix) if name.endswith("/manifest.json")]
        return sorted(int(folder.split("-")[1]) for folder in folders)

    def manifest(self, prefix, step):
        """The manifest of a checkpoint."""
        return json.loads(self.read(next(name for name in self.names(f"{prefix}step-{step:08d}-")
                                         if name.endswith("/manifest.json"))))

    def steps(self, prefix):
        """A job's loss curve in the bucket: for each step, its line of the newest generation."""
        lines = {}
        for name in sorted(self.names(prefix + "steps/")):
            piece = [json.loads(line) for line in self.read(name).splitlines() if line]
            generation = name.rsplit("/", 1)[1].split("-")[0]
            for line in piece:
                if line["step"] not in lines or lines[line["step"]][0] <= generation:
                    lines[line["step"]] = generation, line
        return {step: line for step, (_, line) in lines.items()}

    def read(self, name):
        """The text of an object."""
        return self.client.get_object(Bucket=self.name, Key=name)["Body"].read().decode()

    def environment(self):
        """The environment variables with which our programs reach it."""
        return {**os.environ, "AWS_ACCESS_KEY_ID": self.key, "AWS_SECRET_ACCESS_KEY": self.secret,
                "AWS_ENDPOINT_URL": self.url, "AWS_REGION": self.region, "NO_PROXY": "*"}


class Server:
    """An S3 server on this machine. It ends with this process."""

    def __init__(self, address, log):
        program = pathlib.Path(__file__).with_name("s3_server.py")
        with open(log, "ab") as errors:
            self.process = subprocess.Popen([sys.executable, program, address, str(PORT)], text=True,
                                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors,
                                            # Pods may call it by a name, which begins with no bucket.
                                            env={**os.environ, "S3_IGNORE_SUBDOMAIN_BUCKETNAME": "true"})
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"the S3 server does not start; see {log}")
        keys = json.loads(line)
        self.paused = False
        self.bucket = Bucket(f"http://{in_url(address)}:{PORT}", "bucket", keys["key"], keys["secret"])

    def pause(self):
        """Makes the server refuse connections; it keeps its objects."""
        if not self.paused:
            self._tell("pause")
        self.paused = True

    def resume(self):
        """Ends pause(), if there was one."""
        if self.paused:
            self._tell("resume")
        self.paused = False

    def _tell(self, order):
        self.process.stdin.write(order + "\n")
        self.process.stdin.flush()
        self.process.stdout.readline()
