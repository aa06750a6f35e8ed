#!/usr/bin/env python3
"""Checks the device's code of the kernels, as PTX: only the one joined multiply-add that the source asks for, exact
division, and no denormals flushed. So the arithmetic of the device is that of the host, where the bodies are tested. Of
the exponential in a gate, the device has its own.

Usage: arithmetic_test.py COMPILE_COMMANDS     (compile_commands.json of the preset cuda)
"""

import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import unittest

INEXACT = re.compile(r"\b(?:[a-z0-9]+\.)+(?:ftz|approx|full)\b[.a-z0-9]*")
JOINED = re.compile(r"\b(?:fma|mad)\.[.a-z0-9]*f(?:32|64)\b")
ENTRY = re.compile(r"\.entry\s+(\w+)")
# codes of the dynamic map: worker/codec/cuda/block_body.h, EncodeBlock
MAY_JOIN = re.compile(r"EncodeKernelILNS0_7CodeMapE1")
# expf: worker/codec/cuda/layer_body.h, GatePack and GatePackBack
MAY_APPROXIMATE = re.compile(r"Gate(?:Back)?Kernel")


def commands(path):
    """{source: arguments of the compiler} of the kernels."""
    with open(path, encoding="utf-8") as file:
        entries = json.load(file)
    found = {}
    for entry in entries:
        if not entry["file"].endswith(".cu"):
            continue
        arguments = shlex.split(entry["command"])
        while not arguments[0].endswith("/nvcc"):
            arguments.pop(0)
        kept = []
        while arguments:
            argument = arguments.pop(0)
            if argument in ("-o", "-MT", "-MF"):
                arguments.pop(0)
            elif argument not in ("-c", "-MD") and not argument.startswith("--generate-code"):
                kept.append(argument)
        found[entry["file"]] = (entry["directory"], kept)
    return found


def ptx(directory, arguments, *more):
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "kernels.ptx")
        subprocess.run([*arguments, "-arch=compute_75", "-ptx", "-o", out, *more], cwd=directory, check=True)
        with open(out, encoding="utf-8") as text:
            return text.read()


def problems(text):
    parts = ENTRY.split(text)
    found = INEXACT.findall(parts[0])
    for name, body in zip(parts[1::2], parts[2::2]):
        if MAY_APPROXIMATE.search(name):
            continue
        found += [f"{instruction} in {name}" for instruction in INEXACT.findall(body)]
        if not MAY_JOIN.search(name):
            found += [f"{instruction} in {name}" for instruction in JOINED.findall(body)]
    return found


class Arithmetic(unittest.TestCase):
    def test_kernels_compute_what_their_source_says(self):
        kernels = commands(COMMANDS)
        self.assertGreaterEqual(len(kernels), 4, "the kernels were not found")
        for source, command in kernels.items():
            with self.subTest(source):
                self.assertEqual(problems(ptx(*command)), [])

    def test_a_compiler_that_may_join_and_approximate_is_noticed(self):
        (command,) = [command for source, command in commands(COMMANDS).items() if source.endswith("sum_kernels.cu")]
        self.assertTrue(problems(ptx(command[0], [a for a in command[1] if a != "-fmad=false"])))
        (command,) = [command for source, command in commands(COMMANDS).items() if source.endswith("block_kernels.cu")]
        self.assertTrue(problems(ptx(*command, "-ftz=true", "-prec-div=false")))


if __name__ == "__main__":
    COMMANDS = sys.argv.pop(1)
    unittest.main()
