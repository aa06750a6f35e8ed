// What the page of all jobs says, as functions of what the server tells. Nothing here touches the page or the network.
import { shortNumber, shortTime, value } from '/view.js';

/** Of a job, as its status names it, in the order in which the summary counts them. */
const kStates = {
  Running: ['running', 'good'],
  Recovering: ['recovering', 'warn'],
  Starting: ['starting', 'warn'],
  Pending: ['pending', 'warn'],
  Rejected: ['rejected', 'bad'],
  Suspending: ['suspending', 'warn'],
  Suspended: ['suspended', ''],
  Succeeded: ['succeeded', 'good'],
  Failed: ['failed', 'bad'],
};

/** {text, tone} of a job's state. */
export function jobState(job) {
  const [text, tone] = kStates[job.state] ?? ['not understood', 'bad'];
  return { text, tone };
}

/** The name by which a row is kept. */
export const keyOf = job => `${job.namespace}/${job.name}`;

/** "3 jobs: 2 running, 1 failed" */
export function jobsSummary(jobs) {
  if (jobs.length === 0) return 'There is no job.';
  const words = jobs.map(job => jobState(job).text);
  const known = [...Object.values(kStates).map(([text]) => text), 'not understood'];
  const counts = known.map(word => [words.filter(each => each === word).length, word]).filter(([count]) => count);
  return `${jobs.length} job${jobs.length === 1 ? '' : 's'}: ${counts.map(([count, word]) => `${count} ${word}`).join(', ')}`;
}

/** Those whose namespace, name or state has each of the words. */
export function chosen(jobs, filter) {
  const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
  return jobs.filter(job => words.every(word => `${keyOf(job)} ${jobState(job).text}`.toLowerCase().includes(word)));
}

/** "Step 120 of 1000"; empty for a job that is not understood. */
export const stepWords = job => (job.maxSteps ? `Step ${job.step} of ${job.maxSteps}` : '');

/** The operator writes figures at most once a minute; of a step that takes as long they are no older than that. */
const kFreshSeconds = 120;

/** How old the step, the loss and the rate are; empty where they are of now, where nobody knows it, and at an end. */
export function figuresWords(job) {
  if (job.progressAgeSeconds == null || ['Succeeded', 'Failed', 'Rejected', 'Suspended'].includes(job.state)) return '';
  const age = `${shortTime(job.progressAgeSeconds)} old`;
  return job.progressAgeSeconds > kFreshSeconds ? `${age}, no news` : age;
}

/** Of a job as [term, words], what is known. */
export function facts(job) {
  if (!job.state) return [];
  const ends = [job.preemptions ? `${job.preemptions} preempted` : '', job.failures ? `${job.failures} failed` : ''];
  return [
    ['Loss', value(job.loss ?? NaN)],
    ['Tokens a second', shortNumber(job.tokensPerSecond ?? NaN)],
    ['Time left', shortTime(job.secondsLeft ?? NaN)],
    ['Ready workers', `${job.ready} of ${job.wanted}`],
    ['By stage', job.stages.map(({ ready, wanted }) => `${ready}/${wanted}`).join(' ') || '–'],
    ...(figuresWords(job) ? [['Figures', figuresWords(job)]] : []),
    ['Ended', ends.filter(Boolean).join(', ') || 'none'],
    ['Age', shortTime(job.ageSeconds)],
  ];
}

/** The path that leads to the page of one job; empty where none does from here. */
export const pageOf = job => job.page ?? '';

/** What shows the page of one job; empty while it has no trainer, of which the page is. */
export const commandOf = job => (job.trainer ? `swarmctl ui ${job.name} -n ${job.namespace}` : '');
