#!/usr/bin/env python3
"""Opens the page of all jobs in a headless Chromium: `swarmctl ui` without a job shows it, of the SwarmJobs that a
server tells which speaks as much of Kubernetes' API as that needs. With SWARM_SCREENSHOTS=DIR it leaves pictures there.

Usage: jobs_test.py SWARMCTL
"""

import datetime
import http.server
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.error
import urllib.request

sys.dont_write_bytecode = True
import chromium  # noqa: E402

SWARMCTL = sys.argv.pop(1)
AXE = pathlib.Path(os.environ.get("SWARM_AXE", pathlib.Path(__file__).parents[2] / ".deps/axe/axe.min.js"))
VIEWS = {"jobs": (1280, 900, False, "light"), "jobs-dark": (1280, 900, False, "dark"), "jobs-phone": (390, 844, True, "light")}
KUBECONFIG = """
current-context: here
contexts: [{{name: here, context: {{cluster: here, user: me, namespace: team}}}}]
clusters: [{{name: here, cluster: {{server: "http://127.0.0.1:{port}"}}}}]
users: [{{name: me, user: {{}}}}]
"""
SPEC = {
    "model": {"config": {"hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4, "intermediate_size": 128,
                         "vocab_size": 256}},
    "data": {"uri": "s3://bucket/data"}, "checkpoint": {"uri": "s3://bucket/run"},
    "training": {"maxSteps": 1000, "globalBatchSize": 8, "sequenceLength": 32}, "pipeline": {"stages": 2},
    "workers": {"replicas": 5}}


def ago(seconds):
    return (datetime.datetime.now(datetime.UTC) - datetime.timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def job(name, state, age=90, **status):
    return {"apiVersion": "swarmjob.dev/v1alpha1", "kind": "SwarmJob",
            "metadata": {"name": name, "namespace": "team", "uid": f"uid-{name}",
                         "creationTimestamp": ago(age)},
            "spec": SPEC, "status": {"state": state, **status}}


def condition(kind, status, reason, message):
    return {"type": kind, "status": status, "reason": reason, "message": message, "observedGeneration": 1,
            "lastTransitionTime": "2026-01-01T00:00:00Z"}


def running(name, step):
    return job(name, "Running", 7300, step=step, progress={"loss": 2.345, "tokensPerSecond": 51200, "secondsLeft": 5400, "time": ago(300)},
               plan={"replicas": 5, "layout": [3, 2]}, replicas=5, readyReplicas=4, preemptions=2,
               stages=[{"index": 0, "ready": 3}, {"index": 1, "ready": 1}], trainer={"term": 1, "podName": f"{name}-trainer-1"})


JOBS = "/apis/swarmjob.dev/v1alpha1/namespaces/team/swarmjobs"
TRAINERS_PAGE = "/api/v1/namespaces/team/pods/llama-trainer-1:9091/proxy/"


class ApiServer(http.server.BaseHTTPRequestHandler):
    jobs = []
    status = 200
    asked = []

    def do_GET(self):
        ApiServer.asked.append(self.path)
        if self.path == TRAINERS_PAGE:
            return self.answer(200, "text/html", "<h1>The page of llama</h1>")
        for each in self.jobs:
            if self.path == f"{JOBS}/{each['metadata']['name']}":
                return self.answer(200, "application/json", json.dumps(each))
        said = {"kind": "SwarmJobList", "apiVersion": "swarmjob.dev/v1alpha1", "metadata": {"resourceVersion": "1"},
                "items": self.jobs} if self.status == 200 else {
                    "kind": "Status", "status": "Failure", "code": self.status, "reason": "Forbidden",
                    "message": 'swarmjobs is forbidden: User "me" cannot list'}
        self.answer(self.status, "application/json", json.dumps(said))

    def answer(self, status, kind, text):
        text = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_):
        pass


