// The page on which people watch a job. It reads /events: first the whole state, then what is new. The functions of
// view.js decide what it says; this puts it on the page.
import { beginAccount, followAccount, showStep } from '/account_section.js';
import { compareWords, partOf, readRun } from '/compare.js';
import { byId, colour, drawSoon, keep, make, makeRow, say, updateSoon, watchView } from '/dom.js';
import { beginRoutes } from '/routes_section.js';
import { beginTimeline } from '/timeline_section.js';
import { Told } from '/told.js';
import {
  Curve, align, axisValue, boundaryWords, curveWords, headWords, isOver, kMarks, moveRange, shortNumber, stageMap, stageSummary,
  stateWords, stepTime, tileLines, value,
} from '/view.js';

const kRetryMs = 2000;
const kMarksMax = 2000;
const kListedMarks = 200;
/** In a curve of so many points a new one is hardly a pixel: it is drawn with others that come so long. */
const kLongCurve = 1000, kLongCurveMs = 2000;
const kKept = ['loss', 'validation', 'gradNorm', 'learningRate', 'seconds'];

// ---- the state, as the trainer tells it ----

const told = new Told();
const live = { status: null, curves: {}, marks: [] };
let zoom = null;  // [from, to] of the steps that are shown; null: the whole run
let zoomed = {};  // curves between these
let drawn = false;  // the curves as they are
let drawnAt = -Infinity;
let drawDue = 0;
let other = null;  // the curves of a run to compare with
for (const name of kKept) live.curves[name] = new Curve();

function takeState(state) {
  told.takeState(state);
  live.status = told.status;
  for (const name of kKept) live.curves[name] = new Curve(state.curves[name]);
  live.marks = state.marks;
  drawn = false;
  drawnAt = -Infinity;
  if (zoom) zoomTo(zoom);  // the steps may be others
}

function takeNews({ number, change, news }) {
  if (!told.takeNews({ number, change })) return connect();
  live.status = told.status;
  for (const [step, loss, gradNorm, learningRate, seconds] of news.steps) {
    for (const [name, y] of Object.entries({ loss, gradNorm, learningRate, seconds })) live.curves[name].add(step, y);
  }
  for (const [version, loss] of news.validations) live.curves.validation.add(version, loss);
  if (news.marks.length) live.marks = [...live.marks, ...news.marks].slice(-kMarksMax);
  if (news.steps.length || news.validations.length || news.marks.length) drawn = false;
}

let source = null;
function connect() {
  source?.close();
  source = new EventSource('/events');
  const on = (name, take) => source.addEventListener(name, event => {
    take(JSON.parse(event.data));
    byId('away').hidden = true;
    show();
  });
  on('state', takeState);
  on('news', takeNews);
  source.addEventListener('error', () => {
    byId('away').hidden = false;
    if (isOver(live.status)) {
      source.close();
      say(byId('away'), 'The job is over: this is its last state.');
      return;
    }
    say(byId('away'), 'The trainer does not answer, or has no room for one more page; asking again.');
    // Where there was an answer that is no stream, the browser does not ask again by itself.
    if (source.readyState === EventSource.CLOSED) setTimeout(connect, kRetryMs);
  });
}

// ---- the head ----

function showHead() {
  const { status } = live;
  const { text, tone } = stateWords(status);
  say(byId('state'), text);
  byId('state').className = `state ${tone}`;
  const waiting = status?.message || (status?.waitingFor ? `Waits for ${status.waitingFor}` : '');
  byId('waiting').hidden = !waiting;
  byId('waiting').classList.toggle('bad', Boolean(status?.message));
  say(byId('waiting'), waiting);
  if (!status) return;
  for (const [id, words] of Object.entries(headWords(status))) say(byId(id), words);
  byId('cost').hidden = !status.dollarsPerHour;
  byId('progress').max = status.maxSteps;
  byId('progress').value = status.step;
  const percent = status.maxSteps ? `${Math.floor(100 * status.step / status.maxSteps)} % ` : '';
  document.title = `${percent}${status.job} – SwarmJob`;
}

// ---- the curves ----

const kCharts = [
  { title: 'Loss', format: value, lines: [['loss', 'loss', '--c0'], ['validation', 'validation', '--c1']] },
  { title: 'Gradient norm', format: value, lines: [['gradNorm', 'gradient norm', '--c2']] },
  { title: 'Learning rate', format: value, lines: [['learningRate', 'learning rate', '--c4']] },
  { title: 'Step time', format: stepTime, onAxis: stepTime, lines: [['seconds', 'step time', '--c3']] },
];

