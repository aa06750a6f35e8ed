"""The S3 server of the cases, a separate program: it obeys "pause" and "resume" on its input.

Usage: s3_server.py ADDRESS PORT; prints a line when it listens. While paused, it refuses connections and
keeps its objects. It checks signatures like AWS, with one pair of keys, which it prints.
"""
import json
import logging
import os
import sys

import boto3
from moto import settings
from moto.core.authorization import ActionAuthenticatorMixin
from moto.server import ThreadedMotoServer


def main(address, port):
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    os.environ["NO_PROXY"] = "*"
    server = ThreadedMotoServer(address, port, verbose=False)
    server.start()
    server.get_host_and_port()  # waits until it listens
    host = f"[{address}]" if ":" in address else address
    anyone = {"endpoint_url": f"http://{host}:{port}", "region_name": "us-east-1",
              "aws_access_key_id": "root", "aws_secret_access_key": "root"}
    boto3.client("s3", **anyone).create_bucket(Bucket="bucket")
    users = boto3.client("iam", **anyone)
    users.create_user(UserName="job")
    users.put_user_policy(UserName="job", PolicyName="p", PolicyDocument=json.dumps({
        "Version": "2012-10-17", "Statement": [
            {"Effect": "Allow", "Action": "s3:*", "Resource": "*"},
            {"Effect": "Deny", "Action": "s3:PutObject", "Resource": "arn:aws:s3:::bucket/forbidden/*"}]}))
    keys = users.create_access_key(UserName="job")["AccessKey"]
    ActionAuthenticatorMixin._authenticate_and_authorize_normal_action = lambda *_, **__: None
    settings.INITIAL_NO_AUTH_ACTION_COUNT = 0
    print(json.dumps({"key": keys["AccessKeyId"], "secret": keys["SecretAccessKey"]}), flush=True)
    for order in sys.stdin:
        if order == "pause\n":
            server.stop()
            server._server.server_close()
        elif order == "resume\n":
            server = ThreadedMotoServer(address, port, verbose=False)
            server.start()
            server.get_host_and_port()
        print("done", flush=True)
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
