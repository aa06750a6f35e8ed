"""Compares the output of `swarmctl export` with its source, through transformers.

    pip install torch transformers numpy
    tests/hf/check_export.py --swarmctl build/release/bin/swarmctl

Exports the fixtures in tests/fixtures (models that transformers itself wrote) and checks that
AutoModelForCausalLM loads the result, without a missing or an unexpected tensor, and that its
logits equal the recorded ones to 1e-5, with transformers 5 and 4; that it generates what `swarmctl generate`
does; that weights in bfloat16 and in several files are the rounded ones. Then the same of a model with adapters,
which are merged, and answers of `swarmctl evaluate --choices` against log likelihoods of transformers. With --model,
it also exports that model, and checks only that it loads and gives finite logits, and that AutoTokenizer gives the
ids of its tokenizer.json, if it has one. For developers; not part of the test suite.
"""

import argparse
import json
import pathlib
import random
import subprocess
import sys
import tempfile

import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig, LlamaConfig, LlamaForCausalLM

TOLERANCE = 1e-5
GENERATED = 12  # tokens
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


def run(*command):
    return subprocess.run([str(part) for part in command], check=True, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL).stdout


def check_generation(swarmctl, source, model, ids):
    """`swarmctl generate` on `source` continues ids as transformers does with the exported model."""
    prompt = " ".join(str(i) for i in ids)
    ours = [int(word) for word in run(swarmctl, "generate", "--from", source, "--prompt", prompt, "--tokens", GENERATED,
                                      "--temperature", 0).split()]
    with torch.no_grad():
        theirs = model.generate(torch.tensor([ids]), max_new_tokens=GENERATED, do_sample=False, eos_token_id=None,
                                bos_token_id=None, pad_token_id=0)[0].tolist()
    begin = len(ours) - len(ids) - GENERATED  # a BOS that generate has put before the prompt
    assert begin == 0 and ours == theirs, f"{source}: generated {ours}, transformers {theirs}"


def check_bf16(swarmctl, source, folder, reference):
    """Weights rounded to bfloat16, in several files: the model of transformers with its weights rounded."""
    exported = folder / (source.name + "-bf16")
    run(swarmctl, "export", "--from", source, "--out", exported, "--dtype", "bf16", "--shard-size", "4KB")
    assert (exported / "model.safetensors.index.json").exists(), "one file only"
    rounded = load(source)
    with torch.no_grad():
        for parameter in rounded.parameters():
            parameter.copy_(parameter.bfloat16().float())
    tokens = reference["tokens"][0, 0, :, :-1]
    difference = (logits_of(load(exported), tokens) - logits_of(rounded, tokens)).abs().max().item()
    assert difference <= TOLERANCE, f"{source}: bf16: {difference:.2e}"


def small_llama(folder, vocabulary):
    torch.manual_seed(1)
    config = LlamaConfig(hidden_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
                         intermediate_size=96, vocab_size=vocabulary, max_position_embeddings=512,
                         initializer_range=0.3, tie_word_embeddings=False)
    model = LlamaForCausalLM(config).eval()
    model.save_pretrained(folder)
    return model


def check_choices(swarmctl, folder):
    """`swarmctl evaluate --choices` counts the same answers as right as log likelihoods of transformers do."""
    model = small_llama(folder / "llama", 256)
    rng = random.Random(1)
    words = "swarm stage worker step loss token naïve reduce a of".split()
    questions = []
    for _ in range(100):
        texts = [" ".join(rng.choices(words, k=rng.randint(1, 6))) for _ in range(5)]
        questions.append({"context": texts[0], "choices": texts[1:], "answer": rng.randrange(4)})
    path = folder / "questions.jsonl"
    path.write_text("".join(json.dumps(question) + "\n" for question in questions))
    right = right_normalized = 0
    for question in questions:
        scores, context = [], question["context"].encode()
        for choice in question["choices"]:
            text = context + b" " + choice.encode()
            with torch.no_grad():
                likelihoods = model(torch.tensor([list(text)])).logits[0].log_softmax(-1)
            scores.append(sum(likelihoods[at - 1, text[at]].item() for at in range(len(context), len(text))))
        normalized = [score / len(choice) for score, choice in zip(scores, question["choices"])]
        right += scores.index(max(scores)) == question["answer"]
        right_normalized += normalized.index(max(normalized)) == question["answer"]
    ours = json.loads(run(swarmctl, "evaluate", "--from", folder / "llama", "--tokenizer", "byte", "--choices", path,
                          "--json"))
    print(f"choices: ours {ours}, transformers {right} and {right_normalized} of {len(questions)} right")
    values = [value for value in ours.values() if isinstance(value, float)]
    for count in (right, right_normalized):
        assert any(abs(value - count / len(questions)) < 1e-9 for value in values), ours


def check_adapters(swarmctl, folder):
    """A model with trained adapters is exported as a plain one that continues a text alike."""
    small_llama(folder / "base", 300)
    rng = random.Random(2)
    (folder / "ids.bin").write_bytes(b"".join(rng.randrange(300).to_bytes(2, "little") for _ in range(20000)))
    job = {"apiVersion": "swarmjob.dev/v1alpha1", "kind": "SwarmJob", "metadata": {"name": "adapters"}, "spec": {
        "model": {"uri": str(folder / "base"), "init": "Pretrained", "lora": {"rank": 4}},
        "data": {"uri": str(folder / "ids.bin")},
        "training": {"maxSteps": 20, "globalBatchSize": 4, "microbatchSize": 2, "sequenceLength": 64},
        "optimizer": {"learningRate": 0.02}, "schedule": {"type": "Constant"}, "pipeline": {"stages": 2}}}
    (folder / "job.yaml").write_text(json.dumps(job))
    run(swarmctl, "run", "-f", folder / "job.yaml", "--out", folder / "run", "--plaintext")
    run(swarmctl, "export", "--from", folder / "run", "--out", folder / "merged")
    base, merged = load(folder / "base"), load(folder / "merged")
    tokens = torch.arange(40).view(2, 20)
    change = (logits_of(merged, tokens) - logits_of(base, tokens)).abs().max().item()
    assert change > 0.01, "the adapters changed nothing"
    check_generation(swarmctl, folder / "run", merged, [5, 17, 3])
    print(f"adapters: merged; they change logits by {change:.2f} at most")


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
    assert difference <= TOLERANCE, f"{source}: {difference:.2e}"
    check_generation(swarmctl, source, model, reference["tokens"][0, 0, 0, :5].tolist())
    check_bf16(swarmctl, source, pathlib.Path(folder), reference)
    print(f"{source.name}: the logits differ by {difference:.2e} at most; generated ids are equal; bf16 in parts is good")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--swarmctl", default="build/release/bin/swarmctl")
    parser.add_argument("--model", type=pathlib.Path, help="a run's folder or a checkpoint")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for weights in sorted(FIXTURES.glob("*/model.safetensors")):
            check(arguments.swarmctl, weights.parent, folder, compare=True)
        check_choices(arguments.swarmctl, pathlib.Path(folder))
        check_adapters(arguments.swarmctl, pathlib.Path(folder))
        if arguments.model:
            check(arguments.swarmctl, arguments.model, folder, compare=False)


if __name__ == "__main__":
    sys.exit(main())
