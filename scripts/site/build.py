#!/usr/bin/env python3
"""Builds the site of the documentation in FOLDER, from the pages of docs/, Markdown pages of other folders, a reference
made of the schema, the messages and the --help of the programs in PROGRAMS, and every file of the repository to which
a page links, so that each link works in the site. Fails, and says what to do, for a link without a target and for a
page that the navigation leaves out.

Run by the Python environment `site` (scripts/deps.sh). Usage: build.py FOLDER PROGRAMS
"""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import yaml

import links
from reference import commands, manifest, messages

ROOT = pathlib.Path(__file__).resolve().parents[2]
CONFIGURATION = "scripts/site/mkdocs.yml"
SCHEMA = "crds/swarmjob.yaml"
PROTOS = "proto/swarmjob/v1"
# Pages outside of docs/, and their places in the site.
OUTSIDE = {"README.md": "index.md"} | {name: name for name in ("CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md",
                                                              "e2e/README.md", "bench/wan/README.md")}
PICTURES = (".svg", ".png")
ADDED = ("site.css", "site.js")  # beside the configuration, which names them
LANGUAGES = {".cc": "cpp", ".h": "cpp", ".cu": "cpp", ".cuh": "cpp", ".py": "python", ".proto": "protobuf",
             ".yaml": "yaml", ".json": "json", ".sh": "bash", "Dockerfile": "docker"}


def main(folder, programs):
    if folder.exists() and not (folder / "sitemap.xml").exists():
        sys.exit(f"site: {folder} is there and is no site, so it is not replaced: name another folder")
    written = {str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*")}
    places = {path: path.removeprefix("docs/") for path in written if path.endswith((".md",) + PICTURES)} | OUTSIDE
    pages = {path: place for path, place in places.items() if place.endswith(".md")}
    targets = {path: links.targets(text_of(path), path) for path in pages}
    sources = set().union(*targets.values(), {SCHEMA}) - places.keys()
    made = reference(programs)

    problems = differences({*pages.values(), *made}, navigation())
    problems += [f"site: {path} links to {target}, which does not exist"
                 for path in pages for target in targets[path] & sources if not (ROOT / target).exists()]
    if problems:
        sys.exit("\n".join(problems))
    places |= {path: f"source/{path}.md" for path in sources}

    with tempfile.TemporaryDirectory() as work:
        collect(pathlib.Path(work) / "docs", places, pages)
        for place, text in made.items():
            (pathlib.Path(work) / "docs" / place).write_text(text, encoding="utf-8")
        for name in ADDED:
            shutil.copy((ROOT / CONFIGURATION).with_name(name), pathlib.Path(work) / "docs")
        shutil.copy(ROOT / CONFIGURATION, work)
        # As a module, because a user may have moved the environment.
        built = subprocess.run([sys.executable, "-m", "zensical", "build", "--strict"], cwd=work, check=False)
        if built.returncode != 0:
            sys.exit("site: not built, because of what stands above; pages that it names without a folder are in docs/")
        shutil.rmtree(folder, ignore_errors=True)
        shutil.move(pathlib.Path(work) / "site", folder)
    print(f"site: {folder}/index.html")


def reference(programs):
    """The pages that are made of the code, by their places."""
    schema = yaml.safe_load(text_of(SCHEMA))["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    protos = {path.name: path.read_text(encoding="utf-8") for path in sorted((ROOT / PROTOS).glob("*.proto"))}
    return {"manifest.md": manifest.page(schema, f"source/{SCHEMA}.md"), "messages.md": messages.page(protos),
            "commands.md": commands.page(programs)}


def collect(to, places, pages):
    """Writes every page and picture to its place in the folder `to`."""
    for path, place in places.items():
        target = to / place
        target.parent.mkdir(parents=True, exist_ok=True)
        if path in pages:
            target.write_text(links.rewrite(text_of(path), path, place, places), encoding="utf-8")
        elif path.endswith(PICTURES):
            shutil.copy(ROOT / path, target)
        else:
            target.write_text(source_page(path), encoding="utf-8")


def navigation():
    """The pages in the sections of the navigation, one a line."""
    return set(re.findall(r"^  - .+: (\S+\.md)$", text_of(CONFIGURATION), re.MULTILINE))


def differences(pages, listed):
    """What to do about each page that is not listed, or not there."""
    return [f"site: the navigation leaves out {page}: add it to a section of `nav` in {CONFIGURATION}"
            for page in sorted(pages - listed)] + [
                f"site: the navigation has {page}, which does not exist: remove it from `nav` in {CONFIGURATION}"
                for page in sorted(listed - pages)]


def text_of(path):
    return (ROOT / path).read_text(encoding="utf-8")


def source_page(path):
    """A page that shows a file, or names the files of a folder. The search leaves it out."""
    file = ROOT / path
    head = f"---\nsearch: {{exclude: true}}\n---\n# {path}\n\n"
    if file.is_dir():
        return head + "".join(f"- `{entry.name}`\n" for entry in sorted(file.iterdir()))
    language = LANGUAGES.get(file.suffix or file.name, "text")
    return f'{head}`````` {{.{language} linenums="1"}}\n{text_of(path)}\n``````\n'


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve())
