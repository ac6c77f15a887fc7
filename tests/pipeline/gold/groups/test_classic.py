"""The replay of classic groups, and of groups that change their protocol, from records
made by hand."""

from __future__ import annotations

import pytest

from coterie.pipeline.gold.groups.fold import Folded
from coterie.pipeline.gold.groups.rebalances import fewest_moves
from coterie.pipeline.gold.groups.record import Part
from tests.pipeline.gold.groups.log import (
    ID,
    SECOND_US,
    Log,
    current,
    epoch,
    generation,
    gone,
    group_gone,
    member,
    member_gone,
    target,
)


def _owners(told: Folded) -> list[tuple[object, ...]]:
    return [
        (
            row["member_id"],
            row["partition"],
            row["valid_from"] // SECOND_US,
            row["valid_to"] and row["valid_to"] // SECOND_US,
        )
        for row in told.ownership
    ]


def test_what_a_rejoin_keeps_was_never_away() -> None:
    told = (
        Log()
        .batch(generation(1, {"a": [0, 1]}))
        .batch(generation(2, {"a": [0], "b": [1]}))
        .batch(generation(3, {"a": [0], "b": [1]}))
        .fold()
    )
    assert _owners(told) == [("a", 0, 1, None), ("a", 1, 1, 2), ("b", 1, 2, None)]
    moved = told.ownership[1]
    assert (moved["end_reason"], moved["epoch_to"]) == ("moved", 2)
    assert [row["cause"] for row in told.rebalances] == ["first", "joined", "unknown"]


def test_a_generation_is_known_by_its_end_only() -> None:
    log = Log().batch(generation(1, {"a": [0]}))
    told = log.batch(generation(2, {"a": [0], "b": []}), after_s=9).fold()
    first, second = told.rebalances
    assert first["duration_ms"] is None
    assert second["start_ts"] == second["end_ts"] == 10 * SECOND_US
    assert (second["duration_ms"], second["is_duration_exact"]) == (9_000, False)


def test_a_cooperative_group_gives_in_a_second_generation() -> None:
    told = (
        Log()
        .batch(generation(1, {"a": [0, 1]}))
        .batch(generation(2, {"a": [0], "b": []}))
        .batch(generation(3, {"a": [0], "b": [1]}), after_s=3)
        .fold()
    )
    assert _owners(told) == [("a", 0, 1, None), ("a", 1, 1, 2), ("b", 1, 5, None)]
    _, second, third = told.rebalances
    assert (second["cause"], second["partitions_moved"]) == ("joined", 0)
    assert (third["cause"], third["partitions_moved"]) == ("follow_up", 1)
    assert third["partitions_unowned_ms"] == 3_000


def test_a_group_that_was_just_made_had_no_rebalance() -> None:
    told = Log().batch(generation(0, {})).batch(generation(1, {"a": [0]})).fold()
    [row] = told.rebalances
    assert (row["cause"], row["epoch"], row["prev_epoch"]) == ("first", 1, None)


def test_a_static_member_that_comes_back_makes_no_generation() -> None:
    log = Log().batch(generation(1, {"a": [0], "b": [1]}, instances={"b": "i"}))
    told = log.batch(generation(1, {"a": [0], "c": [1]}, instances={"c": "i"})).fold()
    assert len(told.rebalances) == 1
    assert [(row["member_id"], row["end_reason"]) for row in told.sessions] == [
        ("a", "open"),
        ("b", "replaced"),
        ("c", "open"),
    ]
    assert told.sessions[2]["restarts_of_instance_24h"] == 1
    assert told.ownership[2]["gap_before_ms"] == 0


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
        (gone(2), "deleted"),
    ],
)
def test_causes_are_what_is_different(after: dict[str, object], cause: str) -> None:
    log = Log().batch(generation(1, {"a": [0, 1], "b": [2]}))
    assert log.batch(after).fold().rebalances[-1]["cause"].startswith(cause)


def test_a_group_without_members_is_empty_and_forgets_who_owned() -> None:
    log = Log().batch(generation(1, {"a": [0]})).batch(generation(2, {}), after_s=4)
    told = log.fold()
    assert told.group["state"] == "Empty"
    assert told.group["empty_since_ts"] == 5 * SECOND_US
    assert told.ownership[0]["end_reason"] == "group_empty"
    told = log.batch(generation(3, {"b": [0]}), after_s=60).fold()
    assert told.rebalances[-1]["partitions_moved"] == 0
    assert told.rebalances[-1]["partitions_unowned_ms"] == 0
    assert told.ownership[1]["gap_before_ms"] == 60_000
    assert told.group["empty_since_ts"] is None


def test_generations_that_compaction_took_are_counted() -> None:
    log = Log().batch(generation(1, {"a": [0]})).gap()
    told = log.batch(generation(5, {"a": [0], "b": [1]})).fold()
    assert told.rebalances[-1]["epoch_gap"] == 3
    bounds = [(row["member_id"], row["is_lower_bound"]) for row in told.ownership]
    assert bounds == [("a", False), ("b", True)]
    assert [row["is_lower_bound"] for row in told.sessions] == [False, True]


# Changes of the protocol.


def _upgraded() -> Log:
    """`a` and `b` are of the classic protocol, `c` brings the other."""
    log = Log().batch(generation(4, {"a": [0], "b": [1]}))
    return log.batch(
        gone(2),
        member("a", is_classic_member=True),
        member("b", is_classic_member=True),
        epoch(4),
        target(4),
        current("a", 4, (0,), before=4),
        current("b", 4, (1,), before=4),
        member("c"),
        epoch(5),
        target(5),
        current("c", 5, state=2),
    )


