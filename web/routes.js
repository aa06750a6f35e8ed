// The routes that the microbatches of a step took, from its line of the ledger. Nothing here touches the page.

/** {step, routes}: a route is {workers: [of stage 0, ...], microbatches}, the most used first; null of an account that
 * has none. A microbatch that a stage does not count is left out. */
export function routesOf({ line, stages, microbatches }) {
  if (!line || line.adopted) return null;
  const places = Array.from({ length: stages }, () => new Map());  // microbatch -> worker
  for (const { group, participants } of line.groups) {
    if (group >= stages) continue;  // a sum that stages share has contributions that are in theirs, too
    for (const { worker, microbatches: counted } of participants) for (const m of counted) places[group].set(m, worker);
  }
  const routes = new Map();
  for (let m = 0; m < microbatches; ++m) {
    const workers = places.map(place => place.get(m));
    if (workers.includes(undefined)) continue;
    const key = workers.join('\n');
    if (!routes.has(key)) routes.set(key, { workers, microbatches: [] });
    routes.get(key).microbatches.push(m);
  }
  return { step: line.step, routes: [...routes.values()].sort((a, b) => b.microbatches.length - a.microbatches.length) };
}

const many = (count, noun) => `${count} ${noun}${count === 1 ? '' : noun.endsWith('ch') ? 'es' : 's'}`;

/** "Step 7: 8 microbatches took 4 routes. Most used: a → b → c, by 3." */
export function routeWords({ step, routes }) {
  const [first] = routes, all = routes.reduce((sum, route) => sum + route.microbatches.length, 0);
  if (!first) return `Step ${step} has no route in the ledger.`;
  return `Step ${step}: ${many(all, 'microbatch')} took ${many(routes.length, 'route')}. ` +
    `Most used: ${first.workers.join(' → ')}, by ${first.microbatches.length}.`;
}

/**
 * Where the microbatches are at a moment from 0 to 1 of a loop, in which each goes along its route and back, one after
 * the other: [[from, to, part]] with two workers and how far it is between them; `back` behind these on the way back.
 */
export function moving(routes, moment, most = 256) {
  const all = routes.flatMap(route => route.microbatches.map(microbatch => ({ microbatch, workers: route.workers })))
    .sort((a, b) => a.microbatch - b.microbatch);
  const every = Math.ceil(all.length / most), shown = all.filter((_, i) => i % every === 0);
  return shown.map(({ workers }, i) => {
    const hops = workers.length - 1;
    if (hops === 0) return [workers[0], workers[0], 0, false];
    const at = ((moment + i / shown.length) % 1) * 2 * hops, back = at >= hops;
    const along = back ? 2 * hops - at : at, hop = Math.min(hops - 1, Math.floor(along));
    return [workers[hop], workers[hop + 1], along - hop, back];
  });
}
