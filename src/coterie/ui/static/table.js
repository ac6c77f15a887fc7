// The table of groups: only the rows in view exist, however many groups there are.

import { compact, drawSpark, duration, h, number, setText, spark, visible } from "./format.js";
import { SHOWN, comparator } from "./store.js";

const OVERSCAN = 6;
const HOLD_MS = 2500;
const SPARK = [110, 22];
const LINE = 18;
// Heights of a row whose name has one line, and the space between two rows.
const ROW = { height: 36, gap: 0 };
const CARD = { height: 84, gap: 8 };
const context = document.createElement("canvas").getContext("2d");

const STATES = {
  Stable: "ok", Empty: "idle", Dead: "bad", Unknown: "idle", NotReady: "busy",
  PreparingRebalance: "busy", CompletingRebalance: "busy", Assigning: "busy", Reconciling: "busy",
};
const WORDS = { PreparingRebalance: "Preparing", CompletingRebalance: "Completing", NotReady: "Not ready" };

export function stateKind(row) {
  return row.error !== null ? "bad" : STATES[row.state] ?? "idle";
}

export const stateText = (row) => WORDS[row.state] ?? row.state ?? "unknown";

export const protocolText = (row) => {
  const kind = row.type === null || row.type === undefined ? row.protocol || "–" : row.type;
  const type = kind === "classic" && row.protocol && row.protocol !== "consumer" ? row.protocol : kind;
  return row.assignor ? `${type} · ${row.assignor}` : type;
};

export class Table {
  sortKey = "lag";
  isReversed = false;
  show = "all";
  text = "";
  view = [];
  cursor = null;
  selected = null;

  #pool = [];
  #lastMoveMs = 0;
  // The place of each row, and after them that of the end: names may have many lines.
  #tops = [0];
  #placed = "";
  #widths = new Map();
  #font = "";

  constructor(store, onOpen) {
    this.store = store;
    this.onOpen = onOpen;
    this.grid = document.getElementById("grid");
    this.viewport = document.getElementById("viewport");
    this.spacer = document.getElementById("spacer");
    this.none = document.getElementById("none");
    this.viewport.addEventListener("scroll", () => this.#requestDraw(), { passive: true });
    this.viewport.addEventListener("pointermove", () => (this.#lastMoveMs = Date.now()), { passive: true });
    new ResizeObserver(() => this.draw()).observe(this.viewport);
    this.spacer.addEventListener("click", (event) => {
      const row = event.target.closest(".row");
      if (row) this.open(row.groupId);
    });
    for (const button of this.grid.querySelectorAll("[data-sort]")) {
      button.addEventListener("click", () => this.sortBy(button.dataset.sort));
    }
    this.#markSort();
  }

  sortBy(key) {
    this.isReversed = key === this.sortKey && !this.isReversed;
    this.sortKey = key;
    this.#markSort();
    this.refresh(true);
  }

  #markSort() {
    for (const button of this.grid.querySelectorAll("[data-sort]")) {
      const isSorted = button.dataset.sort === this.sortKey;
      const order = this.isReversed ? "descending" : "ascending";
      button.parentElement.setAttribute("aria-sort", isSorted ? order : "none");
    }
    const select = document.getElementById("sort");
    if ([...select.options].some((each) => each.value === this.sortKey)) select.value = this.sortKey;
  }

  // While the pointer or the keys move, rows keep their places, so that a click does
  // not meet another group.
  refresh(isForced = false) {
    const isShown = SHOWN[this.show];
    const text = this.text.toLowerCase();
    const matches = (row) =>
      isShown(row) &&
      (!text || row.id.toLowerCase().includes(text) || protocolText(row).toLowerCase().includes(text) ||
        (row.state ?? "").toLowerCase().includes(text));
    const found = [...this.store.groups.values()].filter(matches);
    if (!isForced && Date.now() - this.#lastMoveMs < HOLD_MS) {
      const places = new Map(this.view.map((row, at) => [row.id, at]));
      found.sort((a, b) => (places.get(a.id) ?? 1e9) - (places.get(b.id) ?? 1e9));
    } else {
      found.sort(comparator(this.sortKey, this.isReversed));
    }
    this.view = found;
    this.#placed = "";
    this.grid.setAttribute("aria-rowcount", String(found.length + 1));
    this.none.hidden = found.length > 0;
    const isEmpty = this.store.groups.size === 0;
    setText(this.none, this.store.measuredMs === null ? "Measuring the cluster…"
      : isEmpty ? "The cluster has no groups." : "No group matches the filter.");
    this.draw();
  }

  get #kind() {
    return matchMedia("(max-width: 600px)").matches ? CARD : ROW;
  }

  // Return the width of a name on one line, in pixels.
  #width(id) {
    let width = this.#widths.get(id);
    if (width === undefined) {
      context.font = this.#font;
      width = Math.ceil(context.measureText(visible(id)).width) + 2;
      this.#widths.set(id, width);
    }
    return width;
  }

