// The page: session, events, keys, and what belongs to no part of it alone.

import { post, session } from "./api.js";
import { ChangeDialog, showUndoList } from "./change.js";
import { ago, compact, duration, number, plural, setText, visible } from "./format.js";
import { Details, Feed } from "./side.js";
import { SHOWN, Store } from "./store.js";
import { Table } from "./table.js";

const HIDDEN_MS = 300000;
const SORTS = ["lag", "oldest_ms", "id", "state", "members"];
const THEMES = ["auto", "light", "dark"];
const one = (id) => document.getElementById(id);

const store = new Store();
const announce = (text) => setText(one("announce"), text);
const changes = new ChangeDialog(announce, () => details.refresh());
const actions = {
  allowsChanges: false,
  reset: (id) => changes.reset(id),
  remove: (id) => changes.remove(id),
  close: () => closeSide(),
};
const details = new Details(store, actions);
const table = new Table(store, (id) => details.open(id));
const feed = new Feed(store, (id) => {
  table.cursor = id;
  table.open(id);
});

let events = null;
let isConnected = false;
let hideTimer = 0;

function closeSide() {
  if (details.id !== null) {
    details.close();
    table.selected = null;
    table.draw();
    one("grid").focus({ preventScroll: true });
  } else {
    delete document.body.dataset.side;
  }
  one("feed-button").setAttribute("aria-expanded", "false");
}

// Events.

function connect() {
  events?.close();
  events = new EventSource("api/events");
  events.onopen = () => {
    isConnected = true;
    tick();
  };
  events.onmessage = (event) => {
    const message = JSON.parse(event.data);
    store.take(message);
    if (message.kind === "snapshot" || message.kind === "delta") draw(message.kind === "snapshot");
    tick();
  };
  events.onerror = () => {
    if (isConnected) announce("The connection to the server of this page was lost.");
    isConnected = false;
    // A refusal ends an EventSource; a lost connection is tried again by itself.
    if (events.readyState === EventSource.CLOSED) setTimeout(start, 3000);
    tick();
  };
}

function disconnect() {
  events?.close();
  events = null;
  isConnected = false;
}

function draw(isNew) {
  drawTiles();
  table.refresh(isNew);
  feed.draw();
  if (details.id !== null) {
    details.draw();
    details.refresh();
  }
  const nodes = store.cluster.nodes ?? [];
  one("cluster").title = nodes.join("\n");
  const id = store.cluster.id ? ` · ${store.cluster.id}` : "";
  if (nodes.length) setText(one("cluster"), `${title}${id} · ${plural(nodes.length, "broker")}`);
}

function drawTiles() {
  const counts = Object.fromEntries(Object.keys(SHOWN).map((key) => [key, 0]));
  let lag = null;
  let oldest = null;
  for (const row of store.groups.values()) {
    for (const key of Object.keys(SHOWN)) counts[key] += SHOWN[key](row) ? 1 : 0;
    if (row.lag !== null) lag = (lag ?? 0) + row.lag;
    if (row.oldest_ms !== null && (oldest === null || row.oldest_ms < oldest)) oldest = row.oldest_ms;
  }
  for (const tile of document.querySelectorAll("[data-show]")) {
    const count = counts[tile.dataset.show];
    setText(tile.firstElementChild, store.measuredMs === null ? "–" : number(count));
    tile.classList.toggle("zero", count === 0);
  }
  setText(one("total-lag"), compact(lag));
  one("total-lag").title = number(lag);
  store.oldestMs = oldest;
}

// Every second: ages, and whether the values are old.

function tick() {
  const behind = store.oldestMs ?? null;
  setText(one("oldest"), behind === null ? (store.measuredMs === null ? "–" : "0s") : duration(store.now() - behind));
  const status = one("status");
  const age = store.measuredMs === null ? null : store.now() - store.measuredMs;
  const isStale = store.isStale || (age !== null && store.error !== null);
  let state = "live";
  let text = age === null ? "measuring" : `live · ${ago(age)}`;
  if (!isConnected) [state, text] = ["lost", age === null ? "connecting" : `page disconnected · values ${ago(age)}`];
  else if (store.error !== null || isStale) [state, text] = ["stale", age === null ? "no connection" : `stale since ${ago(age)}`];
  status.dataset.state = state;
  setText(one("status-text"), text);
  document.body.classList.toggle("stale", state !== "live" && store.measuredMs !== null);
  const banner = one("banner");
  const sentences = [];
  if (store.error !== null) sentences.push(`The cluster cannot be measured: ${store.error}`);
  else if (isStale && isConnected) sentences.push("The cluster has not responded for a while; the values below are old.");
  if (store.notes.length) sentences.push(`Some groups are old; ${store.notes.join("; ")}.`);
  banner.hidden = !sentences.length;
  setText(banner, visible(sentences.join(" ")));
}

setInterval(() => {
  if (document.hidden) return;
  tick();
  table.draw();
  feed.tick();
  if (details.id !== null) details.draw();
}, 1000);

