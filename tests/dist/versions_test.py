#!/usr/bin/env python3
"""Checks that every file that has to repeat the version of the project says the same as CMakeLists.txt, its one place.
The programs' own --version are tests of tests/CMakeLists.txt."""

import pathlib
import re
import subprocess
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
CRATE = "worker/data/huggingface"


def found(path, pattern):
    """What the groups of the pattern match in the file, all of them; fails if none does."""
    matches = re.findall(pattern, (ROOT / path).read_text(encoding="utf-8"), re.MULTILINE)
    if not matches:
        raise AssertionError(f"{path} has nothing like {pattern}")
    return matches


VERSION = subprocess.run([ROOT / "scripts/version.sh"], capture_output=True, text=True, check=True).stdout.strip()


class Versions(unittest.TestCase):
    def test_the_version_has_three_numbers(self):
        self.assertRegex(VERSION, r"^\d+\.\d+\.\d+$")

    def test_cmake_reads_the_line_that_the_scripts_read(self):
        self.assertEqual(found("CMakeLists.txt", r"VERSION (\S+) LANGUAGES"), [VERSION])

    def test_the_chart_installs_the_images_of_this_version(self):
        self.assertEqual(found("helm/swarmjob/Chart.yaml", r"^(?:version|appVersion): (\S+)$"), [VERSION, VERSION])

    def test_the_changelog_begins_with_this_version(self):
        newest, state = found("CHANGELOG.md", r"^## (\S+) \((.+)\)$")[0]
        self.assertEqual(newest, VERSION)
        self.assertRegex(state, r"^(unreleased|\d{4}-\d\d-\d\d)$")

    def test_the_crate_of_the_tokenizers_has_this_version_in_its_lock_too(self):
        self.assertEqual(found(f"{CRATE}/Cargo.toml", r'^version = "(.+)"$'), [VERSION])
        self.assertEqual(found(f"{CRATE}/Cargo.lock", r'^name = "swarm_huggingface"\nversion = "(.+)"$'), [VERSION])

    def test_the_images_are_labelled_with_this_version(self):
        for program in "operator", "worker":
            labels = found(f"{program}/Dockerfile", r'org\.opencontainers\.image\.version="(.+)"')
            self.assertEqual(set(labels), {VERSION}, program)

    def test_the_docs_push_images_of_this_version(self):
        self.assertEqual(set(found("docs/operator.md", r"REGISTRY/swarm-\w+:(\S+)")), {VERSION})


if __name__ == "__main__":
    unittest.main()
