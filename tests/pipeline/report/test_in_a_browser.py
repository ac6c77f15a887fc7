"""The report in a real browser: what is drawn, what can be clicked, what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.pipeline.report.browser import ask
from tests.pipeline.story import HOSTILE, PARTITIONS

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

PLOTS = ("rebalances", "owners", "lag", "late", "progress", "load", "usage")
_DRAWN = """
  const marks = (name) => [...page.querySelectorAll(`#plot-${name} .role-mark`)]
    .flatMap((group) => [...group.querySelectorAll("path,line,rect")])
    .filter((mark) => mark.getBoundingClientRect().width > 0
      || mark.getBoundingClientRect().height > 0).length;
"""
_LOOK = f"""
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
def test_everything_is_drawn(
    width: int, dark: bool, report: Path, tmp_path: Path
) -> None:
    seen = ask(report, _LOOK, tmp_path, width=width, dark=dark)
    assert seen["marks"]["rebalances"] >= 17
    assert seen["marks"]["owners"] >= 2 * PARTITIONS + 1
    assert seen["marks"]["load"] >= 49
    assert seen["marks"]["usage"] == 9
    assert min(seen["marks"][name] for name in PLOTS) > 0
    assert seen["tiles"] == {
        "tile-groups": "4",
        "tile-trouble": "1",
        "tile-late": "≥ 1 min",
        "tile-storms": "2",
        "tile-expiring": "2",
        "tile-stale": "2",
        "tile-lost": "6",
    }
    assert seen["wide"] == 0, "the page scrolls sideways"
    assert max(seen["plots"]) <= 0, "a chart is wider than its place"
    paper, ink = (_light(seen[each]) for each in ("paper", "ink"))
    assert paper < 0.15 and ink > 0.8 if dark else paper > 0.9 and ink < 0.2, seen
    assert seen["axis"] == seen["ink"]
    # Names of groups do nothing, and nothing was fetched.
    assert seen["rows"] == 4
    assert (seen["images"], seen["requests"]) == (0, 0)
    assert seen["title"].startswith("Consumer groups of cluster-1")
    assert seen["group"] == HOSTILE.replace("\u202e", "\\u202e")


def _light(colour: str) -> float:
    """How light a colour is, 0 to 1."""
    parts = [int(each) for each in colour.strip("rgb()").split(",")]
    return sum(parts) / 765


def test_what_can_be_chosen_is_shown(report: Path, tmp_path: Path) -> None:
    seen = ask(
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
  found.nobody = texts("#owned tbody td:nth-child(2)");
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
    assert seen["filtered"] == ["billing"]
    assert seen["sorted"][:2] == ["audit", "billing"]
    assert seen["order"] == "descending"
    assert seen["again"] == "audit"
    assert seen["now"] == ["grace", "linus"] * 3
    assert seen["then"] == ["ada", "grace", "linus"] * 2
    assert seen["time"] == "2026-11-21 09:20:00 UTC"
    assert seen["nobody"] == ["nobody"] * PARTITIONS
    assert seen["before"] != seen["after"]
    assert seen["focus"] == "copy"
    assert "owner: ada" in seen["tip"] or "owner: grace" in seen["tip"]
