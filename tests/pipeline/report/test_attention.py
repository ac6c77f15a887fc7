"""The groups that need attention, and the reasons."""

from __future__ import annotations

from datetime import timedelta

import pytest

from coterie.pipeline.report.attention import Expiry, Storm, add_attention
from coterie.pipeline.report.groups import GroupRow
from tests.pipeline.lakes import AS_OF, ago


def explain(
    group: GroupRow, expiry: Expiry | None = None, storm: Storm | None = None
) -> tuple[str, str]:
    """Return the severity of a group and its reasons."""
    expiries = {group.group_id: expiry} if expiry else {}
    storms = {group.group_id: storm} if storm else {}
    add_attention({group.group_id: group}, expiries, storms, AS_OF)
    return group.level, " ".join(group.reasons)


def troubled(verdict: str, *partitions: str, **values: object) -> GroupRow:
    """Return a group whose partitions have these verdicts."""
    troubles = [
        {"verdict": each, "topic": "orders", "partition": at}
        for at, each in enumerate(partitions)
    ]
    group = GroupRow("g", verdict=verdict, troubles=troubles, lag=9, members=2)
    for name, value in values.items():
        setattr(group, name, value)
    return group


@pytest.mark.parametrize(
    ("verdict", "cause", "expected"),
    [
        ("ERR", "STOP", "It stopped committing although there are records to read: 2"),
        (
            "ERR",
            "STALL",
            "It commits the same offset again and again, so its consumers",
        ),
        ("ERR", "REWIND", "It went back to an earlier offset and has not caught up"),
        ("ERR", "LOSING_DATA", "Records were deleted by the topic's retention before"),
        ("WARN", "NO_OWNER", "There are records to read, but no member is assigned to"),
        (
            "WARN",
            "WARN",
            "It commits, but its lag does not shrink: 2 partitions of ord",
        ),
    ],
)
def test_each_verdict_has_a_sentence(verdict: str, cause: str, expected: str) -> None:
    level, text = explain(troubled(verdict, cause, cause))
    assert level == ("warn" if verdict == "WARN" else "bad")
    assert text.startswith(expected)
    assert text.endswith("It is 9 records behind.")


def test_an_unknown_verdict_is_explained_by_its_rule() -> None:
    group = troubled("ERR", rule="a new rule", lag=0)
    assert explain(group) == (
        "bad",
        "A new rule (verdict ERR). It has read everything so far.",
    )


def test_the_most_serious_partitions_explain_the_group() -> None:
    _, text = explain(troubled("ERR", "WARN", "WARN", "STOP"))
    assert "It stopped committing" in text
    assert "1 partition of orders" in text


def test_a_group_without_members_has_no_one_to_read() -> None:
    _, text = explain(troubled("WARN", "NO_OWNER", members=0))
    assert "but the group has no members" in text


def test_lost_records_are_a_problem_of_any_group() -> None:
    level, text = explain(GroupRow("g", verdict="OK", messages_lost=1_000, lag=0))
    assert level == "bad"
    assert text.startswith("1\u202f000 records were deleted by the topic's retention")


def test_the_course_of_the_lag_is_part_of_the_reasons() -> None:
    group = troubled("WARN", "WARN", time_lag_ms=60_000, eta_s=90)
    assert explain(group)[1].endswith(
        "It is 9 records behind, about 1 min; at the current rate it catches up in 1"
        " min 30 s."
    )
    silent = troubled("ERR", "STOP", unsampled=1, last_commit=ago(hours=2))
    assert explain(silent)[1].endswith(
        "It is at least 9 records behind; its last commit was 2 h ago."
    )


def test_an_old_verdict_has_its_age() -> None:
    _, text = explain(troubled("ERR", "STOP", evaluated=ago(days=3)))
    assert "This verdict is from 3 d ago." in text


def test_unread_records_of_expiring_offsets_are_a_warning() -> None:
    expiry = Expiry(offsets=2, first_ms=3_600_000, at_risk=50)
    level, text = explain(GroupRow("g", verdict="OK"), expiry)
    assert level == "warn"
    assert text.startswith("2 committed offsets expire within 24 h, the first in 1 h;")
    due = Expiry(offsets=1, first_ms=-5, at_risk=50)
    assert (
        "1 committed offset expires within 24 h at any moment"
        in (explain(GroupRow("g", verdict="OK"), due)[1])
    )
    without_risk = Expiry(offsets=2, first_ms=3_600_000, at_risk=0)
    assert explain(GroupRow("g", verdict="OK"), without_risk) == ("ok", "")


def test_a_storm_is_a_warning() -> None:
    storm = Storm("g", ago(hours=1), ago(hours=1) + timedelta(minutes=9), 12)
    level, text = explain(GroupRow("g", verdict="OK"), storm=storm)
    assert level == "warn"
    assert text.startswith("It rebalanced 12 times in 9 min (a rebalance storm), most")


def test_the_most_serious_groups_come_first() -> None:
    listed = [
        GroupRow("fine", verdict="OK", lag=10**9),
        GroupRow("none"),
        troubled("WARN", "WARN"),
        GroupRow("stopped", verdict="ERR", lag=5),
        GroupRow("behind", verdict="ERR", lag=500),
        GroupRow("losing", verdict="ERR", messages_lost=1),
    ]
    found = add_attention({each.group_id: each for each in listed}, {}, {}, AS_OF)
    assert [each.group_id for each in found] == [
        "losing",
        "behind",
        "stopped",
        "g",
        "fine",
        "none",
    ]


def test_a_verdict_at_the_end_of_the_newest_minute_has_no_age() -> None:
    _, text = explain(troubled("ERR", "STOP", evaluated=ago(seconds=-30)))
    assert "This verdict is from" not in text