const curve = name => (zoom ? zoomed[name] : undefined) ?? live.curves[name];

const kMarkColours = { lost: '--bad', move: '--soft', takeover: '--warn', rollback: '--c3', checkpoint: '--soft' };
const kDashes = { move: [1, 3], takeover: [5, 3] };

/** Lines across the plot, but short ones for checkpoints. */
function drawMarks(u) {
  const { ctx, bbox } = u, places = new Set(), style = getComputedStyle(document.documentElement);
  ctx.save();
  ctx.lineWidth = devicePixelRatio;
  ctx.globalAlpha = 0.75;
  for (const mark of live.marks) {
    const { name } = kMarks[mark.kind] ?? {};
    const x = Math.round(u.valToPos(mark.step, 'x', true));
    if (!name || x < bbox.left || x > bbox.left + bbox.width || places.has(`${name} ${x}`)) continue;
    places.add(`${name} ${x}`);
    ctx.strokeStyle = style.getPropertyValue(kMarkColours[name]);
    ctx.setLineDash((kDashes[name] ?? []).map(length => length * devicePixelRatio));
    ctx.beginPath();
    ctx.moveTo(x, name === 'checkpoint' ? bbox.top + bbox.height - 6 * devicePixelRatio : bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
  }
  ctx.restore();
}

class Chart {
  constructor({ title, format, onAxis = axisValue, lines }, height) {
    Object.assign(this, { title, format, lines, height });
    const figure = make('figure'), caption = make('figcaption');
    this.output = make('output');
    this.output.setAttribute('aria-live', 'off');
    caption.append(make('h3', '', title), this.output);
    this.plot = make('div', 'plot');
    this.plot.tabIndex = 0;
    this.plot.setAttribute('role', 'group');
    this.plot.setAttribute('aria-roledescription', 'curve');
    figure.append(caption, this.plot);
    byId('charts').append(figure);
    const axis = { stroke: () => colour('--soft'), font: '12px system-ui, sans-serif', ticks: { show: false },
      grid: { stroke: () => colour('--rule'), width: 1 } };
    this.u = new uPlot({
      width: this.plot.clientWidth || 300, height, legend: { show: false },
      scales: { x: { time: false } },
      cursor: { drag: { x: true, y: false, setScale: false }, bind: { dblclick: () => () => zoomTo(null) } },
      series: [{}, ...lines.map(([, , stroke]) => ({  // of the other run, behind
        stroke: () => colour(stroke), alpha: 0.7, width: 1.5, dash: [6, 4], spanGaps: true, points: { show: false },
      })), ...lines.map(([name, , stroke]) => ({
        stroke: () => colour(stroke), width: 1.5, spanGaps: true,
        ...(name === 'validation' && { points: { show: true, size: 6, fill: () => colour(stroke) } }),
      }))],
      axes: [
        { ...axis, size: 30, values: (u, splits) => splits.map(x => (Number.isInteger(x) ? shortNumber(x) : '')) },
        { ...axis, size: 56, values: (u, splits) => splits.map(onAxis) },
      ],
      hooks: {
        draw: [drawMarks],
        setCursor: [u => this.tell(u.cursor.idx)],
        setSelect: [u => {
          const { left, width } = u.select;
          if (width > 4) zoomTo([u.posToVal(left, 'x'), u.posToVal(left + width, 'x')]);
          if (width > 0) u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
        }],
      },
    }, align([...lines, ...lines].map(() => new Curve())), this.plot);
    this.plot.addEventListener('keydown', onKey);
    this.data = this.u.data;
    this.visible = false;
    this.stale = false;  // what is drawn is not the data
    watchView(figure, visible => {
      this.visible = visible;
      if (visible) this.draw();
    });
    new ResizeObserver(() => {
      if (this.plot.clientWidth > 0) this.u.setSize({ width: this.plot.clientWidth, height });
    }).observe(this.plot);
  }

  /** The curves have changed. Where nobody sees them, only words do. */
  show() {
    const curves = this.lines.map(([name]) => curve(name));
    const others = this.lines.map(([name]) => (other ? partOf(other[name], zoom) : new Curve()));
    this.data = align([...others, ...curves]);
    this.stale = true;
    this.tell(this.u.cursor.idx);
    this.plot.setAttribute('aria-label', [
      ...this.lines.map(([, words], i) => `${words}: ${curveWords(curves[i], this.format)}`),
      ...(other ? this.lines.map(([, words], i) => `${words} of the other run: ${curveWords(others[i], this.format, 'at last')}`) : []),
    ].join('; '));
    if (this.visible) this.draw();
  }

  draw() {
    if (!this.stale) return;
    this.stale = false;
    this.u.setData(this.data, zoom === null);
    if (zoom) this.u.setScale('x', { min: zoom[0], max: zoom[1] });
  }

  /** The values under the pointer, or else the last ones. */
  tell(index) {
    const [xs, ...all] = this.data, others = all.splice(0, this.lines.length);
    const pointed = index !== null && index !== undefined;
    const told = (name, ys) => {
      const y = ys[pointed ? index : ys.findLastIndex(y => y !== null)];
      return y === null || y === undefined ? '' : `${name} ${this.format(y)}`;
    };
    const words = [
      ...this.lines.map(([, name], i) => told(name, all[i])),
      ...this.lines.map(([, name], i) => (pointed ? told(`other ${name}`, others[i]) : '')),
    ].filter(Boolean).join(', ');
    say(this.output, words && pointed ? `step ${xs[index]}: ${words}` : words);
  }
}

const charts = [];

function wholeRange() {
  const all = [live.curves.loss.xs, ...(other ? [other.loss[0]] : [])].filter(xs => xs.length);
  return all.length ? [Math.min(...all.map(xs => xs[0])), Math.max(...all.map(xs => xs.at(-1)))] : [0, 1];
}

async function zoomTo(range) {
  zoom = range && [Math.max(0, range[0]), range[1]];
  zoomed = {};
  byId('whole').disabled = zoom === null;
  say(byId('range'), zoom ? `Steps ${Math.ceil(zoom[0])} to ${Math.floor(zoom[1])}` : '');
  showCurves();
  if (zoom === null) return;
  const wanted = zoom;
  const answer = await fetch(`/curves?from=${wanted[0]}&to=${wanted[1]}`).catch(() => null);
  // Without an answer the coarser curves stay.
  if (!answer?.ok || zoom !== wanted) return;
  const curves = await answer.json();
  if (zoom !== wanted) return;
  for (const name of kKept) zoomed[name] = new Curve(curves[name]);
  showCurves();
}

const change = how => zoomTo(moveRange(zoom ?? wholeRange(), wholeRange(), how));

function onKey(event) {
  const how = { ArrowLeft: { by: -0.25 }, ArrowRight: { by: 0.25 }, '+': { zoom: 0.5 }, '=': { zoom: 0.5 },
    '-': { zoom: 2 } }[event.key];
  if (event.key === '0') zoomTo(null);
  else if (how) change(how);
  else return;
  event.preventDefault();
}

function showCurves() {
  clearTimeout(drawDue);
  drawDue = 0;
  drawn = true;
  drawnAt = performance.now();
  for (const chart of charts) drawSoon(chart, () => chart.show());
}

function showNewCurves() {
  if (drawn || drawDue || zoom) return;
  const pause = live.curves.loss.xs.length > kLongCurve ? kLongCurveMs : 0;
  const wait = drawnAt + pause - performance.now();
  if (wait <= 0) showCurves();
  else drawDue = setTimeout(showCurves, wait);
}

async function compareWith(files) {
  const texts = await Promise.all([...files].map(file => file.text()));
  const name = [...files].map(file => file.name).join(', ');
  other = readRun(texts);
  byId('runs').hidden = byId('compare-end').hidden = !other;
  say(byId('other-name'), `the other run (${name})`);
  say(byId('compare-words'), other ? compareWords(other, live.curves.loss, value)
    : texts.length ? `${name} has no step of a run.` : '');
  showCurves();
}

function endComparison() {
  byId('compare').value = '';
  byId('compare').focus();
  compareWith([]);
}

let listed = null;
function showMarks() {
  if (listed === live.marks) return;
  listed = live.marks;
  say(byId('mark-count'), live.marks.length ? String(live.marks.length) : 'none yet');
  byId('mark-list').replaceChildren(...live.marks.slice(-kListedMarks).reverse().map(mark => {
    const { name, words } = kMarks[mark.kind] ?? { name: '', words: mark.kind };
    const item = make('li', name, `Step ${mark.step}: ${words}. ${mark.text} `);
    if (mark.kind !== 'WorkerLost') return item;
    const button = make('button', '', `Account of step ${mark.step}`);
    button.type = 'button';
    button.addEventListener('click', () => {
      showStep(mark.step);
      byId('account').scrollIntoView();
      byId('account').focus({ preventScroll: true });
    });
    item.append(button);
    return item;
  }));
}

// ---- the stages ----

function createTile() {
  const tile = make('li');
  const name = make('b'), state = make('em'), bar = make('progress');
  bar.setAttribute('aria-hidden', 'true');  // the text says it
  tile.append(name, ' ', state, make('small'), make('small'), bar);
  return tile;
}

function updateTile(element, tile) {
  const [name, state, rate, place, bar] = element.children;
  if (element.className !== `tile ${tile.state}`) element.className = `tile ${tile.state}`;
  say(name, tile.id);
  say(state, tile.state);
  const lines = tileLines(tile);
  say(rate, lines[0] ?? '');
  say(place, lines[1] ?? '');
  bar.hidden = tile.busy === undefined;
  bar.value = tile.busy ?? 0;
}

function createStage(stage) {
  const element = make('li'), heading = make('h3', '', `Stage ${stage.stage}`), badge = make('span', 'badge', 'slowest');
  heading.append(badge);
  const boundary = make('i', 'boundary');
  boundary.setAttribute('aria-hidden', 'true');  // the text says it
  element.append(heading, make('p'), make('p'), make('ul', 'tiles'), boundary);
  return element;
}

function updateStage(element, stage) {
  const [heading, rate, bytes, tiles, boundary] = element.children;
  element.classList.toggle('slowest', stage.slowest);
  heading.querySelector('.badge').hidden = !stage.slowest;
  say(rate, stage.tiles.length ? `${shortNumber(stage.rate)} microbatches/s` : 'no worker');
  say(bytes, boundaryWords(stage));
  bytes.hidden = bytes.textContent === '';
  boundary.hidden = !stage.width;
  boundary.style.setProperty('--width', `${Math.round(3 + 33 * stage.width)}px`);
  keep(tiles, stage.tiles, { key: tile => tile.id, create: createTile, update: updateSoon(updateTile) });
}

function showStages() {
  if (!live.status) return;
  const map = stageMap(live.status);
  say(byId('summary'), stageSummary(map, live.status.spares));
  keep(byId('stages'), map, { key: stage => String(stage.stage), create: createStage, update: updateStage });
  if (byId('table').open) showTable(map);
}

function showTable(map) {
  const rows = map.flatMap(stage => stage.tiles.map(tile => ({ ...tile, stage: stage.stage })));
  keep(byId('rows'), rows, {
    key: row => `${row.stage} ${row.id}`,
    create: () => makeRow(9),
    update: updateSoon((element, row) => [row.id, row.stage, row.state, row.rate === undefined ? '–' : shortNumber(row.rate),
      row.waiting ?? '–', row.busy === undefined ? '–' : `${Math.round(100 * row.busy)} %`, row.version ?? '–',
      row.region || '–', row.roundTrip ? `${Math.round(1000 * row.roundTrip)} ms` : '–',
    ].forEach((text, i) => say(element.children[i], String(text)))),
  });
}

// ---- all of it ----

let due = false;
function show() {
  if (due) return;
  due = true;
  requestAnimationFrame(() => {
    due = false;
    showHead();
    showNewCurves();
    showMarks();
    showStages();
    followAccount(live.status?.step);
  });
}

byId('keys').append(...Object.values(kMarks).map(({ name, words }) => {
  const item = make('li', name, words);
  item.prepend(make('i'));
  return item;
}));
kCharts.forEach((chart, i) => charts.push(new Chart(chart, i === 0 ? 260 : 180)));
byId('closer').addEventListener('click', () => change({ zoom: 0.5 }));
byId('wider').addEventListener('click', () => change({ zoom: 2 }));
byId('whole').addEventListener('click', () => zoomTo(null));
byId('compare').addEventListener('change', event => compareWith(event.target.files));
byId('compare-end').addEventListener('click', endComparison);
byId('table').addEventListener('toggle', showStages);
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => charts.forEach(chart => chart.u.redraw()));
beginAccount();
beginRoutes();
beginTimeline();
connect();
