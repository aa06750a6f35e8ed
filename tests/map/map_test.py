#!/usr/bin/env python3
"""Checks that the table under "Layers" in docs/architecture.md allows every #include of the code.

The section "Layers" states the rules. Usage: map_test.py [REPOSITORY]
"""

import os
import re
import sys
import unittest

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
DOCUMENT = "docs/architecture.md"
SOURCES = (".h", ".hpp", ".cc", ".cpp", ".cu", ".cuh", ".inc")

# Prefixes of included paths, by the name of the library in the table.
LIBRARIES = {
    "libtorch": ("ATen/", "torch/", "c10/"),
    "gRPC": ("grpc/", "grpcpp/", "absl/"),
    "protobuf": ("google/protobuf/", "swarmjob/v1/"),
    "nlohmann/json": ("nlohmann/",),
    "yaml-cpp": ("yaml-cpp/",),
    "CLI11": ("CLI/",),
    "spdlog": ("spdlog/", "fmt/"),
    "prometheus-cpp": ("prometheus/",),
    "civetweb": ("CivetServer.h", "civetweb.h"),
    "Boost.Asio": ("boost/asio",),
    "cpprestsdk": ("cpprest/", "pplx/", "boost/"),
    "OpenSSL": ("openssl/",),
    "libcurl": ("curl/",),
    "xxHash": ("xxhash.h",),
    "ISA-L": ("isa-l/", "isa-l.h"),
    "LEMON": ("lemon/",),
    "liburing": ("liburing.h", "liburing/"),
    "libiperf": ("iperf_api.h",),
    "SentencePiece": ("sentencepiece_",),
    "Arrow": ("arrow/", "parquet/"),
    "zlib": ("zlib.h",),
    "zstd": ("zstd.h",),
    "CUDA": ("cuda", "cub/", "cupti"),
    "GoogleTest": ("gtest/", "gmock/"),
    "RapidCheck": ("rapidcheck",),
    "Google Benchmark": ("benchmark/",),
}
# What test code may use anywhere, beside the libraries of its folder.
TEST_LIBRARIES = {"GoogleTest", "RapidCheck", "Google Benchmark", "nlohmann/json", "OpenSSL", "CLI11"}
# The programs among the test code put the real parts together.
PROGRAM_FOLDERS = ("bench", "tests")
PROGRAM_LIBRARIES = {"libtorch", "protobuf", "CUDA"}

# Headers of the operating system. Besides the C++ library, only they need no row.
SYSTEM_FOLDERS = ("sys/", "netinet/", "arpa/", "linux/")
SYSTEM_HEADERS = {"dlfcn.h", "fcntl.h", "fnmatch.h", "immintrin.h", "malloc.h", "netdb.h", "poll.h", "pthread.h", "sched.h",
                  "signal.h", "spawn.h", "stddef.h", "stdint.h", "stdio.h", "stdlib.h", "termios.h", "unistd.h"}
# A pure folder includes none of these: threads, clocks, files, sockets, the process's environment.
IMPURE_STANDARD = {"thread", "mutex", "shared_mutex", "condition_variable", "future", "latch", "barrier", "semaphore",
                   "stop_token", "fstream", "filesystem", "iostream", "csignal", "ctime"}
IMPURE_OURS = {"base/files.h", "base/log.h", "base/loop.h", "base/module.h", "base/processors.h", "base/signals.h",
                "base/virtual_time.h"}

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"\n]+)[>"]', re.MULTILINE)
LIBRARY_ITEM = re.compile(r"\s*([^,()]+?)\s*(?:\(([^)]*)\))?\s*(?:,|$)")


class TableError(Exception):
    pass


class Row:
    """One line of the table."""

    def __init__(self, name, depends, libraries, pure):
        self.name = name
        self.is_file = name.endswith(SOURCES)
        self.depends = depends      # names of rows
        self.libraries = libraries  # name of the library -> paths that may include it, none: all
        self.pure = pure

    def covers(self, path):
        return path == self.name if self.is_file else path.startswith(self.name + "/")

    def may_use(self, library, path):
        places = self.libraries.get(library)
        if places is None:
            return False
        inside = path[len(self.name) + 1:]
        return not places or any(
            inside.startswith(place) if place.endswith("/") else inside == place for place in places)


