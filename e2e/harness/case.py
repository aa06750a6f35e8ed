"""What a case is: a short story with a name, told by a function, and what it has checked."""
import dataclasses
import time
from typing import Callable

REGISTRY = []


class CheckFailed(Exception):
    """A check of a case does not hold; the text says which, and what was found."""


class Skip(Exception):
    """The case cannot be played on this cluster; the text says why."""


@dataclasses.dataclass(frozen=True)
class Case:
    """One story. `machines`: it needs power over the machines under the nodes."""

    name: str
    title: str
    tell: Callable
    tags: frozenset
    machines: bool
    seconds: int  # in which it has to end


def case(title, *tags, machines=False, seconds=300):
    """Registers a function of one argument (world.World) as a case. The tag fast: part of the CI."""
    def register(function):
        REGISTRY.append(Case(function.__name__, title, function, frozenset(tags), machines, seconds))
        return function
    return register


class Notes:
    """What one play of a case has checked and seen, with the seconds since it began."""

    def __init__(self):
        self.begun = time.monotonic()
        self.checks = []
        self.lines = []

    def seconds(self):
        """Since the case began."""
        return time.monotonic() - self.begun

    def note(self, text):
        """Something worth reading in the report."""
        self.lines.append(f"{self.seconds():6.1f} s  {text}")
        print(f"    {self.lines[-1]}", flush=True)

    def check(self, what, holds, found=""):
        """Fails the case unless it holds."""
        if not holds:
            raise CheckFailed(f"not so: {what}" + (f"; found: {found}" if found != "" else ""))
        self.checks.append(what)
        self.note(f"checked: {what}")
