"""Replay of classic groups, from hand-written records."""

from __future__ import annotations

import pytest

from tests.pipeline.gold.groups.group_log import (
    SECOND_US,
    GroupLog,
    generation,
    ownership_spans,
    tombstone,
)


def test_a_partition_kept_in_a_rejoin_has_one_interval() -> None:
    history = (
        GroupLog()
        .batch(generation(1, {"a": [0, 1]}))
        .batch(generation(2, {"a": [0], "b": [1]}))
        .batch(generation(3, {"a": [0], "b": [1]}))
        .replay()
    )
    assert ownership_spans(history) == [
        ("a", 0, 1, None),
        ("a", 1, 1, 2),
        ("b", 1, 2, None),
    ]
    moved = history.ownership[1]
    assert (moved["end_reason"], moved["epoch_to"]) == ("moved", 2)
    assert [row["cause"] for row in history.rebalances] == [
        "first",
        "joined",
        "unknown",
    ]


def test_the_duration_of_a_classic_rebalance_is_an_upper_bound() -> None:
    log = GroupLog().batch(generation(1, {"a": [0]}))
    history = log.batch(generation(2, {"a": [0], "b": []}), after_s=9).replay()
    first, second = history.rebalances
    assert first["duration_ms"] is None
    assert second["start_ts"] == second["end_ts"] == 10 * SECOND_US
    assert (second["duration_ms"], second["is_duration_exact"]) == (9_000, False)


def test_moved_partitions_of_a_cooperative_group_need_two_generations() -> None:
    history = (
        GroupLog()
        .batch(generation(1, {"a": [0, 1]}))
        .batch(generation(2, {"a": [0], "b": []}))
        .batch(generation(3, {"a": [0], "b": [1]}), after_s=3)
        .replay()
    )
    assert ownership_spans(history) == [
        ("a", 0, 1, None),
        ("a", 1, 1, 2),
        ("b", 1, 5, None),
    ]
    _, second, third = history.rebalances
    assert (second["cause"], second["partitions_moved"]) == ("joined", 0)
    assert (third["cause"], third["partitions_moved"]) == ("follow_up", 1)
    assert third["partitions_unowned_ms"] == 3_000


def test_creating_a_group_is_not_a_rebalance() -> None:
    history = (
        GroupLog().batch(generation(0, {})).batch(generation(1, {"a": [0]})).replay()
    )
    [row] = history.rebalances
    assert (row["cause"], row["epoch"], row["prev_epoch"]) == ("first", 1, None)


def test_a_returning_static_member_causes_no_rebalance() -> None:
    log = GroupLog().batch(generation(1, {"a": [0], "b": [1]}, instances={"b": "i"}))
    history = log.batch(
        generation(1, {"a": [0], "c": [1]}, instances={"c": "i"})
    ).replay()
    assert len(history.rebalances) == 1
    assert [(row["member_id"], row["end_reason"]) for row in history.sessions] == [
        ("a", "open"),
        ("b", "replaced"),
        ("c", "open"),
    ]
    assert history.sessions[2]["restarts_of_instance_24h"] == 1
    assert history.ownership[2]["gap_before_ms"] == 0


@pytest.mark.parametrize(
    ("after", "cause"),
    [
        (generation(2, {"a": [0, 1], "b": [2]}, topics=("t", "u")), "subscription"),
        (generation(2, {"a": [0, 1], "b": [2, 3]}), "metadata"),
        (generation(2, {"a": [0], "b": [1]}, topic="u"), "metadata"),
        (generation(2, {"a": [0, 1], "b": [2]}, protocol="sticky"), "assignor"),
        (generation(2, {"c": [0, 1, 2]}), "joined_and_left"),
        (generation(2, {"a": [0, 1, 2]}), "left"),
        (generation(2, {}), "became_empty"),
        (tombstone(2), "deleted"),
    ],
)
def test_the_cause_is_inferred_from_the_difference_between_generations(
    after: dict[str, object], cause: str
) -> None:
    log = GroupLog().batch(generation(1, {"a": [0, 1], "b": [2]}))
    assert log.batch(after).replay().rebalances[-1]["cause"].startswith(cause)


def test_assignments_after_an_empty_group_are_not_moves() -> None:
    log = (
        GroupLog().batch(generation(1, {"a": [0]})).batch(generation(2, {}), after_s=4)
    )
    history = log.replay()
    assert history.group["state"] == "Empty"
    assert history.group["empty_since_ts"] == 5 * SECOND_US
    assert history.ownership[0]["end_reason"] == "group_empty"
    history = log.batch(generation(3, {"b": [0]}), after_s=60).replay()
    assert history.rebalances[-1]["partitions_moved"] == 0
    assert history.rebalances[-1]["partitions_unowned_ms"] == 0
    assert history.ownership[1]["gap_before_ms"] == 60_000
    assert history.group["empty_since_ts"] is None


def test_generations_missing_from_the_log_are_counted() -> None:
    log = GroupLog().batch(generation(1, {"a": [0]})).gap()
    history = log.batch(generation(5, {"a": [0], "b": [1]})).replay()
    assert history.rebalances[-1]["epoch_gap"] == 3
    bounds = [(row["member_id"], row["is_lower_bound"]) for row in history.ownership]
    assert bounds == [("a", False), ("b", True)]
    assert [row["is_lower_bound"] for row in history.sessions] == [False, True]
