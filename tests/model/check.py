#!/usr/bin/env python3
"""Checks recovery.pml with spin: the protocol holds in every configuration, and spin catches the mutants.

  check.py                 run all; exit status 0 if every result is as expected
  check.py NAME...         run only these
  check.py --large         also run the larger configurations with a broken pair: minutes, gigabytes
  check.py --explain NAME  run one, and print the actions of its counterexample

Every search visits all states of its configuration: no bitstate hashing, no hash compaction.
Needs spin and gcc.
"""

import argparse
import concurrent.futures
import dataclasses
import pathlib
import re
import subprocess
import sys
import tempfile
import time

MODEL = pathlib.Path(__file__).resolve().parent / "recovery.pml"
MEMORY_MIB = 6000  # of one search
SECONDS = 1800  # of one search, on a slow machine
MAX_DEPTH = 200  # actions in one run; a search that reaches this depth is an error
SAFETY = {"ExactlyOnce", "AtMostOnce", "AllOrNothing", "SameResult", "Fencing"}


@dataclasses.dataclass
class Check:
    """One search: `defines` for the model, and properties. The search must find one of them violated;
    without properties, the model must hold."""

    name: str
    defines: str
    violates: frozenset = frozenset()
    cycles: bool = False  # non-progress cycles, where nothing counts as progress


# Configurations. 21: stage 0 has two replicas and stage 1 one; 12 and 22 likewise.
OVERLAP = (
    "LAYOUT=22 CRASHES=1 MAY_CRASH=1 SUSPICIONS=1 MAY_SUSPECT=4 NO_LONE_ROSTER "
    "FIRST_TRAINER_ENDS_BEFORE_REDUCE"
)
ALONE_21 = "TRAINERS=1 LAYOUT=21"
ALONE_12 = "TRAINERS=1 LAYOUT=12"
CUT_ROUTE_21 = "CUTS=1 PAIR_A=0 PAIR_B=2"
CUT_ROUTE_12 = "CUTS=1 PAIR_A=0 PAIR_B=1"
CUT_STAGE_0 = "CUTS=1 PAIR_A=0 PAIR_B=1"
HOLDS = [
    # One trainer: it must finish on its own.
    Check("alone-21-two-microbatches", "TRAINERS=1 LAYOUT=21 MICROBATCHES=2 CRASHES=2"),
    Check("alone-22-two-crashes", "TRAINERS=1 LAYOUT=22 CRASHES=2 NO_LONE_ROSTER"),
    Check("alone-21-revoke-suspect", "TRAINERS=1 LAYOUT=21 CRASHES=1 SUSPICIONS=1 REVOKES=1"),
    Check("alone-12-wrong-hint", "TRAINERS=1 LAYOUT=12 CRASHES=1 WRONG_HINTS=1"),
    Check(
        "alone-21-two-steps",
        "TRAINERS=1 LAYOUT=21 STEPS=2 FRAGMENTS CRASHES=1 SUSPICIONS=1 HEAR_EVICTED",
    ),
    # Two trainers that overlap.
    Check("takeover-21-suspect", "LAYOUT=21 CRASHES=0 SUSPICIONS=1"),
    Check(
        "takeover-21-crash-suspect",
        "LAYOUT=21 CRASHES=1 SUSPICIONS=1 NO_LONE_ROSTER HEAR_EVICTED",
    ),
    Check("takeover-12-crash-suspect", "LAYOUT=12 CRASHES=1 SUSPICIONS=1 NO_LONE_ROSTER"),
    Check("takeover-21-two-microbatches", "LAYOUT=21 MICROBATCHES=2 CRASHES=1 NO_LONE_ROSTER"),
    Check("takeover-12-two-microbatches", "LAYOUT=12 MICROBATCHES=2 CRASHES=1 NO_LONE_ROSTER"),
    Check("takeover-21-revoke", "LAYOUT=21 CRASHES=1 REVOKES=1 NO_LONE_ROSTER"),
    Check("takeover-12-wrong-hint", "LAYOUT=12 CRASHES=1 WRONG_HINTS=1 NO_LONE_ROSTER"),
    Check("takeover-21-two-steps", "LAYOUT=21 STEPS=2 FRAGMENTS CRASHES=1 NO_LONE_ROSTER"),
    Check("takeover-22-crash", "LAYOUT=22 CRASHES=1 NO_LONE_ROSTER"),
    Check("takeover-22-overlapping-folds", OVERLAP),
    # A pair breaks between the stages, or inside one; and comes back, or no third worker helps.
    Check("cut-21-heals", f"{ALONE_21} {CUT_ROUTE_21} HEALS=1 CRASHES=1"),
    Check("cut-21-no-relay", f"{ALONE_21} {CUT_ROUTE_21} NO_RELAY CRASHES=1"),
    Check("cut-21-in-a-stage-heals", f"{ALONE_21} {CUT_STAGE_0} HEALS=1 CRASHES=1"),
    Check("cut-12-no-relay", f"{ALONE_12} {CUT_ROUTE_12} NO_RELAY CRASHES=1"),
    Check("takeover-21-cut-heals", f"LAYOUT=21 {CUT_ROUTE_21} HEALS=1 CRASHES=0 NO_LONE_ROSTER"),
    # No sequence of actions repeats a state: so every run ends, and spin judges Progress at its end.
    Check("every-run-ends", "LAYOUT=21 CRASHES=1", cycles=True),
]

