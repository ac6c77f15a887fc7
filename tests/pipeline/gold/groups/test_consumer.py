"""The replay of consumer groups (KIP-848), from records made by hand."""

from __future__ import annotations

import pytest

from tests.pipeline.gold.groups.log import (
    ID,
    OTHER_ID,
    SECOND_US,
    Fields,
    Log,
    current,
    epoch,
    gone,
    group_gone,
    member,
    member_gone,
    target,
)


def _two(log: Log | None = None) -> Log:
    """Second 1: `a` has 0 and 1. Seconds 2 to 4: `b` comes and gets 1."""
    return (
        (log or Log())
        .batch(member("a"), epoch(1), target(1), current("a", 1, (0, 1)))
        .batch(member("b"), epoch(2), target(2), current("b", 2, state=2))
        .batch(current("a", 1, (0,), before=1, state=1, pending=(1,)))
        .batch(current("a", 2, (0,), before=1))
        .batch(current("b", 2, (1,), before=2))
    )


def _owners(log: Log) -> list[tuple[object, ...]]:
    return [
        (
            row["member_id"],
            row["partition"],
            row["valid_from"] // SECOND_US,
            row["valid_to"] and row["valid_to"] // SECOND_US,
            row["end_reason"],
        )
        for row in log.fold().ownership
    ]


@pytest.mark.fact("K-05")
def test_a_rebalance_lasts_until_all_members_are_at_the_epoch_of_the_target() -> None:
    log = _two()
    [_, second] = log.fold().rebalances
    assert (second["epoch"], second["prev_epoch"], second["cause"]) == (2, 1, "joined")
    assert second["start_ts"] == 2 * SECOND_US
    assert second["end_ts"] == 5 * SECOND_US
    assert second["duration_ms"] == 3_000
    assert second["is_duration_exact"]
    unfinished = Log()
    unfinished.records = log.records[:-1]
    told = unfinished.fold()
    assert told.rebalances[-1]["end_ts"] is None
    assert told.group["state"] == "Reconciling"


