#!/usr/bin/env python3
"""Names the tests that ctest skipped, with the reason of each, and how to run them.

Usage: scripts/left_out.py JUNIT_REPORT     (of ctest --output-junit)

A GoogleTest program lists the cases that it skipped; a script prints a line that begins with SKIPPED.
"""
import collections
import re
import sys
import xml.etree.ElementTree

# A pattern for the reason, and how to install what is missing.
REMEDIES = (
    (re.compile("kube-apiserver|helm"),
     "build etcd, Kubernetes and helm from source once, by e2e/build.sh; then `make test` again"),
    (re.compile("GPU"), "run what `make gpu-bundle` collects on a machine with a GPU (docs/gpu.md)"),
    (re.compile("mount|namespaces|/dev/net/tun"),
     "call `make test` as root, on a machine that allows namespaces, mounts and TUN devices"),
)
CASE_SKIPPED = re.compile(r": Skipped\n(?P<reason>[^\n]*)\n(?:\n*)\[  SKIPPED \] (?P<case>\S+)")
SCRIPT_SKIPPED = re.compile(r"^SKIPPED: (?P<reason>.*)$", re.MULTILINE)
# The case has no meaning for this variant: nothing is missing.
NOT_MISSING = re.compile("the loopback calls a handler|it was given another stage")


def left_out(report):
    """(test, case or "", reason) of each case that did not run."""
    for test in xml.etree.ElementTree.parse(report).iter("testcase"):
        name, output = test.get("name"), test.findtext("system-out") or ""
        cases = [(name, match["case"], match["reason"]) for match in CASE_SKIPPED.finditer(output)]
        script = SCRIPT_SKIPPED.search(output)
        if cases:
            yield from (case for case in cases if not NOT_MISSING.search(case[2]))
        elif script:
            yield name, "", script["reason"]
        elif test.get("status") in ("notrun", "disabled"):
            skipped = test.find("skipped")
            yield name, "", (skipped.get("message") if skipped is not None else "") or "it did not run"


def remedy(reason):
    """How to install what is missing according to the reason."""
    return next((how for pattern, how in REMEDIES if pattern.search(reason)), "")


def main():
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        missing = list(left_out(sys.argv[1]))
    except xml.etree.ElementTree.ParseError as error:
        print(f"test: cannot read what was left out from {sys.argv[1]}: {error}", file=sys.stderr)
        return 1
    groups = collections.defaultdict(lambda: collections.defaultdict(list))
    for name, case, reason in missing:
        groups[reason][name].append(case)
    if not groups:
        print("test: nothing was left out")
    for reason, tests in groups.items():
        print(f"test: LEFT OUT, because {reason}:")
        for name, cases in tests.items():
            named = [case for case in cases if case]
            more = f", and {len(named) - 3} more" if len(named) > 3 else ""
            print(f"  {name}" + (f" ({', '.join(named[:3])}{more})" if named else ""))
    for how in dict.fromkeys(filter(None, map(remedy, groups))):
        print(f"test: to run them, {how}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
