#!/usr/bin/env python3
"""Builds the site of the documentation, follows its links, and opens its pages in a headless Chromium, which may ask
no other address for anything.

Run by the Python environment `site` (scripts/deps.sh). Usage: site_test.py PROGRAMS
"""

import functools
import http.server
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import threading
import unittest
import urllib.parse
from html.parser import HTMLParser

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "scripts/site"), str(ROOT / "tests/page")]
import build  # noqa: E402
import chromium  # noqa: E402
import links  # noqa: E402
from reference import commands, manifest, messages  # noqa: E402

PROGRAMS = pathlib.Path(sys.argv.pop(1)).resolve()

AXE = pathlib.Path(os.environ.get("SWARM_AXE", ROOT / ".deps/axe/axe.min.js"))
SCHEMES = {"light": "default", "dark": "slate"}  # what the reader prefers, and the theme's name for it
LOADED = {("script", "src"), ("img", "src"), ("iframe", "src"), ("source", "src")}
LOADED_LINKS = ("stylesheet", "icon", "preload", "preconnect", "modulepreload")


class Html(HTMLParser):
    """What one built page has: addresses of others, of what it loads, and anchors."""

    def __init__(self, text):
        super().__init__()
        self.links, self.loaded, self.anchors = [], [], set()
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        if "id" in values:
            self.anchors.add(values["id"])
        if tag == "a" and values.get("href"):
            self.links.append(values["href"])
        if tag == "link" and values.get("rel") in LOADED_LINKS:
            self.loaded.append(values["href"])
        self.loaded += [value for name, value in attributes if (tag, name) in LOADED and value]


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


class Site(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        cls.site = cls.folder / "site"
        built = subprocess.run([sys.executable, "-B", ROOT / "scripts/site/build.py", cls.site, PROGRAMS],
                               text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        assert built.returncode == 0, built.stdout
        cls.pages = {path: Html(path.read_text(encoding="utf-8")) for path in cls.site.rglob("*.html")}

    def target(self, page, address):
        """The file that the address on the page names. The page of a missing page counts from the root of the host."""
        path = urllib.parse.unquote(urllib.parse.urlsplit(address).path)
        if not path:
            return page
        target = (self.site / path[1:] if path.startswith("/") else page.parent / path).resolve()
        return target / "index.html" if target.is_dir() else target

    def test_a_page_loads_nothing_from_elsewhere(self):
        for path, page in self.pages.items():
            for address in page.loaded:
                with self.subTest(page=path.name, address=address):
                    self.assertEqual(urllib.parse.urlsplit(address)[:2], ("", ""))
                    self.assertTrue(self.target(path, address).exists())

    def test_each_link_leads_to_a_page_and_an_anchor_of_the_site(self):
        for path, page in self.pages.items():
            for address in page.links:
                link = urllib.parse.urlsplit(address)
                if link.scheme:
                    continue
                with self.subTest(page=str(path.relative_to(self.site)), link=address):
                    target = self.target(path, address)
                    self.assertTrue(target.exists())
                    if link.fragment:
                        self.assertIn(urllib.parse.unquote(link.fragment), self.pages[target].anchors)

    def test_the_code_to_which_a_page_links_is_in_the_site(self):
        place = "source/worker/protocol/ledger.h.html"
        self.assertIn(place, self.pages[self.site / "microbatch.html"].links)
        self.assertIn("Ledger", (self.site / place).read_text(encoding="utf-8"))

    def test_the_reference_has_what_the_code_has(self):
        made = {name: (self.site / f"{name}.html").read_text(encoding="utf-8") for name in ("manifest", "messages",
                                                                                             "commands")}
        for field in ('id="specpipelineboundary"', "<code>refreshSteps</code>", 'id="statusprogress"'):
            self.assertIn(field, made["manifest"])
        protos = [path.read_text(encoding="utf-8") for path in (ROOT / build.PROTOS).glob("*.proto")]
        self.assertEqual(made["messages"].count('<h3 id="message-'),
                         sum(len(re.findall(r"^ *message ", text, re.MULTILINE)) for text in protos))
        for usage in ("Usage: swarmctl run ", "Usage: swarmctl token create ", "Usage: swarm-worker ",
                      "Usage: swarm-operator "):
            self.assertIn(usage, made["commands"])

    def open_browser(self, scheme):
        """A browser of its own, since the theme keeps the first choice of colors; and the address of the site."""
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=self.site))
        self.addCleanup(server.server_close)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.shutdown)
        browser = chromium.Chromium(pathlib.Path(self.enterContext(tempfile.TemporaryDirectory())))
        self.addCleanup(browser.close)
        browser.size(1280, 900)
        browser.scheme(scheme)
        return browser, f"http://127.0.0.1:{server.server_port}/"

    @unittest.skipUnless(chromium.find() and AXE.exists(),
                         f"no Chromium, or no {AXE}: tests/page/fetch_axe.sh fetches it")
    def test_axe_finds_nothing_in_light_and_dark(self):
        for scheme, name in SCHEMES.items():
            browser, home = self.open_browser(scheme)
            for page in ("index.html", "tutorial.html", "numbers.html", "commands.html", "manifest.html",
                         "source/worker/protocol/ledger.h.html"):
                browser.call("Page.navigate", url=home + page)
                browser.wait(f"document.readyState === 'complete' && location.pathname === '/{page}'")
                browser.wait(f"document.body.dataset.mdColorScheme === '{name}'")
                browser.wait("[...document.querySelectorAll('pre > code')].every("
                             "code => code.scrollWidth <= code.clientWidth || code.tabIndex === 0)")
                browser.value(AXE.read_text() + "; undefined")
                found = json.loads(browser.value("""axe.run().then(({violations, passes}) => JSON.stringify({
                    passed: passes.length,
                    found: violations.map(
                      ({id, nodes}) => `${id}: ${nodes.slice(0, 3).map(({html}) => html.slice(0, 200)).join(' | ')}`)
                }))"""))
                with self.subTest(page=page, scheme=scheme):
                    self.assertGreater(found["passed"], 20)
                    self.assertEqual(found["found"], [])

    @unittest.skipUnless(chromium.find(), "no Chromium to open the pages with")
    def test_a_browser_asks_no_other_address(self):
        browser, home = self.open_browser("light")
        opened = ("index.html", "numbers.html", "commands.html", "source/worker/protocol/ledger.h.html")
        for page in opened:
            browser.call("Page.navigate", url=home + page)
            browser.wait(f"document.readyState === 'complete' && location.pathname === '/{page}'")
        asked = {parameters["request"]["url"] for method, parameters in browser.events
                 if method == "Network.requestWillBeSent"}
        self.assertGreater(len(asked), len(opened))
        self.assertEqual([url for url in asked if not url.startswith((home, "data:", "blob:"))], [])
        self.assertEqual([parameters for method, parameters in browser.events if method == "Runtime.exceptionThrown"],
                         [])


