"""Runs a program in its own namespaces, with its own temporary folder and control groups.

A program inside has its own processes, network, mounts and host name: two sandboxes never meet, and no
program inside reaches a network outside. When the program ends, in any way, the kernel ends every process
that is left. Then this module removes the folder and the control groups.
"""
import contextlib
import fcntl
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time

from .daemon import ClusterError

CGROUPS = pathlib.Path("/sys/fs/cgroup")
CPU_SHARES = 20480  # v1
CPU_WEIGHT = 100    # v2
SECONDS_TO_UNWIND = 60  # from the first Ctrl-C to the forced end
PREFIX = "swarm-e2e-"
SECONDS_TO_LOCK = 60    # a folder without a lock for so long belongs to no run that is beginning
FREE_BYTES = 3 << 30    # what a run of all cases writes: unpacked images, nodes, etcd, logs


class Sandbox:
    """What the program inside knows about its sandbox."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.name = self.folder.name  # also the name of the control groups, below the root of each hierarchy

    @classmethod
    def current(cls):
        """The sandbox of this process, or None."""
        folder = os.environ.get("SWARM_E2E_SANDBOX")
        return cls(folder) if folder else None


def run(arguments):
    """Runs a command in a new sandbox and returns its exit code."""
    refuse_without_rights()
    remove_what_killed_runs_left()
    refuse_full_disk(pathlib.Path(tempfile.gettempdir()))
    folder = pathlib.Path(tempfile.mkdtemp(prefix=PREFIX))
    lock = _lock(folder)
    namespaces = ["--net", "--pid", "--mount", "--ipc", "--uts"]
    inside = None
    interrupts = []

    def interrupt(*_):  # the program inside unwinds, and this process waits for it
        interrupts.append(time.monotonic())
        for child in _children(inside.pid) if inside else []:
            os.kill(child, signal.SIGINT)
    handlers = {number: signal.signal(number, interrupt)
                for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        # In its own session, so that the terminal's Ctrl-C arrives once, through interrupt().
        inside = subprocess.Popen(
            ["unshare", *namespaces, "--fork", "--kill-child", "--mount-proc", *arguments],
            env={**os.environ, "SWARM_E2E_SANDBOX": str(folder)}, start_new_session=True)
        while inside.poll() is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                inside.wait(0.2)
            if len(interrupts) > 1 or (interrupts and time.monotonic() - interrupts[0] > SECONDS_TO_UNWIND):
                break
        return 130 if inside.poll() is None else inside.returncode
    finally:
        if inside and inside.poll() is None:
            inside.kill()
            inside.wait()
        remove_cgroups(folder.name)
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)
        for number, handler in handlers.items():
            signal.signal(number, handler)


def _lock(folder):
    """The descriptor that holds the lock of a run's folder, or None where another run holds it."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def remove_what_killed_runs_left():
    """Removes the folders and control groups of runs that ended without unwinding, as by kill -9."""
    for folder in pathlib.Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):
            if time.time() - folder.stat().st_mtime < SECONDS_TO_LOCK:
                continue
            lock = _lock(folder)
            if lock is not None:
                print(f"e2e: removing {folder}, which a killed run left")
                remove_cgroups(folder.name)
                shutil.rmtree(folder, ignore_errors=True)
                os.close(lock)


def refuse_full_disk(folder):
    """Ends the program if a run would fill the disk: pods would then wait or be evicted, for no reason that a
    case could name."""
    free = shutil.disk_usage(folder).free
    if free < FREE_BYTES:
        raise SystemExit(f"e2e: the disk of {folder} has {free >> 20} MiB left, and a run needs {FREE_BYTES >> 20} "
                         "MiB; remove files, or set TMPDIR to a folder of another disk")


def _children(pid):
    try:
        return [int(child) for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def refuse_without_rights():
    """Raises an error if this machine cannot make namespaces."""
    if os.geteuid() != 0:
        raise ClusterError("a cluster on this machine needs root (namespaces, mounts, control groups); "
                           "or give --kubeconfig FILE of an existing cluster")
    probe = subprocess.run(["unshare", "--net", "--pid", "--mount", "--fork", "true"],
                           capture_output=True, text=True, check=False)
    if probe.returncode != 0:
        raise ClusterError(f"this machine refuses to make namespaces: {probe.stderr.strip()}")


def hierarchies():
    """The folders for control groups: one for cgroup v2, or one for each controller of v1."""
    if (CGROUPS / "cgroup.controllers").exists():
        return [CGROUPS]
    return [folder for folder in sorted(CGROUPS.iterdir())
            if (folder / "cgroup.procs").exists() and folder.name != "unified" and not folder.is_symlink()]


def make_cgroup(path, weight=1):
    """Makes the control group with that relative path in every hierarchy, ready for processes.

    `weight`: its share of the processors against that of other groups beside it.
    """
    for hierarchy in hierarchies():
        group = hierarchy
        for part in pathlib.PurePath(path).parts:
            controllers = group / "cgroup.controllers"
            if controllers.exists():
                enabled = " ".join("+" + name for name in controllers.read_text().split())
                with contextlib.suppress(OSError):  # the root holds processes that this program may not move
                    (group / "cgroup.subtree_control").write_text(enabled)
            parent, group = group, group / part
            group.mkdir(exist_ok=True)
            share = weight if group == hierarchy / path else 1
            if (group / "cpu.shares").exists():  # a whole cluster, not one program among the machine's
                (group / "cpu.shares").write_text(str(share * CPU_SHARES))
            elif share != 1 and (group / "cpu.weight").exists():
                (group / "cpu.weight").write_text(str(share * CPU_WEIGHT))
            for name in ("cpuset.cpus", "cpuset.mems"):  # v1: a group begins without any
                if (group / name).exists() and not controllers.exists():
                    (group / name).write_text((parent / name).read_text())


def join_cgroup(path):
    """Moves this process, and what it starts from now on, into a group that make_cgroup() made."""
    for hierarchy in hierarchies():
        (hierarchy / path / "cgroup.procs").write_text("0")


def remove_cgroups(path):
    """Removes a control group without processes, and all groups below it."""
    for hierarchy in [CGROUPS, *CGROUPS.iterdir()]:  # also hierarchies in which other programs made groups
        for folder, _, _ in os.walk(hierarchy / path, topdown=False):
            for _ in range(50):  # the group is busy until the kernel has reaped its last process
                try:
                    os.rmdir(folder)
                    break
                except FileNotFoundError:
                    break
                except OSError:
                    time.sleep(0.02)
