// The section of the page that shows the account of a step.
import { judge, ranges, squares } from '/account.js';
import { byId, keep, make, makeRow, say, updateSoon, watchView } from '/dom.js';

/** Beyond so many squares, the table alone says it. */
const kSquaresMax = 4096;
const kColours = 8;
const kPeriodMs = 2000;

let wanted = null;  // the step that is shown; null: the last one
let shown = '';     // the answer that is on the page
let last = null;    // the last step that the page has heard of
let asked = -Infinity;
let busy = false;
let due = 0;
let visible = false;

const step = () => byId('account-step');

function updateSquares(element, { stage, cells }) {
  const [name, box] = element.children;
  say(name, `Stage ${stage}`);
  while (box.children.length > cells.length) box.lastChild.remove();
  while (box.children.length < cells.length) box.append(make('i'));
  cells.forEach(({ worker, again }, microbatch) => {
    const cell = box.children[microbatch], look = `${again} w${worker === null ? 'none' : worker % kColours}`;
    if (cell.className === look) return;
    cell.className = look;
    cell.title = `microbatch ${microbatch}${again ? `, ${again}` : ''}`;
  });
}

function createSquares() {
  const element = make('div', 'squares');
  element.append(make('b'), make('div'));
  return element;
}

function createRow(inSquares) {
  const row = makeRow(6);
  if (inSquares) row.firstChild.append(make('i'), make('span'));
  return row;
}

function updateRow(element, { row, place, inSquares }) {
  const [head, ...cells] = element.children;
  if (inSquares) head.firstChild.className = `swatch w${place % kColours}`;
  say(inSquares ? head.lastChild : head, row.worker);
  [row.stage, row.counted.length, ranges(row.counted) || '–', ranges(row.retried) || '–', ranges(row.replayed) || '–']
    .forEach((text, i) => say(cells[i], String(text)));
}

function showAccount(account) {
  const { tone, sentence, problems, rows } = judge(account);
  const { line, microbatches, stages } = account;
  byId('account-sentence').className = `verdict ${tone}`;
  say(byId('account-sentence'), sentence);
  byId('account-problems').replaceChildren(...problems.slice(0, 20).map(problem => make('li', '', problem)));
  const inSquares = line && !line.adopted && microbatches * stages <= kSquaresMax;
  byId('account-keys').hidden = !inSquares;
  const drawn = !inSquares ? [] : Array.from({ length: stages }, (_, stage) =>
    ({ stage, cells: squares(rows, stage, microbatches) }));
  keep(byId('account-squares'), drawn, { key: ({ stage }) => String(stage), create: createSquares,
    update: updateSoon(updateSquares) });
  const places = new Map();
  const placed = rows.map(row => {
    const place = places.get(row.stage) ?? 0;
    places.set(row.stage, place + 1);
    return { row, place, inSquares };
  });
  keep(byId('account-rows'), placed, { key: ({ row }) => `${inSquares} ${row.stage} ${row.worker}`,
    create: () => createRow(inSquares), update: updateSoon(updateRow) });
  byId('account-before').disabled = !line || line.step <= account.first;
  byId('account-after').disabled = !line || line.step >= account.last;
  if (line && document.activeElement !== step()) step().value = line.step;
}

async function ask() {
  if (busy) return;
  busy = true;
  asked = performance.now();
  const of = wanted;
  const answer = await fetch(of === null ? '/account' : `/account?step=${of}`).catch(() => null);
  const text = answer?.ok ? await answer.text().catch(() => null) : null;
  busy = false;
  if (of !== wanted) return void ask();
  if (text === null || text === shown) return;
  shown = text;
  showAccount(JSON.parse(text));
}

/** Shows that step, or with null the last one from now on. */
export function showStep(number) {
  wanted = number;
  byId('account-follow').checked = number === null;
  // What follows the run by itself is not read out.
  byId('account-sentence').setAttribute('aria-live', number === null ? 'off' : 'polite');
  ask();
}

/** The run has come so far. Only an account that is on the screen follows. */
export function followAccount(committed) {
  if (committed === last || wanted !== null || document.hidden || !visible) return;
  last = committed;
  clearTimeout(due);
  due = setTimeout(() => { if (wanted === null) ask(); }, Math.max(0, asked + kPeriodMs - performance.now()));
}

export function beginAccount() {
  watchView(byId('account-section'), now => {
    if (now && !visible && wanted === null) ask();
    visible = now;
  });
  const move = by => {
    const next = Number(step().value) + by;
    step().value = next;
    showStep(next);
  };
  byId('account-before').addEventListener('click', () => move(-1));
  byId('account-after').addEventListener('click', () => move(1));
  byId('account-follow').addEventListener('change', event => showStep(event.target.checked ? null : Number(step().value)));
  step().addEventListener('change', () => { if (step().value !== '' && step().validity.valid) showStep(Number(step().value)); });
}
