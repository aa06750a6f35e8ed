"""kubectl for the cases: its answers as values, its complaints as text."""
import json
import subprocess
import time


class Refused(Exception):
    """kubectl or the API server said no; the text is its message."""


class Timeout(Exception):
    """Something did not come about in time; the text says what."""


class Kubectl:
    """kubectl of one cluster. Every call ends: kubectl itself is given a deadline."""

    def __init__(self, program, kubeconfig):
        self.program = str(program)
        self.kubeconfig = str(kubeconfig)

    def __call__(self, *arguments, stdin=None, seconds=60):
        """What it prints. Raises Refused."""
        command = [self.program, "--kubeconfig", self.kubeconfig, *map(str, arguments)]
        try:
            done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=seconds, check=False)
        except subprocess.TimeoutExpired:
            raise Refused(f"kubectl {' '.join(map(str, arguments))}: no answer in {seconds} s") from None
        if done.returncode != 0:
            raise Refused(done.stderr.strip() or done.stdout.strip())
        return done.stdout

    def apply(self, *objects):
        """Applies objects (dicts). Raises Refused with the server's message."""
        items = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
        return self("apply", "-f", "-", stdin=items)

    def get(self, kind, name, namespace=None):
        """The object, or None."""
        where = ["-n", namespace] if namespace else []
        text = self("get", kind, name, *where, "--ignore-not-found", "-o", "json")
        return json.loads(text) if text.strip() else None

    def list(self, kind, namespace=None, selector=None):
        """The objects of that kind; of all namespaces without one."""
        where = ["-n", namespace] if namespace else ["--all-namespaces"]
        chosen = ["-l", selector] if selector else []
        return json.loads(self("get", kind, *where, *chosen, "-o", "json"))["items"]

    def patch(self, kind, name, namespace, change, subresource=None):
        """A merge patch."""
        extra = [f"--subresource={subresource}"] if subresource else []
        return self("patch", kind, name, "-n", namespace, "--type=merge", "-p", json.dumps(change), *extra)

    def delete(self, kind, name, namespace=None, *arguments):
        """Deletes it; that it is not there is as good."""
        where = ["-n", namespace] if namespace else []
        return self("delete", kind, name, *where, "--ignore-not-found", *arguments, seconds=180)

    def raw(self, path):
        """The text at a path of the API server."""
        return self("get", "--raw", path)


def eventually(what, condition, seconds, interval=0.5):
    """Waits until condition() is truthy and returns that; a refusal meanwhile counts as not yet."""
    deadline = time.monotonic() + seconds
    last = None
    while True:
        try:
            found = condition()
            if found:
                return found
            last = None
        except Refused as refusal:
            last = refusal
        if time.monotonic() > deadline:
            raise Timeout(f"waited {seconds:g} s in vain for {what}" + (f" ({last})" if last else ""))
        time.sleep(interval)
