#!/usr/bin/env python3
"""Writes dashboards/*.json; with --check, it only names the files that differ from what it would write."""

import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import control  # noqa: E402
import fleet  # noqa: E402
import job  # noqa: E402

FOLDER = pathlib.Path(__file__).parent.parent


def main():
    stale = []
    for name, module in (("fleet", fleet), ("job", job), ("operator", control)):
        path = FOLDER / f"{name}.json"
        text = json.dumps(module.build(), indent=2) + "\n"
        if path.exists() and path.read_text() == text:
            continue
        if "--check" in sys.argv:
            stale.append(str(path))
        else:
            path.write_text(text)
    if stale:
        sys.exit(f"not what dashboards/source/ says (run dashboards/source/generate.py): {', '.join(stale)}")


if __name__ == "__main__":
    main()
