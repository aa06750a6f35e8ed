#!/usr/bin/env python3
"""Opens the page of a large swarm in a headless Chromium, and prints what it costs there and in the trainer.

Usage: page.py PAGE_BENCH [WORKERS [STEPS [SECONDS]]]

The page is scrolled to each of its parts for SECONDS. A frame is all processor time that the main thread of the page
took since the frame before, by the browser's own trace: scripts, style, layout and the orders to paint. The threads that
carry these out are not counted: without a graphics processor they are slow. The yardstick is an empty page in which a
word changes as often.
"""

import http.server
import json
import pathlib
import subprocess
import sys
import tempfile
import threading
import time

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests/page"))
import chromium  # noqa: E402

CATEGORIES = ["devtools.timeline", "disabled-by-default-devtools.timeline"]
EMPTY = b"<!doctype html><title>empty</title><p id=p></p>"
CHANGE = "setInterval(() => requestAnimationFrame(() => { p.textContent = performance.now(); }), 250); undefined"
FIRST = """
new MutationObserver((_, observer) => {{
  if (document.querySelectorAll('.tile').length < {workers}) return;
  observer.disconnect();
  requestAnimationFrame(() => setTimeout(() => {{ window.firstView = performance.now(); }}));
}}).observe(document, {{childList: true, subtree: true}});
"""


def frames(browser, seconds):
    """Milliseconds of processor time of the main thread for each frame of so much time, sorted; and its share of a core."""
    browser.events.clear()
    browser.call("Tracing.start", transferMode="ReportEvents", traceConfig={"includedCategories": CATEGORIES})
    time.sleep(seconds)
    browser.call("Tracing.end")
    while not any(method == "Tracing.tracingComplete" for method, _ in browser.events):
        browser.value("0")
    events = [event for method, more in browser.events if method == "Tracing.dataCollected" for event in more["value"]]
    pages = {(event["pid"], event["tid"]) for event in events
             if event["name"] == "thread_name" and event["args"]["name"] == "CrRendererMain"}
    painted = [event for event in events if event["name"] == "Commit" and (event["pid"], event["tid"]) in pages]
    threads = {(event["pid"], event["tid"]) for event in painted}
    assert len(threads) == 1, f"{len(threads)} pages have painted"
    thread = threads.pop()
    tasks = sorted((event["ts"], event.get("tdur", 0)) for event in events
                   if event["name"] == "RunTask" and (event["pid"], event["tid"]) == thread)
    ends = sorted(event["ts"] for event in painted)
    spent = [0] * len(ends)
    frame = 0
    for begin, duration in tasks:
        while frame < len(ends) and ends[frame] < begin:
            frame += 1
        if frame < len(ends):
            spent[frame] += duration / 1000
    return sorted(spent[1:]), sum(duration for _, duration in tasks) / (1e6 * seconds)


def at(sorted_values, share):
    return sorted_values[min(len(sorted_values) - 1, int(share * len(sorted_values)))]


def tell(name, measured):
    spent, share = measured
    print(f"{name}: {len(spent)} frames; median {at(spent, 0.5):.1f} ms, 95 % {at(spent, 0.95):.1f} ms, worst "
          f"{spent[-1]:.1f} ms; the main thread is busy for {100 * share:.1f} % of a core", flush=True)


class Empty(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(EMPTY)

    def log_message(self, *_):
        pass


def measure(bench, browser, address, workers, seconds):
    empty = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Empty)
    threading.Thread(target=empty.serve_forever, daemon=True).start()
    browser.size(1280, 900)
    browser.call("Page.navigate", url=f"http://127.0.0.1:{empty.server_port}/")
    browser.wait("document.getElementById('p')")
    browser.value(CHANGE)
    tell("an empty page", frames(browser, seconds))
    empty.shutdown()
    empty.server_close()
    while not (address.exists() and address.read_text().endswith("\n")):
        assert bench.poll() is None, "the program has ended"
        time.sleep(0.1)
    browser.call("Page.addScriptToEvaluateOnNewDocument", source=FIRST.format(workers=workers))
    browser.call("Page.navigate", url=f"http://{address.read_text().strip()}/")
    browser.wait("window.firstView")
    print(f"all workers are to be seen after {browser.value('firstView') / 1000:.2f} s")
    tell("the page at its curves", frames(browser, seconds))
    browser.value("document.getElementById('stages-title').scrollIntoView()")
    tell("the page at its stages", frames(browser, seconds))
    browser.value("document.getElementById('routes').click()")
    browser.wait("document.getElementById('routes-words').textContent")
    tell("the same with routes", frames(browser, seconds))
    browser.value("document.getElementById('routes').click()")
    browser.value("document.getElementById('timeline').scrollIntoView()")
    browser.wait(f"document.querySelectorAll('#lanes li').length >= {workers}")
    tell("the page at its timeline", frames(browser, seconds))
    browser.value("document.getElementById('account').scrollIntoView()")
    browser.wait("document.querySelectorAll('#account-rows tr').length > 0")
    tell("the page at its account", frames(browser, seconds))
    address.unlink()


def main():
    program, sizes = sys.argv[1], (sys.argv[2:] + ["200", "100000", "10"][len(sys.argv) - 2:])
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        browser = chromium.Chromium(folder)
        try:
            bench = subprocess.Popen([program, *sizes, folder / "address"], stdout=subprocess.PIPE, text=True)
            try:
                measure(bench, browser, folder / "address", int(sizes[0]), int(sizes[2]))
                print(bench.communicate(timeout=60)[0], end="")
            finally:
                bench.kill()
                bench.wait()
        finally:
            browser.close()


if __name__ == "__main__":
    if chromium.find() is None:
        print("SKIPPED: no Chromium to open the page with")
        sys.exit(77)
    main()
