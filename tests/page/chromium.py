"""A headless Chromium, driven over a pipe by its DevTools protocol. Needs nothing but Python."""

import base64
import contextlib
import json
import os
import pathlib
import select
import shutil
import signal
import subprocess
import time

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
PATIENCE = 60  # seconds, for each answer and each wait


def find():
    return next(filter(None, map(shutil.which, PROGRAMS)), None)


class Chromium:
    """One page. Raises AssertionError where something does not happen in time."""

    def __init__(self, folder):
        browser_reads, self._to = os.pipe()
        self._from, browser_writes = os.pipe()
        # The protocol is spoken over the descriptors 3 and 4. No name leads anywhere.
        command = (f'exec "$0" --headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run '
                   f'--disable-background-networking --hide-scrollbars --remote-debugging-pipe '
                   f'"--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1" "--user-data-dir=$1" about:blank '
                   f'3<&{browser_reads} 4>&{browser_writes}')
        with (folder / "chromium.log").open("wb") as log:
            self._process = subprocess.Popen(
                ["bash", "-c", command, find(), folder / "chromium"], stdout=log, stderr=log,
                pass_fds=(browser_reads, browser_writes), start_new_session=True)
        os.close(browser_reads)
        os.close(browser_writes)
        self._last, self._unread, self._session = 0, b"", None
        self.events = []  # of the page, (method, parameters)
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(domain + ".enable")

    def close(self):
        """Ends the browser and its helpers, which write to its folder a little longer than it lives."""
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        deadline = time.monotonic() + PATIENCE
        while self._helpers():
            assert time.monotonic() < deadline, "Chromium's helpers do not end"
            time.sleep(0.01)
        os.close(self._to)
        os.close(self._from)

    def _helpers(self):
        """The processes of the browser's session that still run."""
        found = []
        for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):  # it has ended
                state, _, _, session = stat.read_text().rpartition(")")[2].split()[:4]
                if int(session) == self._process.pid and state not in "ZX":
                    found.append(stat.parent.name)
        return found

    def _receive(self, deadline):
        while b"\0" not in self._unread:
            ready, _, _ = select.select([self._from], [], [], max(0, deadline - time.monotonic()))
            assert ready, "Chromium does not answer"
            part = os.read(self._from, 1 << 16)
            assert part, "Chromium has ended"
            self._unread += part
        message, _, self._unread = self._unread.partition(b"\0")
        return json.loads(message)

    def call(self, method, **parameters):
        self._last += 1
        message = {"id": self._last, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + PATIENCE
        while True:
            answer = self._receive(deadline)
            if answer.get("id") == self._last:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return answer["result"]
            if "method" in answer:
                self.events.append((answer["method"], answer["params"]))

    def value(self, expression):
        """What JavaScript gives, after a promise."""
        result = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in result, f"{expression}: {result['exceptionDetails']}"
        return result["result"].get("value")

    def wait(self, expression, seconds=PATIENCE):
        deadline = time.monotonic() + seconds
        while not self.value(f"Promise.resolve({expression}).then(Boolean)"):
            assert time.monotonic() < deadline, (
                f"did not become true: {expression}\n{self.value('document.body.innerText')}\n{self.troubles()}")
            time.sleep(0.05)

    def troubles(self):
        """What the browser said that went wrong, and the requests that have no answer yet, a line each."""
        urls, lines = {}, []
        for method, event in self.events:
            if method == "Network.requestWillBeSent":
                urls[event["requestId"]] = event["request"]["url"]
            elif method == "Network.loadingFinished":
                urls.pop(event["requestId"], None)
            elif method == "Network.loadingFailed":
                lines.append(f"{urls.pop(event['requestId'], '?')}: {event['errorText']}")
            elif method == "Log.entryAdded":
                lines.append(f"{event['entry']['level']}: {event['entry']['text']} {event['entry'].get('url', '')}")
            elif method == "Runtime.exceptionThrown":
                lines.append(str(event["exceptionDetails"]))
        return "\n".join([*lines, *(f"{url}: no end yet" for url in urls.values())])

    def problems(self, module, exports, checks):
        """Plays `checks` on what a module of the page exports, and returns what does not hold: in them, same(actual,
        expected) compares two values as JSON."""
        return self.value(f"""import('{module}').then(({exports}) => {{
          const problems = [];
          const same = (actual, expected) => {{
            const [a, e] = [actual, expected].map(x => JSON.stringify(x));
            if (a !== e) problems.push(`${{a}} is not ${{e}}`);
          }};
          {checks}
          return problems;
        }})""")

    def key(self, key):
        # A button hears Enter as a character, too, and a checkbox a space.
        text = {"Enter": {"text": "\r", "windowsVirtualKeyCode": 13}, " ": {"text": " ", "windowsVirtualKeyCode": 32}}.get(key, {})
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key)

    def size(self, width, height, mobile=False):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=mobile)

    def scheme(self, scheme):
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def picture(self, path):
        shot = self.call("Page.captureScreenshot", format="png")
        path.write_bytes(base64.b64decode(shot["data"]))
