#!/usr/bin/env python3
"""Checks that every target of the documentation exists (files, headings, functions, rules of the protocol) and that
the README is short."""

import functools
import pathlib
import re
import subprocess
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = sorted([ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "e2e/README.md",
                                         "bench/wan/README.md")] + list((ROOT / "docs").glob("*.md")))
SOURCES = (".h", ".cc", ".py", ".proto", ".pml")
README_WORDS = 900


@functools.cache
def text_of(path):
    return path.read_text(encoding="utf-8")


def prose(text):
    """The lines outside of fenced blocks and of comments."""
    outside, fenced = [], False
    for line in text.splitlines():
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif not fenced:
            outside.append(line)
    return re.sub(r"<!--.*?-->", "", "\n".join(outside), flags=re.DOTALL)


def headings(text):
    return [(len(match[1]), match[2]) for match in re.finditer(r"^(#+) (.+)$", prose(text), re.MULTILINE)]


def anchor(title):
    """A heading's address on GitHub."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def links(text):
    """(label, target) of each link and picture."""
    return re.findall(r"\[([^\]]*)\]\(([^)\s]+)\)", prose(text))


def sources():
    """The files of the repository that may cite the documentation."""
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True,
                            check=False)
    names = listed.stdout.splitlines() or [str(path.relative_to(ROOT)) for folder in ("base", "worker", "tests", "proto")
                                           for path in (ROOT / folder).rglob("*")]
    return [ROOT / name for name in names if name.endswith(SOURCES) and (ROOT / name).is_file()]


class Documentation(unittest.TestCase):
    def test_links_lead_to_files_and_headings_that_exist(self):
        for page in PAGES:
            for label, target in links(text_of(page)):
                if re.match(r"[a-z]+:", target):
                    continue
                with self.subTest(page=page.name, link=target):
                    name, _, heading = target.partition("#")
                    path = (page.parent / name).resolve() if name else page
                    self.assertTrue(path.exists(), f"[{label}] leads nowhere")
                    if heading:
                        self.assertIn(heading, [anchor(title) for _, title in headings(text_of(path))])

    def test_a_link_named_as_a_function_leads_to_the_file_that_has_it(self):
        for page in PAGES:
            for label, target in links(text_of(page)):
                function = re.fullmatch(r"`(?:\w+::)*(\w+)(?:\(\))?`", label)
                path = page.parent / target
                if not function or path.suffix not in SOURCES or not path.exists():
                    continue
                with self.subTest(page=page.name, link=label):
                    self.assertRegex(text_of(path.resolve()), rf"\b{function[1]}\b")

    def test_files_that_are_named_exist(self):
        folders = {path.name for path in ROOT.iterdir() if path.is_dir()}
        for page in PAGES:
            for name in re.findall(r"`([\w.-]+(?:/[\w.-]+)+\.\w+)`", prose(text_of(page))):
                if name.split("/")[0] not in folders or name.startswith("out/") or name.startswith("build/"):
                    continue
                with self.subTest(page=page.name, file=name):
                    self.assertTrue((ROOT / name).exists())

    def test_the_protocol_has_each_rule_once_and_all_that_the_code_cites(self):
        titles = [title for _, title in headings(text_of(ROOT / "docs/protocol.md"))]
        rules = [int(match[1]) for title in titles if (match := re.match(r"Rule (\d+)\b", title))]
        self.assertEqual(rules, list(range(1, len(rules) + 1)))
        self.assertGreater(len(rules), 0)
        for path in sources():
            text = re.sub(r"\s*\n\s*(?://+|\*|#)?\s*", " ", text_of(path))
            for numbers in re.findall(r"\brules? (\d+(?:(?:, | and | to )\d+)*)\b(?= of docs/protocol|[);,:.])", text):
                for number in re.findall(r"\d+", numbers):
                    with self.subTest(file=str(path.relative_to(ROOT)), rule=number):
                        self.assertIn(int(number), rules)
            for title in re.findall(r'docs/protocol\.md, "([^"]+)"', text):
                with self.subTest(file=str(path.relative_to(ROOT)), heading=title):
                    self.assertIn(title, titles)

    def test_the_readme_is_short(self):
        """Counts words like wc, with those of tables and code blocks."""
        self.assertLessEqual(len(text_of(ROOT / "README.md").split()), README_WORDS)


if __name__ == "__main__":
    unittest.main()
