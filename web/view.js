// What the page says, as functions of the state. Nothing here touches the page or the network.

/** "3.1k", "42", "1.50M": three digits; "–" for what is not known. */
export function shortNumber(number) {
  if (!Number.isFinite(number)) return '–';
  const units = ['', 'k', 'M', 'G', 'T'];
  let unit = 0;
  while (Math.abs(number) >= 999.5 && unit + 1 < units.length) number /= 1000, ++unit;
  const size = Math.abs(number);
  const decimals = unit === 0 && Number.isInteger(number) ? 0 : size < 9.995 ? 2 : size < 99.95 ? 1 : 0;
  return number.toFixed(decimals) + units[unit];
}

/** "1h02m", "3m05s", "12s". */
export function shortTime(seconds) {
  if (!Number.isFinite(seconds) || seconds < 0 || seconds > 1e9) return '–';
  const whole = Math.round(seconds), two = n => String(n).padStart(2, '0');
  if (whole < 60) return `${whole}s`;
  if (whole < 3600) return `${Math.floor(whole / 60)}m${two(whole % 60)}s`;
  return `${Math.floor(whole / 3600)}h${two(Math.floor(whole / 60) % 60)}m`;
}

/** Of a step: seconds or milliseconds. */
export function stepTime(seconds) {
  if (!Number.isFinite(seconds)) return '–';
  return seconds < 1 ? `${shortNumber(seconds * 1000)} ms` : `${shortNumber(seconds)} s`;
}

/** A loss, and other values of a curve. */
export function value(number) {
  if (!Number.isFinite(number)) return '–';
  const size = Math.abs(number);
  return size !== 0 && (size < 0.001 || size >= 1e6) ? number.toExponential(2) : number.toPrecision(4);
}

/** Beside an axis: the same, as short as it can be. */
export function axisValue(number) {
  const size = Math.abs(number);
  return size !== 0 && (size < 0.001 || size >= 1e6) ? Number(number.toPrecision(3)).toExponential()
    : String(Number(number.toPrecision(4)));
}

const kStates = {
  Waiting: ['Waiting', 'warn'],
  TakingOver: ['Taking over from the trainer before', 'warn'],
  Loading: ['Loading', 'warn'],
  Training: ['Training', 'good'],
  Finishing: ['Finishing', 'good'],
  Succeeded: ['Succeeded', 'good'],
  Failed: ['Failed', 'bad'],
  Superseded: ['A later trainer has taken over', 'warn'],
};

/** A trainer that is told to stop ends as one that has trained all steps does; another may follow. */
const wasStopped = status => status?.state === 'Succeeded' && status.step < status.maxSteps;

/** {text, tone} of the job's state; `status` is null while no trainer answers. */
export function stateWords(status) {
  if (wasStopped(status)) return { text: 'Stopped before the last step', tone: 'warn' };
  const [text, tone] = kStates[status?.state] ?? [status ? 'Unknown' : 'The trainer is starting, or busy', 'warn'];
  return { text, tone };
}

/** The job is over: no trainer of it follows. */
export const isOver = status =>
  status?.state === 'Failed' || (status?.state === 'Succeeded' && !wasStopped(status));

/** What the head says, by the id of its element. */
export function headWords(status) {
  const known = number => (number ? value(number) : '–');  // 0: there was none
  return {
    job: status.job,
    step: `Step ${status.step} of ${status.maxSteps}`,
    left: status.secondsLeft > 0 && !isOver(status) ? `about ${shortTime(status.secondsLeft)} left` : '',
    loss: known(status.loss),
    validation: known(status.validationLoss),
    tokens: status.tokensPerSecond > 0 ? shortNumber(status.tokensPerSecond) : '–',
    goodput: Number.isFinite(status.goodput) ? `${(100 * status.goodput).toFixed(1)} %` : '–',
    dollars: status.dollarsPerHour?.text ?? '',
    changes: `${status.losses}, ${status.moves}`,
    checkpoint: status.checkpoint.version ? `version ${status.checkpoint.version}` : 'none yet',
  };
}

/** Of a worker, as the job's status names it. */
const kWorkerWords = { Loading: 'loading', Joining: 'joining', Ready: 'ready', Leaving: 'draining', Moving: 'moving' };

/** The stages with the tiles of their workers; lost workers are behind those that are there. `width` is the share of the
 * bytes behind a stage in those of the widest boundary; 0 where they are not known. */
export function stageMap(status) {
  const most = Math.max(...status.stages.map(stage => stage.boundary?.bytesPerSecond ?? 0));
  return status.stages.map(stage => ({
    stage: stage.stage,
    slowest: stage.bottleneck,
    rate: stage.microbatchesPerSecond,
    boundary: stage.boundary,
    width: most > 0 ? (stage.boundary?.bytesPerSecond ?? 0) / most : 0,
    tiles: [
      ...stage.workers.map(worker => ({
        id: worker.id,
        state: kWorkerWords[worker.state] ?? 'unknown',
        rate: worker.microbatchesPerSecond,
        waiting: worker.queued,
        busy: Math.min(1, Math.max(0, worker.utilization ?? 0)),
        version: worker.version,
        region: worker.region,
        roundTrip: worker.roundTrip,
      })),
      ...status.lost.filter(lost => lost.stage === stage.stage)
        .map(lost => ({ id: lost.id, state: 'lost', why: lost.text || lost.cause })),
    ],
  }));
}

/** "1.20MB/s to and from stage 1: 33.0kB forward and 33.0kB backward a microbatch"; empty where it is not known. */
export function boundaryWords({ stage, boundary }) {
  if (!boundary) return '';
  const bytes = number => `${shortNumber(number)}B`;
  return `${bytes(boundary.bytesPerSecond)}/s to and from stage ${stage + 1}: ${bytes(boundary.forward)} forward and ` +
    `${bytes(boundary.backward)} backward a microbatch`;
}

