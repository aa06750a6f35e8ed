#!/usr/bin/env python3
"""Checks the dashboards against Grafana's own schema, of which its makers generate the package grafana-foundation-sdk:
that Grafana knows each field, each value of a field that takes a few, and each unit.

Run by the Python environment `grafana` (scripts/deps.sh).
"""

import copy
import enum
import json
import re
import sys
import typing
import unittest

from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models import units
from grafana_foundation_sdk.models.dashboard import Dashboard

sys.dont_write_bytecode = True
from panels import dashboards, panels  # noqa: E402

# What Grafana's own export writes, and its schema does not have.
BEYOND_THE_SCHEMA = {".id", ".templating.list[].definition"}
OWN_UNIT = r"suffix:\S.*"  # Grafana puts a space between the number and it


def lost(before, after, path=""):
    """The paths of what `before` has and `after`, which was read and written by the schema, does not."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key, value in before.items():
            yield from lost(value, after[key], f"{path}.{key}") if key in after else [f"{path}.{key}"]
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for one, other in zip(before, after):
            yield from lost(one, other, f"{path}[]")
    elif before != after:
        yield path


def choices(hint):
    """The values that a field of this type can have, if these are a few, else None."""
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return {member.value for member in hint}
    if typing.get_origin(hint) is typing.Literal:
        return set(typing.get_args(hint))
    parts = [choices(part) for part in typing.get_args(hint) if part is not type(None)]
    return set().union(*parts) if parts and None not in parts else None


def wrong_choices(value, path=""):
    """(path, value) of each field of a schema's object that has none of the values it can have."""
    if isinstance(value, list):
        for each in value:
            yield from wrong_choices(each, f"{path}[]")
    elif isinstance(value, dict):
        for key, each in value.items():
            yield from wrong_choices(each, f"{path}.{key}")
    elif type(value).__module__.startswith("grafana_foundation_sdk"):
        hints = typing.get_type_hints(type(value))
        for name, each in vars(value).items():
            known = choices(hints.get(name))
            if known is not None and each is not None and not isinstance(each, (list, dict)) and each not in known:
                yield f"{path}.{name}", each
            yield from wrong_choices(each, f"{path}.{name}")


def problems(dashboard):
    """What Grafana's schema does not know of the dashboard."""
    read = Dashboard.from_json(dashboard)
    written = json.loads(json.dumps(read, cls=JSONEncoder))
    return sorted(set(lost(dashboard, written)) - BEYOND_THE_SCHEMA) + sorted(set(wrong_choices(read)))


def units_of(panel):
    """The units of a panel, with those of a table's columns."""
    yield panel["fieldConfig"]["defaults"]["unit"]
    for override in panel["fieldConfig"]["overrides"]:
        yield from (each["value"] for each in override["properties"] if each["id"] == "unit")


class Schema(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        register_default_plugins()

    def test_grafana_knows_every_field_and_every_value_that_is_one_of_a_few(self):
        for name, dashboard in dashboards().items():
            with self.subTest(name):
                self.assertEqual(problems(dashboard), [])

    def test_an_unknown_field_and_an_unknown_value_are_found_at_any_depth(self):
        job = dashboards()["job.json"]
        kinds = {panel["type"]: index for index, panel in enumerate(job["panels"])}
        for kind, index in kinds.items():
            if kind == "row":
                continue
            with self.subTest(kind):
                broken = copy.deepcopy(job)
                broken["panels"][index]["options"]["colour"] = "value"
                self.assertEqual(problems(broken), [".panels[].options.colour"])
        broken = copy.deepcopy(job)
        broken["panels"][kinds["timeseries"]]["fieldConfig"]["defaults"]["custom"]["drawStyle"] = "lines"
        self.assertEqual([value for _, value in problems(broken)], ["lines"])

    def test_grafana_knows_every_unit(self):
        known = {value for name, value in vars(units).items() if not name.startswith("_") and isinstance(value, str)}
        for name, dashboard in dashboards().items():
            for panel in panels(dashboard):
                for unit in units_of(panel):
                    with self.subTest(name, panel=panel["title"], unit=unit):
                        self.assertTrue(unit in known or re.fullmatch(OWN_UNIT, unit))


if __name__ == "__main__":
    unittest.main()