def parse_libraries(cell):
    libraries = {}
    for name, places in LIBRARY_ITEM.findall(cell):
        if name not in LIBRARIES:
            raise TableError(f"'{name}' is no library that the test knows; it knows {', '.join(sorted(LIBRARIES))}")
        libraries[name] = re.findall(r"`([^`]+)`", places)
    return libraries


def parse_table(document):
    """The rows under "## Layers", in order."""
    section = re.search(r"^## Layers\n(.*?)(?=^## |\Z)", document, re.MULTILINE | re.DOTALL)
    if not section:
        raise TableError("there is no section '## Layers'")
    rows = []
    for line in section[1].splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if not line.startswith("| `"):
            continue
        if len(cells) != 4 or cells[2] not in ("", "pure"):
            raise TableError(f"expected | `folder` | `folder`, ... | pure or nothing | library, ... |, got {line}")
        rows.append(Row(re.findall(r"`([^`]+)`", cells[0])[0], re.findall(r"`([^`]+)`", cells[1]),
                        parse_libraries(cells[3]), cells[2] == "pure"))
    if not rows:
        raise TableError("the section '## Layers' has no table")
    return rows


def is_test(path):
    stem = os.path.splitext(path)[0]
    return (stem.endswith("_test") or "/testing/" in path or path.startswith("crds/")
            or path.startswith(tuple(folder + "/" for folder in PROGRAM_FOLDERS)))


def library_of(included):
    for name, prefixes in LIBRARIES.items():
        if included.startswith(prefixes):
            return name
    return None


def is_system(included):
    return included.startswith(SYSTEM_FOLDERS) or included in SYSTEM_HEADERS


def is_standard(included):
    return "/" not in included and "." not in included


class Map:
    """The table beside the sources, {path: text}."""

    def __init__(self, rows, files):
        self.rows = rows
        self.files = files
        self.includes = {path: [found[1] for found in INCLUDE.findall(text)] for path, text in files.items()}
        self.problems = []
        self.used = set()  # (row, row) and (row, library)

    def row_of(self, path):
        """The longest row that covers a path. If the table names a subfolder, the folder is split: its row
        covers only its own files."""
        best = None
        for row in self.rows:
            if row.covers(path) and (best is None or len(row.name) > len(best.name)):
                best = row
        if best is None or best.is_file:
            return best
        split = any(row.name.startswith(best.name + "/") and not row.is_file for row in self.rows)
        return None if split and os.path.dirname(path) != best.name else best

    def check(self):
        self.check_table()
        for path in sorted(self.files):
            if is_test(path):
                self.check_test(path)
            else:
                self.check_source(path)
        self.check_unused()
        self.check_torch_and_grpc()
        return self.problems

    def check_table(self):
        above = set()
        pure = set()
        for row in self.rows:
            if row.name in above:
                self.problems.append(f"table: `{row.name}` has two rows")
            for name in row.depends:
                if name not in above:
                    self.problems.append(f"table: `{row.name}` depends on `{name}`, which has no row above it")
                elif row.pure and name not in pure and name != "base":
                    self.problems.append(f"table: `{row.name}` is pure, and depends on `{name}`, which is not")
            if row.pure:
                pure.add(row.name)
            above.add(row.name)

    def check_source(self, path):
        row = self.row_of(path)
        if row is None:
            self.problems.append(f"{path}: the table has no row for `{os.path.dirname(path)}`")
            return
        for included in self.includes[path]:
            if included in self.files:
                self.check_ours(path, row, included)
            else:
                self.check_foreign(path, row, included)
            if row.pure and (included in IMPURE_STANDARD or included in IMPURE_OURS or is_system(included)):
                self.problems.append(f"{path}: includes {included}, but `{row.name}` is pure")

    def check_ours(self, path, row, included):
        if is_test(included):
            self.problems.append(f"{path}: includes the test code {included}")
            return
        other = self.row_of(included)
        if other is None or other is row:
            return  # the included file itself reports a missing row
        self.used.add((row.name, other.name))
        if other.name not in row.depends:
            self.problems.append(f"{path}: includes {included}, but `{row.name}` does not depend on `{other.name}`")

    def check_foreign(self, path, row, included):
        library = library_of(included)
        if library:
            self.used.add((row.name, library))
            if not row.may_use(library, path):
                self.problems.append(f"{path}: includes {included}, but `{row.name}` does not allow {library} there")
        else:
            self.check_known(path, included)

    def check_known(self, path, included):
        if not is_standard(included) and not is_system(included):
            self.problems.append(f"{path}: includes {included}, which is no file of the repository (paths begin at its "
                                 "root) and of no library that the test knows")

    def check_test(self, path):
        row = self.row_of(path)
        for included in self.includes[path]:
            library = library_of(included)
            if included in self.files or included.endswith(".inc"):
                continue
            if library is None:
                self.check_known(path, included)
                continue
            program = path.startswith(tuple(folder + "/" for folder in PROGRAM_FOLDERS))
            allowed = (library in TEST_LIBRARIES or (row is not None and library in row.libraries)
                       or (row is None and self.parent_uses(path, library))
                       or (program and library in PROGRAM_LIBRARIES))
            if not allowed:
                self.problems.append(f"{path}: test code includes {included}, and its folder has no {library}")

    def parent_uses(self, path, library):
        """Whether the row of the folder around a testing/ folder names the library."""
        folder = path.split("/testing/")[0]
        return any(row.name == folder and library in row.libraries for row in self.rows)

    def check_unused(self):
        for row in self.rows:
            if not any(self.row_of(path) is row for path in self.files):
                self.problems.append(f"table: `{row.name}` has no source")
                continue
            for name in list(row.depends) + list(row.libraries):
                if (row.name, name) not in self.used:
                    self.problems.append(f"table: `{row.name}` names {name}, and no file of it includes any of that")
            for library, places in row.libraries.items():
                for place in places:
                    if not self.place_uses(row, place, library):
                        self.problems.append(f"table: `{row.name}` allows {library} in {place}, which does not use it")

    def place_uses(self, row, place, library):
        path = row.name + "/" + place
        return any(library_of(included) == library
                   for file, includes in self.includes.items()
                   if (file.startswith(path) if place.endswith("/") else file == path)
                   for included in includes)

    def check_torch_and_grpc(self):
        """Checks that no translation unit includes both."""
        for path in sorted(self.files):
            if not path.endswith((".cc", ".cpp", ".cu")):
                continue
            libraries = {library_of(included) for included in self.closure(path)}
            if {"libtorch", "gRPC"} <= libraries:
                self.problems.append(f"{path}: libtorch and gRPC meet in this translation unit")

    def closure(self, path):
        seen = set()
        ahead = [path]
        while ahead:
            for included in self.includes.get(ahead.pop(), []):
                if included not in seen:
                    seen.add(included)
                    ahead.append(included)
        return seen


