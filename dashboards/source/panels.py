"""The parts of our Grafana dashboards: variables, rows, panels, and the selectors in their queries.

A dashboard lists rows of panels, from left to right; this module computes their places on the grid. All
variables limit every query, so a user who picks a job sees only that job.
"""

GRID_WIDTH = 24
VALUE_COLORS = ("blue", "orange", "green", "purple", "yellow", "red", "semi-dark-blue", "semi-dark-orange")
MOST_VALUES = 32  # that a timeline colors; greater ones have the color of the last
DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}

# The programs of a job are targets with the labels `namespace` and `swarmjob`; the operator names jobs in
# the labels of its metrics.
OF_JOB = 'job=~"$job", instance=~"$instance", namespace=~"$namespace", swarmjob=~"$swarmjob"'
OPERATOR_OF_JOB = 'job=~"$job", instance=~"$instance", job_namespace=~"$namespace", swarmjob=~"$swarmjob"'
PREEMPTED = OPERATOR_OF_JOB + ', cause="Preemption"'
FAILED = OPERATOR_OF_JOB + ', cause="Failure"'
OPERATOR = 'job=~"$job", instance=~"$instance"'

# Where links lead. The chart puts the addresses at which a reader finds these pages in their places.
ALERTS_PAGE = "docs/alerts.md"
JOBS_PAGE = "docs/page.md"
# By the title of a panel, the alerts that watch what it shows.
ALERTS = {
    "Audits": ("SwarmJobWorkerErrs",),
    "Cache silence": ("SwarmOperatorCacheStale",),
    "Checkpoint failures": ("SwarmJobCheckpointsFail",),
    "Checkpoints": ("SwarmJobCheckpointsFail",),
    "Conditions": ("SwarmJobFailed", "SwarmJobRejected", "SwarmJobNotReady", "SwarmJobWithoutCapacity"),
    "Dollars": ("SwarmJobBudgetLow",),
    "Errors": ("SwarmOperatorReconcileErrors",),
    "Failures": ("SwarmJobWorkersFail",),
    "Goodput": ("SwarmJobGoodputLow",),
    "Jobs without capacity": ("SwarmJobWithoutCapacity",),
    "Leader": ("SwarmOperatorWithoutLeader",),
    "Leaders": ("SwarmOperatorWithoutLeader",),
    "Pods by pool": ("SwarmJobWorkersIdle",),
    "Pods that ended": ("SwarmJobWorkersFail",),
    "Reconcile errors": ("SwarmOperatorReconcileErrors",),
    "Rollbacks": ("SwarmJobRollsBack",),
    "Silence of trainers": ("SwarmJobTrainerSilent",),
    "Steps": ("SwarmJobStalled", "SwarmJobLossNotFinite"),
    "Unfinished work": ("SwarmOperatorQueueStuck",),
    "Workers missing": ("SwarmJobWorkersMissing",),
    "Workers wanted and ready": ("SwarmJobWorkersMissing",),
}


def rate(metric, selector=OF_JOB):
    return f"rate({metric}{{{selector}}}[$__rate_interval])"


def increase(metric, selector=OF_JOB, window="$__range"):
    """Over the time that the dashboard shows, unless `window` says otherwise."""
    return f"increase({metric}{{{selector}}}[{window}])"


def now(metric, selector=OF_JOB):
    return f"{metric}{{{selector}}}"


def quantile(q, metric, by=(), selector=OF_JOB, over=rate):
    """`over`: rate, or increase for one number of the time that the dashboard shows."""
    labels = ", ".join(["le", *by])
    return f"histogram_quantile({q}, sum by ({labels}) ({over(metric + '_bucket', selector)}))"


def _links_of_job(namespace, swarmjob):
    """From what is shown of a job to its dashboard, and to its row on the page of all jobs; the arguments are
    Grafana's words for its names."""
    return [
        {"title": "Dashboard of the job", "targetBlank": False,
         "url": "/d/swarmjob-job?${datasource:queryparam}&${__url_time_range}"
                f"&var-namespace={namespace}&var-swarmjob={swarmjob}"},
        {"title": "The job on the page of all jobs", "targetBlank": True, "url": f"{JOBS_PAGE}#{namespace}/{swarmjob}"},
    ]


def _links_of_legend(legends):
    """Those of lines of which each is a job's, by what their legends say."""
    for label in ("namespace", "job_namespace"):
        if all(legend == f"{{{{{label}}}}}/{{{{swarmjob}}}}" for legend in legends):
            return {"links": _links_of_job(f"${{__field.labels.{label}}}", "${__field.labels.swarmjob}")}
    return {}


