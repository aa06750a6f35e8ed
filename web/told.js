// The status of a job as a stream tells it: first the whole, and then what changes. Nothing here touches the page or the
// network. worker/page/state/changes.h says how a change is written.

/** The value that a change makes of another one, of which the parts that stay are shared. */
export function applied(value, change) {
  if (Array.isArray(change)) return change[0];
  const made = Array.isArray(value) ? [...value] : { ...value };
  for (const [key, part] of Object.entries(change)) {
    if (part === 0) delete made[key];
    else made[key] = applied(made[key], part);
  }
  return made;
}

export class Told {
  status = null;
  number = null;  // of the last event
  takeState({ number, status }) { Object.assign(this, { number, status }); }
  /** False: an event before this one is missing. Then the status stays as it was, and the stream has to begin anew. */
  takeNews({ number, change }) {
    if (this.number === null || number !== this.number + 1) return false;
    this.number = number;
    this.status = applied(this.status, change);
    return true;
  }
}
