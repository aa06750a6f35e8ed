"""Reads the dashboards and the catalogue of metrics for the tests."""

import json
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
DASHBOARDS = ROOT / "dashboards"
# Prometheus gives these labels to targets (helm/swarmjob/templates/monitors.yaml); our programs do not.
TARGET_LABELS = {"job", "instance", "namespace", "swarmjob", "pool", "zone"}
OURS = r"(?:swarmjob|controller_runtime|workqueue|rest_client|leader_election)_\w+"


def catalogue():
    """name → {type, server, labels}: the table in docs/metrics.md; a test compares it with the code."""
    metrics = {}
    for line in (ROOT / "docs/metrics.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 5 and cells[0].startswith("`"):
            labels = {label.strip() for label in cells[3].split(",") if label.strip()}
            metrics[cells[0].strip("`")] = {"type": cells[1], "server": cells[2], "labels": labels}
    return metrics


def base_name(metrics, name):
    """The catalogue's name for a series: the name without a histogram's suffix."""
    for suffix in ("_bucket", "_sum", "_count"):
        stem = name.removesuffix(suffix)
        if stem != name and metrics.get(stem, {}).get("type") == "histogram":
            return stem
    return name


def dashboards():
    return {path.name: json.loads(path.read_text()) for path in sorted(DASHBOARDS.glob("*.json"))}


def panels(dashboard):
    """All panels except rows."""
    for panel in dashboard["panels"]:
        if panel["type"] == "row":
            yield from panel["panels"]
        else:
            yield panel


def queries():
    """(dashboard's file, panel, expression) of every query."""
    for name, dashboard in dashboards().items():
        for panel in panels(dashboard):
            for target in panel["targets"]:
                yield name, panel, target["expr"]


def filled(expr, rate_interval="1m", within="1h"):
    """The expression as Grafana sends it, with all variables at All, and prices as they come."""
    for dashboard in dashboards().values():
        for variable in dashboard["templating"]["list"]:
            if variable["type"] == "textbox":
                expr = expr.replace(f"${variable['name']} ", f"{variable['query']} ")
    return (expr.replace("$__rate_interval", rate_interval).replace("$__range", within)
            .replace('"$job"', '".+"').replace('"$instance"', '".+"')
            .replace('"$namespace"', '".+"').replace('"$swarmjob"', '".+"'))


def metrics_in(expr):
    return set(re.findall(rf"\b{OURS}\b(?=\s*[{{\[)<>=!+*/-]|\s|$)", expr)) - TARGET_LABELS


def of_operator(expr):
    """Whether the query needs an operator, or one that is a satellite."""
    return bool(servers(expr) & {"operator", "satellite"})


def servers(expr):
    """What the query asks: the operator, one that is a satellite, the trainer, the workers."""
    known = catalogue()
    return {known[base_name(known, metric)]["server"] for metric in metrics_in(expr)}
