#!/usr/bin/env python3
"""Holds docs/troubleshooting.md to the code: it has each exit code, state, condition, reason, cause and message, and no
other."""

import functools
import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/troubleshooting.md"
# Words that stand in a message for what differs.
DIFFERS = re.compile(r"\b(?:FILE|N|NAME|OUT|PEER|TEXT|URI)\b")


def text_of(name):
    return (ROOT / name).read_text(encoding="utf-8")


@functools.cache
def sections():
    """The first cells of the tables below each heading, as far as the next heading."""
    found, title = {}, None
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if heading := re.match(r"#+ (.+)", line):
            title = heading[1]
            found[title] = []
        elif line.startswith("|") and not line.startswith("|---"):
            found[title].append([cell.strip() for cell in line.strip("|").split(" | ")])
    return {title: rows[1:] for title, rows in found.items()}


def words(title):
    """The names that the first column of a table has."""
    return [name for row in sections()[title] for name in re.findall(r"`(\w+)`", row[0])]


def names(header, enumeration):
    """The spellings of an enumeration of the code, but for "Unknown", the word of a later version."""
    table = re.search(rf"struct EnumNames<(?:\w+::)?{enumeration}> \{{(.*?)\n\}};", text_of(header), re.DOTALL)[1]
    return [name for name in re.findall(r'\{E::k\w+, "(\w+)"\}', table) if name != "Unknown"]


@functools.cache
def literals():
    """The texts of each source, with adjacent ones joined."""
    sources = [path for folder in ("api", "base", "ctl", "operator", "planner", "worker")
               for path in (ROOT / folder).rglob("*.cc") if not path.stem.endswith("_test")]
    joined = {path: re.sub(r'"\s*\n\s*"', "", path.read_text(encoding="utf-8")) for path in sources}
    return {path: re.findall(r'"((?:[^"\\\n]|\\.)*)"', text) for path, text in joined.items()}


class Troubleshooting(unittest.TestCase):
    def test_it_has_the_exit_codes_of_the_programs(self):
        codes = {
            "Of swarmctl": re.findall(r"^  k\w+ = (\d+),$", text_of("ctl/exit_codes.h"), re.MULTILINE),
            "Of swarm-worker": re.findall(r"constexpr int k\w+ = (\d+);", text_of("base/exit.h")),
            "Of swarm-operator": re.findall(r"\bk\w+ = (\d+)", re.search(r"constexpr int kOk.*;",
                                                                         text_of("operator/main.cc"))[0])}
        for title, expected in codes.items():
            with self.subTest(title):
                self.assertGreater(len(expected), 2)
                self.assertEqual([row[0] for row in sections()[title]], expected)

    def test_it_has_the_states_and_conditions_of_a_job(self):
        self.assertEqual(words("States"), names("api/format/enum_names.h", "JobState"))
        page = PAGE.read_text(encoding="utf-8")
        conditions = page[page.index("\n## Conditions\n"):page.index("\n## Events")]
        self.assertEqual(re.findall(r"^### (\w+)$", conditions, re.MULTILINE),
                         names("api/format/enum_names.h", "ConditionType"))

    def test_it_has_each_reason_of_a_condition_or_event_and_no_other(self):
        told = {word for title in names("api/format/enum_names.h", "ConditionType") + ["Events of a SwarmJob"]
                for word in words(title)}
        self.assertEqual(told, set(names("api/format/enum_names.h", "Reason")))

    def test_it_has_the_causes_of_a_lost_worker(self):
        self.assertEqual(words("Why a worker was lost"),
                         names("worker/protocol/messages/observers.h", "EvictionCause"))

    def test_its_messages_are_those_of_a_source(self):
        messages = [row[0].strip("| `") for title in ("Before a job begins", "When a machine joins", "While it trains", "After it")
                    for row in sections()[title]]
        self.assertGreater(len(messages), 20)
        for message in messages:
            parts = [part.strip() for part in DIFFERS.split(message) if len(part.strip()) > 1]
            with self.subTest(message):
                self.assertTrue(any(all(any(part in literal for literal in texts) for part in parts)
                                    for texts in literals().values()))


if __name__ == "__main__":
    unittest.main()
