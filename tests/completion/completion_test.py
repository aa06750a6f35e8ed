#!/usr/bin/env python3
"""Completes command lines of the programs in real shells that have sourced their scripts.

Usage: tests/completion/completion_test.py SWARMCTL SWARM_WORKER SWARM_OPERATOR

fish and zsh are tried where they are installed; the tests of others are skipped, and say so.
"""

import functools
import os
import pathlib
import pty
import re
import select
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

SWARMCTL = sys.argv[1]
WITHOUT_COMMANDS = sys.argv[2:]
LIMIT = 60  # seconds, for a shell on a busy machine

# Prints what bash would offer for the words, the last of which is the one at the cursor.
OFFER = """
offer() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=(); _swarmctl; echo "${COMPREPLY[*]}"; }
complete -p swarmctl | grep -q -- '-F _swarmctl' || exit 1
"""


def run(*command, text=None):
    """What a command prints."""
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=True, timeout=LIMIT)
    return done.stdout


@functools.cache
def script(shell):
    return run(SWARMCTL, "completion", shell)


def offered(*lines):
    """What bash offers for each of the command lines, each a list of words."""
    asked = "".join(f"offer {shlex.join(words)}\n" for words in lines)
    return [answer.split() for answer in run("bash", "--norc", text=script("bash") + OFFER + asked).splitlines()]


def help_of(*commands):
    """(flags, commands) that --help names."""
    text = run(SWARMCTL, *commands, "--help")
    below = text.partition("Subcommands:")[2].partition("Exit codes:")[0]
    named = re.findall(r"^ {2,4}(-\S+)", text, re.MULTILINE)
    flags = {flag for each in named for flag in each.split(",") if flag.startswith("-")}
    return flags, re.findall(r"^  ([a-z]+) ", below, re.MULTILINE)


class Bash(unittest.TestCase):
    def test_every_command_and_flag_of_help_is_offered_and_no_other(self):
        paths = [()]
        for path in paths:
            flags, commands = help_of(*path)
            self.assertIn("--help", flags)
            below, dashes = offered(["swarmctl", *path, ""], ["swarmctl", *path, "-"])
            with self.subTest(command=path):
                self.assertEqual(below, commands)
                self.assertEqual(set(dashes), flags)
            paths.extend((*path, command) for command in commands)
        self.assertGreater(len(paths), 10)
        self.assertIn(("token", "create"), paths)

    def test_a_word_is_completed_by_where_it_stands(self):
        self.assertEqual(
            offered(["swarmctl", "tok"], ["swarmctl", "token", ""], ["swarmctl", "run", "-f", "job.yaml", "--resu"],
                    ["swarmctl", "run", "--log-level", ""], ["swarmctl", "simulate", "--policy", "P"]),
            [["tokenize", "token"], ["create", "list", "revoke"], ["--resume"],
             ["trace", "debug", "info", "warn", "error"], ["Periodic"]])

    def test_where_a_file_may_stand_nothing_is_offered_so_that_bash_completes_files(self):
        self.assertEqual(offered(["swarmctl", "run", "ex"], ["swarmctl", "run", "--out", "to"]), [[], []])

    def test_the_tab_key_completes_a_command_a_flag_and_a_file(self):
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "completion.bash").write_text(script("bash"), encoding="utf-8")
            pathlib.Path(folder, "manifest.yaml").touch()
            typed = "swarmctl valid\t-f mani\t--off\t"
            wanted = "swarmctl validate -f manifest.yaml --offline "
            self.assertIn(wanted, type_in_bash(folder, typed, wanted))


