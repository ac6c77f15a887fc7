"""The layout of the report for five sizes of lakes: no text is cut or covered."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

from coterie.pipeline.lake.lake import Lake
from coterie.pipeline.report.page import render
from tests.pipeline.lakes import make_lake
from tests.pipeline.report.browser import run_script
from tests.pipeline.report.conftest import MADE
from tests.pipeline.report.many_groups import many_groups
from tests.pipeline.story import story

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

WIDTHS: Final = (1440, 1024, 390)
_HEIGHT_MAX: Final = 6_000
_LOW: Final = {"empty", "1 group", "10 groups", "300 groups"}
"""Lakes whose page is low on a phone, too."""
_LAYOUT: Final = Path(__file__).with_name("layout.js")
_CHECK: Final = f"""
  {_LAYOUT.read_text("utf-8")}
  const state = {{}};
  for (const width of {list(WIDTHS)}) {{
    await resize(width);
    state[width] = {{
      height: page.body.scrollHeight, cut: cutTexts(), overlaps: overlaps() }};
  }}
  unfoldAll();
  for (const width of {list(WIDTHS)}) {{
    await resize(width);
    state[width].cut.push(...cutTexts().map((text) => `unfolded: ${{text}}`));
    state[width].overlaps.push(...overlaps().map((text) => `unfolded: ${{text}}`));
  }}
  return state;
"""

LAKES: Final[dict[str, Any]] = {
    "empty": dict,
    "1 group": lambda: many_groups(1),
    "10 groups": lambda: many_groups(10),
    "hostile names": story,
    "300 groups": lambda: many_groups(300, gone=61),
    "3000 groups with long names": lambda: many_groups(
        3_000, has_long_names=True, samples=4
    ),
}


@pytest.mark.parametrize("lake", LAKES)
def test_no_text_is_cut_or_covered(lake: str, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    opened = Lake.open(make_lake(tmp_path / "lake", LAKES[lake]()))
    page.write_text(render(opened, MADE), "utf-8")
    state = run_script(page, _CHECK, tmp_path, width=WIDTHS[0])
    for width in WIDTHS:
        found = state[str(width)]
        assert not found["cut"], (width, found["cut"][:10])
        assert not found["overlaps"], (width, found["overlaps"][:10])
        if lake in _LOW or width > 390:
            assert found["height"] < _HEIGHT_MAX, width
    assert page.stat().st_size < 1_000_000
