// The groups as the server last sent them, and their lag over the last minutes.

export class Store {
  groups = new Map();
  rebalances = new Map();
  cluster = {};
  notes = [];
  error = null;
  measuredMs = null;
  periodMs = 2000;
  historyMax = 150;
  samples = -1;
  offsetMs = 0;

  // The server's time. Ages are differences of its times, whatever the browser's clock.
  now() {
    return Date.now() + this.offsetMs;
  }

  get isStale() {
    return this.measuredMs !== null && this.now() - this.measuredMs > Math.max(10000, 3 * this.periodMs);
  }

  take(message) {
    this.offsetMs = message.now_ms - Date.now();
    this.measuredMs = message.measured_ms;
    this.periodMs = message.period_ms;
    this.error = message.error;
    this.notes = message.notes;
    if (message.kind === "snapshot") this.#takeSnapshot(message);
    // A difference that the snapshot contains already changes nothing.
    if (message.kind === "delta" && message.samples > this.samples) this.#takeDelta(message);
  }

  #takeSnapshot(message) {
    this.cluster = message.cluster;
    this.historyMax = message.history_max;
    this.samples = message.samples;
    this.groups = new Map();
    for (const row of message.groups) {
      row.history = message.histories[row.id] ?? [row.lag];
      this.groups.set(row.id, row);
    }
    this.rebalances = new Map(message.rebalances.map((each) => [each.number, each]));
  }

  #takeDelta(message) {
    this.samples = message.samples;
    this.cluster = message.cluster ?? this.cluster;
    for (const id of message.gone) this.groups.delete(id);
    for (const row of message.changed) {
      const known = this.groups.get(row.id);
      if (known) Object.assign(known, row);
      else this.groups.set(row.id, { ...row, history: [] });
    }
    for (const row of this.groups.values()) {
      row.history.push(row.lag);
      if (row.history.length > this.historyMax) row.history.shift();
    }
    for (const each of message.rebalances) this.rebalances.set(each.number, each);
    while (this.rebalances.size > 200) this.rebalances.delete(this.rebalances.keys().next().value);
  }
}

export const SHOWN = {
  all: () => true,
  lagging: (row) => row.lag > 0,
  rebalancing: (row) => row.rebalancing,
  empty: (row) => row.members === 0,
  errors: (row) => row.error !== null,
};

const compareIds = (a, b) => (a.id < b.id ? -1 : a.id > b.id ? 1 : 0);

// Numbers with the greatest first, texts in their order, unknown values last. An old
// record comes before a young one.
const DESCENDING = new Set(["lag", "members", "epoch", "partitions"]);

export function comparator(key, reversed) {
  const sign = (DESCENDING.has(key) ? -1 : 1) * (reversed ? -1 : 1);
  return (a, b) => {
    const [x, y] = [a[key], b[key]];
    if (x === y) return compareIds(a, b);
    if (x === null || x === undefined) return 1;
    if (y === null || y === undefined) return -1;
    return x < y ? -sign : sign;
  };
}
