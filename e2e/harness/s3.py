"""The bucket in which data and checkpoints lie: a server of our own, or one that is given."""
import json
import os
import pathlib
import subprocess
import sys

import boto3
import botocore.exceptions

PORT = 9000


class Bucket:
    """S3-compatible storage that pods and this program reach under one address."""

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
        """What lies below a prefix."""
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=self.name, Prefix=prefix)
        return [item["Key"] for page in pages for item in page.get("Contents", [])]

    def checkpoint_steps(self, prefix):
        """The steps of the checkpoints below it, in order: those that have a manifest."""
        folders = [name.split("/")[-2] for name in self.names(prefix) if name.endswith("/manifest.json")]
        return sorted(int(folder.split("-")[1]) for folder in folders)

    def manifest(self, prefix, step):
        """The manifest of a checkpoint."""
        name = next(name for name in self.names(f"{prefix}step-{step:08d}-") if name.endswith("/manifest.json"))
        try:
            return json.loads(self.client.get_object(Bucket=self.name, Key=name)["Body"].read())
        except botocore.exceptions.BotoCoreError as error:
            raise OSError(str(error)) from error

    def environment(self):
        """With which our programs reach it."""
        return {**os.environ, "AWS_ACCESS_KEY_ID": self.key, "AWS_SECRET_ACCESS_KEY": self.secret,
                "AWS_ENDPOINT_URL": self.url, "AWS_REGION": self.region, "NO_PROXY": "*"}


class Server:
    """An S3 server on this machine. Ends with this process."""

    def __init__(self, address, log):
        program = pathlib.Path(__file__).with_name("s3_server.py")
        with open(log, "ab") as errors:
            self.process = subprocess.Popen([sys.executable, program, address, str(PORT)], text=True,
                                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors)
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"the S3 server does not start; see {log}")
        keys = json.loads(line)
        self.bucket = Bucket(f"http://{address}:{PORT}", "bucket", keys["key"], keys["secret"])

    def pause(self):
        """From now on its connections are refused; what is stored stays."""
        self._tell("pause")

    def resume(self):
        """Ends pause()."""
        self._tell("resume")

    def _tell(self, order):
        self.process.stdin.write(order + "\n")
        self.process.stdin.flush()
        self.process.stdout.readline()