class Reference(unittest.TestCase):
    def test_a_field_has_its_type_default_range_and_meaning(self):
        rate = {"type": "number", "default": 0.5, "minimum": 0, "maximum": 1, "description": "How fast."}
        kind = {"type": "string", "enum": ["A", "B"], "description": "A | B."}
        step = {"type": "object", "required": ["kind"], "description": "One step.",
                "properties": {"rate": rate, "kind": kind},
                "x-kubernetes-validations": [{"rule": "true", "message": "rate <= kind"}]}
        spec = {"properties": {"steps": {"type": "array", "items": step, "description": "All."}}}
        page = manifest.page({"properties": {"spec": spec, "status": {}}}, "source.md")
        self.assertIn("| `steps` | list of objects |  | All. |", page)
        self.assertIn("## `spec.steps[]`\n\nOne step.\n", page)
        self.assertIn("| `rate` | number | `0.5` | How fast. From 0 to 1. |", page)
        self.assertIn("| `kind` | string | required | A \\| B. One of `A`, `B`. |", page)
        self.assertIn("\nRules:\n\n- rate &lt;= kind\n", page)

    def test_a_message_has_its_fields_and_comments(self):
        page = messages.page({"a.proto": "// About a.\nsyntax = \"proto3\";\n\n// One\n// walk.\nmessage Walk {\n"
                                         "  // In order.\n  repeated Step steps =\n      1;  // of it\n}\n\n"
                                         "enum Step {\n  LEFT = 0;\n}\n"})
        self.assertIn("## `a.proto`\n\nAbout a.\n\n### message `Walk`\n\nOne walk.\n", page)
        self.assertIn("| 1 | `steps` | repeated [Step](#enum-step) | In order. of it |", page)
        self.assertIn("| 0 | `LEFT` |", page)

    def test_a_line_of_a_proto_that_is_not_understood_is_named(self):
        with self.assertRaisesRegex(ValueError, "a.proto: not understood: map<string, int32> counts = 1;"):
            messages.page({"a.proto": "message Walk {\n  map<string, int32> counts = 1;\n}\n"})

    def test_the_subcommands_of_a_help_are_found(self):
        self.assertEqual(commands.subcommands("Options:\n  -h  Help\n\nSubcommands:\n  run   Run it\n"
                                              "        twice\n  top   Show\n\nExit codes:\n    0  done\n"),
                         ["run", "top"])
        self.assertEqual(commands.subcommands("Options:\n  -h  Help\n"), [])


class Building(unittest.TestCase):
    def test_a_page_that_the_navigation_leaves_out_or_has_in_vain_is_named(self):
        self.assertEqual(build.differences({"new.md", "old.md"}, {"old.md", "gone.md"}),
                         ["site: the navigation leaves out new.md: add it to a section of `nav` in "
                          "scripts/site/mkdocs.yml",
                          "site: the navigation has gone.md, which does not exist: remove it from `nav` in "
                          "scripts/site/mkdocs.yml"])

    def test_a_folder_that_is_no_site_is_not_replaced(self):
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "thesis").touch()
            built = subprocess.run([sys.executable, "-B", ROOT / "scripts/site/build.py", folder, PROGRAMS], text=True,
                                   capture_output=True, check=False)
            self.assertEqual(built.returncode, 1)
            self.assertIn("is there and is no site, so it is not replaced", built.stderr)
            self.assertEqual([path.name for path in pathlib.Path(folder).iterdir()], ["thesis"])

    def test_links_of_a_page_lead_to_the_places_in_the_site(self):
        text = ("[home](../README.md), [rule](protocol.md#rule-1), [`Ledger`](../worker/ledger.h), [here](#part), "
                "[paper](https://example.org/a.md)\n"
                "```yaml\n[not a link](../README.md)\n```\n")
        places = {"README.md": "index.md", "docs/protocol.md": "protocol.md",
                  "worker/ledger.h": "source/worker/ledger.h.md"}
        self.assertEqual(links.targets(text, "docs/a.md"), set(places))
        self.assertEqual(links.rewrite(text, "docs/a.md", "deep/a.md", places),
                         text.replace("[home](../README.md)", "[home](../index.md)")
                         .replace("(protocol.md#rule-1)", "(../protocol.md#rule-1)")
                         .replace("(../worker/ledger.h)", "(../source/worker/ledger.h.md)"))


if __name__ == "__main__":
    unittest.main()
