// The section of the page that shows the timeline.
import { byId, colour, drawSoon, keep, make, say, watchView } from '/dom.js';
import { Lanes, drawnSlot, laneWords } from '/timeline.js';

const kPeriodMs = 2000;
const kHeight = 28;

const lanes = new Lanes();
let opened = null;  // the worker whose log is shown
let visible = false;
let width = 0;  // of a canvas, in its own pixels
const seen = new Set();  // rows on the screen

const list = () => byId('lanes');

function draw(canvas, id, { colours, mostBytes }) {
  const height = kHeight * devicePixelRatio;
  if (width === 0) return;
  if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, { width, height });
  const ctx = canvas.getContext('2d');
  ctx.clearRect(0, 0, width, height);
  const first = lanes.slot - lanes.slots, step = width / lanes.slots;
  // From the top: compute as the height of a bar, then sums and transfer as the depth of a colour.
  const compute = height * 0.6, strip = height * 0.2;
  for (let at = first + 1; at <= lanes.slot; ++at) {
    const slot = drawnSlot(lanes, id, at, mostBytes);
    const x = Math.floor((at - first - 1) * step), w = Math.ceil(step);
    const fill = (style, alpha, y, h) => {
      ctx.globalAlpha = alpha, ctx.fillStyle = style;
      ctx.fillRect(x, y, w, h);
    };
    if (slot.heard) {
      fill(colours.panel, 1, 0, height);
      fill(colours.compute, 1, compute * (1 - slot.compute), compute * slot.compute);
      if (slot.sum > 0) fill(colours.sum, Math.max(0.2, slot.sum), compute, strip);
      if (slot.bytes > 0) fill(colours.bytes, Math.max(0.15, slot.bytes), compute + strip, strip);
    }
    if (slot.lost) fill(colours.lost, 1, 0, height);
  }
}

const brush = () => ({ mostBytes: lanes.mostBytes, colours: { panel: colour('--panel'), compute: colour('--c2'),
  sum: colour('--c1'), bytes: colour('--c0'), lost: colour('--bad') } });

function updateLane(row, one) {
  const [button] = row.children, id = row.dataset.key;
  button.classList.toggle('gone', lanes.isGone(id));
  const expanded = String(opened === id);
  if (button.getAttribute('aria-expanded') !== expanded) button.setAttribute('aria-expanded', expanded);
  say(button.children[1], laneWords(lanes, id));
  if (seen.has(row)) draw(row.querySelector('canvas'), id, one);
}

function updateLanes() {
  width = Math.round((list().querySelector('canvas')?.clientWidth ?? 0) * devicePixelRatio);
  const one = brush();
  for (const row of list().children) drawSoon(row, () => updateLane(row, one));
}

const rowsSeen = new IntersectionObserver(entries => {
  for (const { target, isIntersecting } of entries) {
    if (!isIntersecting) seen.delete(target);
    else if (!seen.has(target)) seen.add(target), drawSoon(target, () => updateLane(target, brush()));
  }
}, { rootMargin: '200px' });

function showLanes() {
  say(byId('lanes-empty'), lanes.ids.length ? '' : 'No worker has been heard yet.');
  keep(list(), lanes.ids, {
    key: id => id,
    create: id => {
      const row = make('li'), button = make('button', 'lane');
      button.type = 'button';
      button.setAttribute('aria-controls', 'lane-details');
      const canvas = make('canvas');
      canvas.setAttribute('aria-hidden', 'true');  // the text says it
      button.append(make('b', '', id), make('span'), canvas);
      button.addEventListener('click', () => open(opened === id ? null : id));
      row.append(button);
      rowsSeen.observe(row);
      return row;
    },
    update: () => {},
  });
  for (const row of seen) if (!row.isConnected) seen.delete(row), rowsSeen.unobserve(row);
  updateLanes();
}

async function open(id) {
  opened = id;
  byId('lane-details').hidden = id === null;
  showLanes();
  if (id === null) return;
  const lost = lanes.lost.get(id);
  say(byId('lane-title'), id);
  say(byId('lane-why'), lost ? `Lost from stage ${lost.stage}: ${lost.text || lost.cause} (${lost.cause}).` : 'Not lost in the last minutes.');
  say(byId('lane-log'), '');
  const answer = await fetch(`/log?worker=${encodeURIComponent(id)}`).catch(() => null);
  const text = answer?.ok ? await answer.text() : '';
  if (opened !== id) return;
  const log = byId('lane-log');
  log.hidden = text === '';
  say(byId('lane-no-log'), text ? '' : answer ? 'This machine has no log of it; in a cluster, kubectl logs has it.'
    : 'The trainer does not answer.');
  say(log, text);
  log.scrollTop = log.scrollHeight;
}

async function ask() {
  if (visible && !document.hidden) {
    const answer = await fetch(`/timeline?after=${lanes.after}`).catch(() => null);
    const news = answer?.ok ? await answer.json().catch(() => null) : null;
    if (news) {
      lanes.take(news);
      showLanes();
    }
  }
  setTimeout(ask, kPeriodMs);
}

export function beginTimeline() {
  watchView(byId('timeline-section'), now => {
    if (now && !visible) showLanes();
    visible = now;
  });
  new ResizeObserver(updateLanes).observe(list());
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', updateLanes);
  ask();
}
