// The side of the page: the details of one group, and the rebalances of all.

import { get } from "./api.js";
import { ago, clock, drawSpark, duration, h, name, number, plural, setText, spark, visible } from "./format.js";
import { protocolText, stateKind, stateText } from "./table.js";

const SPARK = [360, 56];
const COLUMNS = [
  ["Topic", ""], ["P", "num"], ["Owner", ""], ["Committed", "num committed"], ["End", "num end"], ["Lag", "num"], ["Behind", "num"],
];
const STATUS = { no_commit: "no commit", below_start: "records lost", beyond_end: "beyond the end", unknown: "unknown" };

export class Details {
  id = null;
  #isLoading = false;
  #content = null;

  constructor(store, actions) {
    this.store = store;
    this.actions = actions;
    this.node = document.getElementById("detail");
  }

  open(id) {
    this.id = id;
    this.#content = null;
    this.#build();
    this.node.hidden = false;
    document.body.dataset.side = "detail";
    this.refresh();
  }

  close() {
    this.id = null;
    this.node.hidden = true;
    if (document.body.dataset.side === "detail") delete document.body.dataset.side;
  }

  #build() {
    const button = (text, kind, action) =>
      h("button", { type: "button", class: kind, onclick: () => action(this.id) }, text);
    const part = (kind) => h("div", { class: kind });
    this.parts = {
      facts: h("dl", { class: "facts" }), error: h("p", { class: "bad", hidden: true }),
      chart: part("chart"), members: part("members"), partitions: part("partitions"),
    };
    this.parts.chart.append(spark(...SPARK), h("span", { class: "soft" }));
    const changes = this.actions.allowsChanges
      ? [button("Reset offsets…", "", this.actions.reset), button("Delete…", "danger", this.actions.remove)]
      : [h("span", { class: "soft" }, "Read-only: start coterie ui with --allow-changes to reset or delete groups.")];
    const { facts, error, chart, members, partitions } = this.parts;
    this.node.replaceChildren(
      h("div", { class: "side-head" }, name(this.id, "h2"),
        h("span", { class: "grow" }),
        h("button", { type: "button", class: "ghost square", "aria-label": "Close the details", title: "Close (Esc)", onclick: this.actions.close }, "✕")),
      facts, error, chart, h("div", { class: "buttons left" }, changes), members, partitions);
    this.node.scrollTop = 0;
  }

  // Called after each measurement. A request in flight is not repeated.
  async refresh() {
    const { id } = this;
    if (id === null || this.#isLoading) return;
    this.#isLoading = true;
    try {
      const content = await get(`api/group?id=${encodeURIComponent(id)}`);
      if (this.id === id) this.#content = content;
    } catch (error) {
      if (this.id === id && error.status === 404) this.#content = null;
    } finally {
      this.#isLoading = false;
    }
    if (this.id !== id) return this.refresh();
    this.draw();
  }

  draw() {
    if (this.id === null) return;
    const row = this.store.groups.get(this.id);
    const { facts, error, chart, members, partitions } = this.parts;
    if (!row) {
      facts.replaceChildren(h("dt", {}, "State"), h("dd", {}, "the group does not exist any more"));
      for (const part of [chart.lastChild, members, partitions]) part.replaceChildren();
      error.hidden = true;
      return;
    }
    drawSpark(chart.firstChild, row.history, ...SPARK, this.store.historyMax);
    const span = (row.history.length - 1) * this.store.periodMs;
    setText(chart.lastChild, `lag ${number(row.lag)}${span > 0 ? ` · over ${duration(span)}` : ""}`);
    error.hidden = row.error === null;
    setText(error, visible(row.error ?? ""));
    const content = this.#content;
    if (content === null) return;
    const fact = (term, value) => [h("dt", {}, term), h("dd", {}, value)];
    facts.replaceChildren(
      ...fact("State", h("span", { class: "c-state", "data-kind": stateKind(row) }, h("i", {}), stateText(row))),
      ...fact("Protocol", visible(protocolText(row))),
      ...fact("Epoch", this.#epochText(row, content)),
      ...fact("Coordinator", content.coordinator === null ? "–" : `${content.coordinator} (node ${content.coordinator_id})`),
      ...fact("Partitions", `${number(row.partitions)} of ${plural(row.topics, "topic")}` +
        (row.lagging ? `, ${number(row.lagging)} behind` : "") +
        (row.uncommitted ? `, ${number(row.uncommitted)} without a commit` : "")));
    this.#drawMembers(members, content);
    this.#drawPartitions(partitions, content);
  }

  #epochText(row, content) {
    if (row.epoch === null) return "not reported";
    const word = row.type === "classic" ? "generation " : "";
    const target = content.assignment_epoch;
    const behind = target !== null && target !== row.epoch ? ` (assignment ${target})` : "";
    return `${word}${row.epoch}${behind}`;
  }

  #drawMembers(part, content) {
    const more = content.members_total - content.members.length;
    part.replaceChildren(
      h("h3", {}, plural(content.members_total, "member")),
      h("ul", {}, content.members.map((each) =>
        h("li", {},
          badge(each.number),
          h("div", {},
            h("div", { class: "member" }, name(each.instance_id ?? each.client_id, "b"), h("span", { class: "soft" }, ` ${each.host}`),
              each.rack ? h("span", { class: "soft" }, ` · ${visible(each.rack)}`) : null,
              each.epoch === null ? null : h("span", { class: "soft" }, ` · epoch ${each.epoch}`)),
            h("div", { class: "owned" }, each.owned.length
              ? each.owned.map((owned) => h("span", {}, name(owned.topic), " ", h("span", { class: "soft" }, owned.partitions)))
              : h("span", { class: "soft" }, "owns no partition")))))),
      more > 0 ? h("p", { class: "soft" }, `and ${plural(more, "further member")}`) : "");
  }

  #drawPartitions(part, content) {
    if (!content.partitions.length) return part.replaceChildren();
    const now = this.store.now();
    const cell = (text, kind = "num") => h("td", { class: kind }, text);
    const more = content.partitions_total - content.partitions.length;
    part.replaceChildren(
      h("h3", {}, "Partitions"),
      h("table", {},
        h("thead", {}, h("tr", {}, COLUMNS.map(([title, kind]) =>
          h("th", { scope: "col", class: kind }, title)))),
        h("tbody", {}, content.partitions.map((each) =>
          h("tr", { title: each.error === null ? null : visible(each.error) },
            h("td", { class: "topic" }, name(each.topic)), cell(String(each.partition)),
            cell(each.owner === null ? "–" : badge(each.owner), ""),
            cell(number(each.committed), "num committed"), cell(number(each.end), "num end"),
            h("td", { class: `num${each.status === "normal" ? "" : " warn"}${each.lag ? "" : " zero"}` },
              each.error !== null ? "error" : each.status === "normal" ? number(each.lag)
                : `${each.lag === null ? "" : number(each.lag) + " "}${STATUS[each.status]}`),
            cell(each.oldest_ms === null ? (each.lag === 0 ? "0s" : "–")
              : (each.method === "interpolated" ? "≈" : "") + duration(now - each.oldest_ms)))))),
      more > 0 ? h("p", { class: "soft" }, `and ${plural(more, "partition")} with less lag`) : "");
  }
}

