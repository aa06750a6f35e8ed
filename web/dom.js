// What the sections of the page do to it.

export const byId = id => document.getElementById(id);

export const colour = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** Changes a text only where it differs: a screen reader tells each change. */
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export function make(tag, className = '', text = '') {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text) element.textContent = text;
  return element;
}

/** Makes the children of `parent` those of `items`, in their order; an element stays as long as its item does. */
export function keep(parent, items, { key, create, update }) {
  const there = new Map([...parent.children].map(child => [child.dataset.key, child]));
  items.forEach((item, i) => {
    let child = there.get(key(item));
    there.delete(key(item));
    const isNew = !child;
    if (isNew) {
      child = create(item);
      child.dataset.key = key(item);
    }
    if (parent.children[i] !== child) parent.insertBefore(child, parent.children[i] ?? null);
    update(child, item, isNew);
  });
  for (const child of there.values()) child.remove();
}

/** Of a frame for scripts: style, layout and paint of what they change take several times as long. */
const kBudgetMs = 1;
const pieces = new Map();  // by what they change, in the order in which they were asked for
let drawing = 0;

function drawSome() {
  drawing = 0;
  const end = performance.now() + kBudgetMs;
  for (const [target, draw] of pieces) {
    pieces.delete(target);
    draw();
    if (performance.now() >= end) break;
  }
  if (pieces.size) drawing = requestAnimationFrame(drawSome);
}

/** Draws it in one of the next frames, each of which draws a part of what waits: hundreds of workers cost no frame more
 * than its time. What is asked again of a target that waits takes its place. */
export function drawSoon(target, draw) {
  pieces.set(target, draw);
  drawing ||= requestAnimationFrame(drawSome);
}

/** For keep: fills an element that is new at once, and draws changes soon. */
export const updateSoon = update => (element, item, isNew) => {
  if (isNew) update(element, item);
  else drawSoon(element, () => update(element, item));
};

/** Calls `changed` with whether the element is on the screen, or nearly. */
export function watchView(element, changed) {
  new IntersectionObserver(entries => changed(entries.at(-1).isIntersecting), { rootMargin: '200px' }).observe(element);
}

/** A row of a table, of which the first cell names the row. */
export function makeRow(cells) {
  const row = make('tr'), head = make('th');
  head.scope = 'row';
  row.append(head, ...Array.from({ length: cells - 1 }, () => make('td')));
  return row;
}
