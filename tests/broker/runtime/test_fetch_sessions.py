"""Fetch sessions: epochs, changes of their partitions, room and eviction."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

from coterie.broker.runtime.fetch_sessions import (
    IDLE_BEFORE_EVICTION_MS,
    FetchPlan,
    FetchSessions,
    PartitionKey,
)
from coterie.errors import ApiError
from coterie.wire import messages as m
from coterie.wire.error_codes import ErrorCode

NAMES = 12
IDS = 13
EPOCH_MAX = 2**31 - 1


def sessions_of(slots: int = 3, partitions_max: int = 7) -> FetchSessions:
    ids = count(11)
    return FetchSessions(slots, partitions_max, lambda: next(ids))


def request(
    session: tuple[int, int], *partitions: int, forgotten: tuple[int, ...] = ()
) -> m.FetchRequest:
    """Return a request for partitions of t from offset 5."""
    wanted = [m.FetchPartition(partition=at, fetch_offset=5) for at in partitions]
    return m.FetchRequest(
        session_id=session[0],
        session_epoch=session[1],
        topics=[m.FetchTopic(topic="t", partitions=wanted)] if wanted else [],
        forgotten_topics_data=(
            [m.ForgottenTopic(topic="t", partitions=[*forgotten])] if forgotten else []
        ),
    )


def planned(
    sessions: FetchSessions,
    session: tuple[int, int],
    *partitions: int,
    now_ms: int = 0,
    forgotten: tuple[int, ...] = (),
) -> FetchPlan:
    return sessions.plan(
        request(session, *partitions, forgotten=forgotten), NAMES, now_ms
    )


def numbers(plan: FetchPlan) -> list[int]:
    return [key.partition for key, _ in plan.partitions]


def refusal(call: Any, *args: Any, **fields: Any) -> ErrorCode:
    with pytest.raises(ApiError) as refused:
        call(*args, **fields)
    return refused.value.code


def test_a_full_request_opens_a_session_and_the_next_ones_name_its_epochs() -> None:
    sessions = sessions_of()
    first = planned(sessions, (0, 0), 3, 1)
    assert (first.session_id, numbers(first), first.is_incremental) == (
        11,
        [3, 1],
        False,
    )
    second = planned(sessions, (11, 1))
    assert (numbers(second), second.is_incremental) == ([3, 1], True)
    for epoch in (1, 3):
        code = refusal(planned, sessions, (11, epoch))
        assert code is ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert numbers(planned(sessions, (11, 2), 4, forgotten=(3,))) == [1, 4]
    code = refusal(planned, sessions, (12, 1))
    assert code is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_full_request_of_a_session_replaces_it() -> None:
    sessions = sessions_of(partitions_max=3)
    planned(sessions, (0, 0), 1, 2)
    replacing = planned(sessions, (11, 0), 1, 2, 3)
    assert (replacing.session_id, len(sessions)) == (12, 1)
    assert refusal(planned, sessions, (11, 1)) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert numbers(planned(sessions, (12, 1))) == [1, 2, 3]


def test_a_final_request_closes_its_session_and_opens_none() -> None:
    sessions = sessions_of()
    planned(sessions, (0, 0), 1)
    last = planned(sessions, (11, -1), 1, 2)
    assert (last.session_id, numbers(last), len(sessions)) == (0, [1, 2], 0)
    alone = planned(sessions, (0, -1), 1)
    assert (alone.session_id, len(sessions)) == (0, 0)


def test_a_request_without_partitions_opens_no_session() -> None:
    sessions = sessions_of()
    assert planned(sessions, (0, 0)).session_id == 0
    assert len(sessions) == 0


def test_the_last_occurrence_of_a_partition_counts() -> None:
    twice = request((0, 0), 1, 1)
    twice.topics[0].partitions[1].fetch_offset = 9
    plan = sessions_of().plan(twice, NAMES, 0)
    [(_, partition)] = plan.partitions
    assert partition.request.fetch_offset == 9


@pytest.mark.pure
def test_an_incremental_request_changes_the_offset_of_a_partition() -> None:
    sessions = sessions_of()
    plan = planned(sessions, (0, 0), 1, 2)
    for _, partition in plan.partitions:
        partition.empty_read = object()  # type: ignore[assignment]
    moved = request((11, 1), 2)
    moved.topics[0].partitions[0].fetch_offset = 8
    after = dict(sessions.plan(moved, NAMES, 0).partitions)
    offsets = {key.partition: each.request.fetch_offset for key, each in after.items()}
    assert offsets == {1: 5, 2: 8}
    reads = {key.partition: each.empty_read is None for key, each in after.items()}
    assert reads == {1: False, 2: True}


def test_topic_ids_and_names_are_not_mixed_in_a_session() -> None:
    sessions = sessions_of()
    planned(sessions, (0, 0), 1)
    code = refusal(sessions.plan, request((11, 1)), IDS, 0)
    assert code is ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
    assert numbers(planned(sessions, (11, 1))) == [1]
    by_id = sessions.plan(request((0, 0), 1), IDS, 0)
    code = refusal(sessions.plan, request((by_id.session_id, 1)), NAMES, 0)
    assert code is ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


def test_a_session_whose_last_partition_is_forgotten_is_closed() -> None:
    sessions = sessions_of()
    planned(sessions, (0, 0), 1, 2)
    assert planned(sessions, (11, 1), forgotten=(1,)).session_id == 11
    last = planned(sessions, (11, 2), forgotten=(2, 3))
    assert (last.session_id, numbers(last), len(sessions)) == (0, [], 0)
    # The room of its partitions is free again.
    assert planned(sessions, (0, 0), *range(7)).session_id == 12


def test_the_epoch_after_the_greatest_is_1() -> None:
    sessions = sessions_of()
    session = planned(sessions, (0, 0), 1).session
    assert session is not None
    session.epoch = EPOCH_MAX
    planned(sessions, (11, EPOCH_MAX))
    assert session.epoch == 1
    planned(sessions, (11, 1))
    assert session.epoch == 2


def test_sessions_are_bounded_until_the_least_recently_used_is_idle() -> None:
    sessions = sessions_of(slots=2)
    planned(sessions, (0, 0), 1)
    planned(sessions, (0, 0), 1, now_ms=10)
    planned(sessions, (11, 1), now_ms=20)
    assert IDLE_BEFORE_EVICTION_MS == 120_000, "as in Kafka"
    idle_ms = 10 + IDLE_BEFORE_EVICTION_MS
    refused = planned(sessions, (0, 0), 1, now_ms=idle_ms - 1)
    assert (refused.session_id, numbers(refused), len(sessions)) == (0, [1], 2)
    assert planned(sessions, (0, 0), 1, now_ms=idle_ms).session_id == 13
    assert refusal(planned, sessions, (12, 1)) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert numbers(planned(sessions, (11, 2), now_ms=idle_ms)) == [1]


def test_the_partitions_of_all_sessions_are_bounded() -> None:
    sessions = sessions_of(partitions_max=5)
    planned(sessions, (0, 0), 1, 2, 3)
    assert planned(sessions, (0, 0), 1, 2, 3).session_id == 0
    assert planned(sessions, (0, 0), *range(6)).session_id == 0
    assert planned(sessions, (0, 0), 1, 2).session_id == 12
    code = refusal(planned, sessions, (11, 1), 4)
    assert code is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert len(sessions) == 1
    assert planned(sessions, (0, 0), 1, 2, 3).session_id == 13


def test_without_slots_every_request_lists_its_partitions() -> None:
    sessions = sessions_of(slots=0)
    plan = planned(sessions, (0, 0), 1)
    assert (plan.session_id, numbers(plan)) == (0, [1])


def test_an_id_in_use_and_ids_that_mean_none_are_not_given() -> None:
    ids = iter([5, 5, 0, -7, 6])
    sessions = FetchSessions(3, 9, lambda: next(ids))
    assert planned(sessions, (0, 0), 1).session_id == 5
    assert planned(sessions, (0, 0), 1).session_id == 6


def test_a_new_session_can_be_discarded_before_its_id_is_sent() -> None:
    sessions = sessions_of()
    plan = planned(sessions, (0, 0), 1)
    sessions.discard_new(plan)
    assert (plan.session_id, len(sessions)) == (0, 0)
    planned(sessions, (0, 0), 1)
    incremental = planned(sessions, (12, 1))
    sessions.discard_new(incremental)
    assert (incremental.session_id, len(sessions)) == (12, 1)


def data_of(partition: int, **fields: Any) -> m.PartitionData:
    usual = {"high_watermark": 9, "last_stable_offset": 8, "log_start_offset": 2}
    return m.PartitionData(partition_index=partition, **{**usual, **fields})


def test_an_incremental_response_has_the_partitions_that_changed() -> None:
    sessions = sessions_of()
    first = planned(sessions, (0, 0), 1, 2)
    keys = {key.partition: key for key, _ in first.partitions}
    assert first.includes(keys[1], data_of(1))
    first.store([(keys[1], data_of(1)), (keys[2], data_of(2))])
    second = planned(sessions, (11, 1))
    assert not second.includes(keys[1], data_of(1))
    changes = {"high_watermark": 10, "last_stable_offset": 9, "log_start_offset": 3}
    for name, value in changes.items():
        assert second.includes(keys[1], data_of(1, **{name: value}))
    assert second.includes(keys[1], data_of(1, records=b"r"))
    failed = data_of(1, error_code=int(ErrorCode.OFFSET_OUT_OF_RANGE))
    second.store([(keys[1], failed)])
    third = planned(sessions, (11, 2))
    assert third.includes(keys[1], failed)
    assert third.includes(keys[1], data_of(1))
    assert not third.includes(keys[2], data_of(2))
    removed = PartitionKey("gone", bytes(16), 0)
    assert third.includes(removed, data_of(0))
    third.store([(removed, data_of(0))])
    assert removed not in dict(planned(sessions, (11, 3)).partitions)


def test_a_partition_that_returned_records_moves_to_the_end() -> None:
    sessions = sessions_of()
    plan = planned(sessions, (0, 0), 1, 2, 3)
    keys = {key.partition: key for key, _ in plan.partitions}
    plan.store([(keys[1], data_of(1, records=b"r")), (keys[2], data_of(2))])
    assert numbers(planned(sessions, (11, 1))) == [2, 3, 1]


def test_a_response_without_a_session_has_every_partition() -> None:
    plan = planned(sessions_of(), (0, -1), 1)
    [(key, _)] = plan.partitions
    plan.store([(key, data_of(1))])
    assert plan.includes(key, data_of(1))
