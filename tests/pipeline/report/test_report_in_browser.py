"""The report in a browser: charts, controls, and the absence of network requests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.pipeline.report.browser import run_script
from tests.pipeline.story import HOSTILE, PARTITIONS

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

_PAGE_STATE = """
  for (const each of all("details")) { each.removeAttribute("name"); each.open = true; }
  const drawn = (query) => all(query).filter((mark) => {
    const box = mark.getBoundingClientRect();
    return box.width > 0 && box.height > 0;
  }).length;
  const style = (query, name) => view.getComputedStyle(one(query))[name];
  return {
    ticks: drawn("#rebalances .mark"), storms: drawn("#rebalances .storm"),
    spans: drawn("#owners .span"), lines: drawn("#lag polyline"),
    load: drawn("#load .bar"), usage: drawn("#usage .bar"),
    rewinds: drawn("#lag .event"),
    tiles: Object.fromEntries(all(".tile").map((tile) =>
      [tile.id, tile.querySelector(".value").textContent])),
    paper: style("body", "backgroundColor"), ink: style("body", "color"),
    bars: style("#owners .span", "backgroundColor"),
    rows: all("#all-groups tbody tr").length,
    images: all("img").length, title: page.title,
    group: one(".attention li:nth-child(2) .full").textContent,
    requests: view.performance.getEntriesByType("resource").length,
  };
"""


@pytest.mark.parametrize("width", [1000, 360])
@pytest.mark.parametrize("dark", [False, True])
def test_every_chart_and_tile_is_drawn(
    width: int, dark: bool, report: Path, tmp_path: Path
) -> None:
    state = run_script(report, _PAGE_STATE, tmp_path, width=width, dark=dark)
    assert state["ticks"] == 17
    assert state["storms"] == 2
    assert state["spans"] == 2 * PARTITIONS
    assert state["lines"] == 4
    assert (state["load"], state["usage"]) == (50, 3)
    assert state["tiles"] == {
        "tile-groups": "4",
        "tile-trouble": "3",
        "tile-lag": "615",
        "tile-late": "≥ 1 min",
        "tile-lost": "3",
        "tile-storms": "2",
        "tile-expiring": "2",
        "tile-stale": "2",
    }
    paper, ink = (_light(state[each]) for each in ("paper", "ink"))
    assert paper < 0.15 and ink > 0.8 if dark else paper > 0.9 and ink < 0.2, state
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
  const texts = (query) => all(query).map((each) => each.innerText.trim());
  const found = {};
  one("nav a[href='#groups']").click();
  found.unfolded = one("#groups").open;
  set("#filter", "BILL", "input");
  found.filtered = texts("#all-groups tbody tr:not([hidden]) th");
  set("#filter", "", "input");
  const members = all("#all-groups .sort").find((it) => it.textContent === "Members");
  members.click();
  found.sorted = texts("#all-groups tbody th");
  found.order = members.closest("th").getAttribute("aria-sort");
  members.click();
  found.again = texts("#all-groups tbody th")[3];
  found.now = texts("#owners .lane:not(.foot) .side");
  set("#owners input", "0", "input");
  found.then = texts("#owners .lane:not(.foot) .side");
  found.time = one("#owners output").textContent;
  set("#owners input", "510", "input");
  found.gap = texts("#owners .lane:not(.foot) .side");
  set("#owners input", "1000", "input");
  found.end = texts("#owners .lane:not(.foot) .side");
  const dark = () => view.getComputedStyle(page.body).backgroundColor;
  found.before = dark();
  one("#theme").click();
  found.after = dark();
  one(".copy").focus();
  found.focus = page.activeElement.className;
  const name = one(".attention .cut");
  found.short = name.innerText;
  name.focus();
  found.full = name.innerText;
  return found;
""",
        tmp_path,
    )
    assert state["unfolded"]
    assert state["filtered"] == ["billing"]
    assert state["sorted"][:2] == ["audit", "billing"]
    assert state["order"] == "descending"
    assert state["again"] == "audit"
    assert state["now"] == state["end"] == ["grace", "linus"] * 3
    assert state["then"] == ["ada", "grace", "linus"] * 2
    assert state["time"] == "2026-11-21 09:20:00 UTC"
    assert state["gap"] == ["none"] * PARTITIONS
    assert state["before"] != state["after"]
    assert state["focus"] == "copy"
    # The full name is shown without a mouse.
    assert "…" in state["short"]
    assert state["full"] == HOSTILE.replace("\u202e", "\\u202e")


def test_the_page_shows_everything_without_its_script(
    report: Path, tmp_path: Path
) -> None:
    plain: Any = tmp_path / "plain.html"
    text = report.read_text("utf-8")
    start, end = text.index("<script>"), text.index("</script>", text.index("<script>"))
    marker = "document.documentElement.dataset.ready = 'yes';"
    policy = text[text.index("script-src") : text.index("; style-src")]
    text = f"{text[:start]}<script>{marker}{text[end:]}"
    plain.write_text(text.replace(policy, "script-src 'unsafe-inline'"), "utf-8")
    state = run_script(
        plain,
        """
  const shown = (query) => all(query).filter((each) => each.checkVisibility()).length;
  const owners = all("#owners .side .name").map((each) => each.innerText);
  const marks = shown("#owners .span") + shown("#rebalances .mark");
  view.location.hash = "#topics";
  one("#topics > summary").click();
  return { owners, marks, lines: shown("#lag polyline"),
    controls: shown(".controls, .copy, #theme"), topics: shown("#topics tbody tr") };
""",
        tmp_path,
    )
    assert state["owners"] == ["grace", "linus"] * 3
    assert state["marks"] == 2 * PARTITIONS + 17
    assert state["lines"] == 4
    assert state["topics"] == 1
    assert not state["controls"], "controls that do nothing are visible"


def test_the_check_of_the_layout_finds_cut_and_covered_texts(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text(
        """<!doctype html><html data-ready="yes"><body style="margin:0">
<div style="width:40px;overflow:hidden;white-space:nowrap">a long text</div>
<div class="axis" style="position:relative;height:2em"><span style="position:absolute">
one</span><span style="position:absolute;left:5px">two</span></div>
<p>fits</p>"""
    )
    layout = Path(__file__).with_name("layout.js").read_text("utf-8")
    script = f"{layout} return {{ cut: cutTexts(), overlaps: overlaps() }};"
    state = run_script(page, script, tmp_path, width=390)
    assert state["cut"]
    assert all("a long text" in each for each in state["cut"])
    assert len(state["overlaps"]) == 1
