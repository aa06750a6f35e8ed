#!/usr/bin/env python3
"""Checks dashboards and alerts without a Prometheus: the rules of Grafana's dashboard-linter, the catalogue
of metrics, the grid, and every expression with promtool."""

import json
import re
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
import draw  # noqa: E402
from panels import (DASHBOARDS, ROOT, TARGET_LABELS, base_name, catalogue, dashboards, filled, metrics_in,  # noqa: E402
                    panels, queries)


def matchers(selector):
    return re.findall(r'(\w+)(=~|!~|=|!=)"([^"]*)"', selector)


def selectors(expr):
    """(metric, text between the braces) of each selector of an expression."""
    return re.findall(r"([a-zA-Z_:][\w:]*)\{([^}]*)\}", expr)


class DashboardLinter(unittest.TestCase):
    """The rules of grafana/dashboard-linter, under their names there."""

    def variables(self):
        for name, dashboard in dashboards().items():
            yield name, {variable["name"]: variable for variable in dashboard["templating"]["list"]}

    def test_template_datasource(self):
        for name, variables in self.variables():
            with self.subTest(name):
                self.assertEqual(variables["datasource"]["type"], "datasource")
                self.assertEqual(variables["datasource"]["query"], "prometheus")
                self.assertEqual(variables["datasource"]["label"], "Data source")

    def test_template_job_and_instance(self):
        for name, variables in self.variables():
            for key, label in (("job", "Job"), ("instance", "Instance")):
                with self.subTest(name, variable=key):
                    variable = variables[key]
                    self.assertEqual(variable["datasource"]["uid"], "${datasource}")
                    self.assertEqual((variable["type"], variable["label"]), ("query", label))
                    self.assertTrue(variable["multi"])
                    self.assertEqual(variable["allValue"], ".+")

    def test_template_label_promql_and_reload(self):
        for name, variables in self.variables():
            for variable in variables.values():
                if variable["type"] != "query":
                    continue
                with self.subTest(name, variable=variable["name"]):
                    self.assertRegex(variable["query"]["query"], r"^label_values\((\w*\{.*\}), \w+\)$")
                    self.assertEqual(variable["refresh"], 2)

    def test_panels(self):
        """panel-datasource, panel-title-description, panel-units, panel-no-targets."""
        for name, dashboard in dashboards().items():
            for panel in panels(dashboard):
                with self.subTest(name, panel=panel["title"]):
                    self.assertEqual(panel["datasource"]["uid"], "${datasource}")
                    self.assertTrue(panel["title"])
                    self.assertGreater(len(panel["description"]), 10)
                    self.assertTrue(panel["fieldConfig"]["defaults"]["unit"])
                    self.assertTrue(panel["targets"])
                    references = [target["refId"] for target in panel["targets"]]
                    self.assertEqual(len(references), len(set(references)))

    def test_targets_are_confined_and_rates_follow_the_zoom(self):
        """target-job, target-instance, target-rate-interval."""
        for name, panel, expr in queries():
            with self.subTest(name, panel=panel["title"]):
                self.assertTrue(selectors(expr))
                for _, selector in selectors(expr):
                    self.assertIn(("job", "=~", "$job"), matchers(selector))
                    self.assertIn(("instance", "=~", "$instance"), matchers(selector))
                for window in re.findall(r"\brate\([^\[]*\[([^\]]*)\]", expr):
                    self.assertEqual(window, "$__rate_interval")

    def test_target_counter_agg(self):
        """A counter is useful only as a rate or as an increase."""
        known = catalogue()
        for name, panel, expr in queries():
            for metric, _ in selectors(expr):
                counts = metric.endswith("_total") or base_name(known, metric) != metric
                if counts:
                    with self.subTest(name, panel=panel["title"], metric=metric):
                        self.assertRegex(expr, rf"\b(rate|increase)\({metric}\{{")

    def test_uneditable_dashboard(self):
        identifiers = set()
        for name, dashboard in dashboards().items():
            with self.subTest(name):
                self.assertFalse(dashboard["editable"])
                self.assertIsNone(dashboard["id"])
                identifiers.add(dashboard["uid"])
        self.assertEqual(len(identifiers), len(dashboards()))


class Grid(unittest.TestCase):
    def test_no_panel_lies_on_another_or_leaves_the_grid(self):
        for name, dashboard in dashboards().items():
            taken = {}
            for panel in [*dashboard["panels"], *[p for row in dashboard["panels"] for p in row.get("panels", [])]]:
                place = panel["gridPos"]
                self.assertLessEqual(place["x"] + place["w"], 24, panel["title"])
                for x in range(place["x"], place["x"] + place["w"]):
                    for y in range(place["y"], place["y"] + place["h"]):
                        self.assertNotIn((x, y), taken,
                                         f"{name}: {panel['title']!r} lies on {taken.get((x, y))!r}")
                        taken[x, y] = panel["title"]

    def test_every_panel_has_its_own_number(self):
        for name, dashboard in dashboards().items():
            numbers = [panel["id"] for panel in dashboard["panels"]]
            self.assertEqual(len(numbers), len(set(numbers)), name)


