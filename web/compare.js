// Another run to compare with, from the files that it has left. Nothing here touches the page.
import { thin } from '/view.js';

const kKeys = { loss: 'loss', gradNorm: 'grad_norm', learningRate: 'lr', seconds: 'seconds' };

function parse(line) {
  try {
    return JSON.parse(line);
  } catch {
    return null;  // the last line of a run that is writing it
  }
}

/** The curves in the texts of steps.jsonl and events.jsonl, {loss: [xs, ys], ...}; null: they have no step. Of a step
 * that was done again the last word counts. */
export function readRun(texts) {
  const points = Object.fromEntries([...Object.keys(kKeys), 'validation'].map(name => [name, new Map()]));
  const add = (name, x, y) => { if (Number.isFinite(x) && Number.isFinite(y)) points[name].set(x, y); };
  for (const line of texts.flatMap(text => text.split('\n')).map(parse)) {
    if (line?.kind === 'Validation') add('validation', line.step, line.loss);
    else if (line && line.kind === undefined) for (const [name, key] of Object.entries(kKeys)) add(name, line.step, line[key]);
  }
  if (points.loss.size === 0) return null;
  return Object.fromEntries(Object.entries(points).map(([name, of]) => {
    const sorted = [...of].sort(([a], [b]) => a - b);
    return [name, [sorted.map(([x]) => x), sorted.map(([, y]) => y)]];
  }));
}

/** The part of a curve between two steps, thinned; `range` null: all of it. */
export function partOf([xs, ys], range) {
  const begin = range ? xs.findIndex(x => x >= range[0]) : 0;
  const end = range ? xs.findLastIndex(x => x <= range[1]) + 1 : xs.length;
  const [some, values] = begin < 0 ? [[], []] : thin(xs.slice(begin, end), ys.slice(begin, end), 400);
  return { xs: some, ys: values };
}

/** "120 steps. At step 99 its loss is 3.21, and that of this run 3.33." `own` is the loss of this run. */
export function compareWords(run, own, format) {
  const [xs, ys] = run.loss, count = `${xs.length} step${xs.length === 1 ? '' : 's'}.`;
  for (let i = xs.length - 1; i >= 0; --i) {
    const at = own.xs.lastIndexOf(xs[i]);
    if (at >= 0) return `${count} At step ${xs[i]} its loss is ${format(ys[i])}, and that of this run ${format(own.ys[at])}.`;
  }
  return `${count} The runs have no step in common yet.`;
}
