"""kubectl for the cases: answers as values, errors as text."""
import json
import subprocess
import time


class Refused(Exception):
    """kubectl or the API server refused; the text is its message."""


class Silent(Refused):
    """kubectl did not end in time. This says nothing about the objects."""


class Timeout(Exception):
    """A condition was not met in time; the text names it."""


class Kubectl:
    """kubectl for one cluster. Every call has a deadline."""

    def __init__(self, program, kubeconfig):
        self.program = str(program)
        self.kubeconfig = str(kubeconfig)

    def __call__(self, *arguments, stdin=None, seconds=60):
        """Returns what kubectl prints. Raises Refused, and Silent after the given seconds."""
        command = [self.program, "--kubeconfig", self.kubeconfig, *map(str, arguments)]
        try:
            done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=seconds, check=False)
        except subprocess.TimeoutExpired:
            raise Silent(f"kubectl {' '.join(map(str, arguments))}: no answer in {seconds} s") from None
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
        """The objects of that kind; without a namespace, those of all namespaces."""
        where = ["-n", namespace] if namespace else ["--all-namespaces"]
        chosen = ["-l", selector] if selector else []
        return json.loads(self("get", kind, *where, *chosen, "-o", "json"))["items"]

    def patch(self, kind, name, namespace, change, subresource=None):
        """Merges a patch into an object."""
        extra = [f"--subresource={subresource}"] if subresource else []
        return self("patch", kind, name, "-n", namespace, "--type=merge", "-p", json.dumps(change), *extra)

    def delete(self, kind, name, namespace=None, *arguments):
        """Deletes an object; it need not exist."""
        where = ["-n", namespace] if namespace else []
        return self("delete", kind, name, *where, "--ignore-not-found", *arguments, seconds=180)

    def raw(self, path):
        """The text at a path of the API server."""
        return self("get", "--raw", path)


def eventually(what, condition, seconds, interval=0.5):
    """Waits until condition() is truthy and returns its value; a refusal counts as not yet.

    A call that got no answer did not look at the condition, so its time is given back, twice at most.
    """
    deadline = time.monotonic() + seconds
    last = None
    forgiven = 0
    while True:
        begin = time.monotonic()
        try:
            found = condition()
            if found:
                return found
            last = None
        except Silent as silence:
            last = silence
            if forgiven < 2:
                forgiven += 1
                deadline += time.monotonic() - begin
        except Refused as refusal:
            last = refusal
        if time.monotonic() > deadline:
            raise Timeout(f"waited {seconds:g} s in vain for {what}" + (f" ({last})" if last else ""))
        time.sleep(interval)