/** The lines of a tile, below its name. */
export function tileLines(tile) {
  if (tile.state === 'lost') return [tile.why];
  const place = [
    tile.version === undefined ? '' : `version ${tile.version}`,
    tile.region && tile.region !== 'local' ? tile.region : '',
    tile.roundTrip ? `${Math.round(1000 * tile.roundTrip)} ms away` : '',
  ].filter(Boolean).join(', ');
  return [`${shortNumber(tile.rate)} microbatches/s, ${tile.waiting} waiting, busy ${Math.round(100 * tile.busy)} %`,
    place].filter(Boolean);
}

/** "3 stages, 5 workers: 4 ready, 1 joining. Stage 1 is the slowest: 5.00 microbatches a second." */
export function stageSummary(map, spares) {
  const counts = new Map();
  for (const { state } of map.flatMap(stage => stage.tiles)) counts.set(state, (counts.get(state) ?? 0) + 1);
  const lost = counts.get('lost') ?? 0;
  counts.delete('lost');
  const present = [...counts.values()].reduce((sum, count) => sum + count, 0);
  const many = (count, noun) => `${count} ${noun}${count === 1 ? '' : 's'}`;
  let text = `${many(map.length, 'stage')}, ${many(present, 'worker')}`;
  if (present) text += `: ${[...counts].map(([state, count]) => `${count} ${state}`).join(', ')}`;
  if (spares.length) text += `; ${many(spares.length, 'spare')} without a stage: ${spares.join(', ')}`;
  if (lost) text += `; ${lost} lost in the last minute`;
  const slowest = map.find(stage => stage.slowest);
  return `${text}.${slowest ? ` Stage ${slowest.stage} is the slowest: ${shortNumber(slowest.rate)} microbatches a second.` : ''}`;
}

/** The classes of marks, by the kind of the event. */
export const kMarks = {
  WorkerLost: { name: 'lost', words: 'Worker lost' },
  WorkerMoves: { name: 'move', words: 'Worker moves' },
  TookOver: { name: 'takeover', words: 'Trainer took over' },
  RolledBack: { name: 'rollback', words: 'Rolled back' },
  CheckpointWritten: { name: 'checkpoint', words: 'Checkpoint' },
};

/**
 * At most 4 * buckets of the points, which look the same: of each bucket its first, least, greatest and last one.
 * Returns [xs, ys].
 */
export function thin(xs, ys, buckets) {
  if (xs.length <= 4 * buckets) return [xs, ys];
  const thinXs = [], thinYs = [];
  for (let bucket = 0; bucket < buckets; ++bucket) {
    const begin = Math.floor(xs.length * bucket / buckets), end = Math.floor(xs.length * (bucket + 1) / buckets);
    let least = begin, greatest = begin;
    for (let i = begin; i < end; ++i) {
      if (ys[i] < ys[least]) least = i;
      if (ys[i] > ys[greatest]) greatest = i;
    }
    for (const i of [...new Set([begin, least, greatest, end - 1])].sort((a, b) => a - b)) {
      thinXs.push(xs[i]), thinYs.push(ys[i]);
    }
  }
  return [thinXs, thinYs];
}

/** A curve that grows at its end and keeps a bounded number of points. */
export class Curve {
  static kPointsMax = 6000;
  constructor([xs, ys] = [[], []]) { this.xs = [...xs]; this.ys = [...ys]; }
  /** Values that are no numbers, and steps that are there already, are left out. */
  add(x, y) {
    if (!Number.isFinite(y) || x <= (this.xs.at(-1) ?? -Infinity)) return;
    this.xs.push(x), this.ys.push(y);
    if (this.xs.length > Curve.kPointsMax) [this.xs, this.ys] = thin(this.xs, this.ys, Curve.kPointsMax / 8);
  }
}

/** Curves over one axis, for a chart: [xs, ys of the first, ...], null where a curve has no point. */
export function align(curves) {
  const some = curves.filter(curve => curve.xs.length);
  if (some.length < 2) {
    const xs = some[0]?.xs ?? [];
    return [xs, ...curves.map(curve => (curve.xs.length ? curve.ys : xs.map(() => null)))];
  }
  const xs = [...new Set(some.flatMap(curve => curve.xs))].sort((a, b) => a - b);
  const at = new Map(xs.map((x, i) => [x, i]));
  return [xs, ...curves.map(curve => {
    const ys = new Array(xs.length).fill(null);
    curve.xs.forEach((x, i) => { ys[at.get(x)] = curve.ys[i]; });
    return ys;
  })];
}

/** For a screen reader: "0.2 to 4.5, now 0.3, at steps 0 to 99". */
export function curveWords({ xs, ys }, format, last = 'now') {
  if (xs.length === 0) return 'no values yet';
  const least = ys.reduce((a, b) => Math.min(a, b)), greatest = ys.reduce((a, b) => Math.max(a, b));
  return `${format(least)} to ${format(greatest)}, ${last} ${format(ys.at(-1))}, at steps ${xs[0]} to ${xs.at(-1)}`;
}

/** The range [from, to] of steps after zooming by a factor around its middle, or moving by a part of itself. */
export function moveRange([from, to], [first, last], { zoom = 1, by = 0 }) {
  const middle = (from + to) / 2 + by * (to - from), half = Math.max(1, (to - from) * zoom / 2);
  if (2 * half >= last - first) return null;  // the whole run
  const begin = Math.min(Math.max(first, middle - half), last - 2 * half);
  return [begin, begin + 2 * half];
}
