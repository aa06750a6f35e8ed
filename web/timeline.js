// What each worker did over the last minutes, as the page keeps and says it. Nothing here touches the page.
import { shortNumber, shortTime } from '/view.js';

/** Slots of which a lane says what the worker does now. */
const kNow = 5;

/** The lanes of all workers. */
export class Lanes {
  constructor() {
    this.slot = -1;  // the last that is known
    this.slots = 150;
    this.slotSeconds = 2;
    this.lanes = new Map();  // by worker: slot -> {heard, compute, sum, bytes}
    this.lost = new Map();   // by worker: {slot, cause, text, stage}
  }

  /** An answer to /timeline, which has what is new since `slot` of the answer before. */
  take({ slot, slots, slotSeconds, lanes, lost }) {
    if (slot < this.slot) this.lanes.clear();  // the clock of another machine
    Object.assign(this, { slot, slots, slotSeconds });
    for (const { id, slots: news } of lanes) {
      if (!this.lanes.has(id)) this.lanes.set(id, new Map());
      for (const [at, heard, compute, sum, bytes] of news) this.lanes.get(id).set(at, { heard, compute, sum, bytes });
    }
    for (const [id, lane] of this.lanes) {
      for (const at of lane.keys()) if (at <= slot - slots) lane.delete(at);
      if (lane.size === 0) this.lanes.delete(id);
    }
    // A trainer that has taken over does not know whom the one before has lost.
    for (const { id, ago, ...why } of lost) this.lost.set(id, { ...why, slot: slot - Math.floor(ago / slotSeconds) });
    for (const [id, { slot: at }] of this.lost) {
      if (at <= slot - slots) this.lost.delete(id);
      else if (!this.lanes.has(id)) this.lanes.set(id, new Map());
    }
  }

  /** From where on to ask. The last slot may have been told in part. */
  get after() { return this.slot - 2; }

  get ids() { return [...this.lanes.keys()].sort((a, b) => a.localeCompare(b, 'en', { numeric: true })); }

  get mostBytes() {
    let most = 0;
    for (const lane of this.lanes.values()) for (const { bytes } of lane.values()) if (bytes > most) most = bytes;
    return most;
  }

  /** Whether it was lost, and has not been heard since. */
  isGone(id) {
    const lost = this.lost.get(id);
    return Boolean(lost) && !this.lanes.get(id)?.has(this.slot) && !this.lanes.get(id)?.has(this.slot - 1);
  }
}

/** "computes 62 %, sums 8 %, waits 30 %, sends 3.10 MB/s": over the last seconds. */
export function laneWords(lanes, id) {
  if (lanes.isGone(id)) {
    const { slot, text, cause } = lanes.lost.get(id);
    return `lost ${shortTime((lanes.slot - slot) * lanes.slotSeconds)} ago: ${text || cause}`;
  }
  let heard = 0, compute = 0, sum = 0, bytes = 0;
  for (let at = lanes.slot - kNow; at <= lanes.slot; ++at) {
    const slot = lanes.lanes.get(id)?.get(at);
    if (!slot) continue;
    heard += slot.heard, compute += slot.heard * slot.compute, sum += slot.heard * slot.sum, bytes += slot.heard * slot.bytes;
  }
  if (heard === 0) return 'not heard lately';
  const share = part => Math.round(part / heard);
  const waits = Math.max(0, 100 - share(compute) - share(sum));
  return `computes ${share(compute)} %, sums ${share(sum)} %, waits ${waits} %, sends ${shortNumber(bytes / heard)}B/s`;
}

/** What to draw in a slot of a lane: shares from 0 to 1, `heard` false where nothing is known. */
export function drawnSlot(lanes, id, at, mostBytes) {
  const slot = lanes.lanes.get(id)?.get(at);
  const lost = lanes.lost.get(id)?.slot === at;
  if (!slot) return { heard: false, compute: 0, sum: 0, bytes: 0, lost };
  return { heard: true, compute: slot.compute / 100, sum: slot.sum / 100, bytes: mostBytes ? slot.bytes / mostBytes : 0, lost };
}