def read_sources(root):
    """Sources of the working tree, tracked or not, without build folders and hidden folders."""
    files = {}
    for folder, folders, names in os.walk(root):
        top = folder == root
        folders[:] = [name for name in folders
                      if not name.startswith(".") and not (top and name in ("build", "out", "docs"))]
        for name in names:
            if name.endswith(SOURCES):
                path = os.path.join(folder, name)
                with open(path, encoding="utf-8", errors="replace") as source:
                    files[os.path.relpath(path, root)] = source.read()
    return files


TABLE = """
## Layers

| folder | depends on | | foreign library |
|---|---|---|---|
| `base` | | | xxHash (`hash.cc`) |
| `core` | `base` | pure | |
| `core/rules` | `base`, `core` | pure | |
| `shell` | `core/rules` | | libtorch (`tensors/`), gRPC (`call.cc`) |

## Threads

| `thread` | is no row |
"""
TREE = {
    "base/hash.h": "#pragma once\n#include <string>\n",
    "base/hash.cc": '#include "base/hash.h"\n#include <xxhash.h>\n',
    "core/value.h": '#include "base/hash.h"\n',
    "core/rules/rule.h": '#include "core/value.h"\n#include "base/hash.h"\n',
    "shell/tensors/stage.cc": '#include <ATen/ATen.h>\n#include "core/rules/rule.h"\n#include <mutex>\n',
    "shell/call.cc": "#include <grpcpp/channel.h>\n#include <sys/socket.h>\n",
    "shell/call_test.cc": '#include <gtest/gtest.h>\n#include "core/value.h"\n#include "shell/testing/fake.h"\n',
    "shell/testing/fake.h": '#include "base/hash.h"\n#include <nlohmann/json.hpp>\n',
}


def problems_of(changes=None, table=TABLE):
    """The problems of the made-up repository above with changed files."""
    return Map(parse_table(table), {**TREE, **(changes or {})}).check()