@pytest.mark.fact("K-07")
def test_a_tombstone_of_2_and_a_5_in_one_batch_are_an_upgrade() -> None:
    """Nobody's stay or ownership ends by it; the partitions get their topic's id."""
    told = _upgraded().fold()
    causes = [(row["cause"], row["epoch"]) for row in told.rebalances]
    assert causes == [("first", 4), ("upgraded", 4), ("joined", 5)]
    assert _owners(told) == [("a", 0, 1, None), ("b", 1, 1, None)]
    assert {row["topic_id"] for row in told.ownership} == {ID}
    assert {row["source"] for row in told.ownership} == {"classic"}
    protocols = [(row["member_id"], row["protocol"]) for row in told.members]
    assert protocols == [("a", "classic"), ("b", "classic"), ("c", "consumer")]
    assert [row["end_reason"] for row in told.sessions] == ["open"] * 3
    assert told.group["group_type"] == "consumer"


@pytest.mark.fact("K-07")
def test_a_5_in_a_later_batch_is_another_group_of_that_name() -> None:
    log = Log().batch(generation(4, {"a": [0]})).batch(gone(2))
    log.batch(member("a"), epoch(1), target(1), current("a", 1, (0,)))
    told = log.fold()
    assert [row["cause"] for row in told.rebalances] == ["first", "deleted", "first"]
    assert [row["end_reason"] for row in told.sessions] == ["group_deleted", "open"]


@pytest.mark.fact("K-07")
def test_tombstones_of_a_consumer_group_and_a_2_in_one_batch_are_a_downgrade() -> None:
    log = _upgraded().batch(
        current("a", 5, (0,), before=4), current("b", 5, (), before=4)
    )
    log.batch(current("c", 5, (1,), before=5))
    log.batch(*group_gone("a", "b", "c"), generation(5, {"a": [0], "b": []}))
    told = log.fold()
    row = told.rebalances[-1]
    assert (row["cause"], row["protocol"], row["epoch"]) == ("downgraded", "classic", 5)
    assert (row["left"], row["joined"]) == (["c"], [])
    assert told.group["group_type"] == "classic"
    assert _owners(told) == [("a", 0, 1, None), ("b", 1, 1, 3), ("c", 1, 4, 5)]
    assert {row["topic_id"] for row in told.ownership} == {ID}
    after = log.batch(generation(6, {"a": [0], "b": [1]})).fold()
    assert after.rebalances[-1]["cause"] == "follow_up"
    assert after.ownership[-1]["gap_before_ms"] == 1_000
    assert after.rebalances[-1]["partitions_moved"] == 1


@pytest.mark.fact("K-07")
def test_a_classic_group_has_type_2_only() -> None:
    told = Log().batch(generation(1, {"a": [0]})).fold()
    assert told.group["group_type"] == "classic"
    assert (told.group["epoch"], told.group["assignment_epoch"]) == (1, None)
    assert told.group["leader_member_id"] == "a"


def test_an_empty_classic_group_becomes_a_new_consumer_group() -> None:
    log = Log().batch(generation(3, {"a": [0]})).batch(generation(4, {}))
    log.batch(gone(2), member("b"), epoch(1), target(1), current("b", 1, (0,)))
    row = log.fold().rebalances[-1]
    assert (row["cause"], row["joined"], row["epoch_gap"]) == ("upgraded", ["b"], 0)


def test_a_protocol_that_changed_in_a_gap_carries_who_is_still_there() -> None:
    log = Log().batch(generation(3, {"a": [0], "b": [1]})).gap()
    log.batch(member("a"), epoch(9), target(9), current("a", 9, (0,), before=9))
    told = log.fold()
    assert [row["member_id"] for row in told.members] == ["a"]
    assert _owners(told) == [("a", 0, 1, None), ("b", 1, 1, 2)]
    assert told.rebalances[-1]["cause"] == "unknown"
    log = Log().batch(member("a"), epoch(1), target(1), current("a", 1, (0,))).gap()
    told = log.batch(generation(9, {"b": [0]})).fold()
    assert _owners(told) == [("a", 0, 1, 2), ("b", 0, 2, None)]


def test_a_member_that_leaves_right_after_an_upgrade_is_gone() -> None:
    told = _upgraded().batch(*member_gone("b"), epoch(6)).fold()
    assert [row["member_id"] for row in told.members] == ["a", "c"]


# Storms and moves.


def test_a_storm_begins_with_five_in_ten_minutes_and_ends_with_ten_quiet_ones() -> None:
    log = Log()
    pauses = [0, 700, 10, 10, 10, 10, 599, 600, 1, 1]
    for number, pause_s in enumerate(pauses, 1):
        log.batch(generation(number, {"a": [number]}), after_s=pause_s)
    storms = [(row["storm_id"], row["storm_size"]) for row in log.fold().rebalances]
    assert storms == [(None, None)] + [("g@1", 6)] * 6 + [(None, None)] * 3


def _parts(owners: str) -> dict[Part, str]:
    return {Part(None, "t", i): who for i, who in enumerate(owners) if who != "-"}


@pytest.mark.parametrize(
    ("before", "after", "fewest"),
    [
        ("aaaa", "aabb", 2),
        ("aaaa", "abab", 2),
        ("aabb", "bbaa", 0),
        ("aabbcc", "aaabbb", 2),
        ("aabb--", "aabbcc", 0),
        ("aabb", "cccc", 4),
        ("----", "aabb", 0),
        ("aaab", "ab--", 1),
    ],
)
def test_the_fewest_moves_to_be_as_even(before: str, after: str, fewest: int) -> None:
    assert fewest_moves(_parts(before), _parts(after)) == fewest
