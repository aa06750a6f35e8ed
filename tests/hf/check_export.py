"""Compares the output of `swarmctl export` with its source, through transformers.

    pip install torch transformers numpy
    tests/hf/check_export.py --swarmctl build/release/bin/swarmctl

Exports the fixtures in tests/fixtures (models that transformers itself wrote) and checks that
AutoModelForCausalLM loads the result, without a missing or an unexpected tensor, and that its
logits equal those of the original to 1e-5. With --model, it also exports that model, and checks
only that it loads and gives finite logits. For developers; not part of the test suite.
"""

import argparse
import pathlib
import subprocess
import sys
import tempfile

import torch
from transformers import AutoModelForCausalLM

TOLERANCE = 1e-5
FIXTURES = pathlib.Path(__file__).resolve().parents[1] / "fixtures"


def load(folder):
    model, report = AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, output_loading_info=True)
    for problem in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        assert not report[problem], f"{folder}: {problem}: {report[problem]}"
    return model.eval()


def logits_of(model):
    torch.manual_seed(1)
    tokens = torch.randint(model.config.vocab_size, (2, 17))
    with torch.no_grad():
        return model(tokens).logits


def check(swarmctl, source, folder, compare):
    exported = pathlib.Path(folder) / source.name
    subprocess.run([swarmctl, "export", "--from", source, "--out", exported], check=True)
    ours = logits_of(load(exported))
    assert torch.isfinite(ours).all(), f"{source}: logits that are not finite"
    if not compare:
        print(f"{source}: loads")
        return
    difference = (ours - logits_of(load(source))).abs().max().item()
    print(f"{source.name}: the logits differ by {difference:.2e} at most")
    assert difference <= TOLERANCE, source


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--swarmctl", default="build/release/bin/swarmctl")
    parser.add_argument("--model", type=pathlib.Path, help="a run's folder or a checkpoint")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for weights in sorted(FIXTURES.glob("*/model.safetensors")):
            check(arguments.swarmctl, weights.parent, folder, compare=True)
        if arguments.model:
            check(arguments.swarmctl, arguments.model, folder, compare=False)


if __name__ == "__main__":
    sys.exit(main())
