"""The HTML of a report: its texts, its limits, and its protection from injection."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from coterie.cli.main import main
from coterie.pipeline.lake.lake import Lake
from coterie.pipeline.report import page, rebalances, sections
from tests.pipeline.lakes import make_lake
from tests.pipeline.report.conftest import MADE
from tests.pipeline.report.many_groups import many_groups
from tests.pipeline.story import story


class _Tags(HTMLParser):
    """A parser that collects tags and attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [name for name, _ in attrs]


def test_a_hostile_name_adds_no_tag_and_no_event_handler(report: Path) -> None:
    tags = _Tags()
    tags.feed(report.read_text("utf-8"))
    assert tags.tags.count("script") == 1
    assert not {"img", "link", "iframe", "object"} & set(tags.tags)
    assert not [each for each in tags.attributes if each.startswith("on")]
    assert not {"src", "srcset", "action"} & set(tags.attributes)


def test_the_content_security_policy_allows_only_the_pages_scripts(
    report: Path,
) -> None:
    text = report.read_text("utf-8")
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)
    assert policy
    assert policy[1].startswith("default-src &#39;none&#39;; script-src &#39;sha256-")
    assert "unsafe-eval" not in policy[1]
    assert "script-src &#39;unsafe-inline" not in policy[1]


@pytest.mark.slow
def test_the_same_lake_at_the_same_time_has_the_same_page(
    report: Path, tmp_path: Path
) -> None:
    lake = Lake.open(make_lake(tmp_path / "lake", story()))
    again = page.render(lake, MADE)
    assert again == report.read_text("utf-8")


@pytest.mark.slow
def test_every_section_of_an_empty_lake_has_a_placeholder(tmp_path: Path) -> None:
    text = page.render(Lake.open(make_lake(tmp_path / "lake", {})), MADE)
    assert text.count('class="none"') == 10


@pytest.mark.slow
def test_missing_tables_are_listed(tmp_path: Path) -> None:
    text = page.render(Lake.create(tmp_path / "lake", "segments:log"), MADE)
    assert (
        "Tables not in this lake yet: coordinator_load, current_groups, current_o"
        in text
    )


@pytest.mark.slow
def test_long_lists_are_limited_and_the_total_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page, "GROUPS_MAX", 20)
    monkeypatch.setattr(page, "ATTENTION_MAX", 8)
    monkeypatch.setattr(sections, "LIST_MAX", 5)
    monkeypatch.setattr(rebalances, "LANES_MAX", 3)
    lake = make_lake(tmp_path / "lake", many_groups(120))
    text = page.render(Lake.open(lake), MADE)
    assert "Showing 20 of 120 groups, the most serious first" in text
    assert "<summary>Show the next 3</summary>" in text
    assert "The first 8 of 22 groups are explained here" in text
    assert "<summary>1 more of 5</summary>" in text
    assert "Shown: 3 groups" in text


@pytest.mark.slow
def test_only_groups_that_exist_count(tmp_path: Path) -> None:
    with_gone = page.render(
        Lake.open(make_lake(tmp_path / "a", many_groups(239, gone=61))), MADE
    )
    assert tile(with_gone, "groups") == "239"
    without = page.render(Lake.open(make_lake(tmp_path / "b", many_groups(239))), MADE)
    for name in ("groups", "trouble", "lag", "late", "lost", "expiring", "stale"):
        assert tile(with_gone, name) == tile(without, name), name
    assert "61 groups of the history no longer exist" in with_gone
    assert "144" not in tile(with_gone, "lag")


def tile(text: str, name: str) -> str:
    """Return the value of a key figure."""
    found = re.search(rf'id="tile-{name}".*?class="value">([^<]*)<', text, re.DOTALL)
    assert found
    return found[1]


@pytest.mark.slow
def test_the_page_of_a_large_lake_stays_small(tmp_path: Path) -> None:
    text = page.render(Lake.open(make_lake(tmp_path / "a", many_groups(300))), MADE)
    assert len(text.encode()) < 600_000


@pytest.mark.slow
def test_the_command_writes_the_page(
    story_lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    to = tmp_path / "report.html"
    words = ["pipeline", "report", "--lake", str(story_lake), "--to", str(to)]
    assert main(words) == 0
    assert to.read_text("utf-8").startswith("<!doctype html>")
    assert f"{to}: 0.1 MB" in capsys.readouterr().out
    assert main([*words[:-1], str(tmp_path / "no" / "where.html")]) == 1