# Each mutant breaks one rule. Some are masked by another rule. Then the first line shows that the
# other rule alone suffices, the second that the mutant is caught without the other rule, and the
# third that the absence of the other rule alone does no harm, so the mutant causes the violation.
ONCE = frozenset({"ExactlyOnce"})
NONE_OR_ALL = frozenset({"AllOrNothing"})
DIFFERENT = frozenset({"AllOrNothing", "SameResult"})
NO_EQUALITY = "MUTANT SKIP_CLAIM_EQUALITY"
STRAGGLER = "TRAINERS=1 CRASHES=0 REVOKES=1"
SUSPECT = "CRASHES=0 SUSPICIONS=1"
CUT_ROUTE = f"{ALONE_21} {CUT_ROUTE_21} CRASHES=0"
STANDS_STILL = frozenset({"Progress"})
MUTANTS = [
    Check("skip-claim-equality", f"{NO_EQUALITY} TRAINERS=1 CRASHES=0 WRONG_HINTS=1", ONCE),
    Check("reissue-without-revoke (masked)", f"MUTANT REISSUE_WITHOUT_REVOKE {STRAGGLER}"),
    Check("reissue-without-revoke", f"{NO_EQUALITY} REISSUE_WITHOUT_REVOKE {STRAGGLER}", ONCE),
    Check("reissue-without-revoke (control)", f"{NO_EQUALITY} {STRAGGLER}"),
    Check("accept-old-term-attempts (masked)", "MUTANT ACCEPT_OLD_TERM_ATTEMPTS CRASHES=0"),
    Check("accept-old-term-attempts", f"{NO_EQUALITY} ACCEPT_OLD_TERM_ATTEMPTS CRASHES=0", ONCE),
    Check("accept-old-term-attempts (control)", f"{NO_EQUALITY} CRASHES=0"),
    Check("ignore-term-promise", "MUTANT IGNORE_TERM_PROMISE CRASHES=0", frozenset({"Fencing"})),
    Check(
        "ignore-term-promise, its harm",
        "MUTANT IGNORE_TERM_PROMISE NO_FENCING_PROPERTY CRASHES=0",
        DIFFERENT,
    ),
    Check("commit-after-first-reduced", "MUTANT COMMIT_AFTER_FIRST_REDUCED CRASHES=0", NONE_OR_ALL),
    Check("takeover-ignores-roster", f"MUTANT TAKEOVER_IGNORES_ROSTER {SUSPECT}", NONE_OR_ALL),
    Check(
        "takeover-drops-applied-record",
        "MUTANT TAKEOVER_DROPS_APPLIED_RECORD CRASHES=0",
        DIFFERENT,
    ),
    Check("thaw-at-promise", "MUTANT THAW_AT_PROMISE CRASHES=0", NONE_OR_ALL),
    # Masked by "decided when all have reported this k"; ignoring the roster undermines that rule.
    Check("apply-any-k (masked)", f"MUTANT APPLY_ANY_K {SUSPECT}"),
    Check(
        "apply-any-k",
        f"MUTANT APPLY_ANY_K TAKEOVER_IGNORES_ROSTER ONLY_SAME_RESULT {SUSPECT}",
        frozenset({"SameResult"}),
    ),
    Check("apply-any-k (control)", f"MUTANT TAKEOVER_IGNORES_ROSTER ONLY_SAME_RESULT {SUSPECT}"),
    Check("fold-on-propagate", "MUTANT FOLD_ON_PROPAGATE TRAINERS=1 CRASHES=1", ONCE),
    # Only a broken pair makes a frame come twice, or late at an owner that was given up for it.
    Check("fold-every-copy", f"MUTANT FOLD_EVERY_COPY {CUT_ROUTE}", ONCE),
    Check("fold-every-copy (control)", "MUTANT FOLD_EVERY_COPY TRAINERS=1 CRASHES=0"),
    Check(
        "reissue-after-cut", f"{NO_EQUALITY} REISSUE_WITHOUT_REVOKE HEALS=1 {CUT_ROUTE}", ONCE
    ),
    Check("reissue-after-cut (control)", f"{NO_EQUALITY} HEALS=1 {CUT_ROUTE}"),
    Check("ignore-broken-pair", f"IGNORE_BROKEN_PAIR NO_RELAY {CUT_ROUTE}", STANDS_STILL),
    Check(
        "keep-the-whole-sum",
        "MUTANT KEEP_THE_WHOLE_SUM TRAINERS=1 STEPS=2 FRAGMENTS CRASHES=0",
        frozenset({"AtMostOnce"}),
    ),
    Check("skip-void", f"{NO_EQUALITY} SKIP_VOID {OVERLAP}", ONCE),
    Check("skip-void (control)", f"{NO_EQUALITY} {OVERLAP}"),
]

