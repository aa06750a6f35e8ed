"""Measures bitsandbytes' CPU quantizer on one thread, and compares its codes with those of bench/block_codes_encode.

Usage (in the environment of setup.sh): bitsandbytes_codes.py speed MEBIBYTES... | codes PROGRAM. Prints JSON.
"""
import json
import os
import subprocess
import sys
import time

os.environ["OMP_NUM_THREADS"] = "1"
import numpy  # noqa: E402
import torch  # noqa: E402
from bitsandbytes import functional  # noqa: E402

BLOCKS = (64, 256, 4096)
ISAS = ("scalar", "avx2", "avx512")
SMALLEST_SCALE = 2.0 ** -100  # the codec sends blocks below this as zeros (block_codes.h)
quantize = torch.ops.bitsandbytes.quantize_blockwise
dequantize = torch.ops.bitsandbytes.dequantize_blockwise


def best_seconds(call, repeats):
    seconds = []
    for _ in range(repeats):
        begin = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - begin)
    return min(seconds)


def speed(sizes):
    """GB/s of float32 numbers, the best of several calls, in blocks of 256."""
    rates = {}
    maps = {"Linear": functional.create_linear_map(), "Dynamic": functional.create_dynamic_map()}
    for mebibytes in sizes:
        x = torch.randn(65536).repeat(mebibytes * 4)
        repeats = max(3, 64 // mebibytes)
        for name, entries in maps.items():
            codes, scales = quantize(x, entries, 256)
            encode = best_seconds(lambda: quantize(x, entries, 256), repeats)
            decode = best_seconds(lambda: dequantize(codes, scales, entries, 256, torch.float32), repeats)
            rates[f"Encode/{name}/{mebibytes}"] = (mebibytes << 20) / encode / 1e9
            rates[f"Decode/{name}/{mebibytes}"] = (mebibytes << 20) / decode / 1e9
    return rates


def near_ties(entries, generator):
    """Middles between entries of the map, borders and middles of the 65 536 steps, and their neighbors in
    float32; every 64 numbers contain a one, so that the factor of a block, a power of two, is its scale."""
    exact = entries.double()
    steps = torch.arange(65536).double() * 2 / 65535 - 1
    ties = torch.cat([(exact[1:] + exact[:-1]) / 2, steps, steps[:-1] + 1 / 65535]).float()
    ties = torch.cat([ties, *(torch.nextafter(ties, torch.tensor(to)) for to in (2.0, -2.0))])
    rows = ties[:ties.numel() // 63 * 63].reshape(-1, 63)
    rows = torch.cat([torch.ones(len(rows), 1), rows], 1)
    powers = torch.exp2(torch.randint(-30, 30, (len(rows), 1), generator=generator).float())
    return (rows * powers).reshape(-1), (rows * torch.rand(len(rows), 1, generator=generator)).reshape(-1)


def inputs(entries):
    generator = torch.Generator().manual_seed(1)
    n = 1 << 20

    def normal(count=n):
        return torch.randn(count, generator=generator)

    def uniform():
        return torch.rand(n, generator=generator)

    ties, scaled_ties = near_ties(entries, generator)
    return {
        "normal": normal(),
        "heavy-tailed": normal() / uniform().clamp_min(1e-6) ** 2,
        "forty powers of e": normal().sign() * torch.exp(uniform() * 40 - 20),
        "one in a hundred not zero": normal() * (uniform() < 0.01),
        "zeros": torch.zeros(n),
        "tiny (1e-28)": normal() * 1e-28,
        "huge (1e37)": normal() * 1e37,
        "ties": ties,
        "ties, scaled": scaled_ties,
        "odd size": normal(100003),
        "below the smallest scale": normal() * 1e-33,
    }


def encoded_by_us(program, x, block, isa):
    """Scales and codes, or nothing if this processor lacks the instructions."""
    ended = subprocess.run([program, "dynamic", str(block), isa], input=x.numpy().tobytes(), capture_output=True)
    if ended.returncode == 3:
        return None
    ended.check_returncode()
    blocks = -(-x.numel() // block)
    return (numpy.frombuffer(ended.stdout, numpy.float32, blocks),
            numpy.frombuffer(ended.stdout, numpy.uint8, offset=4 * blocks))


def codes(program):
    """The number of codes and scales that differ, for each input. Below the smallest scale, zeros are expected."""
    entries = functional.create_dynamic_map()
    report = []
    for name, x in inputs(entries).items():
        row = {"input": name, "numbers": 0, "different_codes": 0, "different_scales": 0}
        for block in BLOCKS:
            theirs, scales = (tensor.numpy() for tensor in quantize(x, entries, block))
            sent_as_zeros = scales < SMALLEST_SCALE
            scales[sent_as_zeros] = 0
            theirs[numpy.repeat(sent_as_zeros, block)[:theirs.size]] = 0
            for isa in ISAS:
                ours = encoded_by_us(program, x, block, isa)
                if ours is None:
                    continue
                row["numbers"] += theirs.size
                row["different_scales"] += int((ours[0].view(numpy.uint32) != scales.view(numpy.uint32)).sum())
                row["different_codes"] += int((ours[1] != theirs).sum())
        report.append(row)
    return report


if __name__ == "__main__":
    torch.set_num_threads(1)
    if sys.argv[1] == "speed":
        print(json.dumps(speed([int(size) for size in sys.argv[2:]])))
    else:
        print(json.dumps(codes(sys.argv[2])))
