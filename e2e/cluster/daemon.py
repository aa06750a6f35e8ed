"""A long-running program of the cluster: this module starts, watches and ends it by its process id."""
import pathlib
import signal
import socket
import subprocess
import time


class ClusterError(Exception):
    """A part of the cluster does not work; the text says which, and where to look."""


class Daemon:
    """One program; the cluster's logs keep its output over restarts."""

    def __init__(self, name, command, log_folder, ready=lambda: True):
        self.name = name
        self.command = [str(part) for part in command]
        self.log = pathlib.Path(log_folder) / f"{name}.log"
        self.ready = ready
        self.process = None

    def start(self, seconds=60):
        """Starts it and waits until it is ready."""
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                            start_new_session=True)
        wait_until(self.ready, seconds, f"{self.name} to be ready", watched=self)

    def kill(self):
        """Ends it like a power cut."""
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def signal(self, number):
        """Sends it a signal."""
        self.process.send_signal(number)

    def freeze(self):
        """Stops it without closing its connections, until thaw()."""
        self.signal(signal.SIGSTOP)

    def thaw(self):
        """Lets it continue."""
        self.signal(signal.SIGCONT)

    def tail(self, lines=15):
        """The last lines of its output."""
        if not self.log.exists():
            return ""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])


def can_connect(address, port):
    """Whether somebody listens there."""
    try:
        socket.create_connection((address, port), timeout=2).close()
    except OSError:
        return False
    return True


def wait_until(condition, seconds, what, watched=None, interval=0.1):
    """Waits for a condition; `watched` is a daemon that must live meanwhile."""
    deadline = time.monotonic() + seconds
    while not condition():
        if watched and watched.process.poll() is not None:
            raise ClusterError(f"{watched.name} ended with {watched.process.returncode}:\n{watched.tail()}")
        if time.monotonic() > deadline:
            log = f":\n{watched.tail()}" if watched else ""
            raise ClusterError(f"waited {seconds:g} s in vain for {what}{log}")
        time.sleep(interval)
