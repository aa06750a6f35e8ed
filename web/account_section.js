// The section of the page that shows the account of a step.
import { judge, ranges, squares } from '/account.js';
import { byId, make, makeRow, say } from '/dom.js';

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

const step = () => byId('account-step');

function makeSquares(rows, stage, microbatches) {
  const element = make('div', 'squares'), cells = make('div');
  squares(rows, stage, microbatches).forEach(({ worker, again }, microbatch) => {
    const cell = make('i', `${again} w${worker === null ? 'none' : worker % kColours}`);
    cell.title = `microbatch ${microbatch}${again ? `, ${again}` : ''}`;
    cells.append(cell);
  });
  element.append(make('b', '', `Stage ${stage}`), cells);
  return element;
}

function showAccount(account) {
  const { tone, sentence, problems, rows } = judge(account);
  const { line, microbatches, stages } = account;
  byId('account-sentence').className = `verdict ${tone}`;
  say(byId('account-sentence'), sentence);
  byId('account-problems').replaceChildren(...problems.slice(0, 20).map(problem => make('li', '', problem)));
  const inSquares = line && !line.adopted && microbatches * stages <= kSquaresMax;
  byId('account-keys').hidden = !inSquares;
  byId('account-squares').replaceChildren(...(inSquares
    ? Array.from({ length: stages }, (_, stage) => makeSquares(rows, stage, microbatches)) : []));
  const places = new Map();
  byId('account-rows').replaceChildren(...rows.map(row => {
    const place = places.get(row.stage) ?? 0;
    places.set(row.stage, place + 1);
    const element = makeRow(6);
    [row.worker, row.stage, row.counted.length, ranges(row.counted) || '–', ranges(row.retried) || '–',
      ranges(row.replayed) || '–'].forEach((text, i) => say(element.children[i], String(text)));
    if (inSquares) element.firstChild.prepend(make('i', `swatch w${place % kColours}`));
    return element;
  }));
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

/** The run has come so far. */
export function followAccount(committed) {
  if (committed === last || wanted !== null || document.hidden) return;
  last = committed;
  clearTimeout(due);
  due = setTimeout(() => { if (wanted === null) ask(); }, Math.max(0, asked + kPeriodMs - performance.now()));
}

export function beginAccount() {
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
