"""The lag of groups in offsets."""

from __future__ import annotations

import asyncio

import pytest

from coterie.errors import ApiError, ConnectionLost
from coterie.operations.lag import GroupLagReport, LagStatus, group_lag
from coterie.operations.lag import PartitionLag as Row
from coterie.types import TopicPartition
from coterie.wire.error_codes import ErrorCode

from .fake_admin import FakeAdmin, FakeLog, group, member

T0 = TopicPartition("t", 0)


def report(admin: FakeAdmin, *ids: str) -> GroupLagReport:
    return asyncio.run(group_lag(admin, ids or sorted(admin.known_groups)))


def only_row(admin: FakeAdmin) -> Row:
    (row,) = report(admin).rows
    return row


def test_two_groups_on_the_same_partitions_have_separate_lag() -> None:
    admin = FakeAdmin(known_logs={T0: FakeLog.of(0, 100)})
    admin.add(group("a", member("alice", ("t", 0))), t=10)
    admin.add(group("b", member("bob", ("t", 0))), t=90)
    a, b = report(admin).rows
    assert (a.group_id, a.lag, a.client_id) == ("a", 90, "alice")
    assert (b.group_id, b.lag, b.client_id) == ("b", 10, "bob")
    assert a.committed is not None
    assert a.committed.offset == 10


def test_log_offsets_are_fetched_once_and_after_the_commits() -> None:
    admin = FakeAdmin(known_logs={T0: FakeLog.of(0, 100)})
    for name in "abc":
        admin.add(group(name), t=10)
    report(admin)
    assert admin.calls == [
        "describe_groups",
        "list_groups_offsets",
        "list_offsets",
        "list_offsets",
    ]


@pytest.mark.parametrize(
    ("committed", "lag", "raw", "status"),
    [
        (50, 50, 50, LagStatus.NORMAL),
        (100, 0, 0, LagStatus.NORMAL),
        (20, 80, 80, LagStatus.NORMAL),
        (5, 80, 95, LagStatus.BELOW_START),
        (120, 0, -20, LagStatus.BEYOND_END),
    ],
)
def test_lag_counts_from_the_log_start(
    committed: int, lag: int, raw: int, status: LagStatus
) -> None:
    admin = FakeAdmin(known_logs={T0: FakeLog.of(20, 100)})
    admin.add(group("g"), t=committed)
    row = only_row(admin)
    assert (row.lag, row.lag_raw, row.lag_status) == (lag, raw, status)
    assert (row.log_start, row.log_end) == (20, 100)


@pytest.mark.fact("A-73a", "A-73b")
def test_a_partition_without_a_commit_has_no_lag() -> None:
    admin = FakeAdmin(known_logs={T0: FakeLog.of(0, 100)})
    admin.add(group("g", member("m", ("t", 0))))
    row = only_row(admin)
    assert (row.committed, row.lag, row.lag_raw) == (None, None, None)
    assert (row.lag_status, row.log_end) == (LagStatus.NO_COMMIT, 100)


@pytest.mark.fact("A-73a", "A-73b")
def test_a_missing_log_end_is_an_unknown_lag_with_an_error() -> None:
    admin = FakeAdmin()
    admin.add(group("g"), gone=7)
    row = only_row(admin)
    assert (row.lag, row.log_end, row.lag_status) == (None, None, LagStatus.UNKNOWN)
    assert isinstance(row.error, ApiError)
    assert row.error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.fact("A-70", "A-71")
def test_owned_partitions_precede_those_without_an_owner() -> None:
    logs = {TopicPartition(topic, 0): FakeLog.of(0, 9) for topic in "abc"}
    admin = FakeAdmin(known_logs=logs)
    admin.add(group("g", member("m", ("b", 0), ("c", 0))), a=1, b=2)
    rows = report(admin).rows
    assert [(row.topic, row.client_id) for row in rows] == [
        ("b", "m"),
        ("c", "m"),
        ("a", None),
    ]
    assert (rows[2].member_id, rows[2].host, rows[2].lag) == (None, None, 8)


def test_a_member_without_partitions_has_one_row() -> None:
    admin = FakeAdmin(known_logs={T0: FakeLog.of(0, 9)})
    admin.add(group("g", member("idle"), member("busy", ("t", 0))))
    busy, idle = report(admin).rows
    assert (busy.client_id, busy.topic) == ("busy", "t")
    assert (idle.client_id, idle.host) == ("idle", "/idle")
    assert (idle.topic, idle.partition, idle.committed, idle.lag) == (None,) * 4


def test_a_deleted_topic_does_not_affect_others() -> None:
    admin = FakeAdmin(known_logs={T0: FakeLog.of(0, 9)})
    admin.add(group("g"), gone=1, t=2)
    gone, there = report(admin).rows
    assert gone.error is not None
    assert (there.error, there.lag) == (None, 7)


def test_an_unknown_group_does_not_affect_others() -> None:
    admin = FakeAdmin(known_logs={T0: FakeLog.of(0, 9)})
    admin.add(group("g"), t=2)
    missing, there = report(admin, "absent", "g").groups
    assert isinstance(missing.error, ApiError)
    assert missing.error.code is ErrorCode.GROUP_ID_NOT_FOUND
    assert (missing.rows, missing.total) == ((), None)
    assert (there.error, there.total) == (None, 7)


def test_owners_are_shown_when_commits_cannot_be_fetched() -> None:
    admin = FakeAdmin(known_logs={T0: FakeLog.of(0, 9)})
    admin.add(group("g", member("m", ("t", 0))), t=3)
    admin.commit_errors["g"] = ConnectionLost("broker:9092 hung up")
    (one,) = report(admin).groups
    (row,) = one.rows
    assert (row.client_id, row.committed, row.lag) == ("m", None, None)
    assert row.lag_status is LagStatus.UNKNOWN
    assert row.error is one.error is admin.commit_errors["g"]


def test_an_unreadable_commit_is_an_error_of_its_partition() -> None:
    admin = FakeAdmin(known_logs={T0: FakeLog.of(0, 9)})
    admin.add(group("g"))
    unstable = ApiError(ErrorCode.UNSTABLE_OFFSET_COMMIT)
    admin.commit_item_errors["g"] = {T0: unstable}
    row = only_row(admin)
    assert (row.topic, row.error, row.lag_status) == ("t", unstable, LagStatus.UNKNOWN)


def test_lag_covers_only_the_selected_topics() -> None:
    admin = FakeAdmin(known_logs={T0: FakeLog.of(0, 9)})
    admin.add(group("g", member("m", ("t", 0), ("u", 0))), v=1)
    found = asyncio.run(group_lag(admin, ["g"], topics=["t"]))
    assert [row.topic for row in found.rows] == ["t"]
    assert admin.logs_asked == [({T0}, False), ({T0}, False)]


def test_committed_only_ends_at_the_last_stable_offset() -> None:
    admin = FakeAdmin(known_logs={T0: FakeLog.of(0, 9)})
    admin.add(group("g"), t=1)
    asyncio.run(group_lag(admin, ["g"], committed_only=True))
    assert admin.logs_asked == [({T0}, False), ({T0}, True)]


def test_progress_never_decreases_and_ends_at_the_total() -> None:
    admin = FakeAdmin(known_logs={T0: FakeLog.of(0, 9)})
    admin.add(group("g"), t=1)
    told: list[tuple[int, int]] = []
    asyncio.run(group_lag(admin, ["g"], progress=lambda *each: told.append(each)))
    assert told == sorted(told)
    assert {of for _, of in told} == {4}
