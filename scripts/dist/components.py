"""What of others is in the programs and beside them: packages of Debian, crates, wheels; and their licenses."""

import dataclasses
import json
import os
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEPS = pathlib.Path(os.environ.get("SWARM_DEPS") or ROOT / ".deps")
RUST_TARGET = "x86_64-unknown-linux-gnu"

# Debian's packages of which code is compiled into the programs: headers, of which no library is left to be seen.
# libgomp1: the wheel of PyTorch has a copy of it.
COMPILED_IN = ("libcli11-dev", "libgomp1", "liblemon-dev", "libxxhash-dev", "nlohmann-json3-dev")
LICENSE_FILE = re.compile(r"^(LICEN[CS]E|COPYING|NOTICE|UNLICENSE)", re.IGNORECASE)


@dataclasses.dataclass(frozen=True, order=True)
class Component:
    """A package of others."""
    kind: str  # "deb", "cargo", "rust", "pypi" or "npm": where it comes from
    name: str
    version: str
    source: str  # of a deb its source package, else ""
    license: str  # as an SPDX expression, or "" where the package has only a text
    texts: tuple  # ((name, path), ...): its licenses


def output_of(*command):
    """What the command prints. Raises CalledProcessError if it fails."""
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def package_of(library):
    """The package of Debian that has installed a library."""
    path = library.resolve()
    for name in (path, pathlib.Path("/", *path.parts[2:])):  # /usr/lib is also /lib
        found = subprocess.run(["dpkg-query", "-S", name], capture_output=True, text=True, check=False)
        if found.returncode == 0:
            return found.stdout.split(":")[0]
    raise LookupError(f"no package of Debian has installed {library}: its license is not known")


def of_debian(libraries):
    """The packages of the given libraries, and those compiled in."""
    for package in sorted({package_of(path) for path in libraries} | set(COMPILED_IN)):
        line = output_of("dpkg-query", "-W", "-f", "${Version}\t${source:Package}\t${source:Version}\n", package)
        version, source, source_version = line.splitlines()[0].split("\t")
        text = pathlib.Path("/usr/share/doc", package, "copyright")
        yield Component("deb", package, version, f"{source} {source_version}", "", (("copyright", text),))


def of_crates():
    """The crates of the module that reads tokenizers, with what they compile of others."""
    manifest = ROOT / "worker/data/huggingface/Cargo.toml"
    found = json.loads(output_of("cargo", "metadata", "--format-version=1", "--locked", "--offline",
                                 f"--filter-platform={RUST_TARGET}", "--manifest-path", str(manifest)))
    for package in found["packages"]:
        if package["source"]:
            folder = pathlib.Path(package["manifest_path"]).parent
            texts = tuple((str(path.relative_to(folder)).replace("/", "-"), path)
                          for path in sorted(folder.rglob("*")) if LICENSE_FILE.match(path.name) and path.is_file())
            # Old manifests write a slash where an expression has OR.
            license_of = re.sub(" */ *", " OR ", package["license"] or "")
            yield Component("cargo", package["name"], package["version"], "", license_of, texts)


def of_rust():
    """Rust's own library, which is a part of every module in Rust."""
    version = output_of("rustc", "--version").split()[1]
    folder = pathlib.Path(output_of("rustc", "--print", "sysroot").strip(), "share/doc/rust")
    texts = sorted([*folder.glob("COPYRIGHT-library.html"), *folder.glob("licenses/*")])
    if not texts:  # Debian's
        texts = sorted(pathlib.Path("/usr/share/doc").glob("libstd-rust-*dev/copyright"))
    if not texts:
        raise LookupError(f"the licenses of Rust's library are neither in {folder} nor in Debian's libstd-rust-dev")
    return Component("rust", "std", version, "", "MIT OR Apache-2.0", tuple((path.name, path) for path in texts))


def of_wheel(folder, name):
    """The wheel that was unpacked in the folder."""
    for licenses in folder.glob(f"{name}-*.dist-info/licenses"):
        version = licenses.parent.name.removeprefix(f"{name}-").removesuffix(".dist-info")
        texts = tuple((path.name, path) for path in sorted(licenses.iterdir()))
        return Component("pypi", name, version, "", "", texts)
    raise LookupError(f"the licenses of {name} are not in {folder}: run `make deps`")


def of_wheels(folder, pattern):
    """All wheels in the folder whose names match the whole pattern."""
    for info in sorted(folder.glob("*.dist-info")):
        name, _, version = info.name.removesuffix(".dist-info").partition("-")
        if re.fullmatch(pattern, name):
            yield Component("pypi", name.replace("_", "-"), version, "", "", ())


def debian_release():
    """The release of Debian on which this is built, as "12"."""
    return pathlib.Path("/etc/debian_version").read_text(encoding="utf-8").split(".")[0].strip()


def of_page():
    """The library of the page that swarmctl and swarm-worker serve."""
    vendor = ROOT / "web/vendor"
    version = re.search(r"uplot@([0-9.]+)", (vendor / "fetch.sh").read_text(encoding="utf-8"), re.IGNORECASE)
    return Component("npm", "uplot", version[1], "", "MIT", (("LICENSE", vendor / "uPlot.LICENSE.txt"),))