# Only with --large.
LARGE = [
    Check("cut-21", f"{ALONE_21} {CUT_ROUTE_21} CRASHES=1"),
    Check("cut-21-in-a-stage-no-relay", f"{ALONE_21} {CUT_STAGE_0} NO_RELAY CRASHES=1"),
    Check("cut-12-heals", f"{ALONE_12} {CUT_ROUTE_12} HEALS=1 CRASHES=1"),
    Check("cut-21-suspect", f"{ALONE_21} {CUT_ROUTE_21} HEALS=1 CRASHES=1 SUSPICIONS=1"),
    Check("cut-21-two-microbatches", f"{ALONE_21} MICROBATCHES=2 {CUT_ROUTE_21} HEALS=1 CRASHES=0"),
    Check(
        "cut-22-two-relays",
        "TRAINERS=1 LAYOUT=22 CUTS=1 PAIR_A=0 PAIR_B=2 CRASHES=1 NO_LONE_ROSTER",
    ),
    Check("takeover-21-cut-crash", f"LAYOUT=21 {CUT_ROUTE_21} HEALS=1 CRASHES=1 NO_LONE_ROSTER"),
    Check(
        "takeover-21-cut-in-a-stage",
        f"LAYOUT=21 {CUT_STAGE_0} HEALS=1 CRASHES=1 NO_LONE_ROSTER",
    ),
]


@dataclasses.dataclass
class Outcome:
    complete: bool
    violated: str  # a property, or another error message of the search; empty: none
    states: int
    depth: int
    mib: float
    seconds: float
    log: str


def run(arguments, folder, seconds=SECONDS):
    """Runs a program in `folder` and returns its output; raises an error with the output if it fails."""
    done = subprocess.run(
        arguments,
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=seconds,
        check=False,
    )
    if done.returncode != 0:
        command = " ".join(map(str, arguments))
        raise RuntimeError(f"{command} failed with status {done.returncode}:\n{done.stdout}")
    return done.stdout


