"""Links of a page, as they are in the repository and as they are in the site. Pure: texts and names in and out."""

import posixpath
import re

FENCE = re.compile(r"^ *(`{3,})")
LINK = re.compile(r"\]\(([^)\s]+)\)")
SCHEME = re.compile(r"[a-z]+:")


def targets(text, path):
    """The paths in the repository to which the page at `path` links, other than itself and other addresses."""
    return {_resolve(target, path)[0] for line, code in _lines(text) if not code for target in LINK.findall(line)
            if _is_path(target)}


def rewrite(text, path, page, pages):
    """The text of the page at `path`, whose place in the site is `page`, with links into the site. `pages` maps paths
    in the repository to their place in it; a path without one keeps its link."""
    def place(match):
        if not _is_path(match[1]):
            return match[0]
        target, heading = _resolve(match[1], path)
        if target not in pages:
            return match[0]
        return f"]({posixpath.relpath(pages[target], posixpath.dirname(page) or '.')}{heading})"
    return "".join(line if code else LINK.sub(place, line) for line, code in _lines(text))


def _lines(text):
    """(line, whether it is in a fenced block) of each."""
    fence = ""
    for line in text.splitlines(keepends=True):
        mark = FENCE.match(line)
        code = bool(fence)
        if mark and not fence:
            fence, code = mark[1], True
        elif mark and mark[1] == fence:
            fence = ""
        yield line, code


def _is_path(target):
    return not target.startswith("#") and not SCHEME.match(target)


def _resolve(target, path):
    """The path in the repository, and the "#heading" behind it or ""."""
    name, mark, heading = target.partition("#")
    return posixpath.normpath(posixpath.join(posixpath.dirname(path), name)), mark + heading