class TestThatTheCheckFails(unittest.TestCase):
    """Breaks each rule once, in a repository that exists only in memory."""

    def expect(self, words, changes=None, table=TABLE):
        problems = problems_of(changes, table)
        self.assertEqual(len(problems), 1, problems)
        self.assertIn(words, problems[0])

    def test_what_the_table_allows_passes(self):
        self.assertEqual(problems_of(), [])

    def test_an_include_against_the_layers(self):
        self.expect("`base` does not depend on `core`", {"base/up.h": '  #  include "core/value.h"\n'})

    def test_dependencies_are_not_inherited(self):
        self.expect("`shell` does not depend on `core`", {"shell/loop.cc": '#include "core/value.h"\n'})

    def test_a_foreign_library_in_another_folder_or_file(self):
        self.expect("does not allow xxHash", {"core/sum.cc": "#include <xxhash.h>\n"})
        self.expect("does not allow gRPC", {"shell/dial.cc": "#include <grpcpp/server.h>\n"})
        self.expect("does not allow libtorch", {"shell/stage.h": "#include <torch/torch.h>\n"})

    def test_a_library_or_path_that_is_not_known(self):
        self.expect("no library that the test knows", {"core/x.h": "#include <folly/json.h>\n"})
        self.expect("no file of the repository", {"core/x.h": '#include "value.h"\n'})

    def test_a_folder_that_the_table_lacks(self):
        self.expect("no row for `tool`", {"tool/main.cc": ""})
        self.expect("no row for `core/more`", {"core/more/a.h": ""})

    def test_a_row_covers_its_subfolders_where_none_has_a_row(self):
        self.assertEqual(problems_of({"shell/tensors/deep/a.cc": "#include <ATen/ATen.h>\n"}), [])

    def test_sources_that_include_test_code(self):
        self.expect("includes the test code", {"shell/b.cc": '#include "shell/testing/fake.h"\n'})

    def test_test_code_with_a_library_of_another_folder(self):
        self.expect("has no gRPC", {"core/value_test.cc": "#include <grpcpp/server.h>\n"})
        self.assertEqual(problems_of({"bench/a.cc": "#include <ATen/ATen.h>\n"}), [])

    def test_what_a_pure_folder_does_without(self):
        self.expect("`core` is pure", {"core/lock.h": "#include <mutex>\n"})
        self.expect("`core/rules` is pure", {"core/rules/clock.h": "#include <sys/time.h>\n"})
        self.expect("depends on `core`, which is not", None, TABLE.replace("| `base` | pure", "| `base` | "))

    def test_libtorch_and_grpc_through_a_header(self):
        self.expect("libtorch and gRPC meet", {"shell/tensors/t.h": "#include <ATen/ATen.h>\n", "shell/call.cc":
                                               '#include <grpcpp/channel.h>\n#include "shell/tensors/t.h"\n'})

    def test_a_table_with_a_circle_or_more_than_there_is(self):
        self.expect("no row above it", {"base/up.h": '#include "core/value.h"\n'},
                    TABLE.replace("| `base` | |", "| `base` | `core` |"))
        self.expect("no file of it includes any", None, TABLE.replace("| `core/rules` | |", "| `core/rules`, `base` | |"))
        self.expect("allows gRPC in dial.cc", None, TABLE.replace("(`call.cc`)", "(`call.cc`, `dial.cc`)"))
        self.expect("`old` has no source", None, TABLE.replace("\n## Threads", "| `old` | | | |\n\n## Threads"))

    def test_a_table_that_cannot_be_read(self):
        with self.assertRaisesRegex(TableError, "no library that the test knows"):
            problems_of(None, TABLE.replace("xxHash", "Boost"))
        with self.assertRaisesRegex(TableError, "no section"):
            problems_of(None, "# Architecture\n")


class TestTheMap(unittest.TestCase):
    maxDiff = None

    def test_every_include_is_allowed(self):
        with open(os.path.join(ROOT, DOCUMENT), encoding="utf-8") as document:
            rows = parse_table(document.read())
        files = read_sources(ROOT)
        self.assertGreater(len(files), 100, "the sources were not found")
        problems = Map(rows, files).check()
        if problems:
            self.fail(f"{len(problems)} against the table of layers in {DOCUMENT}:\n" + "\n".join(problems))


if __name__ == "__main__":
    if len(sys.argv) > 1 and os.path.isdir(sys.argv[1]):
        ROOT = os.path.abspath(sys.argv.pop(1))
    unittest.main()
