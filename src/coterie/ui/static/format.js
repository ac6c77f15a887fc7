// Text of numbers, times and names, and DOM nodes made of them. Text from a cluster is
// only ever a text node: nothing here parses HTML.

const NUMBERS = new Intl.NumberFormat("en-US");
const COMPACT = new Intl.NumberFormat("en-US", { notation: "compact", maximumFractionDigits: 1 });
const CONTROLS = /[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;

export const number = (value) => (value === null || value === undefined ? "–" : NUMBERS.format(value));

export const compact = (value) =>
  value === null || value === undefined ? "–" : value < 100000 ? NUMBERS.format(value) : COMPACT.format(value);

// Characters that are invisible or change the direction of others are shown as escapes.
export const visible = (text) =>
  String(text).replace(CONTROLS, (each) => "\\u" + each.charCodeAt(0).toString(16).padStart(4, "0"));

const two = (value) => String(value).padStart(2, "0");

export function duration(ms) {
  const s = Math.max(0, Math.floor(ms / 1000));
  if (s < 60) return `${s}s`;
  if (s < 3600) return `${Math.floor(s / 60)}m ${two(s % 60)}s`;
  if (s < 86400) return `${Math.floor(s / 3600)}h ${two(Math.floor((s % 3600) / 60))}m`;
  return `${Math.floor(s / 86400)}d ${two(Math.floor((s % 86400) / 3600))}h`;
}

export function ago(ms) {
  if (ms < 1500) return "now";
  if (ms < 60000) return `${Math.floor(ms / 1000)}s ago`;
  if (ms < 3600000) return `${Math.floor(ms / 60000)}m ago`;
  return `${duration(ms)} ago`;
}

export const clock = (ms) => new Date(ms).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium" });

export const plural = (count, word, words = word + "s") => `${number(count)} ${count === 1 ? word : words}`;

// Sets text only if it differs: a node that stays the same is not laid out again.
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

// h("button", { class: "main", onclick: f, "aria-label": "x" }, "text", node, ...)
export function h(name, properties, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(properties ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else node.setAttribute(key, value === true ? "" : value);
  }
  node.append(...children.flat().filter((each) => each !== null && each !== undefined && each !== false));
  return node;
}

// A name from the cluster, separate from the direction of the text around it.
export const name = (text, tag = "bdi") => h(tag, { dir: "auto", title: visible(text) }, visible(text));

const SVG = "http://www.w3.org/2000/svg";

export function spark(width, height) {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("class", "spark");
  svg.setAttribute("aria-hidden", "true");
  const area = document.createElementNS(SVG, "path");
  const line = document.createElementNS(SVG, "path");
  area.setAttribute("class", "area");
  line.setAttribute("class", "line");
  line.setAttribute("vector-effect", "non-scaling-stroke");
  svg.append(area, line);
  return svg;
}

export function drawSpark(svg, values, width, height, count) {
  const known = values.map((value) => value ?? 0);
  const top = Math.max(1, ...known);
  const step = width / Math.max(Math.min(count, Math.max(values.length, 30)) - 1, 1);
  const start = width - step * (known.length - 1);
  const y = (value) => (height - 1.5 - (value / top) * (height - 3)).toFixed(1);
  let line = "";
  let last = null;
  known.forEach((value, at) => {
    // The inner points of a flat stretch are left out.
    if (value === last && value === known[at + 1]) return;
    line += `${line ? "L" : "M"}${(start + at * step).toFixed(1)} ${y(value)}`;
    last = value;
  });
  if (known.length === 1) line = `M${(width - step).toFixed(1)} ${y(known[0])}L${width} ${y(known[0])}`;
  const [area, stroke] = svg.children;
  if (stroke.getAttribute("d") === line) return;
  const first = known.length === 1 ? width - step : start;
  stroke.setAttribute("d", line);
  area.setAttribute("d", line && `${line}L${width} ${height}L${first.toFixed(1)} ${height}Z`);
}