def _targets(queries, instant):
    targets = []
    for index, query in enumerate(queries):
        expr, legend = query if isinstance(query, tuple) else (query, "")
        targets.append({
            "datasource": DATASOURCE,
            "expr": expr,
            "legendFormat": legend or "__auto",
            "refId": chr(ord("A") + index),
            **({"instant": True, "range": False} if instant else {"range": True}),
        })
    return targets


def _panel(kind, title, description, unit, queries, width, height, instant=False):
    return {
        "type": kind,
        "title": title,
        "description": description,
        "datasource": DATASOURCE,
        "gridPos": {"w": width, "h": height},
        **({"links": [{"title": f"Alert {alert}", "type": "link", "targetBlank": True, "url": f"{ALERTS_PAGE}#{alert.lower()}"}
                      for alert in ALERTS[title]]} if title in ALERTS else {}),
        "targets": _targets(queries, instant),
        "fieldConfig": {"defaults": {"unit": unit}, "overrides": []},
    }


def stat(title, description, unit, query, *, width=4, decimals=None, thresholds=None):
    """The newest number. `thresholds`: (color, from value) pairs, the first from None."""
    panel = _panel("stat", title, description, unit, [query], width, 4, instant=True)
    panel["options"] = {
        "colorMode": "value",
        "graphMode": "none",
        "justifyMode": "auto",
        "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
        "textMode": "auto",
    }
    defaults = panel["fieldConfig"]["defaults"]
    defaults["color"] = {"mode": "thresholds"}
    defaults["thresholds"] = {
        "mode": "absolute",
        "steps": [{"color": colour, "value": value} for colour, value in thresholds or [("text", None)]],
    }
    if decimals is not None:
        defaults["decimals"] = decimals
    return panel


def series(title, description, unit, *queries, width=8, stacked=False, minimum=0, logarithmic=False):
    """Lines over time; `stacked`: areas that add up."""
    panel = _panel("timeseries", title, description, unit, queries, width, 8)
    defaults = panel["fieldConfig"]["defaults"]
    defaults["custom"] = {
        "drawStyle": "line",
        "fillOpacity": 30 if stacked else 0,
        "lineWidth": 1,
        "showPoints": "never",
        "spanNulls": False,
        "stacking": {"mode": "normal" if stacked else "none", "group": "A"},
        **({"scaleDistribution": {"type": "log", "log": 10}} if logarithmic else {}),
    }
    if minimum is not None and not logarithmic:
        defaults["min"] = minimum
    defaults.update(_links_of_legend([target["legendFormat"] for target in panel["targets"]]))
    panel["options"] = {
        "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
        "tooltip": {"mode": "multi", "sort": "desc"},
    }
    return panel


def timeline(title, description, unit, *queries, words=(), width=24, height=10):
    """A bar for each series, colored by its value over time: whole numbers from -1. `words` stand for 0, 1 ..."""
    panel = _panel("state-timeline", title, description, unit, queries, width, height)
    defaults = panel["fieldConfig"]["defaults"]
    # Grafana's palettes give each series a color, whatever its value; only thresholds follow the value.
    defaults["color"] = {"mode": "thresholds"}
    defaults["thresholds"] = {"mode": "absolute", "steps": [
        {"color": "text", "value": None},
        *({"color": VALUE_COLORS[value % len(VALUE_COLORS)], "value": value} for value in range(MOST_VALUES))]}
    if words:
        defaults["mappings"] = [{"type": "value", "options": {
            str(value): {"text": word, "index": value} for value, word in enumerate(words)}}]
    defaults["custom"] = {"fillOpacity": 70, "lineWidth": 0}
    panel["options"] = {
        "alignValue": "left",
        "legend": {"displayMode": "list", "placement": "bottom", "showLegend": False},
        "mergeValues": True,
        "rowHeight": 0.9,
        "showValue": "auto",
        "tooltip": {"mode": "single", "sort": "none"},
    }
    return panel


def table(title, description, *columns, by, width=24, height=8):
    """A row for each set of the labels `by`. A column: (header, unit, query without aggregation)."""
    panel = _panel("table", title, description, "short",
                   [f"max by ({', '.join(by)}) ({query})" for _, _, query in columns], width, height, instant=True)
    for target in panel["targets"]:
        target["format"] = "table"
    renamed = {f"Value #{chr(ord('A') + i)}": header for i, (header, _, _) in enumerate(columns)}
    panel["transformations"] = [
        {"id": "merge", "options": {}},
        {"id": "organize", "options": {"excludeByName": {"Time": True}, "renameByName": renamed}},
    ]
    panel["fieldConfig"]["overrides"] = [
        {"matcher": {"id": "byName", "options": header}, "properties": [{"id": "unit", "value": unit}]}
        for header, unit, _ in columns
    ]
    if set(by) == {"namespace", "swarmjob"}:
        panel["fieldConfig"]["overrides"].append({
            "matcher": {"id": "byName", "options": "swarmjob"},
            "properties": [{"id": "links", "value": _links_of_job("${__data.fields.namespace}", "${__data.fields.swarmjob}")}]})
    panel["options"] = {"showHeader": True, "cellHeight": "sm"}
    return panel


