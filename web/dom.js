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
    if (!child) {
      child = create(item);
      child.dataset.key = key(item);
    }
    if (parent.children[i] !== child) parent.insertBefore(child, parent.children[i] ?? null);
    update(child, item);
  });
  for (const child of there.values()) child.remove();
}

/** A row of a table, of which the first cell names the row. */
export function makeRow(cells) {
  const row = make('tr'), head = make('th');
  head.scope = 'row';
  row.append(head, ...Array.from({ length: cells - 1 }, () => make('td')));
  return row;
}