def type_in_bash(folder, keys, until):
    """Types keys at a bash on a terminal of its own, and returns what the terminal shows."""
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(folder)
        os.execvpe("bash", ["bash", "--norc", "--noprofile", "-i"],
                   {"PATH": os.environ["PATH"], "TERM": "dumb", "PS1": "", "INPUTRC": "/dev/null"})
    shown, deadline = "", time.monotonic() + LIMIT
    try:
        # The mark is not typed as it is shown, so it is shown only when the script was read.
        os.write(terminal, b"source ./completion.bash; echo re''ady\n")
        sent = False
        while until not in shown and time.monotonic() < deadline:
            if select.select([terminal], [], [], 0.2)[0]:
                shown += os.read(terminal, 4096).decode(errors="replace")
            if not sent and "\nready" in shown:
                os.write(terminal, keys.encode())
                sent = True
    finally:
        os.close(terminal)  # which ends the shell
        os.waitpid(child, 0)
    return shown


class WithoutCommands(unittest.TestCase):
    """swarm-worker and swarm-operator have flags alone, and print their scripts by one of these."""

    def scripts(self, shell):
        self.assertEqual(len(WITHOUT_COMMANDS), 2)
        for program in WITHOUT_COMMANDS:
            yield pathlib.Path(program).name, program, run(program, f"--completion={shell}")

    def test_bash_offers_every_flag_of_help_and_no_other_and_the_values_of_those_that_take_few(self):
        for name, program, text in self.scripts("bash"):
            function = "_" + name.replace("-", "_")
            harness = OFFER.replace("_swarmctl", function).replace("swarmctl", name)
            asked = "".join(f"offer {shlex.join([name, *words])}\n" for words in (["-"], ["--log-level", "war"], [""]))
            flags, level, nothing = run("bash", "--norc", text=text + harness + asked).splitlines()
            named = re.findall(r"^ {2,4}(-\S+)", run(program, "--help"), re.MULTILINE)
            self.assertEqual(set(flags.split()), {flag for each in named for flag in each.split(",")})
            self.assertIn("--completion", flags.split())
            # The help of swarm-worker names the levels in its words alone.
            self.assertEqual(level, {"swarm-operator": "warn", "swarm-worker": ""}[name])
            self.assertEqual(nothing, "")

    def test_the_roles_of_a_worker_are_offered(self):
        name, program, text = next(self.scripts("bash"))
        harness = OFFER.replace("_swarmctl", "_swarm_worker").replace("swarmctl", "swarm-worker")
        self.assertEqual(run("bash", "--norc", text=f"{text}{harness}offer {name} --role ''\n").split(), ["trainer", "stage"])

    def test_fish_and_zsh_read_them(self):
        for name, _, text in self.scripts("fish"):
            if shutil.which("fish"):
                ask = "source (printf %s $argv[1] | psub); complete -C $argv[2]"
                words = run("fish", "--no-config", "-c", ask, text, f"{name} --log-lev")
                self.assertEqual({word.split("\t")[0] for word in words.splitlines()}, {"--log-level"})
        for name, _, text in self.scripts("zsh"):
            if shutil.which("zsh"):
                self.assertIn("_" + name.replace("-", "_"), run("zsh", "-f", text=f"{text}\nprint $_comps[{name}]\n"))


class OtherShells(unittest.TestCase):
    def test_fish_offers_commands_flags_and_values(self):
        if not shutil.which("fish"):
            self.skipTest("fish is not installed")
        ask = "source (printf %s $argv[1] | psub); complete -C $argv[2]"

        def words(line):
            return {answer.split("\t")[0] for answer in run("fish", "--no-config", "-c", ask, script("fish"), line)
                    .splitlines()}

        self.assertEqual(words("swarmctl token "), {"create", "list", "revoke"})
        self.assertEqual(words("swarmctl run --resu"), {"--resume"})
        self.assertEqual(words("swarmctl run --log-level w"), {"warn"})

    def test_zsh_reads_the_script_and_knows_the_function(self):
        if not shutil.which("zsh"):
            self.skipTest("zsh is not installed")
        self.assertIn("_swarmctl", run("zsh", "-f", text=script("zsh") + "\nprint $_comps[swarmctl]\n"))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
