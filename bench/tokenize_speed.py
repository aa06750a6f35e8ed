#!/usr/bin/env python3
"""`swarmctl tokenize` beside Hugging Face's `tokenizers` and `datasets` in Python, all cores, the same documents.

Makes a corpus of JSON lines from the texts that are named: pieces of some thousand characters, in another order
each time that they are repeated, in eight files. Trains a byte-level BPE on the texts if no tokenizer is named. Then in
rounds: `swarmctl tokenize`, which reads the files, encodes and writes shards; encode_batch of `tokenizers`, once alone
with all texts in memory, and once with reading the same files and writing the same shards; `map` of `datasets` with as
many processes as there are cores, on data that are loaded already. Checks that the ids in the shards are
those of Python. Rates are megabytes of text a second, medians of the rounds.
Targets: >= 1.0 of encode_batch with files, >= 3 of `map`.

Usage: PYTHON bench/tokenize_speed.py TEXT... [--tokenizer FOLDER] [--vocabulary 32000] [--megabytes 64] [--rounds 3]
       [--build build/release]
PYTHON has the package tokenizers and, unless --no-datasets, datasets and transformers.
"""
import argparse
import array
import json
import os
import pathlib
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

FILES = 8
PIECE = 4000  # characters
EOS = "<|endoftext|>"


def pieces_of(paths):
    pieces = []
    for path in paths:
        text = path.read_text(encoding="utf-8", errors="replace")
        pieces += [text[at:at + PIECE] for at in range(0, len(text), PIECE)]
    return pieces


def documents_of(pieces, size):
    rng, documents, made = random.Random(0), [], 0
    while made < size:
        order = rng.sample(pieces, len(pieces))
        for first, second in zip(order, reversed(order)):  # so that no document comes twice
            text = first[:PIECE // 2] + second[PIECE // 2:]
            documents.append(text)
            made += len(text.encode())
            if made >= size:
                break
    return documents


def train(paths, vocabulary, folder):
    import tokenizers
    from tokenizers import decoders, models, pre_tokenizers, trainers
    tokenizer = tokenizers.Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=vocabulary, special_tokens=[EOS], show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train([str(path) for path in paths], trainer)
    folder.mkdir()
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": EOS}))


def timed(call):
    begin = time.perf_counter()
    result = call()
    return time.perf_counter() - begin, result


def read(paths):
    return [[json.loads(line)["text"] for line in path.open(encoding="utf-8")] for path in paths]


def encode_files(tokenizer, eos, paths, folder):
    """What `swarmctl tokenize` does, as one would write it in Python."""
    type_code = "H" if tokenizer.get_vocab_size() <= 65536 else "I"
    for path, texts in zip(paths, read(paths)):
        ids = array.array(type_code)
        for encoding in tokenizer.encode_batch_fast(texts, add_special_tokens=False):
            ids.extend(encoding.ids)
            ids.append(eos)
        (folder / (path.name + ".bin")).write_bytes(ids.tobytes())


def map_of_datasets(dataset, folder, cores):
    """As the examples of transformers have it."""
    from transformers import PreTrainedTokenizerFast
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"))
    return dataset.map(lambda batch: tokenizer(batch["text"]), batched=True, num_proc=cores, remove_columns=["text"],
                       load_from_cache_file=False)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("texts", nargs="+", type=pathlib.Path)
    parser.add_argument("--tokenizer", type=pathlib.Path, help="a folder with tokenizer.json and tokenizer_config.json")
    parser.add_argument("--vocabulary", type=int, default=32000, help="of the tokenizer that is trained")
    parser.add_argument("--megabytes", type=float, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--no-datasets", action="store_true")
    parser.add_argument("--build", default="build/release")
    arguments = parser.parse_args()
    cores = len(os.sched_getaffinity(0))
    from tokenizers import Tokenizer
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        os.environ |= {"HF_HOME": temporary, "HF_HUB_OFFLINE": "1", "HF_DATASETS_DISABLE_PROGRESS_BARS": "1"}
        model = arguments.tokenizer or folder / "tokenizer"
        if not arguments.tokenizer:
            train(arguments.texts, arguments.vocabulary, model)
        documents = documents_of(pieces_of(arguments.texts), int(arguments.megabytes * 1e6))
        (folder / "data").mkdir()
        paths = [folder / "data" / f"part-{i}.jsonl" for i in range(FILES)]
        for i, path in enumerate(paths):
            path.write_text("".join(json.dumps({"text": text}) + "\n" for text in documents[i::FILES]))
        megabytes = sum(len(text.encode()) for text in documents) / 1e6
        tokenizer = Tokenizer.from_file(str(model / "tokenizer.json"))
        eos = tokenizer.token_to_id(json.loads((model / "tokenizer_config.json").read_text())["eos_token"])
        dataset = None
        if not arguments.no_datasets:
            import datasets
            dataset = datasets.load_dataset("json", data_files=[str(path) for path in paths], split="train")

        def ours():
            subprocess.run([f"{arguments.build}/bin/swarmctl", "tokenize", "--data", folder / "data",
                            "--tokenizer", model, "--out", folder / "shards"],
                           check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

        programs = {"swarmctl tokenize": ours,
                    "encode_batch alone": lambda: tokenizer.encode_batch(documents, add_special_tokens=False),
                    "encode_batch_fast with files": lambda: encode_files(tokenizer, eos, paths, folder / "python")}
        if dataset is not None:
            programs[f"datasets map, {cores} processes"] = lambda: map_of_datasets(dataset, model, cores)
        seconds = {name: [] for name in programs}
        for _ in range(arguments.rounds):
            for name, program in programs.items():
                shutil.rmtree(folder / "shards" if program is ours else folder / "python", ignore_errors=True)
                (folder / "python").mkdir(exist_ok=True)
                seconds[name].append(timed(program)[0])
            encode_files(tokenizer, eos, paths, folder / "python")
            for path in paths:
                shard = path.name + ".bin"
                same = (folder / "shards" / shard).read_bytes() == (folder / "python" / shard).read_bytes()
                assert same, f"{path.name}: other ids than in Python"
        print(f"{len(documents)} documents, {megabytes:.0f} MB, a vocabulary of {tokenizer.get_vocab_size()}, "
              f"{cores} cores; ids equal")
        medians = {name: statistics.median(times) for name, times in seconds.items()}
        for name, median in medians.items():
            ratio = median / medians["swarmctl tokenize"]
            print(f"{name}: {megabytes / median:.1f} MB/s; swarmctl is {ratio:.2f} times as fast")


if __name__ == "__main__":
    sys.exit(main())