class JobsPage(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        server = cls.enterClassContext(http.server.ThreadingHTTPServer(("127.0.0.1", 0), ApiServer))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        cls.addClassCleanup(server.shutdown)
        (folder / "config").write_text(KUBECONFIG.format(port=server.server_port))
        cls.tell_all()
        cls.ui = cls.enterClassContext(subprocess.Popen(
            [SWARMCTL, "ui", "--kubeconfig", folder / "config"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))
        cls.addClassCleanup(cls.ui.kill)
        line = cls.ui.stdout.readline()
        assert line.startswith("Page: http://127.0.0.1:"), line
        cls.address = line.split()[1]
        cls.browser = chromium.Chromium(folder)
        cls.addClassCleanup(cls.browser.close)
        cls.browser.size(*VIEWS["jobs"][:3])
        cls.browser.call("Page.navigate", url=cls.address)

    @classmethod
    def tell_all(cls):
        ApiServer.status = 200
        ApiServer.jobs = [
            running("llama", 120),
            job("small", "Recovering", step=7, trainer={"term": 2, "podName": "small-trainer-2"},
                plan={"replicas": 2, "layout": [1, 1]}, readyReplicas=1, stages=[{"index": 0, "ready": 1}, {"index": 1, "ready": 0}],
                conditions=[condition("Ready", "False", "StagesMissing", "without a ready worker: stage 1")]),
            job("wrong", "Rejected", conditions=[condition("Accepted", "False", "Invalid", "spec.model: GPT2 is not known")]),
            job("done", "Succeeded", 200_000, step=1000, progress={"loss": 1.5}),
        ]

    def setUp(self):
        self.tell_all()
        self.browser.wait("document.querySelectorAll('#jobs > li').length === 4 && document.getElementById('away').hidden")

    def words_of(self, name):
        return f"document.querySelector('[data-key=\"team/{name}\"]')?.innerText.replaceAll(/\\s+/g, ' ')"

    def test_each_job_says_its_state_what_it_waits_for_and_how_far_it_is(self):
        b = self.browser
        self.assertEqual(b.value("document.getElementById('summary').textContent"),
                         "4 jobs: 1 running, 1 recovering, 1 rejected, 1 succeeded")
        llama = b.value(self.words_of("llama"))
        for words in ("team / llama running", "Step 120 of 1000", "Loss 2.345", "Tokens a second 51.2k", "Time left 1h30m",
                      "Ready workers 4 of 5", "By stage 3/3 1/2", "Ended 2 preempted", "Age 2h01m", "swarmctl ui llama -n team"):
            self.assertIn(words, llama)
        self.assertIn("without a ready worker: stage 1", b.value(self.words_of("small")))
        self.assertIn("spec.model: GPT2 is not known", b.value(self.words_of("wrong")))
        self.assertNotIn("swarmctl ui", b.value(self.words_of("done")))
        self.assertEqual({path.partition("?")[0] for path in ApiServer.asked},
                         {JOBS})

    def test_old_figures_are_not_shown_as_new_ones(self):
        self.assertRegex(self.browser.value(self.words_of("llama")), r"Figures 5m\d\ds old, no news")
        self.assertNotIn("Figures", self.browser.value(self.words_of("done")))

    def test_the_link_of_a_job_leads_to_its_own_page_through_the_api_server(self):
        b = self.browser
        link = b.value("document.querySelector('[data-key=\"team/llama\"] a').href")
        self.assertEqual(link, f"{self.address}jobs/team/llama")
        addresses = set()
        for _ in range(2):
            with urllib.request.urlopen(link) as page:
                self.assertIn("The page of llama", page.read().decode())
                addresses.add(page.url)
        self.assertEqual(len(addresses), 1, "one way to each job")
        self.assertRegex(addresses.pop(), r"^http://127\.0\.0\.1:\d+/$")
        with self.assertRaises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(f"{self.address}jobs/team/done")
        self.assertIn("has no trainer now", refused.exception.read().decode())
        self.assertFalse(b.value("document.querySelector('[data-key=\"team/done\"] a').checkVisibility()"))

    def test_it_follows_what_changes_and_keeps_the_last_state_where_the_server_refuses(self):
        b = self.browser
        ApiServer.jobs = [running("llama", 121), *ApiServer.jobs[1:]]
        b.wait(f"{self.words_of('llama')}.includes('Step 121 of 1000')")
        ApiServer.status = 403
        b.wait("document.getElementById('away').textContent.includes('cannot list')")
        self.assertIn("Step 121", b.value(self.words_of("llama")))
        self.tell_all()
        b.wait("document.getElementById('away').hidden")
        ApiServer.jobs = ApiServer.jobs[:1]
        b.wait("document.querySelectorAll('#jobs > li').length === 1")
        b.wait("document.getElementById('summary').textContent === '1 job: 1 running'")
        ApiServer.jobs = []
        b.wait("document.getElementById('summary').textContent === 'There is no job.'")

    def test_the_keyboard_chooses_among_the_jobs(self):
        b = self.browser
        b.value("document.getElementById('filter').focus()")
        b.call("Input.insertText", text="team reco")
        b.wait("[...document.querySelectorAll('#jobs > li')].map(item => item.dataset.key).join() === 'team/small'")
        self.assertEqual(b.value("document.getElementById('shown').textContent"), "1 of 4 are shown")
        b.value("document.getElementById('filter').select()")
        b.key("Backspace")
        b.value("""(field => { field.value = ''; field.dispatchEvent(new Event('input')); })
                       (document.getElementById('filter'))""")
        b.wait("document.querySelectorAll('#jobs > li').length === 4")

    def test_many_viewers_ask_the_cluster_once_a_second_at_most(self):
        begin, before = time.monotonic(), len(ApiServer.asked)
        self.browser.value("Promise.all(Array.from({length: 200}, () => fetch('/jobs').then(answer => answer.text())))")
        # What the page itself asks meanwhile is among them.
        self.assertLessEqual(len(ApiServer.asked) - before, time.monotonic() - begin + 2)

    def test_it_fits_a_phone_follows_the_colours_of_the_system_and_axe_finds_nothing(self):
        b = self.browser
        paper = {}
        for name, (width, height, mobile, scheme) in VIEWS.items():
            b.size(width, height, mobile)
            b.scheme(scheme)
            b.wait(f"innerWidth === {width} && document.documentElement.scrollWidth <= innerWidth")
            paper[name] = b.value("getComputedStyle(document.body).backgroundColor")
            if folder := os.environ.get("SWARM_SCREENSHOTS"):
                b.size(width, b.value("document.documentElement.scrollHeight"), mobile)
                b.wait("new Promise(done => setTimeout(() => done(true), 500))")
                b.picture(pathlib.Path(folder) / f"{name}.png")
                b.size(width, height, mobile)
            if AXE.exists():
                b.value(AXE.read_text() + "; undefined")
                found = b.value("""axe.run().then(({violations}) => violations
                    .map(({id, nodes}) => `${id}: ${nodes[0].html.slice(0, 200)}`))""")
                self.assertEqual(found, [], name)
        self.assertEqual(paper["jobs"], paper["jobs-phone"])
        self.assertNotEqual(paper["jobs"], paper["jobs-dark"])
        b.size(*VIEWS["jobs"][:3])
        b.scheme("light")

    def test_its_functions_say_what_they_should(self):
        self.assertEqual(self.browser.problems("/jobs.js", "{jobState, jobsSummary, chosen, stepWords, facts, commandOf, figuresWords, pageOf}", """
          const job = (name, state, more = {}) => ({namespace: 'team', name, state, ...more});
          const many = [job('a', 'Running'), job('b', 'Failed'), job('c', 'Running'), job('d', null, {why: 'no uid'})];
          same(jobsSummary(many), '4 jobs: 2 running, 1 failed, 1 not understood');
          same([jobsSummary([]), jobState(many[3]).tone, facts(many[3]), stepWords(many[3]), commandOf(many[3])],
               ['There is no job.', 'bad', [], '', '']);
          same([chosen(many, ''), chosen(many, ' RUN  c'), chosen(many, 'team/b fail'), chosen(many, 'x')].map(all => all.map(({name}) => name)),
               [['a', 'b', 'c', 'd'], ['c'], ['b'], []]);
          const begun = job('a', 'Pending', {step: 0, maxSteps: 9, loss: null, tokensPerSecond: null, secondsLeft: null,
            ready: 0, wanted: 2, stages: [], preemptions: 0, failures: 1, ageSeconds: 5, trainer: true});
          same(facts(begun).map(([, words]) => words), ['–', '–', '–', '0 of 2', '–', '1 failed', '5s']);
          same([10, 400].map(age => figuresWords({...begun, progressAgeSeconds: age})), ['10s old', '6m40s old, no news']);
          same([figuresWords(begun), figuresWords({...begun, state: 'Failed', progressAgeSeconds: 9})], ['', '']);
          same([pageOf(begun), pageOf({...begun, page: '/jobs/team/a'})], ['', '/jobs/team/a']);
          same([stepWords(begun), commandOf(begun)], ['Step 0 of 9', 'swarmctl ui a -n team']);
        """), [])

    def test_z_no_other_address_was_asked_nothing_went_wrong_and_a_signal_ends_it(self):
        for method, event in self.browser.events:
            if method == "Network.requestWillBeSent":
                self.assertTrue(event["request"]["url"].startswith(self.address), event["request"]["url"])
            self.assertNotEqual(method, "Runtime.exceptionThrown", event)
        self.ui.send_signal(signal.SIGINT)
        self.assertEqual(self.ui.wait(30), 0)


if __name__ == "__main__":
    if chromium.find() is None:
        print("SKIPPED: no Chromium to open the page with")
        sys.exit(77)
    unittest.main()
