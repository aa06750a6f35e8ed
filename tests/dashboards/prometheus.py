"""A test's own Prometheus, and a check that each query returns numbers."""

import json
import math
import re
import subprocess
import time
import urllib.parse
import urllib.request

from panels import filled

CONFIG = """global: {{scrape_interval: {interval}, scrape_timeout: {interval}, evaluation_interval: 1s}}
rule_files: {rules}
scrape_configs:
  - job_name: swarmjob
    file_sd_configs: [{{files: ["{targets}"]}}]
"""


def ask(address, expr):
    """The numbers that an instant query returns now, without NaN."""
    url = f"{address}/api/v1/query?" + urllib.parse.urlencode({"query": expr})
    with urllib.request.urlopen(url, timeout=30) as answer:
        result = json.load(answer)["data"]["result"]
    values = [float(series["value"][1]) for series in result]
    return [value for value in values if not math.isnan(value)]


def ask_range(address, expr, start, end, step):
    """The series of a query over the time, all in seconds, as {"metric": labels, "values": [(time, number)]}, without
    what is no number."""
    url = f"{address}/api/v1/query_range?" + urllib.parse.urlencode(
        {"query": expr, "start": start, "end": end, "step": step})
    with urllib.request.urlopen(url, timeout=30) as answer:
        result = json.load(answer)["data"]["result"]
    series = [{"metric": one["metric"], "values": [(time_, float(value)) for time_, value in one["values"]
                                                   if math.isfinite(float(value))]} for one in result]
    return [one for one in series if one["values"]]


def firing(address):
    """The alerts that fire now: [{"labels": ..., "annotations": ..., "activeAt": ...}]."""
    with urllib.request.urlopen(f"{address}/api/v1/alerts", timeout=30) as answer:
        return [alert for alert in json.load(answer)["data"]["alerts"] if alert["state"] == "firing"]


def await_numbers(address, wanted, seconds, meanwhile=lambda: None):
    """Repeats each (dashboard, panel's title, expression) until it has returned numbers; returns the rest."""
    rest = list(wanted)
    deadline = time.monotonic() + seconds
    while rest and time.monotonic() < deadline:
        meanwhile()
        rest = [query for query in rest if not ask(address, filled(query[2], rate_interval="10s", within="10m"))]
        time.sleep(0.25)
    return rest


class Prometheus:
    """A server on a free port of this machine, with its files in `folder`; `interval` separates two scrapes, and
    `rules` are the paths of files of rules."""

    def __init__(self, folder, interval="250ms", rules=()):
        self.targets = folder / "targets.json"
        self.targets.write_text("[]")
        config = folder / "prometheus.yaml"
        config.write_text(CONFIG.format(targets=self.targets, interval=interval,
                                        rules=json.dumps([str(path) for path in rules])))
        self.log = folder / "prometheus.log"
        self.process = subprocess.Popen(
            ["prometheus", f"--config.file={config}", f"--storage.tsdb.path={folder / 'tsdb'}",
             "--web.listen-address=127.0.0.1:0"], stdout=subprocess.DEVNULL, stderr=self.log.open("w"))
        self.address = "http://" + self._await_address()

    def _await_address(self):
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and self.process.poll() is None:
            said = self.log.read_text()
            found = re.search(r'msg="Listening on" address=(127\.0\.0\.1:\d+)', said)
            if found and "Server is ready" in said:
                return found[1]
            time.sleep(0.05)
        self.process.kill()
        raise SystemExit(f"prometheus does not start:\n{self.log.read_text()}")

    def scrape(self, groups):
        """Sets the targets, in the format of Prometheus' target files: [{"targets": [...], "labels": {...}}]."""
        text = json.dumps(groups)
        if text != self.targets.read_text():
            following = self.targets.with_suffix(".next")
            following.write_text(text)
            following.rename(self.targets)

    def stop(self):
        self.process.terminate()
        self.process.wait(30)
