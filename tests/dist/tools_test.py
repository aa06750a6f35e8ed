#!/usr/bin/env python3
"""Tests what `make dist` is made with, and that the programs of a build run on every release that we name.

Usage: tests/dist/tools_test.py PROGRAM_OR_LIBRARY...
"""

import hashlib
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / folder) for folder in ("scripts/dist", "tests/dist", "tests/docs")]

import archive  # noqa: E402
import components  # noqa: E402
import elf  # noqa: E402
import notes  # noqa: E402
import releases  # noqa: E402
import sbom  # noqa: E402
import steps  # noqa: E402
import tutorial  # noqa: E402

BUILT = [pathlib.Path(name) for name in sys.argv[1:]]


class Archives(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.work = pathlib.Path(folder.name)

    def write(self, name, order, mode, time):
        """An archive of a folder whose files were made in that order, with that mode, at that time."""
        tree = self.work / f"{name}.tree"
        (tree / "bin").mkdir(parents=True)
        for each in order:
            (tree / each).write_text(f"the text of {each}", encoding="utf-8")
            (tree / each).chmod(mode)
            os.utime(tree / each, (time, time))
        (tree / "link").symlink_to("a")
        archive.write(tree, self.work / name, "top", 1_700_000_000)
        return self.work / name

    def test_neither_order_nor_time_nor_rights_of_others_change_a_byte(self):
        first = self.write("first", ["b", "a", "bin/c"], 0o644, 1_000_000_000)
        second = self.write("second", ["bin/c", "a", "b"], 0o600, 1_500_000_000)
        self.assertEqual(hashlib.sha256(first.read_bytes()).digest(), hashlib.sha256(second.read_bytes()).digest())

    def test_tar_unpacks_programs_as_programs_and_links_as_links(self):
        packed = self.write("packed", ["a", "bin/c"], 0o700, 1_000_000_000)
        subprocess.run(["tar", "-xzf", packed, "-C", self.work], check=True)
        self.assertEqual((self.work / "top/bin/c").stat().st_mode & 0o777, 0o755)
        self.assertEqual((self.work / "top/a").stat().st_mtime, 1_700_000_000)
        self.assertEqual(os.readlink(self.work / "top/link"), "a")


class Releases(unittest.TestCase):
    def test_the_newest_version_is_that_of_the_greatest_number(self):
        self.assertEqual(releases.newest(["GLIBC_2.4", "GLIBC_2.34", "GLIBC_2.9", "GLIBCXX_3.4.9", "GLIBCXX_3.4.30"]),
                         {"GLIBC": "2.34", "GLIBCXX": "3.4.30"})

    def test_a_release_lacks_what_came_after_it(self):
        wanted = ["GLIBC_2.36", "GLIBCXX_3.4.30"]
        self.assertEqual(releases.too_new(wanted, "Ubuntu 22.04"), ["GLIBC_2.36"])
        self.assertEqual(releases.too_new(wanted, "Debian 12"), [])

    def test_no_release_promises_a_private_symbol(self):
        self.assertEqual(releases.too_new(["GLIBC_PRIVATE"], "Debian 13"), ["GLIBC_PRIVATE"])


CHANGELOG = """# Changelog

## 0.2.0 (unreleased)

- Jobs fly ([how](docs/wings.md), [how far](docs/numbers.md#far)).
- The [page](docs/page.md) shows it.

## 0.1.0 (2026-01-01)

- Jobs walk.
"""


class Notes(unittest.TestCase):
    def test_they_have_one_version_and_no_links(self):
        self.assertEqual(notes.of_version(CHANGELOG, "0.2.0"),
                         "# SwarmJob 0.2.0\n\n- Jobs fly.\n- The page shows it.\n")
        self.assertEqual(notes.of_version(CHANGELOG, "0.1.0"), "# SwarmJob 0.1.0\n\n- Jobs walk.\n")

    def test_a_version_of_which_nothing_is_said_is_an_error(self):
        with self.assertRaisesRegex(LookupError, "nothing of 0.3.0"):
            notes.of_version(CHANGELOG, "0.3.0")

    def test_the_changelog_of_this_version_becomes_notes_without_a_link(self):
        text = notes.of_version((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), sbom.VERSION)
        self.assertNotIn("](", text)
        self.assertIn("### Training", text)


STATUS = """Package: libssl3
Status: install ok installed
Source: openssl
Version: 3.0.19-1~deb12u2

Package: gone
Status: deinstall ok config-files
Version: 1.0

Package: libspdlog1.10
Status: install ok installed
Version: 1:1.10.0+ds-0.4
"""


class Materials(unittest.TestCase):
    def test_what_is_installed_is_listed_and_what_was_removed_is_not(self):
        found = [(each.name, each.version, each.source) for each in sbom.installed(STATUS)]
        self.assertEqual(found, [("libssl3", "3.0.19-1~deb12u2", "openssl"),
                                 ("libspdlog1.10", "1:1.10.0+ds-0.4", "libspdlog1.10")])

    def test_the_bill_has_each_component_once_by_an_address_that_scanners_know(self):
        crate = components.Component("cargo", "regex", "1.13.2", "", "MIT OR Apache-2.0", ())
        bill = sbom.document("swarm-worker", [crate, *sbom.installed(STATUS), crate], "12")
        self.assertEqual([each["purl"] for each in bill["components"]],
                         ["pkg:cargo/regex@1.13.2",
                          "pkg:deb/debian/libspdlog1.10@1%3A1.10.0%2Bds-0.4?arch=amd64&distro=debian-12",
                          "pkg:deb/debian/libssl3@3.0.19-1~deb12u2?arch=amd64&distro=debian-12"])
        self.assertEqual(bill["components"][0]["licenses"], [{"expression": "MIT OR Apache-2.0"}])

    def test_the_bill_names_what_it_is_of(self):
        self.assertEqual(sbom.document("swarm-operator", [], "12")["metadata"]["component"]["name"], "swarm-operator")


class Programs(unittest.TestCase):
    def test_they_ask_for_no_symbol_that_a_release_lacks(self):
        self.assertTrue(BUILT)
        for path in BUILT:
            read = elf.read(path)
            versions = [version for library, version in read.versions if elf.SYSTEM.match(library)]
            self.assertIn("GLIBC", releases.newest(versions), path)
            for release in releases.RELEASES:
                with self.subTest(file=path.name, release=release):
                    self.assertEqual(releases.too_new(versions, release), [])

    def test_what_is_read_of_a_program_is_what_the_loader_finds(self):
        loaded = subprocess.run(["ldd", BUILT[0]], capture_output=True, text=True, check=True).stdout
        for name in elf.read(BUILT[0]).needed:
            self.assertIn(name, loaded)


class Pages(unittest.TestCase):
    """The steps of the pages that tests play alone."""

    def test_each_way_of_the_tutorial_has_its_own_first_step_and_the_same_rest(self):
        page = (ROOT / tutorial.PAGE).read_text(encoding="utf-8")
        first = {}
        for way, title in tutorial.WAYS.items():
            first[way], *rest = steps.steps(page, title)
            self.assertEqual(rest, steps.steps(page))
        self.assertIn("make build\n", first["source"][2])
        self.assertIn("tar -xzf swarmjob-", first["tarball"][2])
        self.assertIn(("Describe the job", "tutorial.yaml"), [step[:2] for step in rest])

    def test_the_page_of_a_cluster_leads_from_its_manifest_to_a_model(self):
        kinds = [kind for _, kind, _ in steps.steps((ROOT / "docs/cluster.md").read_text(encoding="utf-8"))]
        self.assertIn("cluster.yaml", kinds)
        self.assertGreater(kinds.count("sh"), 4)

    def test_the_page_of_several_clouds_gives_each_command_to_the_story_that_plays_it(self):
        played = steps.steps((ROOT / "docs/clouds.md").read_text(encoding="utf-8"))
        self.assertIn(("Describe the job", "clouds.yaml"), [step[:2] for step in played])
        commands = "".join(text for _, kind, text in played if kind == "sh")
        for word in ("satellite token west", "--kube-context $cluster install", "satellite revoke $cluster"):
            self.assertIn(word, commands)

    def test_a_block_that_tells_nobody_what_to_do_is_named(self):
        block = "```python\nimport torch\n```\n"
        with self.assertRaisesRegex(steps.PageError, "Elsewhere: .*block of python:\nimport torch"):
            steps.steps("## Elsewhere\n\n" + block)
        self.assertEqual(steps.steps(f"## Elsewhere\n\n<!-- {steps.NOT_PLAYED}: large. -->\n\n{block}"), [])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