// A page in the background for minutes does not keep the cluster measured.
document.addEventListener("visibilitychange", () => {
  clearTimeout(hideTimer);
  if (document.hidden) hideTimer = setTimeout(disconnect, HIDDEN_MS);
  else if (events === null && title !== null) start();
});

// Filters and sorting.

for (const tile of document.querySelectorAll("[data-show]")) {
  tile.addEventListener("click", () => {
    table.show = tile.dataset.show;
    for (const each of document.querySelectorAll("[data-show]")) {
      each.setAttribute("aria-pressed", String(each === tile));
    }
    table.viewport.scrollTop = 0;
    table.refresh(true);
    announce(`${plural(table.view.length, "group")} shown`);
  });
}

let filterTimer = 0;
one("filter").addEventListener("input", (event) => {
  table.text = event.target.value.trim();
  table.viewport.scrollTop = 0;
  table.refresh(true);
  clearTimeout(filterTimer);
  filterTimer = setTimeout(() => announce(`${plural(table.view.length, "group")} shown`), 700);
});

one("sort").addEventListener("change", (event) => {
  table.isReversed = false;
  if (table.sortKey !== event.target.value) table.sortBy(event.target.value);
});

// Colours.

function applyTheme(theme) {
  document.documentElement.dataset.theme = theme;
  one("theme-button").title = `Colours: ${theme === "auto" ? "as the system" : theme} (t)`;
}

function nextTheme() {
  const theme = THEMES[(THEMES.indexOf(document.documentElement.dataset.theme) + 1) % THEMES.length];
  localStorage.setItem("coterie-theme", theme);
  applyTheme(theme);
  announce(one("theme-button").title);
}

const kept = localStorage.getItem("coterie-theme");
applyTheme(THEMES.includes(kept) ? kept : "auto");
one("theme-button").addEventListener("click", nextTheme);
one("help-button").addEventListener("click", () => one("help").showModal());
one("undo-button").addEventListener("click", () => showUndo());
one("feed-button").addEventListener("click", () => {
  document.body.dataset.side = "feed";
  one("feed-button").setAttribute("aria-expanded", "true");
});
one("feed-close").addEventListener("click", closeSide);

const showUndo = () => actions.allowsChanges && showUndoList(one("undo"), (id) => changes.undo(id));

// Keys.

const KEYS = {
  "/": () => one("filter").focus(),
  j: () => table.move(1),
  ArrowDown: () => table.move(1),
  k: () => table.move(-1),
  ArrowUp: () => table.move(-1),
  PageDown: () => table.move(12),
  PageUp: () => table.move(-12),
  Home: () => table.moveTo(0),
  End: () => table.moveTo(table.view.length - 1),
  Enter: () => table.cursor !== null && table.open(table.cursor),
  s: () => table.sortBy(SORTS[(SORTS.indexOf(table.sortKey) + 1) % SORTS.length]),
  t: nextTheme,
  u: () => showUndo(),
  r: () => actions.allowsChanges && table.cursor !== null && changes.reset(table.cursor),
  d: () => actions.allowsChanges && table.cursor !== null && changes.remove(table.cursor),
  "?": () => one("help").showModal(),
};

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  const { target } = event;
  if (target === one("filter")) {
    if (event.key === "Escape") {
      target.value = "";
      target.dispatchEvent(new Event("input"));
      target.blur();
    } else if (event.key === "Enter" || event.key === "ArrowDown") table.moveTo(0);
    else return;
    return event.preventDefault();
  }
  if (event.key === "Escape") return closeSide();
  const isControl = target.matches("button, select, input, a");
  if (isControl && (event.key === "Enter" || event.key.startsWith("Arrow") || target.matches("select, input"))) return;
  const action = KEYS[event.key];
  if (action) {
    event.preventDefault();
    action();
  }
});

// Start: log in if needed, then listen.

let title = null;

async function start() {
  try {
    const found = await session();
    title = found.title;
    actions.allowsChanges = found.allow_changes;
    one("mode").hidden = false;
    setText(one("mode"), found.allow_changes ? "changes allowed" : "read-only");
    one("mode").classList.toggle("warn", found.allow_changes);
    one("undo-button").hidden = !found.allow_changes;
    setText(one("cluster"), title);
    document.title = `${title} · Coterie`;
    connect();
  } catch (error) {
    if (error.status === 401) one("login").open || one("login").showModal();
    else setTimeout(start, 3000);
    tick();
  }
}

one("login").addEventListener("cancel", (event) => event.preventDefault());
one("login-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  try {
    await post("api/login", { token: one("token").value });
    one("token").value = "";
    one("login").close();
    start();
  } catch (error) {
    setText(one("login-error"), error.message);
  }
});

// The token of the address is exchanged for a cookie and removed from the address.
const token = new URLSearchParams(location.hash.slice(1)).get("token");
if (token !== null) {
  history.replaceState(null, "", location.pathname);
  await post("api/login", { token }).catch((error) => setText(one("login-error"), error.message));
}
table.refresh();
await start();
document.documentElement.dataset.ready = "yes";
