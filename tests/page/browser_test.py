#!/usr/bin/env python3
"""Opens the page of a real run in a headless Chromium while a worker and the trainer are killed, and checks that each
part has data, follows the run, and can be used with a keyboard, on a phone and in the dark. With SWARM_SCREENSHOTS=DIR
it leaves pictures there.

Usage: browser_test.py SWARMCTL
"""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.parse

sys.dont_write_bytecode = True
import chromium  # noqa: E402

SWARMCTL = sys.argv.pop(1)
JOB = """
apiVersion: swarmjob.dev/v1alpha1
kind: SwarmJob
metadata: {{name: watched}}
spec:
  model:
    config: {{hidden_size: 32, num_hidden_layers: 3, num_attention_heads: 2, intermediate_size: 64, vocab_size: 256}}
  data: {{uri: {data}, validationUri: {data}}}
  training: {{maxSteps: 1000000, globalBatchSize: 8, microbatchSize: 1, sequenceLength: 32, validationIntervalSteps: 5}}
  schedule: {{type: Constant}}
  pipeline: {{stages: 3}}
  workers: {{replicas: 5, pools: [{{name: spot, machine: {{teraflops: 1, dollarsPerHour: 0.5}}}}]}}
  checkpoint: {{intervalSteps: 10}}
"""
AXE = pathlib.Path(os.environ.get("SWARM_AXE", pathlib.Path(__file__).parents[2] / ".deps/axe/axe.min.js"))
VIEWS = {"desktop": (1280, 900, False, "light"), "dark": (1280, 900, False, "dark"), "phone": (390, 844, True, "light")}


def text(element):
    return f"document.getElementById('{element}')?.textContent"


