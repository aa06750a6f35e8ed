#!/usr/bin/env python3
"""Makes the tarball of a release from what `make build` has built, and the package of the chart:

    scripts/dist/make.py BUILD_FOLDER OUT    writes OUT/swarmjob-VERSION-linux-x86_64.tar.gz, OUT/swarmjob-VERSION.tgz,
                                             OUT/SHA256SUMS and OUT/NOTES.md, which the changelog says of the version

The same build and commit give the same bytes. It is .tar.gz, since every Debian and Ubuntu can unpack that without
installing anything. Libraries are found as for the worker's image (worker/image/collect.sh) and for machines with GPUs
(scripts/loaded_libraries.sh). SWARM_DEPS and SWARM_LIBTORCH are as for the build; SOURCE_DATE_EPOCH replaces the time
of the commit. It needs binutils, patchelf, a C compiler, cargo and helm (in PATH, or as e2e/build.sh made it).
"""

import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import archive
import components
import elf
import notes

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEPS = components.DEPS
LIBTORCH = pathlib.Path(os.environ.get("SWARM_LIBTORCH") or DEPS / "wheels/torch")
PROGRAMS = ("swarmctl", "swarm-operator", "swarm-worker")
# As which swarmctl goes on where a command computes. Users do not call it, so it is in lib/.
COMPUTE = pathlib.Path("lib/swarmctl-compute")
SHELLS = ("bash", "fish", "zsh")


class DistError(Exception):
    """Why there is no tarball, and what to do."""


def run(*command):
    """Runs a command, and returns what it prints."""
    return subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True).stdout


def place_programs(build, tree, work):
    """bin/ and lib/: ours, what the worker's image has, and what these load from this machine's Debian. Returns the
    paths of the last."""
    run(ROOT / "worker/image/collect.sh", "cpu", build, LIBTORCH, work)
    (tree / "bin").mkdir()
    shutil.copytree(work / "usr/local/lib", tree / "lib", ignore=shutil.ignore_patterns("swarmjob"))
    shutil.copytree(work / "usr/local/lib/swarmjob", tree / "lib", dirs_exist_ok=True)
    for program in PROGRAMS:
        run("strip", "-o", tree / "bin" / program, build / "bin" / program)
    run("strip", "-o", tree / COMPUTE, build / COMPUTE)
    ours = [*(build / "bin" / program for program in PROGRAMS), build / COMPUTE,
            *sorted((build / "lib").glob("libswarm_*.so"))]
    loaded = map(pathlib.Path, run(ROOT / "scripts/loaded_libraries.sh", elf.SYSTEM.pattern, *ours).splitlines())
    # The wheels' libraries are there, stripped, and the stubs that stand for NVIDIA's.
    debian = [path for path in loaded if not (tree / "lib" / path.name).exists() and not within(path, DEPS)]
    for path in debian:
        run("strip", "--strip-unneeded", "-o", tree / "lib" / path.name, path.resolve())
    for folder, runpath in ("bin", "$ORIGIN/../lib"), ("lib", "$ORIGIN"):
        for path in sorted((tree / folder).iterdir()):
            run("patchelf", "--set-rpath", runpath, path)
    (tree / "bin/kubectl-swarmjob").symlink_to("swarmctl")  # the name of a plugin of kubectl
    return debian


def within(path, folder):
    """Whether the path leads into the folder."""
    return path.resolve().is_relative_to(folder.resolve())


def check_libraries(tree):
    """Raises if the loader would miss a library."""
    there = {path.name for path in (tree / "lib").iterdir()}
    for path in sorted([*(tree / "bin").iterdir(), *(tree / "lib").iterdir()]):
        missing = [name for name in elf.read(path).needed if name not in there and not elf.SYSTEM.match(name)]
        if missing:
            raise DistError(f"{path.relative_to(tree)} needs {', '.join(missing)}, which is not in lib/")


def place_licenses(tree, debian):
    """licenses/, with CONTENTS: a line for each component, its kind, name, version and source."""
    wheels = components.of_wheel(LIBTORCH.parent, "torch"), components.of_wheel(DEPS / "arrow", "pyarrow")
    contents = sorted([*components.of_debian(debian), *components.of_crates(), components.of_rust(), *wheels,
                       components.of_page()])
    for each in contents:
        folder = tree / "licenses" / each.kind / f"{each.name}-{each.version.replace(':', '.')}"
        for name, text in each.texts:
            folder.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(text, folder / name)
    # Debian's texts refer to these.
    shutil.copytree("/usr/share/common-licenses", tree / "licenses/common-licenses", symlinks=True)
    lines = ["\t".join((each.kind, each.name, each.version, each.source)).rstrip() for each in contents]
    (tree / "licenses/CONTENTS").write_text("\n".join(lines) + "\n", encoding="utf-8")