def search(check, folder):
    """Translates, compiles and runs one check in `folder`, and reads its output."""
    begin = time.monotonic()
    defines = [f"-D{define}" for define in check.defines.split()]
    run(["spin", "-a", *defines, MODEL], folder)
    kind = "-DNP" if check.cycles else "-DSAFETY"
    # Optimizing costs more than it saves: -O2 compiles for 8 s, and -O1 only makes the search 1 s slower.
    options = ["-O0" if check.violates else "-O1", "-w", kind, "-DNOFAIR", f"-DMEMLIM={MEMORY_MIB}"]
    # If spin tries the newest actions first, it finds takeovers, and most counterexamples, sooner.
    options += ["-DT_REVERSE"] if check.violates else []
    run(["gcc", *options, "-o", "pan", "pan.c"], folder)
    depth = 2 * MAX_DEPTH if check.cycles else MAX_DEPTH
    log = run(["./pan", f"-m{depth}", "-w22", "-l" if check.cycles else "-E"], folder)

    def number(pattern):
        found = re.search(pattern, log)
        return float(found.group(1)) if found else 0

    errors = int(number(r"errors: (\d+)"))
    violation = re.search(r"pan:\d+: (?:assertion violated )?(.*?) \(at depth", log)
    unbounded = "max search depth too small" in log
    return Outcome(
        complete="errors:" in log and "Search not completed" not in log and not unbounded,
        violated=violation.group(1) if errors and violation else "",
        states=int(number(r"(\d+) states, stored")),
        depth=int(number(r"depth reached (\d+)")),
        mib=number(r"([\d.]+)\s+total actual memory usage"),
        seconds=time.monotonic() - begin,
        log=log,
    )


def judge(check, outcome):
    """What is wrong with the outcome; empty if it is as expected."""
    if check.violates:
        if outcome.violated not in check.violates:
            return f"expected a violation of {' or '.join(sorted(check.violates))}"
        return ""
    if outcome.violated:
        return f"expected to hold; see check.py --explain '{check.name}'"
    return "" if outcome.complete else f"the search is not complete:\n{outcome.log}"


def report(check):
    """Runs one check; returns its line for the table, and whether it went as expected."""
    with tempfile.TemporaryDirectory(prefix="swarm-model-") as folder:
        try:
            outcome = search(check, folder)
        except (RuntimeError, subprocess.TimeoutExpired, OSError) as error:
            return f"{check.name}: {error}", False
    result = f"violates {outcome.violated}" if outcome.violated else "holds"
    wrong = judge(check, outcome)
    line = (
        f"{check.name:36} {result:22} {outcome.states:9} states, depth {outcome.depth:3}, "
        f"{outcome.mib:5.0f} MiB, {outcome.seconds:5.1f} s"
    )
    return line + (f"\n  WRONG: {wrong}" if wrong else ""), not wrong


def explain(check):
    """Prints the actions of the counterexample, in order."""
    with tempfile.TemporaryDirectory(prefix="swarm-model-") as folder:
        outcome = search(check, folder)
        if not outcome.violated:
            print(f"{check.name} holds: there is no counterexample")
            return
        (trail,) = pathlib.Path(folder).glob("*.trail")
        defines = [f"-D{define}" for define in check.defines.split()]
        replay = ["spin", "-T", "-k", trail, *defines, MODEL]
        # Its status says that an assertion failed, as expected.
        story = subprocess.run(replay, cwd=folder, capture_output=True, text=True, check=False)
    for line in story.stdout.splitlines():
        if re.match(r"(worker|trainer) \d", line):
            print(line)
    print(f"and so violates {outcome.violated}")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--explain", metavar="NAME")
    parser.add_argument("--large", action="store_true", help="also the larger configurations")
    parser.add_argument("--jobs", type=int, default=2, help="searches at once (2)")
    arguments = parser.parse_args()
    checks = {check.name: check for check in HOLDS + MUTANTS + LARGE}
    for name in arguments.names + [arguments.explain]:
        if name and name not in checks:
            parser.error(f"no check is named {name!r}; there are: {', '.join(checks)}")
    if arguments.explain:
        explain(checks[arguments.explain])
        return 0
    begin = time.monotonic()
    usual = HOLDS + MUTANTS + (LARGE if arguments.large else [])
    chosen = [checks[name] for name in arguments.names] or usual
    failures = 0
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        for line, fine in pool.map(report, chosen):
            print(line, flush=True)
            failures += not fine
    good = len(chosen) - failures
    print(f"{good} of {len(chosen)} checks as expected, {time.monotonic() - begin:.0f} s")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
