"""The page of the programs' --help."""

import re
import subprocess

PROGRAMS = ("swarmctl", "swarm-worker", "swarm-operator")
HEAD = """# Commands

What the programs print with `--help`.
"""


def page(folder):
    """Markdown for the programs in the folder. Raises an OSError or a CalledProcessError where one cannot tell."""
    return HEAD + "".join(section for program in PROGRAMS for section in _sections(folder, program))


def subcommands(text):
    """The names that a help lists below "Subcommands:"."""
    listed = re.search(r"^Subcommands:\n((?:[ ]+.*\n)+)", text, re.MULTILINE)
    return re.findall(r"^  (\S+)", listed[1], re.MULTILINE) if listed else []


def _sections(folder, *command):
    program, *rest = command
    text = subprocess.run([folder / program, *rest, "--help"], capture_output=True, text=True, check=True).stdout
    yield f"\n{'##' if not rest else '###'} `{' '.join(command)}`\n\n```text\n{text.strip()}\n```\n"
    for name in subcommands(text):
        yield from _sections(folder, *command, name)