@pytest.mark.fact("K-05")
def test_a_rebalance_that_is_overtaken_ends_with_the_next() -> None:
    log = (
        Log()
        .batch(member("a"), epoch(1), target(1), current("a", 1, (0, 1)))
        .batch(member("b"), epoch(2), target(2), current("b", 2, state=2))
        .batch(member("c"), epoch(3), target(3), current("c", 3, state=2))
        .batch(current("a", 3, (0,), before=1))
        .batch(current("b", 3, (1,), before=2))
        .batch(current("c", 3, (), before=2))
    )
    ends = [row["end_ts"] // SECOND_US for row in log.fold().rebalances]
    assert ends == [1, 6, 6]


def test_an_epoch_without_a_target_is_being_assigned() -> None:
    log = _two().batch(member("b", subscribed_topics=["u"]), epoch(3))
    told = log.fold()
    assert told.group["state"] == "Assigning"
    assert told.rebalances[-1]["cause"] == "subscription_changed"
    assert told.rebalances[-1]["end_ts"] is None


@pytest.mark.fact("K-06")
def test_what_is_to_be_revoked_is_owned_until_it_is_given_up() -> None:
    assert _owners(_two()) == [
        ("a", 0, 1, None, "open"),
        ("a", 1, 1, 4, "moved"),
        ("b", 1, 5, None, "open"),
    ]
    halfway = Log()
    halfway.records = _two().records[:9]
    first, second = halfway.fold().members
    assert (first["member_state"], second["member_state"]) == (
        "unrevoked_partitions",
        "unreleased_partitions",
    )
    assert [each["partition"] for each in first["pending_revocation"]] == [1]


def test_moves_and_the_time_without_an_owner_are_of_their_rebalance() -> None:
    _, row = _two().fold().rebalances
    assert (row["partitions_moved"], row["moves_needed_min"]) == (1, 1)
    assert row["partitions_unowned_ms"] == 1_000
    assert (row["partitions_total"], row["excess_moves"]) == (2, 0)
    taken = _two().fold().ownership[-1]
    assert (taken["gap_before_ms"], taken["epoch_from"]) == (1_000, 2)


@pytest.mark.fact("K-06")
def test_tombstones_of_8_and_5_say_that_a_member_left() -> None:
    log = _two().batch(*member_gone("b"), epoch(3), after_s=10)
    told = log.fold()
    [session] = [row for row in told.sessions if row["member_id"] == "b"]
    assert (session["end_reason"], session["session_ms"]) == ("left", 13_000)
    assert told.ownership[-1]["end_reason"] == "member_left"
    assert told.ownership[-1]["epoch_to"] == 3
    assert told.rebalances[-1]["cause"] == "left"
    assert told.rebalances[-1]["left"] == ["b"]
    assert [row["member_id"] for row in told.members] == ["a"]


def test_the_last_one_leaves_an_empty_group() -> None:
    log = _two().batch(*member_gone("b"), epoch(3)).batch(*member_gone("a"), epoch(4))
    told = log.fold()
    assert told.group["state"] == "Empty"
    assert told.group["empty_since_ts"] == 7 * SECOND_US
    assert told.rebalances[-1]["cause"] == "became_empty"
    assert told.rebalances[-1]["end_ts"] == 7 * SECOND_US
    reasons = [row["end_reason"] for row in told.ownership]
    assert reasons == ["group_empty", "moved", "member_left"]


def _static() -> Log:
    return Log().batch(member("a", "i"), epoch(1), target(1), current("a", 1, (0,)))


def _comes_back(instance: str = "i") -> tuple[Fields, ...]:
    return (*member_gone("a"), member("b", instance), current("b", 1, (0,), before=1))


@pytest.mark.fact("K-06")
def test_a_static_member_with_epoch_minus_two_is_away() -> None:
    log = _static().batch(current("a", -2, (0,), before=1))
    told = log.fold()
    assert told.members[0]["member_state"] == "away"
    assert told.group["member_count"] == 1
    assert told.ownership[0]["valid_to"] == 2 * SECOND_US
    back = log.batch(*_comes_back(), after_s=5).fold()
    assert [
        (row["member_id"], row["end_reason"], row["left_ts"]) for row in back.sessions
    ] == [("a", "replaced", 2 * SECOND_US), ("b", "open", None)]
    assert back.sessions[1]["restarts_of_instance_24h"] == 1
    assert back.ownership[1]["gap_before_ms"] == 5_000
    assert [row["cause"] for row in back.rebalances] == ["first"]


def test_a_static_member_that_did_not_come_back_left_when_it_went_away() -> None:
    log = _static().batch(current("a", -2, (0,), before=1))
    [session] = log.batch(*member_gone("a"), epoch(2), after_s=60).fold().sessions
    assert (session["end_reason"], session["left_ts"]) == ("left", 2 * SECOND_US)


def test_a_place_that_is_taken_over_is_no_coming_and_going_of_the_next_epoch() -> None:
    log = _static().batch(*_comes_back()).batch(epoch(2, metadata_hash=2))
    row = log.fold().rebalances[-1]
    assert (row["cause"], row["joined"], row["left"]) == ("metadata_changed", [], [])


def test_who_comes_back_with_another_epoch_was_restarted() -> None:
    log = _static().batch(*_comes_back(), epoch(2))
    row = log.fold().rebalances[-1]
    assert (row["cause"], row["restarted"]) == ("restarted", ["b"])


def test_who_comes_back_with_the_same_client_id_and_host_was_restarted() -> None:
    log = _two().batch(*member_gone("b"), epoch(3))
    log.batch(member("c", client_id="client-b"), epoch(4), after_s=60)
    assert log.fold().rebalances[-1]["cause"] == "restarted"
    log.batch(*member_gone("c"), epoch(5))
    log.batch(member("d", client_id="client-b"), epoch(6), after_s=3_600)
    told = log.fold()
    assert told.rebalances[-1]["cause"] == "joined"
    assert told.sessions[-1]["restarts_of_instance_24h"] == 2


def test_a_group_that_is_deleted_takes_all_with_it() -> None:
    log = _two().batch(*group_gone("a", "b"))
    told = log.fold()
    assert told.group["group_type"] is None
    assert {row["end_reason"] for row in told.sessions} == {"group_deleted"}
    reasons = [row["end_reason"] for row in told.ownership]
    assert reasons == ["group_deleted", "moved", "group_deleted"]
    assert told.rebalances[-1]["cause"] == "deleted"
    again = log.batch(member("z"), epoch(1), target(1), current("z", 1, (0,))).fold()
    assert again.rebalances[-1]["cause"] == "first"
    assert again.rebalances[-1]["partitions_moved"] == 0
    assert again.rebalances[-1]["prev_epoch"] is None


def test_a_topic_with_another_id_is_another_topic() -> None:
    log = Log({ID: "t", OTHER_ID: "t"})
    log.batch(member("a"), epoch(1), target(1), current("a", 1, (0,)))
    log.batch(epoch(2, metadata_hash=2), target(2))
    log.batch(current("a", 2, (0,), before=1, topic_id=OTHER_ID))
    told = log.fold()
    assert [
        (row["topic_id"], row["topic"], row["end_reason"], row["gap_before_ms"])
        for row in told.ownership
    ] == [(ID, "t", "moved", None), (OTHER_ID, "t", "open", None)]
    assert told.rebalances[-1]["cause"] == "metadata_changed"
    assert told.rebalances[-1]["partitions_moved"] == 0


def test_a_topic_without_a_name_keeps_its_id() -> None:
    told = _two(Log({})).fold()
    assert {(row["topic_id"], row["topic"]) for row in told.ownership} == {(ID, None)}
    assert told.group["nameless_topic_ids"] == [ID]


def test_tombstones_of_what_nobody_knows_are_nothing() -> None:
    told = Log().batch(*group_gone("a"), gone(2), gone(16)).fold()
    assert told.group["group_type"] is None
    rows = [*told.members, *told.sessions, *told.ownership, *told.rebalances]
    assert rows == []


# What compaction left.


def test_what_was_there_before_the_log_began_may_have_begun_earlier() -> None:
    log = Log().gap()
    log.batch(epoch(7), member("a"), current("a", 7, (0,), before=6), target(7))
    told = log.fold()
    assert told.sessions[0]["is_lower_bound"]
    assert told.ownership[0]["is_lower_bound"]
    assert told.rebalances[0]["cause"] == "unknown"
    assert told.group["state"] == "Stable"


def test_a_first_assignment_beside_its_member_lost_nothing() -> None:
    told = _two(Log().gap()).fold()
    assert not any(row["is_lower_bound"] for row in told.sessions)
    assert not any(row["is_lower_bound"] for row in told.ownership)


def test_records_may_come_in_any_order() -> None:
    log = Log().gap().batch(current("a", 7, (0,), before=6)).batch(target(7)).gap()
    told = log.batch(member("a", "i")).batch(epoch(7)).fold()
    [row] = told.ownership
    assert (row["instance_id"], row["client_id"]) == ("i", "client-a")
    assert told.group["state"] == "Stable"


def test_epochs_that_are_missing_are_counted() -> None:
    told = _two().gap().batch(epoch(9)).fold()
    assert told.rebalances[-1]["epoch_gap"] == 6


def test_who_was_lost_with_a_part_of_the_log_does_not_own_for_ever() -> None:
    """Records in between may have said that `a` left. Without a gap, the coordinator
    gave a partition to two: that stays to be seen."""
    begin = Log().batch(member("a"), epoch(1), target(1), current("a", 1, (0,)))
    begin.gap().batch(member("b"), epoch(9), target(9), current("b", 9, (0,)))
    assert _owners(begin) == [("a", 0, 1, 2, "moved"), ("b", 0, 2, None, "open")]
    begin = Log().batch(member("a"), epoch(1), target(1), current("a", 1, (0,)))
    begin.batch(member("b"), epoch(2), target(2), current("b", 2, (0,)))
    assert _owners(begin) == [("a", 0, 1, None, "open"), ("b", 0, 2, None, "open")]


def test_a_clock_that_goes_back_makes_no_negative_times() -> None:
    log = _two().batch(*member_gone("b"), epoch(3), after_s=-4)
    for row in log.fold().sessions:
        assert row["left_ts"] is None or row["left_ts"] >= row["joined_ts"]
