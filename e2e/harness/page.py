"""What a user sees who runs `swarmctl ui`: the address that it prints, opened in a headless Chromium."""
import contextlib
import pathlib
import re
import signal
import subprocess
import sys
import tempfile

from .case import Skip

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "tests" / "page"))
import chromium  # noqa: E402

PATIENCE = 30  # seconds, for the address and for the end


class Ui:
    """`swarmctl ui` as it runs, and its page in the browser."""

    def __init__(self, program, address, browser):
        self.program = program
        self.address = address
        self.browser = browser

    def wait(self, expression, seconds=chromium.PATIENCE):
        """Waits until the JavaScript expression is true. Raises AssertionError with what the page says."""
        self.browser.wait(expression, seconds)

    def interrupt(self):
        """Ctrl-C; returns the exit code."""
        self.program.send_signal(signal.SIGINT)
        return self.program.wait(PATIENCE)


@contextlib.contextmanager
def ui(world, *arguments):
    """Runs `swarmctl ui` in the case's namespace, and opens its page. Skips the case without a browser."""
    if chromium.find() is None:
        raise Skip("needs Chromium")
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        program = stack.enter_context(subprocess.Popen(
            [world.swarmctl, "ui", *arguments, "--kubeconfig", world.kubectl.kubeconfig, "--namespace", world.namespace],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))
        stack.callback(program.kill)
        line = program.stdout.readline()
        address = re.match(r"Page: (http://127\.0\.0\.1:\d+/) ", line)
        if address is None:
            raise AssertionError(f"swarmctl ui prints no address, but: {line}{program.stdout.read()}")
        browser = chromium.Chromium(folder)
        stack.callback(browser.close)
        browser.size(1280, 900)
        browser.call("Page.navigate", url=address[1])
        yield Ui(program, address[1], browser)
