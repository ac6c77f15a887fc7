"""Rebalances from differences between measurements, and from the server's reports."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from coterie.client.admin.groups import (
    GroupDescription,
    GroupState,
    GroupType,
    MemberDescription,
    Node,
)
from coterie.types import TopicPartition
from coterie.ui.rebalances import REBALANCES_MAX, Rebalances, changes_between

A = MemberDescription("a-id", "a", "/h", (TopicPartition("t", 0),))
B = MemberDescription("b-id", "b", "/h", (TopicPartition("t", 1),))
STATIC = MemberDescription("s-1", "s", "/h", (), "instance")


def group(
    *members: MemberDescription,
    epoch: int | None = None,
    state: GroupState = GroupState.STABLE,
) -> GroupDescription:
    node = Node(1, "broker", 9092)
    kind = GroupType.CLASSIC if epoch is None else GroupType.CONSUMER
    return GroupDescription(
        "g", kind, state, "consumer", "range", node, members, group_epoch=epoch
    )


@pytest.mark.parametrize(
    ("before", "after", "reasons"),
    [
        (group(A), group(A), []),
        (None, group(A), []),
        (None, group(A, state=GroupState.ASSIGNING), ["the group was created"]),
        (group(A), group(A, B), ["member b joined"]),
        (group(A, B), group(A), ["member b left"]),
        (group(A), group(B), ["member b joined", "member a left"]),
        (
            group(STATIC),
            group(replace(STATIC, member_id="s-2")),
            ["member instance restarted"],
        ),
        (
            group(replace(A, subscribed_topics=("t",))),
            group(replace(A, subscribed_topics=("t", "u"))),
            ["member a changed its subscription"],
        ),
        (group(A, epoch=3), group(A, epoch=5), ["epoch 3 became 5"]),
        (
            group(A),
            group(A, state=GroupState.PREPARING_REBALANCE),
            ["the state became PreparingRebalance"],
        ),
        (
            group(A, B),
            group(
                replace(A, assignment=B.assignment), replace(B, assignment=A.assignment)
            ),
            ["partitions were assigned again"],
        ),
    ],
)
def test_a_rebalance_has_the_reasons_that_two_descriptions_show(
    before: GroupDescription | None, after: GroupDescription, reasons: list[str]
) -> None:
    assert changes_between(before, after) == reasons


def test_many_members_are_counted_after_the_first() -> None:
    members = [replace(A, member_id=f"m{n}", client_id=f"c{n}") for n in range(9)]
    (reason,) = changes_between(group(), group(*members))
    assert reason == "members c0, c1, c2 and 6 more joined"


def test_a_rebalance_is_open_until_the_group_is_stable() -> None:
    rebalances = Rebalances()
    stable, busy = group(A, epoch=1), group(A, B, epoch=2, state=GroupState.RECONCILING)
    rebalances.observe({"g": stable}, {"g": busy}, (1_000, 2_000))
    (started,) = rebalances.changes()
    assert (started["started_ms"], started["ended_ms"]) == (2_000, None)
    assert (started["members_before"], started["epoch_before"]) == (1, 1)
    after = group(A, epoch=3, state=GroupState.RECONCILING)
    rebalances.observe({"g": busy}, {"g": after}, (2_000, 3_000))
    rebalances.observe({"g": after}, {"g": group(A, epoch=3)}, (3_000, 4_000))
    (ended,) = rebalances.changes()
    assert ended["number"] == started["number"]
    assert ended["reasons"] == ("member b joined", "member b left")
    assert (ended["ended_ms"], ended["outcome"], ended["epoch_after"]) == (
        4_000,
        "stable",
        3,
    )
    assert rebalances.changes() == []


def test_a_rebalance_between_two_measurements_is_over_at_once() -> None:
    rebalances = Rebalances()
    empty = group(state=GroupState.EMPTY)
    rebalances.observe({"g": group(A)}, {"g": empty}, (1_000, 2_000))
    (entry,) = rebalances.latest()
    assert (entry["started_ms"], entry["ended_ms"]) == (1_000, 2_000)
    assert (entry["outcome"], entry["is_exact"]) == ("empty", False)


def test_a_group_that_is_gone_has_no_open_rebalance() -> None:
    rebalances = Rebalances()
    busy = group(A, state=GroupState.PREPARING_REBALANCE)
    rebalances.observe({}, {"g": busy}, (1_000, 2_000))
    rebalances.observe({"g": busy}, {}, (2_000, 3_000))
    (entry,) = rebalances.latest()
    assert (entry["outcome"], entry["ended_ms"]) == ("empty", 3_000)


def report(rebalances: Rebalances, event: str, time_ms: int, **fields: Any) -> None:
    rebalances.report(event, time_ms, {"group": "g", **fields})


def test_reports_of_the_server_have_exact_times_and_names_of_clients() -> None:
    rebalances = Rebalances()
    rebalances.expect_reports()
    report(
        rebalances,
        "rebalance_started",
        1_001,
        reason="member b-id joined",
        members=1,
        epoch=4,
    )
    report(
        rebalances,
        "rebalance",
        1_004,
        reason="member b-id joined",
        outcome="stable",
        members_after=2,
        epoch_after=5,
    )
    assert rebalances.latest() == []  # until the next measurement
    rebalances.observe({"g": group(A, epoch=4)}, {"g": group(A, B, epoch=5)}, (0, 9))
    (entry,) = rebalances.changes()
    assert entry["reasons"] == ("member b joined",)
    assert (entry["started_ms"], entry["ended_ms"]) == (1_001, 1_004)
    assert (entry["epoch_before"], entry["epoch_after"]) == (4, 5)
    assert entry["is_exact"] is True


def test_the_oldest_rebalances_are_dropped() -> None:
    rebalances = Rebalances()
    for number in range(REBALANCES_MAX + 10):
        busy = replace(
            group(A, state=GroupState.PREPARING_REBALANCE), group_id=f"g{number}"
        )
        rebalances.observe({}, {busy.group_id: busy}, (number, number + 1))
    assert len(rebalances.latest()) == REBALANCES_MAX
