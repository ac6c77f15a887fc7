// Changes: choose, preview, apply, and undo, in one dialog.

import { get, post } from "./api.js";
import { h, name, number, plural, visible } from "./format.js";

const NOTES = {
  unchanged: "no change", "no-commit": "no commit yet", clamped: "moved into the log", "no-later-record": "no later record",
  "out-of-range": "outside the log", skips: "skips records", deleted: "commit deleted", "data-loss": "records were lost",
  recreated: "topic was created again",
};
const WARNED = new Set(["skips", "data-loss", "out-of-range", "deleted", "recreated"]);
const VERDICTS = {
  done: "done", already: "was so already", refused: "refused", partial: "written in part", failed: "failed", ready: "ready",
};
const TARGETS = [
  ["earliest", "the start of the log"], ["latest", "the end of the log"], ["duration", "a time ago"],
  ["datetime", "a date and time"], ["shift", "further, or back if negative"], ["offset", "an offset"],
];
const UNITS = [["M", "minutes"], ["H", "hours"], ["D", "days"]];

export class ChangeDialog {
  constructor(announce, onClose) {
    this.dialog = document.getElementById("change");
    this.announce = announce;
    this.dialog.addEventListener("close", onClose);
  }

  reset(group) {
    this.#show(this.#resetForm(group));
  }

  remove(group) {
    this.#preview({ action: "delete", groups: [group] }, ["Delete ", name(group)], "Delete the group");
  }

  undo(snapshot) {
    this.#preview({ action: "undo", snapshot }, ["Undo ", snapshot], "Undo");
  }

  #show(...content) {
    this.dialog.replaceChildren(...content.filter(Boolean));
    if (!this.dialog.open) this.dialog.showModal();
    this.dialog.querySelector("[autofocus]")?.focus();
  }

  #title = (title) => h("h2", { id: "change-title" }, title);

  #close = (text = "Cancel") => h("button", { type: "button", onclick: () => this.dialog.close() }, text);

  #resetForm(group) {
    const field = (label, node) => h("label", {}, h("span", {}, label), node);
    const to = h("select", { name: "to", autofocus: true }, TARGETS.map(([value, text]) => h("option", { value }, text)));
    const count = h("input", { type: "number", min: "1", step: "1", value: "1", "aria-label": "how long ago" });
    const unit = h("select", { "aria-label": "unit" }, UNITS.map(([value, text]) => h("option", { value }, text)));
    unit.value = "H";
    const time = h("input", { type: "datetime-local", step: "1", "aria-label": "date and time" });
    const value = h("input", { type: "text", inputmode: "numeric", "aria-label": "number", placeholder: "0" });
    const extra = h("span", { class: "extra" });
    const parts = h("input", { type: "text", placeholder: "all with a commit", spellcheck: "false", autocomplete: "off" });
    const fields = { duration: [count, unit], datetime: [time], shift: [value], offset: [value] };
    const choose = () => extra.replaceChildren(...(fields[to.value] ?? []));
    to.addEventListener("change", choose);
    choose();
    const read = () => {
      if (to.value === "duration") return unit.value === "D" ? `P${count.value}D` : `PT${count.value}${unit.value}`;
      if (to.value === "datetime") return time.value ? new Date(time.value).toISOString() : "";
      return fields[to.value] ? value.value : "";
    };
    const submit = (event) => {
      event.preventDefault();
      const request = {
        action: "reset", groups: [group], to: to.value, value: read(),
        partitions: parts.value.split(/\s+/).filter(Boolean),
      };
      this.#preview(request, ["Reset ", name(group)], "Reset the offsets", () => this.#show(form));
    };
    const form = h("form", { onsubmit: submit },
      this.#title(["Reset ", name(group)]),
      h("p", { class: "soft" }, "Nothing is written before you have seen the new offsets."),
      field("Move to", h("span", { class: "pair" }, to, extra)),
      field("Partitions", parts),
      h("p", { class: "soft hint" }, "Topics or topic:0,1 with spaces between; empty for every partition with a commit."),
      h("div", { class: "buttons" }, this.#close(), h("button", { class: "main", type: "submit" }, "Preview")));
    return form;
  }

  async #preview(request, title, verb, back = null) {
    this.#show(this.#title(title), h("p", { class: "soft" }, "Reading the group…"));
    let found;
    try {
      found = await post("api/preview", request);
    } catch (error) {
      return this.#fail(title, error.message, back);
    }
    // The focus is on the summary: a key that is pressed too long confirms nothing.
    const apply = h("button", { type: "button", class: request.action === "delete" ? "danger main" : "main",
      onclick: () => this.#apply(found.preview, title) }, verb);
    const summary = found.preview === null
      ? found.errors.length || found.rows.some((each) => each.error !== null) ? "Nothing can be written."
        : found.rows_total ? "Nothing would change: the offsets are there already."
        : "Nothing to change: the group has no committed offsets."
      : `${plural(found.offsets, "offset")} of ${plural(found.groups, "group")}. Nothing is written yet.`;
    this.#show(
      this.#title(title), h("p", { class: "summary", tabindex: "-1", autofocus: true }, summary), errorList(found.errors), errorList(found.warnings), rowTable(found),
      h("div", { class: "buttons" },
        back && h("button", { type: "button", onclick: back }, "Back"),
        this.#close(found.preview === null ? "Close" : "Cancel"),
        found.preview !== null && apply));
    this.announce(summary);
  }

  #fail(title, message, back) {
    this.#show(this.#title(title), h("p", { class: "bad", role: "alert" }, visible(message)),
      h("div", { class: "buttons" }, back && h("button", { type: "button", onclick: back }, "Back"), this.#close("Close")));
  }

  async #apply(preview, title) {
    for (const button of this.dialog.querySelectorAll("button")) button.disabled = true;
    let found;
    try {
      found = await post("api/apply", { preview });
    } catch (error) {
      return this.#fail(title, error.message, null);
    }
    const bad = found.results.filter((each) => each.verdict !== "done" && each.verdict !== "already");
    const summary = bad.length ? `${plural(bad.length, "group")} could not be changed as planned.`
      : `Done: ${plural(found.results.length, "group")}.`;
    this.#show(
      this.#title(title),
      h("p", { class: bad.length ? "summary bad" : "summary ok" }, summary),
      h("ul", { class: "results" }, found.results.map((each) =>
        h("li", {}, name(each.group, "b"), ` ${VERDICTS[each.verdict] ?? each.verdict}`,
          each.reasons.map((reason) => h("div", { class: "soft" }, visible(reason)))))),
      found.snapshot && h("p", { class: "soft" }, "On the command line: ", h("code", {}, `coterie groups undo ${found.snapshot}`)),
      h("div", { class: "buttons" },
        found.snapshot && h("button", { type: "button", onclick: () => this.undo(found.snapshot) }, "Undo…"),
        h("button", { type: "button", class: "main", autofocus: true, onclick: () => this.dialog.close() }, "Close")));
    this.announce(summary);
  }
}

