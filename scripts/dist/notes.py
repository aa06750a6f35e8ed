"""Release notes: what the changelog says of one version."""

import re


def of_version(changelog, version):
    """The text of the changelog below the heading of the version, with links as their words: who reads the notes has
    not the files to which they lead. Raises LookupError if it has no such heading, or nothing below it."""
    sections = re.split(r"^## ", changelog, flags=re.MULTILINE)
    text = next((each.partition("\n")[2] for each in sections if each.split(" ")[0] == version), "").strip()
    if not text:
        raise LookupError(f"CHANGELOG.md says nothing of {version}")
    plain = re.sub(r" \(\[[^\]]*\]\([^)]*\)(, \[[^\]]*\]\([^)]*\))*\)", "", text)  # "([numbers](docs/numbers.md))"
    return f"# SwarmJob {version}\n\n" + re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", plain) + "\n"