class Catalogue(unittest.TestCase):
    def check(self, expr):
        known = catalogue()
        labels = set(TARGET_LABELS) | set(re.findall(r'label_replace\(.*?, "(\w+)", "\$1", "\w+", "\(\.\*\)"\)', expr))
        for metric in metrics_in(expr):
            self.assertTrue(base_name(known, metric) in known, f"{metric} is not in the catalogue")
            labels |= known[base_name(known, metric)]["labels"]
            if metric.endswith("_bucket"):
                labels.add("le")
        for metric, selector in selectors(expr):
            allowed = known[base_name(known, metric)]["labels"] | TARGET_LABELS
            for label, _, _ in matchers(selector):
                self.assertIn(label, allowed, f"{metric} has no label {label}")
        for group in re.findall(r"\b(?:by|on) \(([^)]*)\)", expr):
            for label in group.split(","):
                self.assertIn(label.strip(), labels)

    def test_dashboards_speak_of_nothing_else(self):
        for name, panel, expr in queries():
            with self.subTest(name, panel=panel["title"]):
                self.check(expr)

    def test_legends_name_labels_that_the_query_keeps(self):
        for name, dashboard in dashboards().items():
            for panel in panels(dashboard):
                for target in panel["targets"]:
                    kept = re.findall(r"\bby \(([^)]*)\)", target["expr"])
                    for label in re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]):
                        with self.subTest(name, panel=panel["title"], label=label):
                            if kept:
                                self.assertIn(label, {word.strip() for group in kept for word in group.split(",")})

    def test_alerts_speak_of_nothing_else(self):
        text = (DASHBOARDS / "alerts.yaml").read_text()
        found = metrics_in(text)
        self.assertTrue(found)
        known = catalogue()
        for metric in found:
            self.assertTrue(base_name(known, metric) in known, f"{metric} is not in the catalogue")

    def test_every_metric_of_a_job_or_of_the_operator_is_drawn_somewhere(self):
        known = catalogue()
        drawn = {base_name(known, metric) for _, _, expr in queries() for metric in metrics_in(expr)}
        # Panels would count these twice: other panels already show the workers' metrics.
        unneeded = {"swarmjob_trainer_boundary_bytes_total", "swarmjob_trainer_tokens_per_second",
                    "swarmjob_worker_utilization_ratio", "swarmjob_worker_commits_total",
                    "swarmjob_net_sent_messages_total", "swarmjob_net_received_messages_total"}
        self.assertEqual(set(known) - drawn, unneeded)


def promtool(*arguments):
    run = subprocess.run(["promtool", *arguments], capture_output=True, text=True, check=False)
    return run.returncode, run.stdout + run.stderr


class Promtool(unittest.TestCase):
    def test_understands_every_expression(self):
        rules = [{"record": f"test:panel_{i}", "expr": filled(expr)} for i, (_, _, expr) in enumerate(queries())]
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            json.dump({"groups": [{"name": "panels", "rules": rules}]}, file)  # JSON is YAML
            file.flush()
            code, said = promtool("check", "rules", file.name)
        self.assertEqual(code, 0, said)
        self.assertIn(f"{len(rules)} rules found", said)

    def test_notices_a_broken_expression(self):
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            json.dump({"groups": [{"name": "panels", "rules": [{"record": "a", "expr": "sum(rate(x)"}]}]}, file)
            file.flush()
            self.assertNotEqual(promtool("check", "rules", file.name)[0], 0)

    def test_alerts_fire_when_they_shall_and_only_then(self):
        code, said = promtool("check", "rules", str(DASHBOARDS / "alerts.yaml"))
        self.assertEqual(code, 0, said)
        code, said = promtool("test", "rules", str(DASHBOARDS / "alerts_test.yaml"))
        self.assertEqual(code, 0, said)


