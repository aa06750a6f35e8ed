#!/usr/bin/env python3
"""Writes the bill of materials of an image, CycloneDX in JSON: the packages of Debian that are installed in it, and
what others wrote of what was copied into it:

    scripts/dist/sbom.py operator|cpu|cuda DPKG_STATUS LIBTORCH OUT

DPKG_STATUS is the image's var/lib/dpkg/status. `cpu` and `cuda` are the worker's images, made with that LIBTORCH.
"""

import json
import pathlib
import re
import sys
import urllib.parse

import components

VERSION = components.output_of(components.ROOT / "scripts/version.sh").strip()


def purl(component, debian):
    """The package URL of a component; `debian` is the release of its packages, as "12"."""
    name, version = (urllib.parse.quote(part, safe="") for part in (component.name, component.version))
    if component.kind == "deb":
        return f"pkg:deb/debian/{name}@{version}?arch=amd64&distro=debian-{debian}"
    return f"pkg:{'generic' if component.kind == 'rust' else component.kind}/{name}@{version}"


def document(name, contents, debian):
    """The bill of the thing `name` with these components, as a value for JSON. The same contents give the same bill."""

    def entry(component):
        described = {"type": "library", "bom-ref": purl(component, debian), "name": component.name,
                     "version": component.version, "purl": purl(component, debian)}
        if component.license:
            described["licenses"] = [{"expression": component.license}]
        return described

    return {
        "bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
        "metadata": {"component": {"type": "application", "bom-ref": f"{name}@{VERSION}", "name": name,
                                   "version": VERSION, "licenses": [{"expression": "Apache-2.0"}]}},
        "components": [entry(component) for component in sorted(set(contents))],
    }


def installed(status):
    """The packages of a dpkg status file."""
    for paragraph in status.split("\n\n"):
        fields = dict(re.findall(r"^([\w-]+): (.*)$", paragraph, re.MULTILINE))
        if fields.get("Status") == "install ok installed":
            source = fields.get("Source", fields["Package"]).split(" ")[0]
            yield components.Component("deb", fields["Package"], fields["Version"], source, "", ())


def compiled_in(image, libtorch):
    """What is in the programs of the image that dpkg does not know."""
    yield from components.of_debian(())
    if image != "operator":
        yield from components.of_crates()
        yield components.of_rust()
        yield components.of_page()
        yield components.of_wheel(components.DEPS / "arrow", "pyarrow")
        yield from components.of_wheels(libtorch.parent, r"torch|nvidia_.+" if image == "cuda" else "torch")


def main():
    if len(sys.argv) != 5 or sys.argv[1] not in ("operator", "cpu", "cuda"):
        print(__doc__, file=sys.stderr)
        return 2
    image, status, libtorch, out = sys.argv[1], *map(pathlib.Path, sys.argv[2:])
    text = status.read_text(encoding="utf-8")
    debian = components.debian_release()
    try:
        contents = [*installed(text), *compiled_in(image, libtorch)]
    except LookupError as error:
        print(f"sbom: {error}", file=sys.stderr)
        return 1
    name = "swarm-operator" if image == "operator" else "swarm-worker"
    out.write_text(json.dumps(document(name, contents, debian), indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