function errorList(errors) {
  return errors.length > 0 && h("ul", { class: "bad", role: "alert" }, errors.map((each) =>
    h("li", {}, each.group && name(each.group, "b"), " ", visible(each.error))));
}

function rowTable(found) {
  if (!found.rows.length) return null;
  const rows = found.rows.filter((each) => each.topic || each.error);
  if (!rows.length) return h("p", { class: "soft" }, "The group has no committed offsets.");
  const delta = (value) => (value === null ? "" : value > 0 ? `+${number(value)}` : number(value).replace("-", "−"));
  const more = found.rows_total - found.rows.length;
  return h("div", { class: "preview" },
    h("table", {},
      h("thead", {}, h("tr", {}, ["Topic", "P", "From", "To", "Change", "Lag after", ""].map((title, at) =>
        h("th", { scope: "col", class: at && at < 6 ? "num" : "" }, title)))),
      h("tbody", {}, rows.map((each) =>
        h("tr", { class: each.notes.includes("unchanged") ? "faint" : "" },
          h("td", { class: "topic" }, name(each.topic)), h("td", { class: "num" }, each.partition < 0 ? "" : String(each.partition)),
          h("td", { class: "num" }, number(each.prior)), h("td", { class: "num to" }, number(each.new)),
          h("td", { class: "num" }, delta(each.delta)), h("td", { class: "num" }, number(each.lag_after)),
          h("td", { class: each.error !== null ? "bad" : "" }, each.error !== null ? visible(each.error)
            : each.notes.map((note) => h("span", { class: WARNED.has(note) ? "note warn" : "note" }, NOTES[note] ?? note))))))),
    more > 0 && h("p", { class: "soft" }, `and ${plural(more, "further row")}, which are written too`));
}

export async function showUndoList(dialog, onUndo) {
  const title = h("h2", { id: "undo-title" }, "Undo a change");
  const close = h("div", { class: "buttons" }, h("button", { type: "button", class: "main", onclick: () => dialog.close() }, "Close"));
  dialog.replaceChildren(title, h("p", { class: "soft" }, "Reading the snapshots…"), close);
  dialog.showModal();
  try {
    const { snapshots } = await get("api/snapshots");
    const undo = (id) => {
      dialog.close();
      onUndo(id);
    };
    const items = snapshots.map((each) =>
      h("li", {},
        h("div", {}, h("b", {}, visible(each.command)), " ", each.groups.map((group) => [name(group), " "]),
          each.groups_total > each.groups.length && `and ${number(each.groups_total - each.groups.length)} more`,
          h("div", { class: "soft" }, new Date(each.taken_at).toLocaleString())),
        h("button", { type: "button", onclick: () => undo(each.id) }, "Undo…")));
    dialog.replaceChildren(title, items.length ? h("ul", { class: "snapshots" }, items)
      : h("p", { class: "soft" }, "Nothing was changed yet, by this page or by coterie groups."), close);
  } catch (error) {
    dialog.replaceChildren(title, h("p", { class: "bad" }, visible(error.message)), close);
  }
}
