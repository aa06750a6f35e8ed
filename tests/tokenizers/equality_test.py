#!/usr/bin/env python3
"""Checks that libswarm_huggingface.so gives the ids and the texts of Hugging Face's Python package.

Takes the tokenizers of tests/fixtures/tokenizers and any that are named, and the documents of documents.py.
Usage: equality_test.py LIBRARY [--documents N] [--seed N] [--files FILE...] [TOKENIZER_JSON...]
"""

import argparse
import ctypes
import pathlib
import sys

import documents

import tokenizers

FIXTURES = pathlib.Path(__file__).resolve().parents[1] / "fixtures" / "tokenizers"
BATCH = 64


class View(ctypes.Structure):
    _fields_ = [("data", ctypes.c_char_p), ("size", ctypes.c_size_t)]

    @classmethod
    def of(cls, text):
        data = text.encode() if isinstance(text, str) else text
        return cls(data, len(data))


class Text(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("size", ctypes.c_size_t)]


class Ids(ctypes.Structure):
    _fields_ = [("data", ctypes.POINTER(ctypes.c_uint32)), ("size", ctypes.c_size_t)]


class Library:
    def __init__(self, path):
        self.calls = ctypes.CDLL(path)
        self.calls.swarm_huggingface_id_of.restype = ctypes.c_int64

    def take(self, text):
        content = ctypes.string_at(text.data, text.size).decode() if text.size else ""
        self.calls.swarm_huggingface_free_text(text)
        return content

    def call(self, name, *arguments):
        error = Text()
        code = getattr(self.calls, "swarm_huggingface_" + name)(*arguments, ctypes.byref(error))
        if code:
            raise RuntimeError(self.take(error))

    def open(self, json):
        handle = ctypes.c_void_p()
        self.call("open", View.of(json), ctypes.byref(handle))
        return Tokenizer(self, handle)


class Tokenizer:
    def __init__(self, library, handle):
        self.library, self.handle = library, handle

    def encode(self, texts):
        views = (View * len(texts))(*[View.of(text) for text in texts])
        lengths = (ctypes.c_size_t * len(texts))()
        ids = Ids()
        self.library.call("encode", self.handle, views, ctypes.c_size_t(len(texts)), ctypes.byref(ids), lengths)
        all_ids, result, at = ids.data[:ids.size], [], 0
        self.library.calls.swarm_huggingface_free_ids(ids)
        for length in lengths:
            result.append(all_ids[at:at + length])
            at += length
        assert at == len(all_ids)
        return result

    def decode(self, ids):
        text = Text()
        self.library.call("decode", self.handle, (ctypes.c_uint32 * len(ids))(*ids), ctypes.c_size_t(len(ids)),
                          ctypes.byref(text))
        return self.library.take(text)

    def id_of(self, token):
        return self.library.calls.swarm_huggingface_id_of(self.handle, View.of(token))

    def vocabulary(self):
        return self.library.calls.swarm_huggingface_vocabulary(self.handle)

    def close(self):
        self.library.calls.swarm_huggingface_close(self.handle)


def compare(library, path, texts):
    json = path.read_text(encoding="utf-8")
    theirs = tokenizers.Tokenizer.from_str(json)
    theirs.no_truncation()
    theirs.no_padding()
    ours = library.open(json)
    count = 0
    for begin in range(0, len(texts), BATCH):
        batch = texts[begin:begin + BATCH]
        expected = [encoding.ids for encoding in theirs.encode_batch(batch, add_special_tokens=False)]
        for text, want, ids, alone in zip(batch, expected, ours.encode(batch),
                                          [ours.encode([text])[0] for text in batch]):
            assert ids == want and alone == want, f"{path}: {text!r}: {ids} and {alone}, Python's {want}"
            assert ours.decode(ids) == theirs.decode(ids), f"{path}: {text!r}: decoded {ours.decode(ids)!r}"
            count += len(ids)
    vocabulary = theirs.get_vocab(with_added_tokens=True)
    assert ours.vocabulary() == max(vocabulary.values()) + 1, path
    for token, token_id in vocabulary.items():
        assert ours.id_of(token) == token_id, f"{path}: {token!r}"
    assert ours.id_of("no such token") == -1
    ours.close()
    print(f"{path.parent.name}: {len(texts)} documents, {count} ids, {len(vocabulary)} tokens: equal")


def expect_refused(call, words):
    try:
        call()
    except RuntimeError as error:
        assert words in str(error), error
        return
    raise AssertionError(f"not refused: {words}")


def check_refusals(library):
    for json in ("", "{}", '{"model": 1}', "[" * 10000):
        expect_refused(lambda: library.open(json), "")
    expect_refused(lambda: library.open(b'{"\xff": 1}'), "utf-8")
    ours = library.open((FIXTURES / "gpt2" / "tokenizer.json").read_text())
    expect_refused(lambda: ours.encode([b"good", b"\xff\xfe"]), "utf-8")
    assert ours.encode([]) == [] and ours.encode([""]) == [[]]
    ours.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("library")
    parser.add_argument("tokenizers", nargs="*", type=pathlib.Path)
    parser.add_argument("--documents", type=int, default=10000)
    parser.add_argument("--seed", type=int, default=18)
    parser.add_argument("--files", nargs="*", default=[], type=pathlib.Path, help="documents of your own, one a file")
    arguments = parser.parse_args()
    library = Library(arguments.library)
    texts = documents.documents(arguments.seed, arguments.documents)
    texts += [path.read_text(encoding="utf-8", errors="replace") for path in arguments.files]
    for path in sorted(FIXTURES.glob("*/tokenizer.json")) + arguments.tokenizers:
        compare(library, path, texts)
    check_refusals(library)


if __name__ == "__main__":
    sys.exit(main())
