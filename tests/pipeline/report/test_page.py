"""The HTML of a report: its texts, its limits, and its protection from injection."""

from __future__ import annotations

import json
import re
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest

from coterie.cli.main import main
from coterie.pipeline.lake.lake import Lake
from coterie.pipeline.lake.query import TableReader
from coterie.pipeline.report import sections, texts, timeline
from coterie.pipeline.report.page import json_for_page, render
from tests.pipeline.lakes import ago, make_lake
from tests.pipeline.report.conftest import MADE
from tests.pipeline.story import HOSTILE, TOPIC_ID, story


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
    assert tags.tags.count("script") == 3
    assert not {"img", "link", "iframe", "object"} & set(tags.tags)
    assert not [each for each in tags.attributes if each.startswith("on")]
    assert not {"src", "srcset", "action"} & set(tags.attributes)


def test_the_content_security_policy_allows_only_the_pages_scripts(
    report: Path,
) -> None:
    page = report.read_text("utf-8")
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)
    assert policy
    assert policy[1].startswith("default-src &#39;none&#39;; script-src &#39;sha256-")
    assert "unsafe-eval" not in policy[1]
    assert "script-src &#39;unsafe-inline" not in policy[1]


def test_json_in_a_script_element_cannot_close_the_element() -> None:
    text = json_for_page({"__proto__": f"{HOSTILE}<!--]]>&amp;\u2028"})
    assert not set("<>&\u2028") & set(text)
    assert json.loads(text) == {"__proto__": f"{HOSTILE}<!--]]>&amp;\u2028"}


@pytest.mark.slow
def test_the_same_lake_at_the_same_time_has_the_same_page(
    report: Path, tmp_path: Path
) -> None:
    lake = Lake.open(make_lake(tmp_path / "lake", story()))
    again = render(lake, MADE)
    assert again == report.read_text("utf-8")


@pytest.mark.slow
def test_every_section_of_an_empty_lake_has_a_placeholder(tmp_path: Path) -> None:
    page = render(Lake.open(make_lake(tmp_path / "lake", {})), MADE)
    assert page.count('class="none"') == 9


@pytest.mark.slow
def test_missing_tables_are_listed(tmp_path: Path) -> None:
    page = render(Lake.create(tmp_path / "lake", "segments:log"), MADE)
    assert (
        "Tables not in this lake yet: coordinator_load, current_groups, current_o"
        in page
    )


@pytest.mark.slow
def test_long_lists_are_limited_and_the_total_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sections, "GROUPS_MAX", 2)
    monkeypatch.setattr(sections, "LIST_MAX", 1)
    monkeypatch.setattr(timeline, "LANES_MAX", 1)
    monkeypatch.setattr(timeline, "REBALANCES_MAX", 10)
    page = render(Lake.open(make_lake(tmp_path / "lake", story())), MADE)
    assert "Showing 2 of 4 groups, by severity." in page
    assert "Showing 1 of 3 offsets, the next to expire." in page
    assert "Showing 1 of 2 candidates, highest score first." in page
    assert re.search(r"Showing \d of 17 rebalances: the newest of the 1 groups", page)


def test_only_the_last_days_of_a_long_history_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = story()
    old = {**rows["lag_history"][0], "sample_ts": ago(days=9), "partition": 9}
    rows["lag_history"].append(old)
    lake = Lake.open(make_lake(tmp_path / "lake", rows))
    assert len(sections.newest_lags(TableReader(lake))) == 13
    monkeypatch.setattr("coterie.pipeline.lake.query._LONG_HISTORY_ROWS", 10)
    assert len(sections.newest_lags(TableReader(lake))) == 12


def test_owners_of_a_topic_with_only_an_id_are_drawn_with_its_name(
    tmp_path: Path,
) -> None:
    rows = story()
    for at, each in enumerate(rows["partition_ownership_history"]):
        each["topic"] = "orders" if at % 2 else None
    rows["partition_end_samples"][0]["topic_id"] = TOPIC_ID
    reader = TableReader(Lake.open(make_lake(tmp_path / "lake", rows)))
    lanes = timeline.owners(reader, ["billing"])["billing"]
    assert {each["part"] for each in lanes} == {f"orders-{at}" for at in range(6)}


def test_a_thinned_line_ends_with_its_newest_point() -> None:
    for count in (0, 1, 199, 200, 201, 5_000):
        points = timeline.thin_out([{"at": each} for each in range(count)])
        assert len(points) == min(count, 200) or 100 < len(points) <= 200
        assert not count or points[-1] == {"at": count - 1}


@pytest.mark.parametrize(
    ("ms", "expected"),
    [
        (None, "–"),
        (0, "0 ms"),
        (12_340, "12.3 s"),
        (60_000, "1 min"),
        (312_000, "5 min 12 s"),
        (7_500_000, "2 h 5 min"),
        (-273_600_000, "−3 d 4 h"),
    ],
)
def test_durations_are_formatted_in_at_most_two_units(
    ms: int | None, expected: str
) -> None:
    assert texts.span(ms) == expected


@pytest.mark.parametrize(
    "group", ["billing", "a b", "it's", HOSTILE, "-rf", "a\nb\x1b[2J\\'", "$(id)`id`"]
)
def test_a_copied_command_quotes_the_group_id(group: str) -> None:
    command = texts.delete_command(group)
    assert command.isprintable()
    words = command.removeprefix("coterie groups delete ").removeprefix("-- ")
    done = subprocess.run(
        ["bash", "-c", f"printf %s {words}"],
        check=True,
        capture_output=True,
        text=True,
        env={"LC_ALL": "C.UTF-8"},
    )
    assert done.stdout == group


@pytest.mark.slow
def test_the_command_writes_the_page(
    story_lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    to = tmp_path / "report.html"
    words = ["pipeline", "report", "--lake", str(story_lake), "--to", str(to)]
    assert main(words) == 0
    assert to.read_text("utf-8").startswith("<!doctype html>")
    assert f"{to}: 1.0 MB" in capsys.readouterr().out
    assert main([*words[:-1], str(tmp_path / "no" / "where.html")]) == 1
