"use strict";
(() => {
  const root = document.documentElement;
  const byId = (id) => document.getElementById(id);
  const all = (query, within = document) => [...within.querySelectorAll(query)];
  // Controls that need this script are hidden until it runs.
  for (const each of all(".controls, .copy, #theme")) each.hidden = false;

  // ------------------------------------------------------------------ light, dark
  const isDark = () =>
    root.dataset.theme
      ? root.dataset.theme === "dark"
      : matchMedia("(prefers-color-scheme: dark)").matches;
  try {
    const saved = localStorage.getItem("coterie-theme");
    if (saved === "dark" || saved === "light") root.dataset.theme = saved;
  } catch { /* storage is disabled */ }
  byId("theme").addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    try {
      localStorage.setItem("coterie-theme", root.dataset.theme);
    } catch { /* storage is disabled */ }
  });

  // ------------------------------------------------------------------- navigation
  const unfold = () => {
    const target = location.hash.length > 1 && byId(location.hash.slice(1));
    if (target?.matches?.("details")) target.open = true;
  };
  addEventListener("hashchange", unfold);
  for (const link of all('a[href^="#"]')) {
    link.addEventListener("click", () => {
      const target = byId(link.hash.slice(1));
      if (target?.matches("details")) target.open = true;
    });
  }
  unfold();

  // ----------------------------------------------------------------------- tables
  const cellText = (row, at) => row.cells[at].dataset.sort ?? row.cells[at].textContent;
  const compare = (one, other) => {
    const [a, b] = [Number(one), Number(other)];
    return Number.isNaN(a) || Number.isNaN(b) ? one.localeCompare(other) : a - b;
  };
  for (const button of all("th .sort")) {
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
    for (const row of byId("all-groups").tBodies[0].rows) {
      const text = `${row.textContent} ${row.dataset.topics}`.toLowerCase();
      row.hidden = !text.includes(wanted);
      shown += !row.hidden;
    }
    byId("filtered").textContent = wanted ? `${shown} groups` : "";
  });

  // ----------------------------------------------------------------------- owners
  for (const chart of all(".owner-chart")) {
    const [slider, output] = [chart.querySelector("input"), chart.querySelector("output")];
    const { start, end } = chart.dataset;
    const newest = all(".lane .side", chart).map((side) => [...side.childNodes]);
    const show = () => {
      const at = slider.value / 10;
      const time = Number(start) + ((end - start) * at) / 100;
      output.textContent =
        `${new Date(time).toISOString().replace("T", " ").slice(0, 19)} UTC`;
      all(".lane:not(.foot)", chart).forEach((lane, index) => {
        lane.querySelector(".now").style.left = `${at}%`;
        const side = lane.querySelector(".side");
        if (at >= 100) { side.replaceChildren(...newest[index]); return; }
        const owner = all(".span", lane).find((span) => {
          const from = parseFloat(span.style.left);
          return from <= at && at < from + parseFloat(span.style.width);
        });
        side.textContent = owner?.dataset.owner ?? "none";
      });
    };
    slider.addEventListener("input", show);
    show();
  }

  // ------------------------------------------------------------------------- copy
  for (const button of all(".copy")) {
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
  root.dataset.ready = "yes";
})();
