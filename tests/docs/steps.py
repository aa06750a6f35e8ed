"""What a page tells its reader to do, for the tests that play it. Pure: text in, steps out."""

import re

NOT_PLAYED = "No test plays this block"  # in a comment before the block, with the reason


class PageError(Exception):
    """What the page lacks."""


def steps(text, way=None):
    """What the page tells to do, as (section, kind, text): kind is "sh", or the name of a file to write. Subsections
    are ways of which the reader takes one: `way` is the title of that. Raises PageError where a block is neither played
    nor marked."""
    found, section, way_here, before = [], "", None, ""
    for part in re.split(r"^(```.*?^```$)", text, flags=re.MULTILINE | re.DOTALL):
        if not part.startswith("```"):
            for level, title in re.findall(r"^(##+) (.+)$", part, re.MULTILINE):
                section, way_here = (title, None) if level == "##" else (section, title)
            before = part
            continue
        head, _, body = part.removesuffix("```").partition("\n")
        language = head.removeprefix("```")
        file = re.search(r"Write this to `([\w.-]+)`:\s*$", before)
        if way_here not in (None, way) or language == "text" or NOT_PLAYED in before:
            continue
        if language != "sh" and not file:
            raise PageError(f"{section}: nobody is told what to do with this block of {language}:\n{body}")
        found.append((section, file[1] if file else "sh", body))
    return found
