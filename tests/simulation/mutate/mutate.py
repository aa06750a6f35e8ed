#!/usr/bin/env python3
"""Breaks one rule of the protocol after the other, and shows which test notices.

  mutate.py                    every mutant of mutants.toml
  mutate.py NAME...            only these
  mutate.py --check            only whether the list still fits the sources (a second; part of the tests)

A mutant is one change of a source: it removes a check, turns a comparison round, leaves out an action. It is
killed when a unit test of the protocol fails, or else a story of the simulation, or else one of the SEEDS. A
mutant that survives shows a rule that no test needs. Then a test is missing, or the rule is redundant; the list
says why in `redundant`. The sources are copied, so the checkout stays as it is.

Exit code 0: every mutant was killed, or is redundant and survived. Else 1; 2: nothing could be judged.
"""
import argparse
import dataclasses
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
PARTS = ("base", "worker/protocol", "tests/simulation")
STORIES = "SimulationTest.*:Brief/*"
JUDGES = ("unit", "stories", "seeds")
SECONDS_OF_BUILD = 3600
# More than any judge needs: a mutant may go round in circles.
SECONDS_OF_TESTS = 120
SECONDS_A_SEED = 0.05


@dataclasses.dataclass
class Mutant:
    name: str
    file: str
    old: str  # occurs once in the file
    new: str
    rule: str  # why the text is needed
    redundant: str = ""  # why nothing notices; empty: something must


def read_mutants():
    with open(HERE / "mutants.toml", "rb") as file:
        return [Mutant(**entry) for entry in tomllib.load(file)["mutant"]]


def problems_of(mutants, root):
    """Sentences about mutants that cannot be applied to the sources in `root`."""
    problems = []
    names = [mutant.name for mutant in mutants]
    problems += [f"{name}: the name is used twice" for name in sorted({n for n in names if names.count(n) > 1})]
    for mutant in mutants:
        if mutant.old == mutant.new:
            problems.append(f"{mutant.name}: it changes nothing")
        if not mutant.rule.strip():
            problems.append(f"{mutant.name}: no sentence says why the rule is needed")
        try:
            count = (root / mutant.file).read_text().count(mutant.old)
        except OSError as error:
            problems.append(f"{mutant.name}: {error}")
            continue
        if count != 1:
            problems.append(f"{mutant.name}: its text occurs {count} times in {mutant.file}; adapt mutants.toml")
    return problems


def run(command, seconds):
    """(exit code, output); the exit code is None if the command did not come to its end."""
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=seconds)
        return done.returncode, done.stdout
    except subprocess.TimeoutExpired:
        return None, ""


class Workshop:
    """A copy of the sources, and a build of it."""

    def __init__(self, folder, seeds, threads, judges):
        self.source = folder / "source"
        self.build_folder = folder / "build"
        self.seeds = seeds
        self.threads = threads
        self.judges = judges
        self._copy()

    def _copy(self):
        """Writes only what differs, so that a folder that is used again is not built again."""
        wanted = {path.relative_to(ROOT) for part in PARTS for path in (ROOT / part).rglob("*") if path.is_file()}
        for path in self.source.rglob("*"):
            if path.is_file() and path.relative_to(self.source) not in wanted:
                path.unlink()
        for name in wanted:
            target = self.source / name
            if not target.exists() or target.read_bytes() != (ROOT / name).read_bytes():
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(ROOT / name, target)

    def build(self):
        """Empty, or why it cannot be built."""
        configured = (self.build_folder / "build.ninja").exists()
        steps = [] if configured else [
            ["cmake", "-G", "Ninja", f"-DSOURCE={self.source}", "-S", HERE, "-B", self.build_folder]
        ]
        steps.append(["ninja", "-C", self.build_folder, f"-j{self.threads}"])
        for step in steps:
            code, output = run(step, SECONDS_OF_BUILD)
            if code is None:
                return f"{step[0]} has not ended after {SECONDS_OF_BUILD} s"
            if code != 0:
                return output[-3000:]
        return ""

    def judge(self):
        """Who notices something, or None."""
        for name in self.judges:
            verdict = getattr(self, "_" + name)()
            if verdict:
                return verdict
        return None

    def _unit(self):
        return self._test("unit test", [self.build_folder / "protocol_test"])

    def _stories(self):
        return self._test("story", [self.build_folder / "simulation_test", f"--gtest_filter={STORIES}"])

    def _test(self, kind, command):
        code, output = run(command + ["--gtest_fail_fast", "--gtest_brief=1"], SECONDS_OF_TESTS)
        if code == 0:
            return None
        failed = re.search(r"\[  FAILED  \] (\S+)", output)
        if failed:
            return f"{kind} {failed[1]}"
        return f"a {kind}: the program " + ("does not come to its end" if code is None else f"ends with {code}")

    def _seeds(self):
        command = [self.build_folder / "simulate", "--count", str(self.seeds), "--threads", str(self.threads)]
        code, output = run(command, SECONDS_OF_TESTS + SECONDS_A_SEED * self.seeds)
        if code == 0:
            return None
        failed = re.search(r"^seed (\d+): (\w+) violated", output, re.MULTILINE)
        if failed:
            return f"seed {failed[1]}: {failed[2]}"
        return "a seed, which " + ("does not come to its end" if code is None else f"ends with {code}")

    def try_mutant(self, mutant):
        """(who notices or None, what keeps the mutant from being built)"""
        path = self.source / mutant.file
        text = path.read_text()
        path.write_text(text.replace(mutant.old, mutant.new))
        try:
            error = self.build()
            return (None, error) if error else (self.judge(), "")
        finally:
            path.write_text(text)


