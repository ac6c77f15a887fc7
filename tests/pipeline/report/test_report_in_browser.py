"""The report in a browser: charts, controls, and the absence of network requests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.pipeline.report.browser import run_script
from tests.pipeline.story import HOSTILE, PARTITIONS

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

PLOTS = ("rebalances", "owners", "lag", "late", "progress", "load", "usage")
_DRAWN = """
  const marks = (name) => [...page.querySelectorAll(`#plot-${name} .role-mark`)]
    .flatMap((group) => [...group.querySelectorAll("path,line,rect")])
    .filter((mark) => mark.getBoundingClientRect().width > 0
      || mark.getBoundingClientRect().height > 0).length;
"""
_PAGE_STATE = f"""
  {_DRAWN}
  const plots = ["rebalances", "owners", "lag", "late", "progress", "load", "usage"];
  const style = (query, name) => view.getComputedStyle(one(query))[name];
  return {{
    marks: Object.fromEntries(plots.map((name) => [name, marks(name)])),
    tiles: Object.fromEntries(all(".tile").map((tile) =>
      [tile.id, tile.querySelector(".value").textContent])),
    wide: page.documentElement.scrollWidth - page.documentElement.clientWidth,
    plots: all(".plot svg").map((svg) =>
      svg.getBoundingClientRect().right - page.documentElement.clientWidth),
    paper: style("body", "backgroundColor"), ink: style("body", "color"),
    axis: style(".plot svg text", "fill"),
    rows: all("#worst tbody tr").length,
    images: all("img").length, title: page.title,
    group: one("#worst tbody th").textContent,
    requests: view.performance.getEntriesByType("resource").length,
  }};
"""


@pytest.mark.parametrize("width", [1000, 360])
@pytest.mark.parametrize("dark", [False, True])
def test_every_chart_and_tile_is_drawn(
    width: int, dark: bool, report: Path, tmp_path: Path
) -> None:
    state = run_script(report, _PAGE_STATE, tmp_path, width=width, dark=dark)
    assert state["marks"]["rebalances"] >= 17
    assert state["marks"]["owners"] >= 2 * PARTITIONS + 1
    assert state["marks"]["load"] >= 49
    assert state["marks"]["usage"] == 9
    assert min(state["marks"][name] for name in PLOTS) > 0
    assert state["tiles"] == {
        "tile-groups": "4",
        "tile-trouble": "1",
        "tile-late": "≥ 1 min",
        "tile-storms": "2",
        "tile-expiring": "2",
        "tile-stale": "2",
        "tile-lost": "6",
    }
    assert state["wide"] == 0, "the page scrolls sideways"
    assert max(state["plots"]) <= 0, "a chart is wider than its container"
    paper, ink = (_light(state[each]) for each in ("paper", "ink"))
    assert paper < 0.15 and ink > 0.8 if dark else paper > 0.9 and ink < 0.2, state
    assert state["axis"] == state["ink"]
    # Names of groups add no elements, and the page makes no requests.
    assert state["rows"] == 4
    assert (state["images"], state["requests"]) == (0, 0)
    assert state["title"].startswith("Consumer groups of cluster-1")
    assert state["group"] == HOSTILE.replace("\u202e", "\\u202e")


def _light(colour: str) -> float:
    """Return the lightness of a colour, 0 to 1."""
    parts = [int(each) for each in colour.strip("rgb()").split(",")]
    return sum(parts) / 765


def test_the_controls_change_tables_and_charts(report: Path, tmp_path: Path) -> None:
    state = run_script(
        report,
        """
  const set = (query, value, event) => {
    one(query).value = value;
    one(query).dispatchEvent(new view.Event(event));
  };
  const texts = (query) => all(query).map((each) => each.textContent);
  const found = {};
  set("#filter", "BILL", "input");
  found.filtered = texts("#worst tbody tr:not([hidden]) th");
  set("#filter", "", "input");
  const members = all("#worst .sort").find((it) => it.textContent === "Members");
  members.click();
  found.sorted = texts("#worst tbody th");
  found.order = members.closest("th").getAttribute("aria-sort");
  members.click();
  found.again = texts("#worst tbody th")[3];
  found.now = texts("#owned tbody td:nth-child(2)");
  set("#owner-at", "0", "input");
  found.then = texts("#owned tbody td:nth-child(2)");
  found.time = one("#owner-time").textContent;
  set("#owner-at", "510", "input");
  found.gap = texts("#owned tbody td:nth-child(2)");
  const dark = () => view.getComputedStyle(page.body).backgroundColor;
  found.before = dark();
  one("#theme").click();
  found.after = dark();
  one(".copy").focus();
  found.focus = page.activeElement.className;
  const bar = one("#plot-owners .mark-rect path");
  const at = bar.getBoundingClientRect();
  bar.dispatchEvent(new view.MouseEvent("mousemove", {
    bubbles: true, clientX: at.x + 3, clientY: at.y + 3, view }));
  bar.dispatchEvent(new view.PointerEvent("pointermove", {
    bubbles: true, clientX: at.x + 3, clientY: at.y + 3, view }));
  await until(() => !one("#tip").hidden);
  found.tip = one("#tip").textContent;
  return found;
""",
        tmp_path,
    )
    assert state["filtered"] == ["billing"]
    assert state["sorted"][:2] == ["audit", "billing"]
    assert state["order"] == "descending"
    assert state["again"] == "audit"
    assert state["now"] == ["grace", "linus"] * 3
    assert state["then"] == ["ada", "grace", "linus"] * 2
    assert state["time"] == "2026-11-21 09:20:00 UTC"
    assert state["gap"] == ["none"] * PARTITIONS
    assert state["before"] != state["after"]
    assert state["focus"] == "copy"
    assert "owner: ada" in state["tip"] or "owner: grace" in state["tip"]
