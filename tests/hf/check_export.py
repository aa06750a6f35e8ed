"""Compares the output of `swarmctl export` with its source, through transformers.

    pip install torch transformers numpy
    tests/hf/check_export.py --swarmctl build/release/bin/swarmctl

Exports the fixtures in tests/fixtures (models that transformers itself wrote) and checks that
AutoModelForCausalLM loads the result, without a missing or an unexpected tensor, and that its
logits equal the recorded ones to 1e-5, with transformers 5 and 4. With --model, it also exports that
model, and checks only that it loads and gives finite logits, and that AutoTokenizer gives the ids of its
tokenizer.json, if it has one. For developers; not part of the test suite.
"""

import argparse
import pathlib
import subprocess
import sys
import tempfile

import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig

TOLERANCE = 1e-5
FIXTURES = pathlib.Path(__file__).resolve().parents[1] / "fixtures"


def load(folder):
    model, report = AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, output_loading_info=True)
    for problem in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        assert not report[problem], f"{folder}: {problem}: {report[problem]}"
    return model.eval()


def logits_of(model, tokens):
    with torch.no_grad():
        return model(tokens).logits


def check_tokenizer(folder):
    path = folder / "tokenizer.json"
    if not path.exists():
        return
    text = "In the beginning, naïve 世界 🙂 12345\n"
    loaded = AutoTokenizer.from_pretrained(folder)
    config = GenerationConfig.from_pretrained(folder)
    expected = Tokenizer.from_file(str(path)).encode(text, add_special_tokens=False).ids
    assert loaded.encode(text, add_special_tokens=False) == expected, folder
    ends = config.eos_token_id if isinstance(config.eos_token_id, list) else [config.eos_token_id]
    assert loaded.eos_token_id == ends[0], folder
    print(f"{folder.name}: the tokenizer loads, EOS is {loaded.eos_token_id}")


def check(swarmctl, source, folder, compare):
    exported = pathlib.Path(folder) / source.name
    subprocess.run([swarmctl, "export", "--from", source, "--out", exported], check=True)
    model = load(exported)
    if not compare:
        tokens = torch.arange(34).view(2, 17) % model.config.vocab_size
        assert torch.isfinite(logits_of(model, tokens)).all(), f"{source}: logits that are not finite"
        check_tokenizer(exported)
        print(f"{source}: loads")
        return
    reference = load_file(source / "reference.safetensors")
    ours = logits_of(model, reference["tokens"][0, 0, :, :-1])
    difference = (ours - reference["logits"]).abs().max().item()
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
