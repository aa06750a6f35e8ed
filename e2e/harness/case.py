"""A case: a named function that plays a short story, with a record of its checks."""
import dataclasses
import time
from typing import Callable

REGISTRY = []


class CheckFailed(Exception):
    """A check of a case failed; the text says which one, and what it found."""


class Skip(Exception):
    """The case cannot run on this cluster; the text says why."""


@dataclasses.dataclass(frozen=True)
class Case:
    """One story. `machines`: it must switch the machines under the nodes off and on. `needs`: names in extras.ALL."""

    name: str
    title: str
    tell: Callable
    tags: frozenset
    machines: bool
    needs: frozenset
    seconds: int  # it must end within this time


def case(title, *tags, machines=False, needs=(), seconds=300):
    """Registers a function of one argument (world.World) as a case. The CI runs the tag fast."""
    def register(function):
        REGISTRY.append(Case(function.__name__, title, function, frozenset(tags), machines, frozenset(needs), seconds))
        return function
    return register


class Notes:
    """The checks and notes of one run of a case, with the seconds since it began."""

    def __init__(self):
        self.begun = time.monotonic()
        self.checks = []
        self.lines = []

    def seconds(self):
        """Seconds since the case began."""
        return time.monotonic() - self.begun

    def note(self, text):
        """Adds a line to the report."""
        self.lines.append(f"{self.seconds():6.1f} s  {text}")
        print(f"    {self.lines[-1]}", flush=True)

    def check(self, what, holds, found=""):
        """Fails the case unless it holds."""
        if not holds:
            raise CheckFailed(f"not so: {what}" + (f"; found: {found}" if found != "" else ""))
        self.checks.append(what)
        self.note(f"checked: {what}")