def judge_all(mutants, workshop):
    begin = time.monotonic()
    error = workshop.build() or workshop.judge()
    if error:
        print(f"mutate: the sources fail as they are: {error}")
        return 2
    print(f"the sources as they are pass, built and judged in {time.monotonic() - begin:.0f} s", flush=True)
    problems, killed = [], 0
    for mutant in sorted(mutants, key=lambda m: m.file):  # so that few files are compiled twice
        begin = time.monotonic()
        killer, error = workshop.try_mutant(mutant)
        killed += killer is not None
        if error:
            verdict = "CANNOT BE BUILT"
            problems.append(f"{mutant.name} cannot be built: {error}")
        elif killer:
            verdict = f"killed by {killer}"
            if mutant.redundant:
                problems.append(f"{mutant.name} is called redundant, but was {verdict}")
        elif mutant.redundant:
            verdict = f"survives: {mutant.redundant}"
        else:
            verdict = "SURVIVED"
            problems.append(f"{mutant.name} survived: {mutant.rule}")
        print(f"{mutant.name:32} {time.monotonic() - begin:5.1f} s  {verdict}", flush=True)
    print(f"{len(mutants)} mutants, {killed} killed, {sum(bool(m.redundant) for m in mutants)} called redundant")
    for problem in problems:
        print("PROBLEM:", problem)
    return 1 if problems else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--check", action="store_true", help="build nothing")
    parser.add_argument("--seeds", type=int, default=20000, help="of the simulation, for each mutant (20000)")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="compilers and seeds at a time")
    parser.add_argument("--folder", type=pathlib.Path, help="build there, and use it again (a temporary folder)")
    parser.add_argument("--judges", default=",".join(JUDGES), help="which, in which order (%(default)s)")
    options = parser.parse_args()
    mutants = read_mutants()
    problems = problems_of(mutants, ROOT)
    unknown = set(options.names) - {mutant.name for mutant in mutants}
    problems += [f"there is no mutant {name}" for name in sorted(unknown)]
    judges = options.judges.split(",")
    problems += [f"there is no judge {name}" for name in judges if name not in JUDGES]
    for problem in problems:
        print("PROBLEM:", problem)
    if problems or options.check:
        print(f"{len(mutants)} mutants, {len(problems)} problems")
        return 2 if problems else 0
    chosen = [mutant for mutant in mutants if not options.names or mutant.name in options.names]
    with tempfile.TemporaryDirectory(prefix="swarm-mutate-") as temporary:
        folder = (options.folder or pathlib.Path(temporary)).resolve()
        return judge_all(chosen, Workshop(folder, options.seeds, options.threads, judges))


if __name__ == "__main__":
    sys.exit(main())
