// Shows over the stages how the microbatches of the last step moved along their routes, where somebody asks for it.
import { byId, colour, say, watchView } from '/dom.js';
import { moving, routeWords, routesOf } from '/routes.js';

const kPeriodMs = 2000;
const kLoopMs = 8000;

let known = null;        // as routesOf says
let places = new Map();  // worker -> the middle of its tile
let visible = false;
let timer = 0, frame = 0;

const still = matchMedia('(prefers-reduced-motion: reduce)');
const wanted = () => byId('routes').checked;

/** The tiles are where they are. */
function measure() {
  const box = byId('stages').getBoundingClientRect();
  places = new Map([...document.querySelectorAll('.tile')].map(tile => {
    const { left, top, width, height } = tile.getBoundingClientRect();
    return [tile.dataset.key, [left + width / 2 - box.left, top + height / 2 - box.top]];
  }));
}

/** Lays the canvas over what is on the screen of the stages; returns how far that is from their top. */
function cover(canvas) {
  const box = byId('stages').getBoundingClientRect(), top = Math.max(0, -box.top);
  const tall = Math.max(0, Math.min(box.height, innerHeight - box.top) - top);
  const width = Math.round(box.width * devicePixelRatio), height = Math.round(tall * devicePixelRatio);
  if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, { width, height });
  Object.assign(canvas.style, { top: `${top}px`, height: `${tall}px` });
  return top;
}

function drawLines(ctx) {
  const most = known.routes[0]?.microbatches.length ?? 1;
  ctx.strokeStyle = colour('--c3');
  for (const { workers, microbatches } of known.routes) {
    ctx.lineWidth = Math.max(0.5, 3 * microbatches.length / most);
    ctx.beginPath();
    for (const worker of workers) if (places.has(worker)) ctx.lineTo(...places.get(worker));
    ctx.stroke();
  }
}

function drawDots(ctx, now) {
  const colours = [colour('--c0'), colour('--c1')], size = 3.5;
  for (const [from, to, part, back] of moving(known.routes, (now % kLoopMs) / kLoopMs)) {
    const a = places.get(from), b = places.get(to);
    if (!a || !b) continue;
    ctx.fillStyle = colours[Number(back)];
    ctx.beginPath();
    ctx.arc(a[0] + (b[0] - a[0]) * part, a[1] + (b[1] - a[1]) * part, size, 0, 2 * Math.PI);
    ctx.fill();
  }
}

function draw(now) {
  frame = 0;
  if (!wanted() || !visible || !known) return;
  const canvas = byId('routes-canvas'), ctx = canvas.getContext('2d'), top = cover(canvas);
  ctx.setTransform(devicePixelRatio, 0, 0, devicePixelRatio, 0, -top * devicePixelRatio);
  ctx.clearRect(0, top, canvas.width, canvas.height);
  ctx.globalAlpha = 0.25;
  drawLines(ctx);
  ctx.globalAlpha = 1;
  if (still.matches) return;
  drawDots(ctx, now);
  frame = requestAnimationFrame(draw);
}

async function follow() {
  clearTimeout(timer);
  if (!wanted() || !visible) return;
  const answer = document.hidden ? null : await fetch('/account').catch(() => null);
  const account = answer?.ok ? await answer.json().catch(() => null) : null;
  if (!wanted()) return;
  const routes = account && routesOf(account);
  if (routes) {
    known = routes;
    say(byId('routes-words'), routeWords(routes));
    measure();
    frame ||= requestAnimationFrame(draw);
  }
  clearTimeout(timer);
  timer = setTimeout(follow, kPeriodMs);
}

export function beginRoutes() {
  byId('routes').addEventListener('change', () => {
    byId('routes-canvas').hidden = !wanted();
    byId('routes-keys').hidden = !wanted();
    say(byId('routes-words'), '');
    follow();
  });
  watchView(byId('stages'), now => {
    visible = now;
    if (now) follow();
  });
  new ResizeObserver(() => { if (wanted() && visible) measure(); }).observe(byId('stages'));
}