const badge = (owner) => h("span", { class: "badge", "data-hue": String(owner % 8), title: `member ${owner}` }, String(owner));

export class Feed {
  constructor(store, onOpen) {
    this.store = store;
    this.onOpen = onOpen;
    this.list = document.getElementById("rebalances");
    this.none = document.getElementById("no-rebalances");
    this.nodes = new Map();
  }

  draw() {
    const end = (each) => each.ended_ms ?? Infinity;
    const wanted = [...this.store.rebalances.values()].slice(-100)
      .sort((a, b) => (end(a) === end(b) ? b.number - a.number : end(a) < end(b) ? 1 : -1));
    this.none.hidden = wanted.length > 0;
    document.body.dataset.feed = wanted.length ? "some" : "empty";
    const kept = new Map();
    const items = wanted.map((each) => {
      const known = this.nodes.get(each.number);
      const entry = known && known.each === each ? known : { each, node: this.#make(each) };
      kept.set(each.number, entry);
      return entry.node;
    });
    const isSame = items.length === this.list.children.length && items.every((node, at) => node === this.list.children[at]);
    if (!isSame) this.list.replaceChildren(...items);
    this.nodes = kept;
    this.tick();
  }

  tick() {
    const now = this.store.now();
    for (const { each, node } of this.nodes.values()) {
      setText(node.querySelector("time"), each.ended_ms === null ? "now" : ago(now - each.ended_ms));
    }
  }

  #make(each) {
    const isOpen = each.ended_ms === null;
    const took = isOpen ? null : each.ended_ms - each.started_ms;
    const members = each.members_before === null ? "" : isOpen ? plural(each.members_before, "member")
      : `${number(each.members_before)} → ${plural(each.members_after, "member")}`;
    const epoch = isOpen || each.epoch_after === null ? "" :
      each.epoch_before === null ? `epoch ${each.epoch_after}` : `epoch ${each.epoch_before} → ${each.epoch_after}`;
    const length = took === null || !each.is_exact ? "" : took < 1000 ? `${took} ms` : duration(took);
    const facts = [members, epoch, length, each.outcome === "empty" ? "empty now" : ""].filter(Boolean).join(" · ");
    return h("li", { class: isOpen ? "open" : "" },
      h("i", {}),
      h("div", {},
        h("div", { class: "line" },
          h("button", { type: "button", class: "link", onclick: () => this.onOpen(each.group) }, name(each.group)),
          h("span", { class: "grow" }),
          h("time", { class: "soft", title: clock(each.started_ms) })),
        h("div", { class: "why" }, visible(each.reasons.join("; "))),
        h("div", { class: "soft" }, facts || (isOpen ? "in progress" : "done"))));
  }
}

