#!/usr/bin/env python3
"""Measures the cost of the boundary codecs on one thread: quantizing beside memcpy and bitsandbytes' CPU quantizer
(bench/peers/setup.sh installs it), and projections beside bare matrix products. Also compares Int8Dynamic's codes
and scales with those of bitsandbytes.

Usage: bench/codecs.py [--build FOLDER] [--rounds 3]

All programs take turns in rounds; every figure is the best of the rounds. Rates are GB/s of float32 numbers. A
memcpy moves 8 bytes of memory per number; quantizing and dequantizing move 5 (and one scale per block). The columns
"memcpy" and "moved" are the ratios to memcpy in numbers and in bytes moved per second. The exit code is 1 if a
figure misses its target (marked with a *) or a code differs.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
IN_CACHE, BEYOND = 4, 256  # MiB of float32
BYTES_MOVED = {"BF16": 6}
BYTES_MOVED_INT8 = 5 + 4 / 256
OVER_BITSANDBYTES = {"Linear": 30, "Dynamic": 5}
OF_MEMCPY = 0.8
OF_PRODUCT = 0.8


def run(*command):
    environment = os.environ | {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    return subprocess.run([str(part) for part in command], check=True, text=True, env=environment,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout


def benchmark(program):
    """GB/s and GFLOP/s of every benchmark of the program that this processor can run."""
    report = json.loads(run(program, "--benchmark_format=json", "--benchmark_min_time=0.1"))["benchmarks"]
    return ({row["name"]: row["bytes_per_second"] / 1e9 for row in report if "bytes_per_second" in row},
            {row["name"]: row["GFLOP/s"] for row in report if "GFLOP/s" in row})


class Best:
    """The largest figure of each name."""

    def __init__(self):
        self.of = {}

    def add(self, figures):
        for name, figure in figures.items():
            self.of[name] = max(figure, self.of.get(name, 0))


class Verdict:
    def __init__(self):
        self.missed = []

    def mark(self, what, figure, target):
        if figure < target:
            self.missed.append(f"{what}: {figure:.2f}, target {target}")
        return "*"


def print_codecs(ours, theirs, verdict):
    print("%-28s %7s %7s %7s %7s %12s" % ("", "MiB", "GB/s", "memcpy", "moved", "bitsandbytes"))
    for name, rate in ours.items():
        what, mebibytes = name.rsplit("/", 1)
        size = int(mebibytes)
        memcpy = ours[f"Memcpy/{size}"]
        ratio = rate / memcpy
        bytes_moved = 8 if what == "Memcpy" else next(
            (moved for codec, moved in BYTES_MOVED.items() if codec in what), BYTES_MOVED_INT8)
        moved = ratio * bytes_moved / 8
        line = "%-28s %7d %7.2f %7.2f %7.2f" % (what, size, rate, ratio, moved)
        best_isa = what.endswith("Avx512") or what.endswith("Avx2") and f"{what[:-4]}Avx512/{size}" not in ours
        marks = " "
        if best_isa and what.startswith("Encode/Linear") and size == BEYOND:
            marks = verdict.mark(f"{name}, moved", moved, OF_MEMCPY)
        direction, _, code_map = what.partition("/")
        code_map = next((known for known in OVER_BITSANDBYTES if code_map.startswith(known)), None)
        if code_map:
            over = rate / theirs[f"{direction}/{code_map}/{size}"]
            line += "%s %10.1fx" % (marks, over)
            if best_isa and direction == "Encode":
                line += verdict.mark(f"{name}, over bitsandbytes", over, OVER_BITSANDBYTES[code_map])
        print(line)
    print()


def print_projections(rates, verdict):
    print("%-36s %s" % ("GFLOP/s, and of the product", "d/k"))
    shapes = [name.split("/", 1)[1] for name in rates if name.startswith("NarrowProduct/")]
    print("%-36s" % "", *("%13s" % shape for shape in shapes))
    kinds = list(dict.fromkeys(name.rsplit("/", 2)[0] for name in rates))
    for kind in kinds:
        product = "WideProduct" if kind.startswith("Decode") else "NarrowProduct"
        cells = []
        for shape in shapes:
            rate = rates[f"{kind}/{shape}"]
            if kind.endswith("Product"):
                cells.append("%13.1f" % rate)
                continue
            ratio = rate / rates[f"{product}/{shape}"]
            mark = verdict.mark(f"{kind}/{shape}", ratio, OF_PRODUCT) if kind.startswith("Send") else " "
            cells.append("%7.1f %.2f%s" % (rate, ratio, mark))
        print("%-36s" % kind, *cells)
    print()


def print_codes(rows, verdict):
    print("%-28s %10s %16s %17s" % ("Int8Dynamic, bitsandbytes", "numbers", "different codes", "different scales"))
    for row in rows:
        print("%-28s %10d %16d %17d" % tuple(row.values()))
        if row["different_codes"] or row["different_scales"]:
            verdict.missed.append(f"codes of {row['input']} differ")
    print()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=ROOT / "build/release", type=pathlib.Path)
    parser.add_argument("--rounds", default=3, type=int)
    options = parser.parse_args()
    python = pathlib.Path(subprocess.run([ROOT / "bench/peers/setup.sh"], check=True, text=True,
                                         stdout=subprocess.PIPE).stdout.strip()) / "bin/python"
    peer = ROOT / "bench/peers/bitsandbytes_codes.py"
    programs = options.build / "bench"
    verdict = Verdict()
    print_codes(json.loads(run(python, peer, "codes", programs / "block_codes_encode")), verdict)
    codecs, theirs, projections = Best(), Best(), Best()
    for _ in range(options.rounds):
        for program in ("block_codes_bench", "boundary_bench"):
            rates, products = benchmark(programs / program)
            codecs.add(rates)
            projections.add(products)
        theirs.add(json.loads(run(python, peer, "speed", IN_CACHE, BEYOND)))
    print_codecs(codecs.of, theirs.of, verdict)
    print_projections(projections.of, verdict)
    print("\n".join(["targets missed:", *verdict.missed] if verdict.missed else ["all targets reached"]))
    return 1 if verdict.missed else 0


if __name__ == "__main__":
    sys.exit(main())