class Page(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = cls.enterClassContext(tempfile.TemporaryDirectory())
        cls.folder = pathlib.Path(folder)
        (cls.folder / "text").write_text("In the beginning was the word, and nobody had compressed it. " * 200)
        (cls.folder / "job.yaml").write_text(JOB.format(data=cls.folder / "text"))
        with (cls.folder / "log").open("w") as log:
            cls.run_ = subprocess.Popen(
                [SWARMCTL, "run", "-f", cls.folder / "job.yaml", "--out", cls.folder / "out", "--threads-per-worker",
                 "1"], stdout=log, stderr=subprocess.STDOUT)
        cls.addClassCleanup(cls.end_run)
        cls.browser = chromium.Chromium(cls.folder)
        cls.addClassCleanup(cls.browser.close)
        address = cls.folder / "out/page.address"
        deadline = time.monotonic() + chromium.PATIENCE
        while not (address.exists() and address.read_text().endswith("\n")):
            assert time.monotonic() < deadline and cls.run_.poll() is None, (cls.folder / "log").read_text()
            time.sleep(0.05)
        cls.address = f"http://{address.read_text().strip()}/"
        cls.browser.size(*VIEWS["desktop"][:3])
        cls.browser.call("Page.navigate", url=cls.address)

    @classmethod
    def end_run(cls):
        cls.run_.send_signal(signal.SIGINT)
        try:
            cls.run_.wait(60)
        except subprocess.TimeoutExpired:
            cls.run_.kill()
            cls.run_.wait()

    def leave_picture(self, name):
        """Of the whole page, if pictures are wanted. The page draws only what is on the screen, so that is made as tall."""
        if folder := os.environ.get("SWARM_SCREENSHOTS"):
            width, height, mobile, _ = VIEWS.get(name, VIEWS["desktop"])
            for _ in range(2):  # what comes to the screen may change the height
                self.browser.size(width, self.browser.value("document.documentElement.scrollHeight"), mobile)
                time.sleep(2.5)
            self.browser.picture(pathlib.Path(folder) / f"{name}.png")
            self.browser.size(width, height, mobile)

    def check_functions(self, module, exports, checks):
        self.browser.wait("document.querySelectorAll('.tile').length >= 5")
        self.assertEqual(self.browser.problems(module, exports, checks), [])

    def kill(self, argument):
        """Kills the program of the run that was started with this argument."""
        for entry in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
            try:
                arguments = entry.read_bytes().decode().split("\0")
            except OSError:
                continue  # it has ended
            if argument in arguments and any(str(self.folder) in each for each in arguments):
                os.kill(int(entry.parent.name), signal.SIGKILL)
                return
        self.fail(f"no program of the run has {argument}")

    def kill_worker(self):
        """Kills a worker of stage 1, and waits until another one has its place. Returns its id."""
        b = self.browser
        b.wait("document.querySelectorAll('.tile.ready').length === 5")
        worker = b.value("document.querySelector('#stages li:nth-child(2) .tile.ready b').textContent")
        self.kill(f"--id={worker}")
        b.wait(f"[...document.querySelectorAll('.tile.lost b')].some(id => id.textContent === '{worker}')")
        b.wait("document.querySelectorAll('.tile.ready').length === 5")
        return worker

    def test_a_run_is_shown_from_its_head_to_its_stages_and_over_the_trainers_death(self):
        b = self.browser
        b.wait(f"{text('state')} === 'Training'")
        b.value("window.opened = true")
        for element in ("loss", "validation", "tokens", "goodput"):
            b.wait(f"/[0-9]/.test({text(element)})")
        b.wait(f"/^Step [0-9]+ of 1000000$/.test({text('step')}) && /left/.test({text('left')})")
        self.assertEqual(b.value(text("job")), "watched")
        b.wait("document.querySelectorAll('.stages > li').length === 3")
        b.wait("document.querySelectorAll('.tile.ready').length === 5")
        b.value("document.getElementById('table').open = true")
        b.wait("document.querySelectorAll('#rows tr').length >= 5")
        b.value("document.getElementById('table').open = false")
        b.wait(f"/3 stages, 5 workers: 5 ready/.test({text('summary')})")
        b.wait(f"{text('dollars')} === '$2.50' && document.getElementById('dollars').checkVisibility()")

        # A worker is killed, and then the trainer. The page stays open and follows.
        self.kill_worker()
        self.kill("--role=trainer")
        b.wait("[...document.querySelectorAll('#mark-list li')].some(mark => /took over/.test(mark.textContent))")
        b.wait(f"{text('state')} === 'Training' && document.getElementById('away').hidden")
        self.assertTrue(b.value("window.opened"), "it was not loaded again")
        for words in ("Worker lost", "Checkpoint"):
            b.wait(f"[...document.querySelectorAll('#mark-list li')].some(mark => mark.textContent.includes('{words}'))")
        step = b.value(text("step"))
        b.wait(f"{text('step')} !== '{step}'")

        # Each curve has values, and is drawn.
        for title in ("Loss", "Gradient norm", "Learning rate", "Step time"):
            figure = f"[...document.querySelectorAll('figure')].find(f => f.querySelector('h3').textContent === '{title}')"
            b.value(f"{figure}.scrollIntoView()")
            b.wait(f"/[0-9]/.test({figure}.querySelector('output').textContent)")
            self.assertRegex(b.value(f"{figure}.querySelector('.plot').ariaLabel"), "now .*, at steps 0 to [0-9]+")
            drawn = f"""(canvas => canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data
                .filter((byte, i) => i % 4 === 3 && byte > 0).length)({figure}.querySelector('canvas'))"""
            b.wait(f"{drawn} > 500")

    def test_the_account_of_a_step_counts_each_microbatch_once_also_where_work_was_done_again(self):
        b = self.browser
        b.wait("document.querySelectorAll('.tile.ready').length === 5")
        b.value("document.getElementById('account').scrollIntoView()")
        once = "each of 8 microbatches is counted exactly once at each of 3 stages: 24 of 24 contributions"
        b.wait(f"{text('account-sentence')}.includes('{once}. The digest of the line matches.')")
        b.wait("document.querySelectorAll('#account-rows tr').length === 5")
        self.assertEqual(b.value("document.querySelectorAll('#account-squares i').length"), 24)

        # Workers are killed until one takes work with it.
        step, deadline = None, time.monotonic() + chromium.PATIENCE
        while step is None:
            self.assertLess(time.monotonic(), deadline)
            worker = self.kill_worker()
            for line in (self.folder / "out/ledger.jsonl").read_text().splitlines(keepends=True):
                if line.endswith("\n") and any(part["worker"] == worker for part in json.loads(line).get("redone", [])):
                    step = json.loads(line)["step"]
        b.value(f"""(input => {{ input.value = {step}; input.dispatchEvent(new Event('change')); }})
                    (document.getElementById('account-step'))""")
        b.wait(f"{text('account-sentence')}.startsWith('Step {step}: {once}.')")
        b.wait(f"{text('account-sentence')}.includes('had to be made again')")
        b.wait("document.querySelector('#account-squares .replayed, #account-squares .retried')")
        self.assertFalse(b.value("document.getElementById('account-follow').checked"))
        b.value("document.getElementById('account-after').click()")
        b.wait(f"{text('account-sentence')}.startsWith('Step {step + 1}: {once}.')")
        b.wait("[...document.querySelectorAll('#mark-list button')].some(button => /^Account of step/.test(button.textContent))")
        b.value(f"document.getElementById('account-follow').click()")
        b.wait(f"!{text('account-sentence')}.startsWith('Step {step + 1}:')")

    def test_a_lane_shows_what_its_worker_does_and_with_the_keyboard_why_it_was_lost(self):
        b = self.browser
        b.wait("document.querySelectorAll('.tile.ready').length === 5")
        b.value("document.getElementById('timeline').scrollIntoView()")
        lane = "document.querySelector('#lanes li[data-key=\"{}\"] button')".format
        alive = b.value("document.querySelector('.tile.ready b').textContent")
        b.wait(f"/^computes [1-9][0-9]* %, sums [0-9]+ %, waits [0-9]+ %, sends [0-9].*B.s$/.test({lane(alive)}?.children[1].textContent)")
        painted = f"""(canvas => new Set(canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data
            .filter((byte, i) => i % 4 === 0)).size)({lane(alive)}.querySelector('canvas'))"""
        b.wait(f"{painted} > 2")

        worker = self.kill_worker()
        b.wait(lane(worker))
        b.value(f"{lane(worker)}.focus()")
        b.key("Enter")
        b.wait(f"{lane(worker)}.ariaExpanded === 'true'")
        b.wait(f"/^Lost from stage [0-2]: .+/.test({text('lane-why')})")
        b.wait(f"/stage|load|trainer/.test({text('lane-log')})")
        b.key("Enter")
        b.wait("document.getElementById('lane-details').hidden")

    def test_the_stage_map_shows_the_bytes_on_boundaries_and_the_routes_of_microbatches(self):
        b = self.browser
        b.wait("document.querySelectorAll('.tile.ready').length === 5")
        b.value("document.getElementById('stages-title').scrollIntoView()")
        b.wait("/^[0-9].*B.s to and from stage 1: [0-9].*B forward and [0-9].*B backward a microbatch$/"
               ".test(document.querySelector('#stages > li p:nth-of-type(2)').textContent)")
        b.wait("[...document.querySelectorAll('.boundary')].filter(bar => bar.getBoundingClientRect().height >= 3).length === 2")
        self.assertEqual(b.value("document.getElementById('routes-canvas').hidden"), True)
        b.value("document.getElementById('routes').focus()")
        b.key(" ")
        b.wait(f"/^Step [0-9]+: 8 microbatches took [1-8] routes?[.] Most used: [^ ]+ → [^ ]+ → [^ ]+, by [1-8][.]$/"
               f".test({text('routes-words')})")
        b.wait("""(canvas => canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data
            .filter((byte, i) => i % 4 === 3 && byte === 255).length)(document.getElementById('routes-canvas')) > 20""")
        b.value("window.before = document.getElementById('routes-canvas').toDataURL()")
        b.wait("document.getElementById('routes-canvas').toDataURL() !== window.before")
        self.leave_picture("routes")
        b.key(" ")
        b.wait("document.getElementById('routes-canvas').hidden")

    def choose(self, *files):
        """Gives files to the page, as a user does who has chosen them."""
        field = self.browser.call("Runtime.evaluate", expression="document.getElementById('compare')")["result"]["objectId"]
        self.browser.call("DOM.setFileInputFiles", objectId=field, files=[str(file) for file in files])

    def test_another_run_is_drawn_behind_this_one(self):
        b = self.browser
        b.wait(f"/[2-9][0-9]|[0-9]{{3}}/.test({text('step')})")
        other = self.folder / "other"
        other.mkdir()
        steps = [{"step": step, "loss": 9 - step / 100, "grad_norm": 2, "lr": 0.1, "seconds": 0.5} for step in range(200)]
        (other / "steps.jsonl").write_text("".join(json.dumps(line) + "\n" for line in steps) + '{"step": 2')
        (other / "events.jsonl").write_text('{"kind": "Validation", "step": 50, "loss": 8}\n')
        b.value("document.getElementById('compare').scrollIntoView()")
        self.choose(other / "steps.jsonl", other / "events.jsonl")
        b.wait(f"/^200 steps[.] At step [0-9]+ its loss is [78][.][0-9]+, and that of this run [0-9.]+[.]$/.test({text('compare-words')})")
        b.wait(f"{text('other-name')} === 'the other run (steps.jsonl, events.jsonl)'")
        b.wait("!document.getElementById('runs').hidden")
        b.wait("/; loss of the other run: 7.010 to 9.000, at last 7.010, at steps 0 to 199;/.test(document.querySelector('.plot').ariaLabel)")
        self.assertEqual([entry for entry in b.events if entry[0] == "Network.requestWillBeSent" and
                          "steps.jsonl" in entry[1]["request"]["url"]], [])
        self.leave_picture("compare")
        b.value("document.getElementById('compare-end').focus()")
        b.key("Enter")
        b.wait("document.getElementById('runs').hidden && document.activeElement.id === 'compare'")
        (other / "text.jsonl").write_text("no run\n")
        self.choose(other / "text.jsonl")
        b.wait(f"{text('compare-words')} === 'text.jsonl has no step of a run.'")
        self.choose()

    def test_the_keyboard_zooms_and_shows_the_whole_run_again(self):
        b = self.browser
        b.wait(f"/[2-9][0-9]|[0-9]{{3}}/.test({text('step')})")
        b.value("document.querySelector('.plot').focus()")
        self.assertEqual(b.value(text("range")), "")
        b.key("+")
        b.wait(f"/^Steps [0-9]+ to [0-9]+$/.test({text('range')})")
        self.assertFalse(b.value("document.getElementById('whole').disabled"))
        before = b.value(text("range"))
        b.key("ArrowLeft")
        b.wait(f"{text('range')} !== '{before}'")
        b.key("0")
        b.wait(f"{text('range')} === ''")

    def test_it_fits_a_phone_and_follows_the_colours_of_the_system(self):
        b = self.browser
        b.wait("document.querySelectorAll('.tile').length >= 5")
        paper = {}
        for name, (width, height, mobile, scheme) in VIEWS.items():
            b.size(width, height, mobile)
            b.scheme(scheme)
            b.wait("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))")
            b.wait(f"innerWidth === {width} && document.documentElement.scrollWidth <= innerWidth")
            b.wait("[...document.querySelectorAll('canvas')].every(c => c.getBoundingClientRect().right <= innerWidth)")
            paper[name] = b.value("getComputedStyle(document.body).backgroundColor")
            self.leave_picture(name)
        self.assertEqual(paper["desktop"], paper["phone"])
        self.assertNotEqual(paper["desktop"], paper["dark"])
        b.size(*VIEWS["desktop"][:3])

    def test_what_can_be_used_has_a_name_for_a_screen_reader(self):
        b = self.browser
        b.wait("document.querySelectorAll('.tile').length >= 5")
        nodes = b.call("Accessibility.getFullAXTree")["nodes"]
        named = {}
        for node in nodes:
            if not node.get("ignored"):
                named.setdefault(node["role"]["value"], []).append(node.get("name", {}).get("value", ""))
        for role in ("button", "link", "heading", "progressbar"):
            self.assertTrue(named.get(role), role)
            self.assertNotIn("", named[role], role)
        self.assertEqual(len([name for name in named["group"] if "at steps" in name]), 4)

    @unittest.skipUnless(AXE.exists(), f"{AXE} is missing: tests/page/fetch_axe.sh fetches it")
    def test_axe_finds_nothing_in_light_dark_and_on_a_phone(self):
        b = self.browser
        b.wait("document.querySelectorAll('.tile').length >= 5")
        b.value("document.getElementById('account').scrollIntoView()")
        b.wait("document.querySelectorAll('#account-rows tr').length >= 3")
        b.value("document.getElementById('timeline').scrollIntoView()")
        b.wait("document.querySelector('#lanes button')")
        b.value("document.querySelectorAll('details').forEach(details => { details.open = true; })")
        b.value("document.querySelector('#lanes button').click()")
        b.wait("!document.getElementById('lane-details').hidden")
        b.value(AXE.read_text() + "; undefined")
        for name, (width, height, mobile, scheme) in VIEWS.items():
            b.size(width, height, mobile)
            b.scheme(scheme)
            found = json.loads(b.value("""axe.run().then(({violations, passes}) => JSON.stringify({
                passed: passes.length, found: violations
                  .map(({id, nodes}) => `${id}: ${nodes.slice(0, 3).map(node => node.html.slice(0, 200)).join(' | ')}`)}))"""))
            self.assertGreater(found["passed"], 20)
            self.assertEqual(found["found"], [], name)
        b.size(*VIEWS["desktop"][:3])
        b.scheme("light")
        b.value("document.querySelector('#lanes button').click()")

    def test_its_functions_say_what_they_should(self):
        self.check_functions("/view.js", "view", """
          same([999, 999.5, 1234567, 0.5, NaN].map(view.shortNumber), ['999', '1.00k', '1.23M', '0.50', '–']);
          same([59, 125, 3725, -1].map(view.shortTime), ['59s', '2m05s', '1h02m', '–']);
          same([0.25, 2.5, null].map(view.stepTime), ['250 ms', '2.50 s', '–']);
          const many = Array.from({length: 100000}, (_, i) => i);
          const [xs, ys] = view.thin(many, many.map(i => i === 54321 ? 99 : i % 7), 400);
          same([xs.length <= 1600, xs[0], xs.at(-1), Math.max(...ys)], [true, 0, 99999, 99]);
          const curve = new view.Curve();
          for (const i of many) curve.add(i, i === 54321 ? 99 : i % 7);
          curve.add(5, 1), curve.add(100001, null);
          same([curve.xs.length <= view.Curve.kPointsMax, curve.xs.at(-1), Math.max(...curve.ys)], [true, 99999, 99]);
          same(view.align([new view.Curve([[0, 2], [5, 6]]), new view.Curve([[1, 2], [8, 9]])]),
               [[0, 1, 2], [5, null, 6], [null, 8, 9]]);
          same(view.align([new view.Curve(), new view.Curve([[1, 2], [8, 9]])]), [[1, 2], [null, null], [8, 9]]);
          same(view.align([new view.Curve()]), [[], []]);
          same(view.moveRange([0, 100], [0, 100], {zoom: 0.5}), [25, 75]);
          same(view.moveRange([25, 75], [0, 100], {by: 1}), [50, 100]);
          same(view.moveRange([25, 75], [0, 100], {zoom: 2}), null);
          const stopped = {state: 'Succeeded', step: 3, maxSteps: 9}, done = {...stopped, step: 9};
          same([view.stateWords(null).tone, view.stateWords(stopped).text, view.isOver(stopped), view.isOver(done)],
               ['warn', 'Stopped before the last step', false, true]);
          const head = {...stopped, checkpoint: {version: 1}};
          same([view.headWords(head).dollars, view.headWords({...head, dollarsPerHour: {text: '$1.00 to $2.00'}}).dollars],
               ['', '$1.00 to $2.00']);
          const map = view.stageMap({lost: [{id: 'c', stage: 1, cause: 'Silent', text: ''}], stages: [
            {stage: 0, bottleneck: true, microbatchesPerSecond: 2,
             boundary: {forward: 3000, backward: 1500, bytesPerSecond: 9000}, workers: [
              {id: 'a', state: 'Ready', microbatchesPerSecond: 2, queued: 1, utilization: 1.5, region: 'eu', version: 7,
               roundTrip: 0.08}]},
            {stage: 1, bottleneck: false, microbatchesPerSecond: 0, workers: []}]});
          same(view.tileLines(map[0].tiles[0]), ['2 microbatches/s, 1 waiting, busy 100 %', 'version 7, eu, 80 ms away']);
          same(view.boundaryWords(map[0]), '9.00kB/s to and from stage 1: 3.00kB forward and 1.50kB backward a microbatch');
          same([map[0].width, map[1].width, view.boundaryWords(map[1])], [1, 0, '']);
          same(map[1].tiles, [{id: 'c', state: 'lost', why: 'Silent'}]);
          same(view.stageSummary(map, ['d']), '2 stages, 1 worker: 1 ready; 1 spare without a stage: d; 1 lost in the ' +
               'last minute. Stage 0 is the slowest: 2 microbatches a second.');
        """)

    def test_who_joins_late_or_misses_an_event_ends_with_the_same_status(self):
        b = self.browser
        b.wait("document.querySelectorAll('.tile.ready').length === 5")
        agreed = b.value("""import('/told.js').then(({Told}) => new Promise((done, failed) => {
          const seen = {early: new Map(), late: new Map(), deaf: new Map()};  // the status by the number of the event
          const sources = [];
          let missed = 0, begunAnew = 0;
          function follow(name, hears = () => true) {
            const told = new Told(), source = new EventSource('/events');
            sources.push(source);
            source.addEventListener('state', event => { told.takeState(JSON.parse(event.data)); keep(); });
            source.addEventListener('news', event => {
              if (!hears()) return;
              if (told.takeNews(JSON.parse(event.data))) return keep();
              source.close();
              ++begunAnew;
              follow(name);
            });
            function keep() {
              seen[name].set(told.number, JSON.stringify(told.status, sorted));
              const common = [...seen.early.keys()].filter(number => seen.late.has(number) && seen.deaf.has(number));
              if (!begunAnew || common.filter(number => number > missed).length < 8) return;
              sources.forEach(source => source.close());
              done(common.filter(number => new Set(Object.values(seen).map(of => of.get(number))).size !== 1).length === 0
                   && begunAnew === 1);
            }
          }
          const sorted = (_, value) => (value && typeof value === 'object' && !Array.isArray(value)
            ? Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1))) : value);
          follow('early');
          let heard = 0;
          follow('deaf', () => {
            if (++heard !== 3) return true;
            missed = Math.max(...seen.deaf.keys()) + 1;
            follow('late');
            return false;
          });
        }))""")
        self.assertTrue(agreed)
        self.check_functions("/told.js", "{Told, applied}", """
          const status = {step: 1, stages: [{rate: 1, workers: [{id: 'a'}]}, {rate: 2}], message: ''};
          const changed = applied(status, {step: [2], stages: {1: {rate: [null]}}, message: 0, job: ['j']});
          same(changed, {step: 2, stages: [status.stages[0], {rate: null}], job: 'j'});
          same([status.step, status.stages[1].rate, changed.stages[0] === status.stages[0]], [1, 2, true]);
          same([applied(null, [{step: 1}]), applied({a: 1}, [null]), applied([1], [[1, 2]]), applied({a: 1}, {})],
               [{step: 1}, null, [1, 2], {a: 1}]);
          const told = new Told();
          same(told.takeNews({number: 1, change: {}}), false);
          told.takeState({number: 4, status: {step: 1}});
          same([told.takeNews({number: 6, change: {step: [3]}}), told.status.step], [false, 1]);
          same([told.takeNews({number: 5, change: {step: [2]}}), told.status.step], [true, 2]);
        """)

    def test_the_routes_are_those_of_the_ledger(self):
        self.check_functions("/routes.js", "{routesOf, routeWords, moving}", """
          const part = (worker, ...microbatches) => ({worker, microbatches});
          const of = (...groups) => routesOf({microbatches: 3, stages: 2, line: {step: 7,
            groups: groups.map((participants, group) => ({group, participants}))}});
          const found = of([part('a', 0, 1, 2)], [part('c', 1), part('b', 2, 0)], [part('c', 0, 1, 2)]);
          same(found.routes, [{workers: ['a', 'b'], microbatches: [0, 2]}, {workers: ['a', 'c'], microbatches: [1]}]);
          same(routeWords(found), 'Step 7: 3 microbatches took 2 routes. Most used: a → b, by 2.');
          same(of([part('a', 0, 1, 2)], [part('b', 1)]).routes, [{workers: ['a', 'b'], microbatches: [1]}]);
          same(routeWords(of([], [])), 'Step 7 has no route in the ledger.');
          same([routesOf({line: null}), routesOf({line: {adopted: true}})], [null, null]);
          const one = [{workers: ['a', 'b', 'c'], microbatches: [0]}];
          same([0, 0.25, 0.375, 0.5, 0.625, 0.875].map(moment => moving(one, moment)[0]), [['a', 'b', 0, false],
            ['b', 'c', 0, false], ['b', 'c', 0.5, false], ['b', 'c', 1, true], ['b', 'c', 0.5, true], ['a', 'b', 0.5, true]]);
          same(moving([{workers: ['a'], microbatches: [0]}], 0.5), [['a', 'a', 0, false]]);
          same(moving([{workers: ['a', 'b'], microbatches: Array.from({length: 1000}, (_, i) => i)}], 0).length, 250);
        """)

    def test_another_run_is_read_from_its_files(self):
        self.check_functions("/compare.js", "{readRun, partOf, compareWords}", """
          const line = (step, loss) => JSON.stringify({step, loss, grad_norm: 2, lr: 0.1, seconds: null});
          const run = readRun([[line(0, 5), line(1, 4), line(2, 3), line(1, 4.5)].join('\\n') + '\\n{"step": 3',
            '{"kind": "Validation", "step": 2, "loss": 3.5}\\n{"kind": "WorkerLost", "version": 2, "step": 9, "loss": 1}\\n']);
          same([run.loss, run.seconds, run.validation], [[[0, 1, 2], [5, 4.5, 3]], [[], []], [[2], [3.5]]]);
          same(readRun(['', 'text']), null);
          same(partOf(run.loss, [0.5, 1.5]), {xs: [1], ys: [4.5]});
          same(partOf(run.loss, [7, 9]), {xs: [], ys: []});
          same(compareWords(run, {xs: [0, 1], ys: [6, 7]}, String),
               '3 steps. At step 1 its loss is 4.5, and that of this run 7.');
          same(compareWords(run, {xs: [], ys: []}, String), '3 steps. The runs have no step in common yet.');
        """)

    def test_the_words_of_lanes(self):
        self.check_functions("/timeline.js", "{Lanes, laneWords, drawnSlot}", """
          const lanes = new Lanes();
          const tell = (slot, of, lost = []) => lanes.take({slot, slots: 10, slotSeconds: 2, lost,
            lanes: Object.entries(of).map(([id, slots]) => ({id, slots}))});
          tell(100, {'w-10': [[99, 100, 60, 10, 3000], [100, 50, 90, 10, 0]], 'w-2': [[85, 100, 50, 0, 0], [91, 100, 1, 0, 0]]});
          same(lanes.ids, ['w-2', 'w-10']);
          same(laneWords(lanes, 'w-10'), 'computes 70 %, sums 10 %, waits 20 %, sends 2.00kB/s');
          same(laneWords(lanes, 'w-2'), 'not heard lately');
          same(drawnSlot(lanes, 'w-10', 99, 6000), {heard: true, compute: 0.6, sum: 0.1, bytes: 0.5, lost: false});
          same(drawnSlot(lanes, 'w-2', 85, 1).heard, false);
          same(lanes.after, 98);
          tell(101, {}, [{id: 'w-2', stage: 1, cause: 'Silent', text: 'no sign of life', ago: 7}]);
          same(laneWords(lanes, 'w-2'), 'lost 6s ago: no sign of life');
          same(drawnSlot(lanes, 'w-2', 98, 1).lost, true);
          tell(102, {'w-2': [[102, 100, 0, 0, 0]]}, [{id: 'w-2', stage: 1, cause: 'Silent', text: '', ago: 9}]);
          same(lanes.isGone('w-2'), false);
          tell(200, {});
          same(lanes.ids, []);
        """)

    def test_the_account_is_counted_and_not_asserted(self):
        self.check_functions("/account.js", "{judge, ranges, squares}", """
          same([ranges([3, 0, 1, 2, 5]), ranges([]), ranges([7])], ['0–3, 5', '', '7']);
          const part = (worker, stage, ...microbatches) => ({worker, stage, microbatches});
          const of = (groups, more = {}) => judge({microbatches: 2, stages: 2, chain: 'holds', first: 0, last: 9,
            line: {step: 7, groups: groups.map((participants, group) => ({group, participants})), ...more}});
          const good = [[part('a', 0, 0, 1)], [part('c', 1, 1), part('b', 1, 0)]];
          same(of(good).sentence, 'Step 7: each of 2 microbatches is counted exactly once at each of 2 stages: 4 of 4 ' +
               'contributions. The digest of the line matches.');
          same(of(good).rows.map(row => row.worker), ['a', 'b', 'c']);
          const shared = [...good, [part('a', 0, 0, 1), part('b', 1, 0)]];
          same(of(shared).problems, ['microbatch 1 is counted never at stage 1, in the sum of group 2']);
          same(of([[part('a', 0, 0, 1)], [part('b', 1, 0), part('c', 1, 0, 5)]]).problems,
               ['microbatch 0 is counted 2 times at stage 1', 'microbatch 1 is counted never at stage 1',
                'microbatch 5 is not of this job, but counted at stage 1']);
          same(of([good[0]]).problems, ['stage 1 has no sum']);
          same(of([good[0]]).tone, 'bad');
          const redone = [{worker: 'd', stage: 1, retried: [1], replayed: [0]}];
          const again = of(good, {redone});
          same([again.tone, again.sentence.includes('2 contributions had to be made again: 1 replayed, 1 retried.')],
               ['good', true]);
          same(squares(again.rows, 1, 2), [{worker: 0, again: 'replayed'}, {worker: 1, again: 'retried'}]);
          same(of(good.map(() => undefined), {adopted: true}).tone, 'warn');
          const line = {step: 0, groups: []};
          same(judge({microbatches: 2, stages: 0, chain: 'broken', line, first: 0, last: 0}).tone, 'bad');
          same(judge({microbatches: 2, stages: 2, chain: 'none', line: null, first: null, last: null}).sentence,
               'No step is committed yet.');
        """)

    def test_z_nothing_went_wrong_and_no_other_address_was_asked(self):
        events = self.browser.events
        asked = [parameters["request"]["url"] for method, parameters in events if method == "Network.requestWillBeSent"]
        self.assertGreaterEqual(len(asked), 6)
        self.assertEqual([url for url in asked if not url.startswith(self.address)], [])
        self.assertEqual([parameters for method, parameters in events if method == "Runtime.exceptionThrown"], [])
        # While there was no trainer, what is live could not be asked for.
        live = ("/events", "/account", "/timeline")
        wrong = [parameters["entry"] for method, parameters in events if method == "Log.entryAdded"]
        self.assertEqual([entry for entry in wrong if entry["level"] == "error" and
                          not urllib.parse.urlsplit(entry.get("url", "")).path.endswith(live)], [])


if __name__ == "__main__":
    if chromium.find() is None:
        print("SKIPPED: no Chromium to open the page with")
        sys.exit(77)
    unittest.main()
