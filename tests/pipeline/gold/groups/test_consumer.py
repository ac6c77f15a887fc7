"""Replay of consumer groups (KIP-848), from hand-written records."""

from __future__ import annotations

import pytest

from tests.pipeline.gold.groups.group_log import (
    ID,
    OTHER_ID,
    SECOND_US,
    Fields,
    GroupLog,
    current,
    epoch,
    group_tombstones,
    member,
    member_tombstones,
    target,
    tombstone,
)


def _two_members(log: GroupLog | None = None) -> GroupLog:
    """Return a log: `a` owns 0 and 1 in second 1; `b` joins and is assigned 1 in
    seconds 2 to 5."""
    return (
        (log or GroupLog())
        .batch(member("a"), epoch(1), target(1), current("a", 1, (0, 1)))
        .batch(member("b"), epoch(2), target(2), current("b", 2, state=2))
        .batch(current("a", 1, (0,), before=1, state=1, pending=(1,)))
        .batch(current("a", 2, (0,), before=1))
        .batch(current("b", 2, (1,), before=2))
    )


def _owners(log: GroupLog) -> list[tuple[object, ...]]:
    return [
        (
            row["member_id"],
            row["partition"],
            row["valid_from"] // SECOND_US,
            row["valid_to"] and row["valid_to"] // SECOND_US,
            row["end_reason"],
        )
        for row in log.replay().ownership
    ]


@pytest.mark.fact("K-05")
def test_a_rebalance_lasts_until_all_members_are_at_the_epoch_of_the_target() -> None:
    log = _two_members()
    [_, second] = log.replay().rebalances
    assert (second["epoch"], second["prev_epoch"], second["cause"]) == (2, 1, "joined")
    assert second["start_ts"] == 2 * SECOND_US
    assert second["end_ts"] == 5 * SECOND_US
    assert second["duration_ms"] == 3_000
    assert second["is_duration_exact"]
    incomplete = GroupLog()
    incomplete.records = log.records[:-1]
    history = incomplete.replay()
    assert history.rebalances[-1]["end_ts"] is None
    assert history.group["state"] == "Reconciling"


