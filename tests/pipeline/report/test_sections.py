"""Key figures, tables and lists."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any

from coterie.pipeline.report import sections
from coterie.pipeline.report.groups import GroupRow
from tests.pipeline.lakes import AS_OF
from tests.pipeline.report.memory_reader import memory_reader

Row = dict[str, Any]


def expiring(group: str, topic: str, hours: int, **values: Any) -> Row:
    return {
        "group_id": group,
        "topic": topic,
        "expires_ts": AS_OF + timedelta(hours=hours),
        "remaining_ms": hours * 3_600_000,
        **values,
    }


def test_expiring_offsets_are_one_row_a_group_the_next_first() -> None:
    rows = [
        expiring("later", "t", 90, partition=0),
        expiring("soon", "a", 30, at_risk_messages=5, partition=0, note="n"),
        expiring("soon", "b", 2, at_risk_messages=7, partition=0),
        expiring("soon", "a", 3, partition=1, is_trap=True, note="n"),
        expiring("gone", "t", 1),
        {"group_id": "later", "topic": "never", "basis": "never"},
    ]
    reader = memory_reader({"expiry_forecast": rows})
    first, second = sections.expiring_offsets(reader, {"soon", "later"})
    assert (first.group_id, second.group_id) == ("soon", "later")
    assert (first.offsets, first.soon, first.at_risk, first.traps) == (3, 2, 12, 1)
    assert first.remaining_ms == 2 * 3_600_000
    assert (first.topics_text, first.note) == ("a (2), b (1)", "n")
    soon = sections.soon_expiring([first, second])
    assert list(soon) == ["soon"]
    assert (soon["soon"].offsets, soon["soon"].at_risk) == (2, 7)


def test_many_topics_of_an_expiring_group_are_counted() -> None:
    rows = [expiring("g", f"topic-{each}", 5) for each in range(7)]
    (row,) = sections.expiring_offsets(memory_reader({"expiry_forecast": rows}), {"g"})
    assert row.topics_text.endswith(", 4 more topics")


def tile(name: str, *groups: GroupRow) -> sections.Tile:
    found = sections.tiles(groups, {}, {}, 0)
    return next(each for each in found if each.name == name)


def test_the_worst_time_lag_is_unknown_without_samples() -> None:
    assert tile("late").value == "unknown"
    assert tile("late", GroupRow("a"), GroupRow("b")).value == "unknown"
    head, behind = GroupRow("a", lag=0, time_lag_ms=0), GroupRow("b", lag=9)
    assert tile("late", head, behind).value == "unknown"
    assert tile("late", head).value == "0 ms"


def test_the_worst_time_lag_is_a_lower_bound_when_that_of_a_group_is_unknown() -> None:
    found = tile("late", GroupRow("a", lag=9, time_lag_ms=60_000), GroupRow("b"))
    assert found.value == "≥ 1 min"
    assert found.about.endswith("still has to read: a; unknown for 1 group")


def test_the_total_lag_is_unknown_without_samples() -> None:
    assert tile("lag", GroupRow("a")).value == "unknown"
    found = tile("lag", GroupRow("a", lag=1_500), GroupRow("b"))
    assert found.value == "1\u202f500"
    assert found.about.endswith("unknown for 1 group")


def test_topics_have_the_sums_of_the_groups_that_exist() -> None:
    groups = {
        "a": GroupRow("a", members=1, topics={"t", "u"}),
        "b": GroupRow("b", topics={"t"}),
    }
    lags: list[Row] = [
        {"group_id": "a", "topic": "t", "lag": 5, "messages_lost": 1},
        {"group_id": "b", "topic": "t", "lag": 2, "messages_lost": 0},
        {"group_id": "a", "topic": "u", "lag": None, "messages_lost": 0},
        {"group_id": "gone", "topic": "t", "lag": 900, "messages_lost": 9},
    ]
    first, second = sections.topics_of(groups, lags)
    assert (first.topic, first.groups, first.active) == ("t", 2, 1)
    assert (first.lag, first.messages_lost) == (7, 1)
    assert (second.topic, second.lag) == ("u", None)


def test_small_users_are_added_up_and_groups_that_are_gone_are_marked() -> None:
    rows = [
        {
            "day": date(2026, 11, 19 + day),
            "group_id": f"g{at}",
            "topic": "t",
            "offsets_consumed": 100 - at,
        }
        for day in range(2)
        for at in range(9)
    ]
    chart = sections.daily_usage(memory_reader({"group_usage_daily": rows}), {"g0"})
    names = [text for _, text in chart.legend]
    assert names == [
        "g0",
        "g1 (gone)",
        "g2 (gone)",
        "g3 (gone)",
        "g4 (gone)",
        "all others",
    ]
    assert [bar.name for bar in chart.bars] == ["19 Nov", "20 Nov"]
    heights = [height for _, height in chart.bars[0].parts]
    assert sum(heights) <= 100
    assert chart.bars[0].tip == "2026-11-19: 864 offsets consumed"
    assert sections.daily_usage(memory_reader({}), {"g0"}).bars == ()


def test_few_bars_have_a_name() -> None:
    bars = tuple(sections.Bar(str(each), (), "") for each in range(50))
    ticks = sections.BarChart(bars, 1).ticks
    assert [tick.text for tick in ticks] == [
        "0",
        "7",
        "14",
        "21",
        "28",
        "35",
        "42",
        "49",
    ]
    assert ticks[0].at == 1