def row(title, *panels, collapsed=False):
    return {"title": title, "panels": list(panels), "collapsed": collapsed}


def _variable(name, label, query):
    return {
        "name": name,
        "label": label,
        "type": "query",
        "datasource": DATASOURCE,
        "query": {"query": query, "refId": f"variable-{name}"},
        "definition": query,
        "refresh": 2,
        "sort": 1,
        "multi": True,
        "includeAll": True,
        "allValue": ".+",
        "current": {"selected": True, "text": ["All"], "value": ["$__all"]},
        "hide": 0,
        "options": [],
        "regex": "",
        "skipUrlSync": False,
    }


def variables(metrics, *, jobs):
    """The variables offer the labels of the metrics that `metrics` selects; with `jobs`, also SwarmJobs."""
    names = f'__name__=~"{metrics}"'
    found = [
        {
            "name": "datasource",
            "label": "Data source",
            "type": "datasource",
            "query": "prometheus",
            "current": {"selected": False, "text": "default", "value": "default"},
            "hide": 0,
            "includeAll": False,
            "multi": False,
            "options": [],
            "refresh": 1,
            "regex": "",
            "skipUrlSync": False,
        },
        _variable("job", "Job", f"label_values({{{names}}}, job)"),
        _variable("instance", "Instance", f'label_values({{{names}, job=~"$job"}}, instance)'),
    ]
    if jobs:
        of_prometheus = 'swarmjob_trainer_version{job=~"$job"}'
        of_namespace = 'swarmjob_trainer_version{job=~"$job", namespace=~"$namespace"}'
        found.append(_variable("namespace", "Namespace", f"label_values({of_prometheus}, namespace)"))
        found.append(_variable("swarmjob", "SwarmJob", f"label_values({of_namespace}, swarmjob)"))
    return found


def _lines(panels):
    """The panels of a row by lines, none wider than the grid. A line that is not full is shared by its panels, so that
    no place is left empty."""
    lines = [[]]
    for panel in panels:
        if sum(each["gridPos"]["w"] for each in [*lines[-1], panel]) > GRID_WIDTH:
            lines.append([])
        lines[-1].append(panel)
    for line in lines:
        widths = {each["gridPos"]["w"] for each in line}
        if len(widths) == 1 and sum(each["gridPos"]["w"] for each in line) < GRID_WIDTH:
            for each in line:
                each["gridPos"]["w"] = GRID_WIDTH // len(line)
    return lines


def _place(rows):
    """The panels in the order of their rows, each with its place; a line is as high as its highest panel."""
    placed = []
    y = 0
    for one in rows:
        header = {"type": "row", "title": one["title"], "collapsed": one["collapsed"], "panels": [],
                  "gridPos": {"x": 0, "y": y, "w": GRID_WIDTH, "h": 1}}
        placed.append(header)
        y += 1
        for line in _lines(one["panels"]):
            x = 0
            for panel in line:
                panel["gridPos"].update(x=x, y=y)
                x += panel["gridPos"]["w"]
                (header["panels"] if one["collapsed"] else placed).append(panel)
            y += max(panel["gridPos"]["h"] for panel in line)
    number = 0
    for panel in placed:
        for each in [panel, *panel.get("panels", [])]:
            number += 1
            each["id"] = number
    return placed


def dashboard(uid, title, description, variables_, rows, *, refresh="30s", since="now-1h"):
    return {
        "uid": uid,
        "id": None,
        "title": title,
        "description": description,
        "tags": ["swarmjob"],
        "editable": False,
        "graphTooltip": 1,
        "schemaVersion": 39,
        "version": 1,
        "refresh": refresh,
        "time": {"from": since, "to": "now"},
        "timezone": "browser",
        "links": [{
            "title": "SwarmJob",
            "type": "dashboards",
            "tags": ["swarmjob"],
            "asDropdown": True,
            "includeVars": True,
            "keepTime": True,
            "targetBlank": False,
            "icon": "external link",
            "tooltip": "",
            "url": "",
        }],
        "annotations": {"list": []},
        "templating": {"list": variables_},
        "panels": _place(rows),
    }
