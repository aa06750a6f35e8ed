// The page on which people watch all jobs. It asks for /jobs again and again; jobs.js decides what it says.
import { byId, keep, make, say, updateSoon } from '/dom.js';
import { chosen, commandOf, facts, jobState, jobsSummary, keyOf, pageOf, stepWords } from '/jobs.js';

const kPeriodMs = 2000;
let jobs = null;  // as the server told them last

function createJob(job) {
  const item = make('li'), head = make('div', 'head'), name = make('h3'), state = make('span', 'state');
  const bar = make('progress'), step = make('p'), why = make('p', 'waiting'), list = make('dl', 'facts');
  name.append(make('small', '', `${job.namespace} / `), job.name);
  head.append(name, state);
  bar.setAttribute('aria-hidden', 'true');  // the text says it
  const command = make('p', 'note'), link = make('a', '', `Page of ${job.name}`);
  link.target = '_blank';
  command.append(link, make('span'), make('code'));
  item.append(head, why, bar, step, list, command);
  return item;
}

function updateJob(item, job) {
  const [head, why, bar, step, list, command] = item.children;
  const { text, tone } = jobState(job);
  say(head.lastChild, text);
  head.lastChild.className = `state ${tone}`;
  say(why, job.why);
  why.hidden = !job.why;
  why.classList.toggle('bad', tone === 'bad');
  say(step, stepWords(job));
  bar.hidden = !job.maxSteps;
  bar.max = job.maxSteps || 1;
  bar.value = job.step || 0;
  list.hidden = !job.state;
  keep(list, facts(job), {
    key: ([term]) => term,
    create: ([term]) => {
      const pair = make('div');
      pair.append(make('dt', '', term), make('dd'));
      return pair;
    },
    update: (pair, [, words]) => say(pair.lastChild, words),
  });
  command.hidden = !commandOf(job);
  const [link, between] = command.children;
  link.hidden = !pageOf(job);
  if (pageOf(job)) link.href = pageOf(job);
  say(between, pageOf(job) ? ' or ' : 'No way leads from here to its page; on your machine: ');
  say(command.lastChild, commandOf(job));
}

function show() {
  if (!jobs) return;
  say(byId('summary'), jobsSummary(jobs));
  const shown = chosen(jobs, byId('filter').value);
  say(byId('shown'), shown.length === jobs.length ? '' : `${shown.length} of ${jobs.length} are shown`);
  keep(byId('jobs'), shown, { key: keyOf, create: createJob, update: updateSoon(updateJob) });
}

/** Where the server does not answer, the last jobs stay. */
async function ask() {
  const answer = await fetch('/jobs').catch(() => null);
  byId('away').hidden = Boolean(answer?.ok);
  if (answer?.ok) {
    ({ jobs } = await answer.json());
    show();
  } else {
    const why = answer ? (await answer.text()).trim() : 'the server does not answer';
    say(byId('away'), `This is not up to date: ${why}. Asking again.`);
  }
}

async function follow() {
  // Nobody looks at a page that is hidden.
  if (!document.hidden) await ask().catch(() => {});
  setTimeout(follow, kPeriodMs);
}

// A link to one job: /#NAMESPACE/NAME.
if (location.hash.includes('/')) byId('filter').value = decodeURIComponent(location.hash.slice(1));
byId('filter').addEventListener('input', show);
document.addEventListener('visibilitychange', () => {
  if (!document.hidden) ask().catch(() => {});
});
follow();
