"use strict";
(() => {
  const root = document.documentElement;
  const byId = (id) => document.getElementById(id);
  const data = JSON.parse(byId("data").textContent);

  // ------------------------------------------------------------------ light, dark
  const isDark = () =>
    root.dataset.theme
      ? root.dataset.theme === "dark"
      : matchMedia("(prefers-color-scheme: dark)").matches;
  const saveTheme = (theme) => {
    try { localStorage.setItem("coterie-theme", theme); } catch { /* storage is disabled */ }
  };
  try {
    const saved = localStorage.getItem("coterie-theme");
    if (saved === "dark" || saved === "light") root.dataset.theme = saved;
  } catch { /* storage is disabled */ }
  byId("theme").addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    saveTheme(root.dataset.theme);
  });

  // ----------------------------------------------------------------------- charts
  const tip = byId("tip");
  const showTip = (_handler, event, _item, value) => {
    if (!value) { tip.hidden = true; return; }
    tip.textContent = typeof value === "object"
      ? Object.entries(value).map(([name, text]) => `${name}: ${text}`).join("\n")
      : String(value);
    tip.hidden = false;
    const at = event.touches?.[0] ?? event;
    const left = Math.min(at.clientX + 14, innerWidth - tip.offsetWidth - 8);
    const top = Math.min(at.clientY + 14, innerHeight - tip.offsetHeight - 8);
    tip.style.left = `${Math.max(8, left)}px`;
    tip.style.top = `${Math.max(8, top)}px`;
  };
  const refused = async () => { throw new Error("the page makes no requests"); };
  const loader = { load: refused, sanitize: refused, http: refused, file: refused };
  const firstRows = {
    owners: () => chosenOwners(),
    now: () => [{ at: ownersAt() }],
    lags: () => data.lags[byId("lag-group").value],
    resets: () => data.resets[byId("lag-group").value],
  };
  const views = {};
  const begin = async (place) => {
    const name = place.dataset.spec;
    for (const source of data.specs[name].data) {
      source.values ??= firstRows[source.name]?.();
    }
    // ast: interpret expressions, as the content security policy forbids eval.
    const { view } = await vegaEmbed(place, data.specs[name], {
      mode: "vega", renderer: "svg", actions: false, ast: true, defaultStyle: false,
      loader, tooltip: showTip, logLevel: 1,
    });
    views[name] = view;
  };
  const draw = (name, rows) => {
    const view = views[name];
    if (!view) return Promise.resolve();
    for (const [source, values] of Object.entries(rows)) view.data(source, values);
    return view.resize().runAsync();
  };
  addEventListener("scroll", () => { tip.hidden = true; }, { passive: true });

  // ----------------------------------------------------------------------- tables
  const cellText = (row, at) => row.cells[at].dataset.sort ?? row.cells[at].textContent;
  const compare = (one, other) => {
    const [a, b] = [Number(one), Number(other)];
    return Number.isNaN(a) || Number.isNaN(b) ? one.localeCompare(other) : a - b;
  };
  for (const button of document.querySelectorAll("th .sort")) {
    button.addEventListener("click", () => {
      const title = button.closest("th");
      const body = title.closest("table").tBodies[0];
      const isUp = title.getAttribute("aria-sort") === "descending";
      for (const each of title.parentNode.cells) each.removeAttribute("aria-sort");
      title.setAttribute("aria-sort", isUp ? "ascending" : "descending");
      const at = title.cellIndex;
      const rows = [...body.rows].sort((a, b) => compare(cellText(a, at), cellText(b, at)));
      body.append(...(isUp ? rows : rows.reverse()));
    });
  }
  const filter = byId("filter");
  filter?.addEventListener("input", () => {
    const wanted = filter.value.trim().toLowerCase();
    let shown = 0;
    for (const row of byId("worst").tBodies[0].rows) {
      const text = `${row.textContent} ${row.dataset.topics}`.toLowerCase();
      row.hidden = !text.includes(wanted);
      shown += !row.hidden;
    }
    byId("filtered").textContent = wanted ? `${shown} groups` : "";
  });

  // ----------------------------------------------------------------------- owners
  const time = (ms) => new Date(ms).toISOString().replace("T", " ").slice(0, 19);
  const chosenOwners = () => data.owners[byId("owner-group").value] ?? [];
  const ownersAt = () => {
    const rows = chosenOwners();
    const from = Math.min(...rows.map((row) => row.from));
    const until = Math.max(...rows.map((row) => row.until));
    const at = from + ((until - from) * byId("owner-at").value) / 1000;
    byId("owner-time").textContent = `${time(at)} UTC`;
    const parts = [...new Set(rows.map((row) => row.part))].sort(
      (a, b) => a.localeCompare(b, "en", { numeric: true }));
    const body = byId("owned").tBodies[0];
    body.replaceChildren(...parts.map((part) => {
      const owner = rows.find((row) => row.part === part && row.from <= at
        && (at < row.until || (row.till === "still" && at <= row.until)));
      const texts = owner
        ? [part, owner.owner, owner.host, owner.since, owner.till, owner.end]
        : [part, "none", "–", "–", "–", "–"];
      const line = document.createElement("tr");
      line.append(...texts.map((text) => {
        const cell = document.createElement("td");
        cell.textContent = text;
        return cell;
      }));
      return line;
    }));
    return at;
  };
  const startOwners = () => {
    const all = () => draw("owners", { owners: chosenOwners(), now: [{ at: ownersAt() }] });
    byId("owner-group").addEventListener("change", all);
    byId("owner-at").addEventListener("input", () =>
      draw("owners", { now: [{ at: ownersAt() }] }));
  };

  // -------------------------------------------------------------------------- lag
  const startLags = () => {
    const all = () => {
      const at = byId("lag-group").value;
      const rows = { lags: data.lags[at], resets: data.resets[at] };
      draw("lag", rows);
      draw("late", rows);
      draw("progress", { lags: data.lags[at] });
    };
    byId("lag-group").addEventListener("change", all);
  };

  // ------------------------------------------------------------------------- copy
  for (const button of document.querySelectorAll(".copy")) {
    button.addEventListener("click", async () => {
      const code = button.parentNode.querySelector("code");
      try {
        await navigator.clipboard.writeText(code.textContent);
        button.textContent = "Copied";
      } catch {
        getSelection().selectAllChildren(code);
        button.textContent = "Selected";
      }
    });
  }
  const start = async () => {
    await Promise.all([...document.querySelectorAll(".plot")].map(begin));
    if (views.owners) startOwners();
    if (views.lag) startLags();
    root.dataset.ready = "yes";
  };
  start();
})();
