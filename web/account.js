// The account of a step: counts in its line of the ledger, and what they say. Nothing here touches the page.

/** "0–3, 5": numbers in order. */
export function ranges(numbers) {
  const parts = [];
  for (const number of [...numbers].sort((a, b) => a - b)) {
    const last = parts.at(-1);
    if (last && number === last[1] + 1) last[1] = number;
    else parts.push([number, number]);
  }
  return parts.map(([first, last]) => (first === last ? `${first}` : `${first}–${last}`)).join(', ');
}

const many = (count, noun) => `${count} ${noun}${count === 1 ? '' : noun.endsWith('ch') ? 'es' : 's'}`;

/** How often each microbatch is in the sums of a group, by stage. */
function countGroup(group, stages, microbatches) {
  const counts = new Map();
  const of = stage => counts.get(stage) ?? counts.set(stage, new Map()).get(stage);
  if (group.group < stages) of(group.group);
  for (const part of group.participants) {
    const stage = of(part.stage);
    for (const microbatch of part.microbatches) stage.set(microbatch, (stage.get(microbatch) ?? 0) + 1);
  }
  const problems = [];
  let counted = 0;
  for (const [stage, times] of counts) {
    const place = `at stage ${stage}${group.group < stages ? '' : `, in the sum of group ${group.group}`}`;
    for (let microbatch = 0; microbatch < microbatches; ++microbatch) {
      const count = times.get(microbatch) ?? 0;
      if (count === 1) ++counted;
      else problems.push(`microbatch ${microbatch} is counted ${count ? `${count} times` : 'never'} ${place}`);
    }
    for (const microbatch of times.keys()) {
      if (!(microbatch < microbatches)) problems.push(`microbatch ${microbatch} is not of this job, but counted ${place}`);
    }
  }
  return { problems, counted };
}

/**
 * Of the answer to /account: {tone, sentence, problems, rows}. Each row is what a worker did in a stage: {stage, worker,
 * counted, retried, replayed}, lists of microbatches.
 */
export function judge({ microbatches, stages, chain, line, first, last }) {
  if (!line) {
    const sentence = last === null ? 'No step is committed yet.'
      : `The ledger has no line of that step, or none that can be read; it has the steps ${first} to ${last}.`;
    return { tone: 'warn', sentence, problems: [], rows: [] };
  }
  const problems = chain === 'broken'
    ? ['the line, or the one before it, is not the one that was written: its digest does not match'] : [];
  const rows = new Map();
  const row = ({ stage, worker }) => {
    const key = `${stage} ${worker}`;
    if (!rows.has(key)) rows.set(key, { stage, worker, counted: [], retried: [], replayed: [] });
    return rows.get(key);
  };
  let counted = 0;
  if (!line.adopted) {
    for (const group of line.groups) {
      const found = countGroup(group, stages, microbatches);
      problems.push(...found.problems);
      if (group.group >= stages) continue;  // what stages share is in the sums of these again
      counted += found.counted;
      for (const part of group.participants) row(part).counted.push(...part.microbatches);
    }
    for (let stage = 0; stage < stages; ++stage) {
      if (!line.groups.some(({ group }) => group === stage)) problems.push(`stage ${stage} has no sum`);
    }
  }
  let retried = 0, replayed = 0;
  for (const part of line.redone ?? []) {
    row(part).retried.push(...part.retried);
    row(part).replayed.push(...part.replayed);
    retried += part.retried.length, replayed += part.replayed.length;
  }
  const words = [problems.length
    ? `Step ${line.step}: the account does not hold: ${many(problems.length, 'problem')}.`
    : line.adopted
      ? `Step ${line.step} was decided by a trainer before, whose successor knows its sums, and not who contributed what.`
      : `Step ${line.step}: each of ${many(microbatches, 'microbatch')} is counted exactly once at each of ` +
        `${many(stages, 'stage')}: ${counted} of ${microbatches * stages} contributions.`];
  if (retried + replayed) {
    words.push(`${many(retried + replayed, 'contribution')} had to be made again: ${replayed} replayed, ${retried} retried.`);
  }
  if (chain === 'holds') words.push('The digest of the line matches.');
  return {
    tone: problems.length ? 'bad' : line.adopted ? 'warn' : 'good',
    sentence: words.join(' '),
    problems,
    rows: [...rows.values()].sort((a, b) => a.stage - b.stage || a.worker.localeCompare(b.worker, 'en', { numeric: true })),
  };
}

/** The squares of a stage: for each microbatch {worker, again}, by whom it is counted and how it was made again. */
export function squares(rows, stage, microbatches) {
  const all = Array.from({ length: microbatches }, () => ({ worker: null, again: '' }));
  const of = rows.filter(row => row.stage === stage);
  of.forEach((row, i) => { for (const m of row.counted) if (all[m]) all[m].worker ??= i; });
  for (const again of ['retried', 'replayed']) {
    for (const row of of) for (const m of row[again]) if (all[m]) all[m].again = again;
  }
  return all;
}