@pytest.mark.fact("K-05")
def test_a_rebalance_that_is_superseded_ends_with_the_next_rebalance() -> None:
    log = (
        GroupLog()
        .batch(member("a"), epoch(1), target(1), current("a", 1, (0, 1)))
        .batch(member("b"), epoch(2), target(2), current("b", 2, state=2))
        .batch(member("c"), epoch(3), target(3), current("c", 3, state=2))
        .batch(current("a", 3, (0,), before=1))
        .batch(current("b", 3, (1,), before=2))
        .batch(current("c", 3, (), before=2))
    )
    ends = [row["end_ts"] // SECOND_US for row in log.replay().rebalances]
    assert ends == [1, 6, 6]


def test_a_group_epoch_without_a_target_assignment_is_assigning() -> None:
    log = _two_members().batch(member("b", subscribed_topics=["u"]), epoch(3))
    history = log.replay()
    assert history.group["state"] == "Assigning"
    assert history.rebalances[-1]["cause"] == "subscription_changed"
    assert history.rebalances[-1]["end_ts"] is None


@pytest.mark.fact("K-06a")
def test_a_partition_pending_revocation_is_owned_until_it_is_revoked() -> None:
    assert _owners(_two_members()) == [
        ("a", 0, 1, None, "open"),
        ("a", 1, 1, 4, "moved"),
        ("b", 1, 5, None, "open"),
    ]
    halfway = GroupLog()
    halfway.records = _two_members().records[:9]
    first, second = halfway.replay().members
    assert (first["member_state"], second["member_state"]) == (
        "unrevoked_partitions",
        "unreleased_partitions",
    )
    assert [each["partition"] for each in first["pending_revocation"]] == [1]


def test_moves_and_unowned_time_are_attributed_to_their_rebalance() -> None:
    _, row = _two_members().replay().rebalances
    assert (row["partitions_moved"], row["moves_needed_min"]) == (1, 1)
    assert row["partitions_unowned_ms"] == 1_000
    assert (row["partitions_total"], row["excess_moves"]) == (2, 0)
    taken = _two_members().replay().ownership[-1]
    assert (taken["gap_before_ms"], taken["epoch_from"]) == (1_000, 2)


@pytest.mark.fact("K-06c")
def test_tombstones_of_types_8_and_5_end_a_session() -> None:
    log = _two_members().batch(*member_tombstones("b"), epoch(3), after_s=10)
    history = log.replay()
    [session] = [row for row in history.sessions if row["member_id"] == "b"]
    assert (session["end_reason"], session["session_ms"]) == ("left", 13_000)
    assert history.ownership[-1]["end_reason"] == "member_left"
    assert history.ownership[-1]["epoch_to"] == 3
    assert history.rebalances[-1]["cause"] == "left"
    assert history.rebalances[-1]["left"] == ["b"]
    assert [row["member_id"] for row in history.members] == ["a"]


def test_the_last_member_leaves_an_empty_group() -> None:
    log = (
        _two_members()
        .batch(*member_tombstones("b"), epoch(3))
        .batch(*member_tombstones("a"), epoch(4))
    )
    history = log.replay()
    assert history.group["state"] == "Empty"
    assert history.group["empty_since_ts"] == 7 * SECOND_US
    assert history.rebalances[-1]["cause"] == "became_empty"
    assert history.rebalances[-1]["end_ts"] == 7 * SECOND_US
    reasons = [row["end_reason"] for row in history.ownership]
    assert reasons == ["group_empty", "moved", "member_left"]


def _static_member() -> GroupLog:
    return GroupLog().batch(
        member("a", "i"), epoch(1), target(1), current("a", 1, (0,))
    )


def _return(instance: str = "i") -> tuple[Fields, ...]:
    return (
        *member_tombstones("a"),
        member("b", instance),
        current("b", 1, (0,), before=1),
    )


@pytest.mark.fact("K-06b")
def test_a_static_member_at_epoch_minus_two_left_temporarily() -> None:
    log = _static_member().batch(current("a", -2, (0,), before=1))
    history = log.replay()
    assert history.members[0]["member_state"] == "away"
    assert history.group["member_count"] == 1
    assert history.ownership[0]["valid_to"] == 2 * SECOND_US
    back = log.batch(*_return(), after_s=5).replay()
    assert [
        (row["member_id"], row["end_reason"], row["left_ts"]) for row in back.sessions
    ] == [("a", "replaced", 2 * SECOND_US), ("b", "open", None)]
    assert back.sessions[1]["restarts_of_instance_24h"] == 1
    assert back.ownership[1]["gap_before_ms"] == 5_000
    assert [row["cause"] for row in back.rebalances] == ["first"]


def test_a_session_of_a_static_member_ends_at_its_temporary_leave() -> None:
    log = _static_member().batch(current("a", -2, (0,), before=1))
    [session] = (
        log.batch(*member_tombstones("a"), epoch(2), after_s=60).replay().sessions
    )
    assert (session["end_reason"], session["left_ts"]) == ("left", 2 * SECOND_US)


def test_a_replaced_static_member_is_not_a_cause_of_the_next_epoch() -> None:
    log = _static_member().batch(*_return()).batch(epoch(2, metadata_hash=2))
    row = log.replay().rebalances[-1]
    assert (row["cause"], row["joined"], row["left"]) == ("metadata_changed", [], [])


def test_a_static_member_that_returns_with_a_new_epoch_was_restarted() -> None:
    log = _static_member().batch(*_return(), epoch(2))
    row = log.replay().rebalances[-1]
    assert (row["cause"], row["restarted"]) == ("restarted", ["b"])


def test_a_new_member_with_the_same_client_id_and_host_was_restarted() -> None:
    log = _two_members().batch(*member_tombstones("b"), epoch(3))
    log.batch(member("c", client_id="client-b"), epoch(4), after_s=60)
    assert log.replay().rebalances[-1]["cause"] == "restarted"
    log.batch(*member_tombstones("c"), epoch(5))
    log.batch(member("d", client_id="client-b"), epoch(6), after_s=3_600)
    history = log.replay()
    assert history.rebalances[-1]["cause"] == "joined"
    assert history.sessions[-1]["restarts_of_instance_24h"] == 2


def test_deleting_a_group_ends_its_sessions_and_ownership() -> None:
    log = _two_members().batch(*group_tombstones("a", "b"))
    history = log.replay()
    assert history.group["group_type"] is None
    assert {row["end_reason"] for row in history.sessions} == {"group_deleted"}
    reasons = [row["end_reason"] for row in history.ownership]
    assert reasons == ["group_deleted", "moved", "group_deleted"]
    assert history.rebalances[-1]["cause"] == "deleted"
    again = log.batch(member("z"), epoch(1), target(1), current("z", 1, (0,))).replay()
    assert again.rebalances[-1]["cause"] == "first"
    assert again.rebalances[-1]["partitions_moved"] == 0
    assert again.rebalances[-1]["prev_epoch"] is None


def test_a_topic_with_another_id_is_a_different_topic() -> None:
    log = GroupLog({ID: "t", OTHER_ID: "t"})
    log.batch(member("a"), epoch(1), target(1), current("a", 1, (0,)))
    log.batch(epoch(2, metadata_hash=2), target(2))
    log.batch(current("a", 2, (0,), before=1, topic_id=OTHER_ID))
    history = log.replay()
    assert [
        (row["topic_id"], row["topic"], row["end_reason"], row["gap_before_ms"])
        for row in history.ownership
    ] == [(ID, "t", "moved", None), (OTHER_ID, "t", "open", None)]
    assert history.rebalances[-1]["cause"] == "metadata_changed"
    assert history.rebalances[-1]["partitions_moved"] == 0


def test_a_topic_with_an_unknown_name_keeps_its_id() -> None:
    history = _two_members(GroupLog({})).replay()
    assert {(row["topic_id"], row["topic"]) for row in history.ownership} == {
        (ID, None)
    }
    assert history.group["nameless_topic_ids"] == [ID]


def test_tombstones_for_unknown_groups_are_ignored() -> None:
    history = (
        GroupLog().batch(*group_tombstones("a"), tombstone(2), tombstone(16)).replay()
    )
    assert history.group["group_type"] is None
    rows = [
        *history.members,
        *history.sessions,
        *history.ownership,
        *history.rebalances,
    ]
    assert rows == []


# Compacted logs.


def test_a_session_whose_first_records_were_compacted_has_a_lower_bound() -> None:
    log = GroupLog().gap()
    log.batch(epoch(7), member("a"), current("a", 7, (0,), before=6), target(7))
    history = log.replay()
    assert history.sessions[0]["is_lower_bound"]
    assert history.ownership[0]["is_lower_bound"]
    assert history.rebalances[0]["cause"] == "unknown"
    assert history.group["state"] == "Stable"


@pytest.mark.parametrize("first", [1, 2])
def test_the_first_epoch_after_a_gap_is_1_or_2(first: int) -> None:
    """Start at 2 as Apache Kafka does since 4.3."""
    log = GroupLog().gap()
    log.batch(member("a"), epoch(first), target(first), current("a", first, (0,)))
    log.batch(member("b"), epoch(first + 1))
    causes = [row["cause"] for row in log.replay().rebalances]
    assert causes == ["first", "joined"]


@pytest.mark.parametrize(
    "records",
    [
        [member("a"), epoch(3)],
        [epoch(2)],
        [current("a", 1, (0,)), epoch(2), member("b")],
        [member("a"), member("b"), epoch(2)],
    ],
    ids=["later", "no member", "member before", "two members"],
)
def test_an_epoch_after_a_gap_without_its_only_member_may_be_later(
    records: list[Fields],
) -> None:
    history = GroupLog().gap().batch(*records).replay()
    assert history.rebalances[0]["cause"] == "unknown"


def test_a_first_assignment_without_a_gap_is_exact() -> None:
    history = _two_members(GroupLog().gap()).replay()
    assert not any(row["is_lower_bound"] for row in history.sessions)
    assert not any(row["is_lower_bound"] for row in history.ownership)


def test_records_may_arrive_in_any_order() -> None:
    log = GroupLog().gap().batch(current("a", 7, (0,), before=6)).batch(target(7)).gap()
    history = log.batch(member("a", "i")).batch(epoch(7)).replay()
    [row] = history.ownership
    assert (row["instance_id"], row["client_id"]) == ("i", "client-a")
    assert history.group["state"] == "Stable"


def test_epochs_missing_from_the_log_are_counted() -> None:
    history = _two_members().gap().batch(epoch(9)).replay()
    assert history.rebalances[-1]["epoch_gap"] == 6


def test_a_log_gap_ends_the_ownership_of_a_reassigned_partition() -> None:
    """Assume that missing records removed `a`. Without a gap, both intervals stay: the
    coordinator assigned the partition twice."""
    begin = GroupLog().batch(member("a"), epoch(1), target(1), current("a", 1, (0,)))
    begin.gap().batch(member("b"), epoch(9), target(9), current("b", 9, (0,)))
    assert _owners(begin) == [("a", 0, 1, 2, "moved"), ("b", 0, 2, None, "open")]
    begin = GroupLog().batch(member("a"), epoch(1), target(1), current("a", 1, (0,)))
    begin.batch(member("b"), epoch(2), target(2), current("b", 2, (0,)))
    assert _owners(begin) == [("a", 0, 1, None, "open"), ("b", 0, 2, None, "open")]


def test_a_decreasing_clock_causes_no_negative_durations() -> None:
    log = _two_members().batch(*member_tombstones("b"), epoch(3), after_s=-4)
    for row in log.replay().sessions:
        assert row["left_ts"] is None or row["left_ts"] >= row["joined_ts"]
