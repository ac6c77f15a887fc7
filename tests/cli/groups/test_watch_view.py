"""The screen of `coterie groups watch`: states, keys and lines."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from coterie.cli.groups.lag_report import RATE_COLUMNS, rollup_columns
from coterie.cli.groups.watch_view import (
    Action,
    Frame,
    WatchState,
    frame_of,
    has_same_rows,
    shown_rows,
    with_key,
    with_outcome,
)
from coterie.cli.output.outcome import Item, Outcome, failed_outcome
from coterie.cli.output.tables import cells
from coterie.errors import ConnectionLost
from coterie.operations.lag_rollup import RollupBy

from .cli_cluster import is_golden

SCREENS = Path(__file__).parents[1] / "screens"
NOW = datetime(2026, 1, 2, 13, 45, 7, tzinfo=UTC)
COLUMNS = tuple(
    each
    for each in (*rollup_columns(RollupBy.GROUP), *RATE_COLUMNS)
    if not each.is_wide
)
LOST = failed_outcome(ConnectionLost("broker:9092 hung up"))


def make_item(group_id: str, lag: int | None, state: str = "Stable") -> Item:
    return {
        "group_id": group_id,
        "state": state,
        "members": 2,
        "topics": 1,
        "partitions": 12,
        "lag": lag,
        "lag_max": lag,
        "read_per_s": 1203.4,
        "written_per_s": 1200.0,
        "catch_up_ms": 312_000,
        "error": None if lag is not None else {"code": "GROUP_AUTHORIZATION_FAILED"},
    }


ITEMS = (
    make_item("orders", 1_234_567),
    make_item("日本語グループ", 0, "Empty"),
    make_item("prod.eu-west-1.settlement-service.nightly-reconciliation", 17),
    make_item("secret", None),
    *(make_item(f"batch-{number:02}", number) for number in range(30)),
)
OUTCOME = Outcome(
    schema="coterie.groups.watch",
    columns=COLUMNS,
    items=ITEMS,
    notes=("no active members in 日本語グループ",),
)
MEASURED = with_outcome(WatchState(2.0), OUTCOME, COLUMNS, NOW)


def frame(
    state: WatchState, *, at: datetime = NOW, width: int = 80, height: int = 24
) -> Frame:
    return frame_of(state, shown_rows(state, width, None), at, width, height)


def text_of(state: WatchState, *, at: datetime = NOW) -> str:
    return "\n".join(each.text for each in frame(state, at=at).lines)


def press(state: WatchState, *keys: str) -> WatchState:
    for key in keys:
        state, _ = with_key(state, key, frame(state))
    return state


def groups_of(state: WatchState) -> list[str]:
    return [str(each["group_id"]) for each in shown_rows(state, 80, None).items]


@pytest.mark.parametrize("width", [60, 80, 120])
def test_a_screen_is_as_in_its_file(width: int) -> None:
    drawn = frame(MEASURED, width=width)
    assert len(drawn.lines) == 24
    assert all(cells(each.text) <= width for each in drawn.lines)
    lines = (f"{each.text}\n" for each in drawn.lines)
    assert is_golden(f"watch-{width}", "".join(lines), SCREENS)


@pytest.mark.parametrize("height", [1, 2, 3, 5, 8, 24, 50])
@pytest.mark.parametrize("width", [10, 20, 40])
def test_a_screen_fits_a_small_terminal(width: int, height: int) -> None:
    drawn = frame(MEASURED, width=width, height=height)
    assert len(drawn.lines) == height
    assert all(cells(each.text) <= width for each in drawn.lines)


def test_figures_are_stale_after_a_failed_measurement() -> None:
    later = NOW + timedelta(seconds=30)
    stale = with_outcome(MEASURED, LOST, (), later)
    assert "stale since 13:45:07 (broker:9092 hung up)" in text_of(stale, at=later)
    assert "13:45:37" in text_of(stale, at=later).splitlines()[0]
    assert "1234567" in text_of(stale, at=later)
    again = with_outcome(stale, OUTCOME, COLUMNS, later)
    assert "measured at 13:45:37" in text_of(again, at=later)


def test_figures_are_stale_while_no_broker_responds() -> None:
    waiting = replace(MEASURED, pending_since=NOW)
    assert "stale" not in text_of(waiting, at=NOW + timedelta(seconds=5))
    text = text_of(waiting, at=NOW + timedelta(seconds=12))
    assert "stale since 13:45:07 (no response for 12 s)" in text


def test_the_first_measurement_may_fail() -> None:
    assert "measuring ..." in text_of(WatchState(2.0))
    failed = with_outcome(WatchState(2.0), LOST, (), NOW)
    assert "no measurement yet (broker:9092 hung up)" in text_of(failed)


def test_q_quits_and_space_pauses() -> None:
    drawn = frame(MEASURED)
    assert with_key(MEASURED, "q", drawn) == (MEASURED, Action.QUIT)
    assert with_key(MEASURED, "r", drawn) == (MEASURED, Action.MEASURE)
    paused, action = with_key(MEASURED, " ", drawn)
    assert action is None
    assert "paused, measured at 13:45:07" in text_of(paused)
    assert with_key(paused, " ", drawn) == (MEASURED, Action.MEASURE)


def test_s_sorts_by_each_column_in_turn() -> None:
    by_group = press(MEASURED, "s")
    assert by_group.sort_key == "group_id"
    assert groups_of(by_group)[0] == "batch-00"
    by_lag = press(MEASURED, *"ssssss")
    assert by_lag.sort_key == "lag"
    assert groups_of(by_lag)[0] == "orders"
    assert "sorted by LAG" in text_of(by_lag)
    assert groups_of(press(by_lag, "S"))[-1] == "orders"
    assert press(MEASURED, *("s" * (len(COLUMNS) + 1))).sort_key is None


def test_a_slash_filters_rows_while_it_is_typed() -> None:
    typing = press(MEASURED, "/", "O", "R", "q", "backspace", "up")
    assert groups_of(typing) == ["orders"]
    assert text_of(typing).splitlines()[-1] == "filter: OR_"
    assert "1 of 34 groups match 'OR'" in text_of(typing)
    kept = press(typing, "enter")
    assert groups_of(kept) == ["orders"]
    assert groups_of(press(kept, "escape")) == groups_of(MEASURED)
    assert groups_of(press(typing, "escape")) == groups_of(MEASURED)


def test_arrows_and_pages_scroll() -> None:
    drawn = frame(MEASURED)
    assert press(MEASURED, "up").scroll == 0
    assert press(MEASURED, "down", "down", "up").scroll == 1
    assert press(MEASURED, "page-down").scroll == drawn.page
    assert press(MEASURED, "end").scroll == drawn.scroll_max
    assert "batch-29" in text_of(press(MEASURED, "end"))
    assert press(MEASURED, "end", "down", "page-up", "home").scroll == 0
    assert press(MEASURED, "x") == MEASURED


def test_a_scrolled_screen_stays_in_its_rows_when_they_become_fewer() -> None:
    end = replace(press(MEASURED, "end"), items=ITEMS[:2])
    assert "orders" in text_of(end)
    assert press(end, "up").scroll == 0


def test_a_question_mark_lists_the_keys_until_the_next_key() -> None:
    helped = press(MEASURED, "?")
    assert "scroll by a page" in text_of(helped)
    assert press(helped, "x") == MEASURED
    assert with_key(helped, "q", frame(helped))[1] is Action.QUIT


def test_the_footer_of_a_terminal_without_keys_has_ctrl_c() -> None:
    assert text_of(replace(MEASURED, has_keys=False)).endswith("Ctrl-C quit")


def test_rows_are_laid_out_again_only_when_they_change() -> None:
    assert has_same_rows(MEASURED, press(MEASURED, "down", " "))
    assert not has_same_rows(MEASURED, press(MEASURED, "s"))
    assert not has_same_rows(MEASURED, replace(MEASURED, items=(*ITEMS, ITEMS[0])))