class Alerts(unittest.TestCase):
    def test_each_has_a_test_in_which_it_fires_and_a_page_that_says_what_to_do(self):
        alerts = re.findall(r"- alert: (\w+)", (DASHBOARDS / "alerts.yaml").read_text())
        tests = (DASHBOARDS / "alerts_test.yaml").read_text()
        page = (ROOT / "docs/alerts.md").read_text()
        self.assertTrue(alerts)
        for alert in alerts:
            with self.subTest(alert):
                self.assertRegex(tests, rf"alertname: {alert}\n\s+eval_time: \w+\n\s+exp_alerts:\n\s+- exp_labels")
                self.assertIn(f"runbook_url: docs/alerts.md#{alert.lower()}\n", (DASHBOARDS / "alerts.yaml").read_text())
                self.assertIn(f"\n## {alert}\n", page)

    def test_each_panel_that_leads_to_an_alert_shows_what_it_watches(self):
        rules = {rule.split()[0]: rule.partition("\n        labels:")[0]
                 for rule in (DASHBOARDS / "alerts.yaml").read_text().split("- alert: ")[1:]}
        led = set()
        for name, dashboard in dashboards().items():
            for panel in panels(dashboard):
                for link in panel.get("links", []):
                    with self.subTest(name, panel=panel["title"]):
                        page, _, anchor = link["url"].partition("#")
                        alert = link["title"].removeprefix("Alert ")
                        self.assertEqual((page, anchor), ("docs/alerts.md", alert.lower()))
                        shown = set().union(*(metrics_in(target["expr"]) for target in panel["targets"]))
                        self.assertTrue(shown & set(metrics_in(rules[alert])), alert)
                        led.add(alert)
        self.assertGreater(len(led), 12)

    def test_what_is_shown_of_a_job_leads_to_its_dashboard_and_to_its_page(self):
        known = {dashboard["uid"] for dashboard in dashboards().values()}
        leading = 0
        for name, dashboard in dashboards().items():
            variables = {variable["name"] for variable in dashboard["templating"]["list"]}
            for panel in panels(dashboard):
                config = panel["fieldConfig"]
                links = [*config["defaults"].get("links", []), *(
                    link for override in config["overrides"] for each in override["properties"] if each["id"] == "links"
                    for link in each["value"])]
                leading += bool(links)
                labels = set().union(*(re.findall(r"\bby \(([^)]*)\)", target["expr"]) for target in panel["targets"]))
                for link in links:
                    with self.subTest(name, panel=panel["title"]):
                        if uid := re.match(r"/d/([\w-]+)\?", link["url"]):
                            self.assertIn(uid[1], known)
                        else:
                            self.assertTrue(link["url"].startswith("docs/page.md#$"))
                        for variable in re.findall(r"\$\{(\w+):queryparam\}", link["url"]):
                            self.assertIn(variable, variables)
                        for label in re.findall(r"__(?:field\.labels|data\.fields)\.(\w+)", link["url"]):
                            self.assertTrue(not labels or any(label in group for group in labels), label)
        self.assertGreater(leading, 5)

    def test_the_page_lists_each_with_its_severity_and_its_time_in_their_order(self):
        rules = (DASHBOARDS / "alerts.yaml").read_text().split("- alert: ")[1:]
        listed = re.findall(r"^\| \[(\w+)\]\(#(\w+)\) \| (\w+) \| ([\w ]+) \|$", (ROOT / "docs/alerts.md").read_text(),
                            re.MULTILINE)
        self.assertEqual(listed, [
            (name, name.lower(), re.search(r"severity: (\w+)", rule)[1],
             (re.search(r"^ +for: (\w+)$", rule, re.MULTILINE) or [None, "at once"])[1])
            for rule in rules for name in [rule.split()[0]]])


class Drawing(unittest.TestCase):
    """What render.py draws with."""

    def test_numbers_have_their_unit_and_the_digits_that_count(self):
        for value, unit, text in ((1100.3, "suffix:tokens/s", "1100 tokens/s"), (0.995, "percentunit", "99.5%"),
                                  (1.5, "currencyUSD", "$1.5"), (90, "s", "1.5 mins"), (0.0123, "s", "12.3 ms"),
                                  (2048, "bytes", "2 KiB"), (1500, "Bps", "1.5 kB/s"),
                                  (0.0003, "sci", "3.00e-04"), (0, "ops", "0 ops/s")):
            with self.subTest(unit, value=value):
                self.assertEqual(draw.shown(value, unit), text)
        with self.assertRaisesRegex(ValueError, "lux"):
            draw.shown(1, "lux")

    def test_it_knows_the_unit_of_every_panel(self):
        for name, dashboard in dashboards().items():
            for panel in panels(dashboard):
                unit = panel.get("fieldConfig", {}).get("defaults", {}).get("unit")
                if unit is not None:
                    with self.subTest(name, panel=panel["title"]):
                        self.assertIn("2", draw.shown(2, unit))

    def test_a_panel_without_numbers_says_so_and_a_line_breaks_where_points_are_missing(self):
        job = dashboards()["job.json"]
        for panel in panels(job):
            for target in panel["targets"]:
                self.assertIn("No data", draw.page({**job, "panels": [panel]}, {(panel["id"], each["refId"]): []
                                                                              for each in panel["targets"]}, 0, 9, 1))
        loss = next(panel for panel in panels(job) if panel["title"] == "Loss" and panel["type"] == "timeseries")
        answer = [{"metric": {}, "values": [(0, 5.5), (1, 5.0), (7, 2.0), (8, 1.5)]}]
        drawn = draw.page({**job, "panels": [loss]}, {(loss["id"], "A"): answer, (loss["id"], "B"): []}, 0, 9, 1)
        self.assertEqual(drawn.count('stroke-linecap="square"'), 2)
        self.assertIn("training", drawn)


class Sources(unittest.TestCase):
    def test_the_dashboards_are_what_their_source_says(self):
        run = subprocess.run([sys.executable, "-B", str(DASHBOARDS / "source/generate.py"), "--check"],
                             capture_output=True, text=True, check=False)
        self.assertEqual(run.returncode, 0, run.stderr)


if __name__ == "__main__":
    unittest.main()