  // Place the rows again, if groups, their order or the width of names have changed.
  #place() {
    if (!this.view.length) {
      this.#tops = [0];
      return;
    }
    if (!this.#pool.length) this.#addRow();
    const name = this.#pool[0].firstElementChild;
    // The shorthand is empty: it has no tabular figures.
    const { fontWeight, fontSize, fontFamily } = getComputedStyle(name);
    const font = `${fontWeight} ${fontSize} ${fontFamily}`;
    if (font !== this.#font || this.#widths.size > 4 * this.store.groups.size + 1000) {
      this.#font = font;
      this.#widths.clear();
      this.#placed = "";
    }
    if (!this.#placed) {
      const need = this.view.reduce((most, row) => Math.max(most, this.#width(row.id)), 120);
      this.grid.style.setProperty("--need", `${need}px`);
    }
    const space = name.clientWidth;
    const kind = this.#kind;
    const placed = `${space} ${kind.height}`;
    if (placed === this.#placed) return;
    this.#placed = placed;
    // A line may end a character early, as none is broken.
    const line = Math.max(space - LINE, LINE);
    let top = 0;
    this.#tops = this.view.map((row) => {
      const width = this.#width(row.id);
      const lines = width <= space ? 1 : Math.ceil(width / line);
      const at = top;
      top += kind.height + (lines - 1) * LINE + kind.gap;
      return at;
    });
    this.#tops.push(top);
  }

  // Return the last row that begins at or before a place.
  #rowAt(place) {
    let [low, high] = [0, this.view.length];
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (this.#tops[middle] <= place) low = middle;
      else high = middle;
    }
    return low;
  }

  #requestDraw() {
    if (this.#isRequested) return;
    this.#isRequested = true;
    requestAnimationFrame(() => {
      this.#isRequested = false;
      this.draw();
    });
  }

  #isRequested = false;

  draw() {
    this.#place();
    const total = `${this.#tops.at(-1)}px`;
    if (this.spacer.style.height !== total) this.spacer.style.height = total;
    const { scrollTop, clientHeight } = this.viewport;
    const first = Math.max(0, this.#rowAt(scrollTop) - OVERSCAN);
    const rows = this.view.slice(first, this.#rowAt(scrollTop + clientHeight) + 1 + OVERSCAN);
    while (this.#pool.length < rows.length) this.#addRow();
    while (this.#pool.length > rows.length) this.#pool.pop().remove();
    rows.forEach((row, at) => this.#fill(this.#pool[at], row, first + at));
    const current = this.#pool.find((node) => node.groupId === this.cursor);
    if (current) this.grid.setAttribute("aria-activedescendant", current.id);
    else this.grid.removeAttribute("aria-activedescendant");
  }

  #addRow() {
    const cell = (kind) => h("span", { role: "gridcell", class: kind });
    const node = h("div", { class: "row", role: "row", id: `row-${this.#pool.length}` },
      cell("c-id"), cell("c-state"), cell("c-type"), cell("c-epoch num"), cell("c-members num"),
      cell("c-lag num"), cell("c-behind num"), cell("c-trend"));
    const [id, state, , , , , , trend] = node.children;
    id.setAttribute("dir", "auto");
    state.append(h("i", {}), h("span", {}));
    trend.append(spark(...SPARK));
    this.#pool.push(node);
    this.spacer.append(node);
  }

  #fill(node, row, at) {
    const [id, state, type, epoch, members, lag, behind, trend] = node.children;
    if (node.groupId !== row.id) {
      node.groupId = row.id;
      setText(id, visible(row.id));
      id.title = visible(row.id);
    }
    const height = `${this.#tops[at + 1] - this.#tops[at] - this.#kind.gap}px`;
    if (node.style.height !== height) node.style.height = height;
    const place = `translateY(${this.#tops[at]}px)`;
    if (node.style.transform !== place) {
      node.style.transform = place;
      node.setAttribute("aria-rowindex", String(at + 2));
    }
    state.dataset.kind = stateKind(row);
    setText(state.lastChild, stateText(row));
    state.title = row.error === null ? "" : visible(row.error);
    setText(type, visible(protocolText(row)));
    setText(epoch, row.epoch === null ? "–" : String(row.epoch));
    setText(members, number(row.members));
    members.dataset.word = row.members === 1 ? " member" : " members";
    setText(lag, compact(row.lag));
    lag.title = row.lag === null ? "" : number(row.lag);
    lag.classList.toggle("zero", !row.lag);
    setText(behind, this.behindText(row));
    drawSpark(trend.firstChild, row.history, ...SPARK, this.store.historyMax);
    node.setAttribute("aria-selected", String(row.id === this.selected));
    node.classList.toggle("cursor", row.id === this.cursor);
  }

  behindText(row) {
    if (row.oldest_ms !== null) return duration(this.store.now() - row.oldest_ms);
    return row.lag === 0 ? "0s" : "–";
  }

  move(step) {
    const at = this.view.findIndex((row) => row.id === this.cursor);
    this.moveTo(at < 0 ? 0 : at + step);
  }

  moveTo(place) {
    if (!this.view.length) return;
    const at = Math.min(Math.max(place, 0), this.view.length - 1);
    this.#lastMoveMs = Date.now();
    this.cursor = this.view[at].id;
    this.#place();
    const top = this.#tops[at];
    if (top < this.viewport.scrollTop) this.viewport.scrollTop = top;
    const bottom = this.#tops[at + 1] - this.viewport.clientHeight;
    if (bottom > this.viewport.scrollTop) this.viewport.scrollTop = bottom;
    this.draw();
    this.grid.focus({ preventScroll: true });
  }

  open(id) {
    this.cursor = id;
    this.selected = id;
    this.draw();
    this.onOpen(id);
  }
}
