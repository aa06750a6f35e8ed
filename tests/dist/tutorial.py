#!/usr/bin/env python3
"""Plays docs/tutorial.md as somebody new does: in a clean root of a system, with nothing but the commands that the page
shows, in their order. Prints how long each section took, and how long it was to the first trained model.

Usage: tutorial.py [--way source|tarball] [--suite SUITE | --root FOLDER] [--dist FOLDER] [--ccache FOLDER]
(make tutorial-test)

The page has two ways to the programs: from source, which this repository's last commit is, and from the tarball in the
folder that --dist names (build/dist). debootstrap makes the root of a SUITE of Debian (bookworm) from the packages that
this machine gets. --root plays in a root that you have made, of Ubuntu say, and changes it. From this machine the root
gets its resolver, its certificates and the variables that name a proxy, and with --ccache a compiler's cache: then the
time is not that of somebody new. Needs the rights of root.
"""

import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/docs"))

from steps import PageError, steps  # noqa: E402

PAGE = "docs/tutorial.md"
WAYS = {"source": "From source", "tarball": "From the tarball"}
FOLDER = "swarmjob"  # of somebody new, below /root
TRAINED = "Train"  # the section after which there is a model
ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root",
               "DEBIAN_FRONTEND": "noninteractive"}
PROXIES = ("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")
# Namespaces of processes and mounts: what a command leaves running or mounted ends with it. /dev/shm is libtorch's.
ENTER = ('root=$1 && mount -t proc proc "$root/proc" && mkdir -p "$root/dev/shm" && '
         'mount -t tmpfs shm "$root/dev/shm" && '
         'cache=$root/root/.cache/ccache && '
         '{ [ -z "$2" ] || { mkdir -p "$cache" && mount --bind "$2" "$cache"; }; } && '
         'shift 2 && exec chroot "$root" "$@"')


def make_root(suite, folder):
    """Makes the root of the suite of Debian in the folder."""
    mirror = subprocess.run([ROOT / "scripts/debian_mirror.sh"], capture_output=True, text=True, check=True).stdout
    made = subprocess.run(["debootstrap", "--variant=minbase", suite, folder, mirror.strip()], capture_output=True,
                          text=True, check=False)
    if made.returncode != 0:
        last = (made.stdout + made.stderr).strip().splitlines()[-3:]
        raise PageError("debootstrap makes no root: " + "\n".join(last))


def lend_settings(root):
    """Gives the root what it needs to reach hosts as this machine does."""
    shutil.copy("/etc/resolv.conf", root / "etc/resolv.conf")
    shutil.copytree("/usr/local/share/ca-certificates", root / "usr/local/share/ca-certificates", dirs_exist_ok=True)


def place(way, dist, folder):
    """Puts into the folder what somebody new has: the source, or the tarball."""
    folder.mkdir(parents=True)
    if way == "source":
        source = subprocess.run(["git", "-C", ROOT, "archive", "HEAD"], stdout=subprocess.PIPE, check=True).stdout
        subprocess.run(["tar", "-x", "-C", folder], input=source, check=True)
        return
    tarballs = sorted(dist.glob("swarmjob-*-linux-x86_64.tar.gz"))
    if len(tarballs) != 1:
        raise PageError(f"there is not one tarball in {dist}: make dist")
    shutil.copy(tarballs[0], folder)


def play(root, commands, ccache):
    """Plays a block of shell in the root, and shows what it prints. `ccache`: a folder to lend, or "". Raises where a
    command fails."""
    variables = ENVIRONMENT | {name: os.environ[name] for name in PROXIES if name in os.environ}
    inside = f"cd /root/{FOLDER} && set -ex\n{commands}"
    enter = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", ENTER, "sh", root, ccache]
    settings = ["/usr/bin/env", "-i", *(f"{name}={value}" for name, value in variables.items())]
    played = subprocess.run([*enter, *settings, "sh", "-c", inside], stdin=subprocess.DEVNULL, check=False)
    if played.returncode != 0:
        raise PageError(f"{PAGE}: in the clean root this block ends with {played.returncode}:\n{commands}")


def tell(root, way, dist, ccache):
    """Plays the page in the root, and prints how long it took."""
    folder = root / "root" / FOLDER
    place(way, dist, folder)
    lend_settings(root)
    took, trained = {}, None
    for section, kind, body in steps((ROOT / PAGE).read_text(encoding="utf-8"), WAYS[way]):
        begun = time.monotonic()
        if kind == "sh":
            play(root, body, ccache)
        else:
            (folder / kind).write_text(body, encoding="utf-8")
        took[section] = took.get(section, 0) + time.monotonic() - begun
        if section == TRAINED:
            trained = sum(took.values())
    if trained is None or not (folder / "out/tutorial-hf/model.safetensors").exists():
        raise PageError(f"{PAGE} was played and has left no exported model")
    print(*(f"{section}: {seconds:.0f} s" for section, seconds in took.items()), sep="\n")
    print(f"first trained model: {trained:.0f} s, {WAYS[way].lower()}, with {len(os.sched_getaffinity(0))} cores")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--way", choices=WAYS, default="tarball")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--suite", default="bookworm")
    where.add_argument("--root", type=pathlib.Path)
    parser.add_argument("--dist", type=pathlib.Path, default=ROOT / "build/dist")
    parser.add_argument("--ccache", default="")
    options = parser.parse_args()
    try:
        if options.root:
            tell(options.root.resolve(), options.way, options.dist, options.ccache)
            return 0
        with tempfile.TemporaryDirectory(dir=options.dist) as name:
            root = pathlib.Path(name) / options.suite
            make_root(options.suite, root)
            tell(root, options.way, options.dist, options.ccache)
        return 0
    except PageError as error:
        print(f"tutorial: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
