#!/usr/bin/env python3
"""Tries the tarball of `make dist` as users get it: what is in it, and whether it trains, without network and without
rights, in clean roots of Debian, which debootstrap makes from the packages that this machine gets.

Usage: tests/dist/tarball_test.py BUILD_FOLDER DIST_FOLDER     (make dist-test)

What this machine cannot make is skipped, and a message says why.
"""

import functools
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts/dist"))

import elf  # noqa: E402
import make  # noqa: E402
import releases  # noqa: E402

BUILD, DIST = map(pathlib.Path, sys.argv[1:3]) if len(sys.argv) == 3 else (None, None)
STORY = ROOT / "tests/dist/story.sh"
NOBODY = 65534
WORK = None  # a folder for what the tests make, while they run


def unpacked(folder):
    """Unpacks the tarball into the folder, and returns the one folder that it has."""
    (tarball,) = DIST.glob("swarmjob-*-linux-x86_64.tar.gz")
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(["tar", "-xzf", tarball.resolve(), "-C", folder], check=True)
    (tree,) = folder.iterdir()
    return tree


@functools.cache
def tarball():
    """The tarball's folder, unpacked once."""
    return unpacked(WORK / "unpacked")


def losses(out):
    """The losses of a run's steps."""
    lines = (out / "steps.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line)["loss"] for line in lines]


@functools.cache
def losses_of_the_build():
    """The losses of the story, played by the programs where they were built."""
    out = WORK / "build"
    subprocess.run([STORY, BUILD.resolve() / "bin", ROOT / "examples/tiny-llama.yaml", ROOT / "LICENSE", out],
                   check=True, capture_output=True, text=True)
    return losses(out / "train")


class Content(unittest.TestCase):
    def programs_and_libraries(self):
        return [path for folder in ("bin", "lib") for path in sorted((tarball() / folder).iterdir())
                if elf.is_elf(path)]

    def test_the_sums_are_those_of_the_files(self):
        subprocess.run(["sha256sum", "--check", "--quiet", "--strict", "SHA256SUMS"], cwd=tarball(), check=True)
        subprocess.run(["sha256sum", "--check", "--quiet", "--strict", "SHA256SUMS"], cwd=DIST, check=True)
        files = {str(path.relative_to(tarball())) for path in tarball().rglob("*")
                 if path.is_file() and not path.is_symlink()}
        summed = {line.split("  ")[1] for line in (tarball() / "SHA256SUMS").read_text(encoding="utf-8").splitlines()}
        self.assertEqual(files - {"SHA256SUMS"}, summed)

    def test_the_same_build_gives_the_same_bytes_again(self):
        again = WORK / "again"
        subprocess.run([ROOT / "scripts/dist/make.py", BUILD, again], check=True, capture_output=True)
        self.assertEqual((again / "SHA256SUMS").read_text(encoding="utf-8"),
                         (DIST / "SHA256SUMS").read_text(encoding="utf-8"))

    def test_programs_and_libraries_find_their_libraries_beside_them(self):
        there = {path.name for path in (tarball() / "lib").iterdir()}
        for path in self.programs_and_libraries():
            with self.subTest(file=path.name):
                read = elf.read(path)
                self.assertEqual(read.runpath, "$ORIGIN/../lib" if path.parent.name == "bin" else "$ORIGIN")
                self.assertEqual([name for name in read.needed if name not in there and not elf.SYSTEM.match(name)], [])

    def test_no_file_asks_for_a_symbol_that_a_release_lacks(self):
        for path in self.programs_and_libraries():
            versions = [version for library, version in elf.read(path).versions if elf.SYSTEM.match(library)]
            for release in releases.RELEASES:
                with self.subTest(file=path.name, release=release):
                    self.assertEqual(releases.too_new(versions, release), [])

    def test_each_package_of_debian_and_each_wheel_has_its_license(self):
        lines = (tarball() / "licenses/CONTENTS").read_text(encoding="utf-8").splitlines()
        contents = [line.split("\t") for line in lines]
        self.assertEqual({kind for kind, *_ in contents}, {"cargo", "deb", "npm", "pypi", "rust"})
        for kind, name, version, *_ in contents:
            folder = tarball() / "licenses" / kind / f"{name}-{version.replace(':', '.')}"
            if kind != "cargo":  # some crates name their license in their manifest alone
                with self.subTest(component=name):
                    self.assertTrue(any(folder.iterdir()))


class ChartInARegistry(unittest.TestCase):
    def start_registry(self, folder):
        """Starts a registry on a free port, and returns its address."""
        if not shutil.which("docker-registry"):
            self.skipTest("the program docker-registry, of Debian's package of that name, is not installed")
        config = {"version": "0.1", "storage": {"filesystem": {"rootdirectory": str(folder / "blobs")}},
                  "http": {"addr": "127.0.0.1:0"}}
        (folder / "config.yml").write_text(json.dumps(config), encoding="utf-8")
        registry = subprocess.Popen(["docker-registry", "serve", folder / "config.yml"], text=True,
                                    stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        self.addCleanup(lambda: (registry.kill(), registry.communicate()))
        for line in registry.stderr:
            if at := re.search(r"listening on (127\.0\.0\.1:\d+)", line):
                return at[1]
        return self.fail("the registry ended before it listened")

    def test_helm_pushes_it_and_pulls_the_same_bytes(self):
        helm = make.find_helm()
        folder = WORK / "registry"
        folder.mkdir()
        charts = f"oci://{self.start_registry(folder)}/charts"
        (package,) = DIST.glob("swarmjob-*.tgz")
        version = package.stem.removeprefix("swarmjob-")
        subprocess.run([helm, "push", "--plain-http", package, charts], check=True, capture_output=True)
        pull = [helm, "pull", "--plain-http", f"{charts}/swarmjob", "--version", version, "--destination", folder]
        subprocess.run(pull, check=True, capture_output=True)
        self.assertEqual((folder / package.name).read_bytes(), package.read_bytes())


class CleanRoots(unittest.TestCase):
    def make_root(self, suite):
        if os.geteuid() != 0:
            self.skipTest("only root makes the root of a system")
        if not shutil.which("debootstrap"):
            self.skipTest("the program debootstrap is not installed")
        root = WORK / suite
        mirror = subprocess.run([ROOT / "scripts/debian_mirror.sh"], capture_output=True, text=True, check=False).stdout
        made = subprocess.run(["debootstrap", "--variant=minbase", suite, root, mirror.strip()], capture_output=True,
                              text=True, check=False)
        if made.returncode != 0:
            last = made.stdout.strip().splitlines()[-1:]
            self.skipTest(f"debootstrap cannot make {suite} from the packages that this machine gets: {last}")
        return root

    def play_in(self, root):
        """Plays the story in the root as nobody, on a network that has this machine alone. Returns its folder."""
        tree = unpacked(root / "opt")
        shutil.copy(STORY, root / "opt/story.sh")
        inside = pathlib.Path("/", tree.relative_to(root))
        command = ["/opt/story.sh", inside / "bin", inside / "examples/tiny-llama.yaml", inside / "LICENSE", "/tmp/out"]
        enter = ('root=$1 user=$2; shift 2; ip link set lo up && mount -t proc proc "$root/proc" && '
                 'exec chroot --userspec="$user:$user" "$root" env -i PATH=/usr/bin:/bin "$@"')
        played = subprocess.run(
            ["unshare", "--net", "--mount", "--pid", "--fork", "sh", "-c", enter, "sh", root, str(NOBODY), *command],
            capture_output=True, text=True, check=False, timeout=600)
        self.assertEqual(played.returncode, 0, played.stdout[-4000:] + played.stderr[-4000:])
        print(*(line for line in played.stdout.splitlines() if re.match("swarm[a-z-]+ ", line)), sep="\n")
        return root / "tmp/out"

    def check(self, suite, release):
        root = self.make_root(suite)
        for name in ("libc.so.6", "libstdc++.so.6", "libgcc_s.so.1"):
            (library,) = (root / "usr/lib").glob(f"*/{name}")
            for kind, version in releases.newest(elf.defined(library)).items():
                self.assertEqual(version, releases.RELEASES[release][kind], f"{kind} of {release}")
        out = self.play_in(root)
        self.assertEqual(losses(out / "train"), losses_of_the_build())
        self.assertEqual(losses(out / "run"), losses_of_the_build())
        self.assertEqual(len(losses_of_the_build()), 4)

    def test_debian_12_trains_as_the_build_does(self):
        self.check("bookworm", "Debian 12")

    def test_debian_13_trains_as_the_build_does(self):
        self.check("trixie", "Debian 13")


def main():
    global WORK  # pylint: disable=global-statement
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(dir=DIST) as folder:
        WORK = pathlib.Path(folder)
        WORK.chmod(0o755)
        result = unittest.main(argv=sys.argv[:1], verbosity=2, exit=False).result
    return 0 if result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
