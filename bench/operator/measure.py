"""Reads the figures from the API server's audit log, from a program's /metrics, and from /proc."""
import collections
import datetime
import json
import os
import pathlib
import re
import urllib.error
import urllib.request

PAGE_KIB = os.sysconf("SC_PAGE_SIZE") // 1024
TICKS = os.sysconf("SC_CLK_TCK")
WRITES = ("create", "update", "patch", "delete", "deletecollection")


def quantile(values, q):
    """The q-quantile of the values; None without values."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(q * len(ordered)))] if ordered else None


def seconds_of(stamp):
    """An RFC 3339 time as seconds since the epoch."""
    return datetime.datetime.fromisoformat(stamp.replace("Z", "+00:00")).timestamp()


class Request:
    """One request of the operator, as the API server recorded it."""

    def __init__(self, event):
        where = event.get("objectRef", {})
        self.user = event["user"]["username"]
        self.verb = event["verb"]
        self.resource = "/".join(part for part in (where.get("resource"), where.get("subresource")) if part)
        self.name = where.get("name", "")
        self.namespace = where.get("namespace", "")
        self.code = event.get("responseStatus", {}).get("code", 0)
        self.begin = seconds_of(event["requestReceivedTimestamp"])
        self.end = seconds_of(event["stageTimestamp"])

    @property
    def is_write(self):
        """Whether it is a write. `resource` tells the Lease and Events apart."""
        return self.verb in WRITES

    @property
    def is_own(self):
        """Whether it writes the Lease or an Event, and so changes no job."""
        return self.resource in ("leases", "events")


class AuditLog:
    """The requests of some users to the API server, without watches."""

    def __init__(self, path, is_of):
        self.path = pathlib.Path(path)
        self.is_of = is_of
        self.requests = []
        self.read_to = 0

    def read(self):
        """All requests that the API server has answered so far."""
        if self.path.exists():
            with open(self.path, "rb") as file:
                file.seek(self.read_to)
                for line in file:
                    if not line.endswith(b"\n"):
                        break
                    self.read_to += len(line)
                    event = json.loads(line)
                    if event["stage"] == "ResponseComplete" and event["verb"] != "watch":
                        request = Request(event)
                        if self.is_of(request.user):
                            self.requests.append(request)
        return self.requests

    def between(self, begin, end=float("inf")):
        """The requests that arrived within that time."""
        return [request for request in self.read() if begin <= request.begin < end]


def count(requests):
    """{"verb resource": count}, the most frequent first."""
    return dict(collections.Counter(f"{each.verb} {each.resource}" for each in requests).most_common())


class Metrics:
    """One reading of a program's metrics."""

    LINE = re.compile(r"^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)$")
    LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')

    def __init__(self, text):
        self.samples = collections.defaultdict(list)
        for line in text.splitlines():
            found = self.LINE.match(line)
            if found:
                self.samples[found[1]].append((dict(self.LABEL.findall(found[2] or "")), float(found[3])))

    def sum(self, name, **labels):
        """The sum of all samples with these labels."""
        return sum(value for had, value in self.samples[name] if labels.items() <= had.items())

    def buckets(self, name, **labels):
        """{upper bound: observations up to it} of a histogram."""
        bounds = collections.Counter()
        for had, value in self.samples[name + "_bucket"]:
            if labels.items() <= had.items():
                bounds[float(had["le"])] += value
        return bounds


def histogram_quantile(q, later, earlier=None):
    """The quantile of the observations between two readings of buckets(); like Prometheus, linear within a bucket."""
    bounds = sorted(later)
    counts = [later[bound] - (earlier or {}).get(bound, 0) for bound in bounds]
    if not counts or counts[-1] <= 0:
        return None
    rank = q * counts[-1]
    low, below = 0.0, 0.0
    for bound, value in zip(bounds, counts):
        if value >= rank:
            if bound == float("inf"):
                return low
            return low + (bound - low) * (rank - below) / (value - below) if value > below else bound
        low, below = bound, value
    return low


def scrape(url):
    """The Metrics at a URL, or None if no program answers."""
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return Metrics(answer.read().decode())
    except (urllib.error.URLError, OSError):
        return None


class Process:
    """The figures of a process in /proc."""

    def __init__(self, pid):
        self.folder = pathlib.Path(f"/proc/{pid}")

    def memory_mib(self):
        """{"now": resident, "own": the part without files, "most": the peak so far}."""
        fields = dict(line.split(":", 1) for line in (self.folder / "status").read_text().splitlines())
        return {key: int(fields[field].split()[0]) / 1024
                for key, field in (("now", "VmRSS"), ("own", "RssAnon"), ("most", "VmHWM"))}

    def cpu_seconds(self):
        """The processor time used so far."""
        fields = (self.folder / "stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def threads(self):
        """How many there are."""
        return len(list((self.folder / "task").iterdir()))