def find_helm():
    """The path of helm. Raises if there is none."""
    helm = next(filter(None, (shutil.which(name) for name in (DEPS / "kube/helm", "helm"))), None)
    if helm is None:
        raise DistError("no helm: install it, or build it by e2e/build.sh")
    return helm


def package_chart(work, out, version, seconds):
    """The chart as helm packages it, without the times that helm notes. Returns its path."""
    run(find_helm(), "package", ROOT / "helm/swarmjob", "--destination", work)
    package = out / f"swarmjob-{version}.tgz"
    shutil.unpack_archive(work / package.name, work / "chart", filter="data")
    archive.write(work / "chart/swarmjob", package, "swarmjob", seconds)
    return package


def place_texts(tree, version, chart):
    """What programs do not need: examples, completion, definition, chart, README."""
    (tree / "completion").mkdir()
    for shell in SHELLS:
        for program in PROGRAMS:
            asked = ("completion", shell) if program == "swarmctl" else (f"--completion={shell}",)
            script = run(tree / "bin" / program, *asked)
            (tree / "completion" / f"{program}.{shell}").write_text(script, encoding="utf-8")
    shutil.copytree(ROOT / "examples", tree / "examples")
    (tree / "crds").mkdir()
    shutil.copy(ROOT / "crds/swarmjob.yaml", tree / "crds")
    (tree / "chart").mkdir()
    shutil.copy(chart, tree / "chart")
    for name in "LICENSE", "CHANGELOG.md":
        shutil.copy(ROOT / name, tree)
    readme = (ROOT / "scripts/dist/README.md").read_text(encoding="utf-8")
    readme = readme.replace("@VERSION@", version).replace("@DEBIAN@", components.debian_release())
    (tree / "README.md").write_text(readme, encoding="utf-8")


def write_sums(folder, paths):
    """SHA256SUMS of the files, as sha256sum checks it in the folder."""
    lines = []
    for path in paths:
        with open(path, "rb") as file:
            lines.append(f"{hashlib.file_digest(file, 'sha256').hexdigest()}  {path.relative_to(folder)}\n")
    (folder / "SHA256SUMS").write_text("".join(lines), encoding="utf-8")


def commit_time():
    """The time of what is in the archives, in seconds."""
    given = os.environ.get("SOURCE_DATE_EPOCH")
    return int(given or run("git", "-C", ROOT, "log", "-1", "--format=%ct"))


def make(build, out):
    """Writes the files, and returns the path of the tarball."""
    version, seconds = run(ROOT / "scripts/version.sh").strip(), commit_time()
    for path in (*(pathlib.Path("bin", program) for program in PROGRAMS), COMPUTE):
        if not (build / path).exists():
            raise DistError(f"no {path} in {build}: run `make build`")
    out.mkdir(parents=True, exist_ok=True)
    name = f"swarmjob-{version}-linux-x86_64"
    with tempfile.TemporaryDirectory(dir=out) as folder:
        work, tree = pathlib.Path(folder), pathlib.Path(folder, name)
        tree.mkdir()
        debian = place_programs(build, tree, work / "image")
        check_libraries(tree)
        place_licenses(tree, debian)
        chart = package_chart(work, out, version, seconds)
        place_texts(tree, version, chart)
        write_sums(tree, sorted(path for path in tree.rglob("*") if path.is_file() and not path.is_symlink()))
        tarball = out / f"{name}.tar.gz"
        archive.write(tree, tarball, name, seconds)
    write_sums(out, [tarball, chart])
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    (out / "NOTES.md").write_text(notes.of_version(changelog, version), encoding="utf-8")
    return tarball


def main():
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        tarball = make(pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve())
    except (DistError, LookupError, OSError) as error:
        print(f"dist: {error}", file=sys.stderr)
        return 1
    except subprocess.CalledProcessError as error:
        print(f"dist: {error}\n{error.stderr or ''}", file=sys.stderr)
        return 1
    print(f"dist: {tarball.stat().st_size / 2**20:.0f} MiB in {tarball}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
