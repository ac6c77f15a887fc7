"""Fetch in incremental sessions (KIP-227)."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from coterie.broker.catalog.batch_validation import read_batch
from coterie.broker.runtime.partitions import Partition
from coterie.wire import messages as m
from coterie.wire.error_codes import ErrorCode
from coterie.wire.record_batch import TRANSACTIONAL, Producer
from tests.broker.server.apis.fake_broker import FakeBroker, batch_of

from .test_fetch import (
    BY_NAME,
    COMMITTED,
    LATEST,
    errors_of,
    get,
    parts_of,
    request_of,
    send,
    values_of,
)


@pytest.fixture
def broker() -> FakeBroker:
    made = FakeBroker()
    made.create("a", partition_count=3)
    return made


def open_session(broker: FakeBroker, *offsets: int) -> int:
    response = broker.call(request_of(*offsets, session_epoch=0), BY_NAME)
    assert response.session_id > 0
    assert len(parts_of(response)) == len(offsets)
    session_id: int = response.session_id
    return session_id


def more(broker: FakeBroker, session_id: int, epoch: int, **options: Any) -> Any:
    request = request_of(session_id=session_id, session_epoch=epoch, **options)
    return broker.call(request, BY_NAME)


def test_a_session_returns_only_changed_partitions(broker: FakeBroker) -> None:
    session_id = open_session(broker, 0, 0, 0)
    assert parts_of(more(broker, session_id, 1)) == {}
    send(broker, None, batch_of(b"x"))
    response = more(broker, session_id, 2)
    assert response.session_id == session_id
    assert list(parts_of(response)) == [1]


def test_a_session_accepts_new_offsets_and_partitions(broker: FakeBroker) -> None:
    session_id = open_session(broker, 0)
    send(broker, batch_of(b"x"), batch_of(b"y"))
    request = request_of(1, 0, session_id=session_id, session_epoch=1)
    parts = get(broker, request)
    assert parts[0].records == b""
    assert values_of(parts[1]) == [b"y"]


def test_a_session_removes_forgotten_partitions(broker: FakeBroker) -> None:
    session_id = open_session(broker, 0, 0)
    send(broker, batch_of(b"x"), batch_of(b"y"))
    forgotten = [m.ForgottenTopic(topic="a", partitions=[0])]
    response = more(broker, session_id, 1, forgotten_topics_data=forgotten)
    assert list(parts_of(response)) == [1]


def test_a_partition_that_returned_records_moves_to_the_end(broker: FakeBroker) -> None:
    session_id = open_session(broker, 0, 0)
    batch = batch_of(b"x")
    send(broker, batch, batch)
    first = more(broker, session_id, 1, max_bytes=1)
    second = more(broker, session_id, 2, max_bytes=1)
    full = [
        [index for index, part in parts_of(response).items() if part.records]
        for response in (first, second)
    ]
    assert full == [[0], [1]]


@pytest.mark.parametrize("epoch", [2, 7])
def test_a_wrong_session_epoch_is_refused(broker: FakeBroker, epoch: int) -> None:
    session_id = open_session(broker, 0)
    response = more(broker, session_id, epoch)
    assert response.error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH


def test_an_unknown_session_is_refused(broker: FakeBroker) -> None:
    response = more(broker, 99, 1)
    assert response.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_the_final_epoch_closes_a_session(broker: FakeBroker) -> None:
    session_id = open_session(broker, 0)
    request = request_of(0, session_id=session_id, session_epoch=-1)
    assert broker.call(request, BY_NAME).session_id == 0
    response = more(broker, session_id, 1)
    assert response.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_session_without_partitions_is_closed(broker: FakeBroker) -> None:
    session_id = open_session(broker, 0)
    forgotten = [m.ForgottenTopic(topic="a", partitions=[0])]
    response = more(broker, session_id, 1, forgotten_topics_data=forgotten)
    assert response.session_id == 0


@pytest.mark.parametrize("version", [BY_NAME, 13, LATEST])
def test_a_session_keeps_the_topic_that_an_id_had(
    broker: FakeBroker, version: int
) -> None:
    is_by_name = version == BY_NAME
    topic_id = bytes(16) if is_by_name else broker.catalog.topics["a"].topic_id
    opening = request_of(0, topic_id=topic_id, session_epoch=0)
    session_id = broker.call(opening, version).session_id
    epochs = itertools.count(1)

    def errors() -> dict[int, int]:
        request = request_of(session_id=session_id, session_epoch=next(epochs))
        return errors_of(broker.call(request, version))

    assert errors() == {}
    broker.call(m.DeleteTopicsRequest(topics=[m.DeleteTopicState(name="a")]), 6)
    assert errors() == {0: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    broker.create("a")
    again = ErrorCode.NONE if is_by_name else ErrorCode.INCONSISTENT_TOPIC_ID
    assert errors() == {0: again}
    by_id = errors_of(broker.call(request_of(0, topic_id=topic_id), version))
    assert by_id == {0: 0 if is_by_name else ErrorCode.UNKNOWN_TOPIC_ID}


def test_a_session_uses_either_names_or_ids(broker: FakeBroker) -> None:
    session_id = open_session(broker, 0)
    request = request_of(session_id=session_id, session_epoch=1)
    response = broker.call(request, LATEST)
    assert response.error_code == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


def test_a_fetch_gets_no_session_when_the_session_cache_is_full() -> None:
    broker = FakeBroker(max_incremental_fetch_session_cache_slots=1)
    broker.create("a")
    first = open_session(broker, 0)
    request = request_of(0, session_epoch=0)
    assert broker.call(request, BY_NAME).session_id == 0
    broker.scheduler.advance(120)
    assert broker.call(request, BY_NAME).session_id > 0
    response = more(broker, first, 1)
    assert response.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_all_sessions_together_have_a_limited_number_of_partitions() -> None:
    broker = FakeBroker(max_incremental_fetch_session_cache_partitions=3)
    broker.create("a", partition_count=4)
    first = open_session(broker, 0, 0)
    request = request_of(0, 0, session_epoch=0)
    assert broker.call(request, BY_NAME).session_id == 0
    second = open_session(broker, 0)
    added = request_of(None, 0, session_id=second, session_epoch=1)
    grown = broker.call(added, BY_NAME)
    assert grown.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert more(broker, first, 1).error_code == 0
    broker.scheduler.advance(120)
    assert broker.call(request, BY_NAME).session_id > 0, "an idle session is removed"
    response = more(broker, first, 2)
    assert response.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_closed_session_makes_room_for_its_partitions() -> None:
    broker = FakeBroker(max_incremental_fetch_session_cache_partitions=2)
    broker.create("a", partition_count=2)
    for _ in range(3):
        session_id = open_session(broker, 0, 0)
        forgotten = [m.ForgottenTopic(topic="a", partitions=[0])]
        more(broker, session_id, 1, forgotten_topics_data=forgotten)
        request = request_of(0, session_id=session_id, session_epoch=-1)
        broker.call(request, BY_NAME)


def test_a_session_that_changes_isolation_level_reads_again(
    broker: FakeBroker,
) -> None:
    send(broker, batch_of(b"x"))
    session_id = open_session(broker, 1)
    assert parts_of(more(broker, session_id, 1)) == {}
    producer = Producer(7, 0, 0)
    partition = broker.data.partition("a", 0)
    assert partition is not None
    batch = batch_of(b"y", producer=producer, attributes=TRANSACTIONAL)
    appended = broker.data.append(partition, read_batch(batch, BY_NAME))
    broker.data.settle([appended], lambda _: None)
    broker.loop.end_turn()
    response = more(broker, session_id, 2, isolation_level=COMMITTED)
    assert values_of(parts_of(response)[0]) == []
    assert values_of(parts_of(more(broker, session_id, 3))[0]) == [b"y"]


def test_a_session_does_not_read_unchanged_partitions(
    broker: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    session_id = open_session(broker, 0, 0, 0)
    more(broker, session_id, 1)
    reads: list[int] = []
    read = Partition.read

    def counted(self: Partition, *arguments: Any, **options: Any) -> Any:
        reads.append(self.name.partition)
        return read(self, *arguments, **options)

    monkeypatch.setattr(Partition, "read", counted)
    more(broker, session_id, 2)
    assert reads == []
    send(broker, None, batch_of(b"x"))
    assert list(parts_of(more(broker, session_id, 3))) == [1]
    assert reads == [1]


def test_a_session_returns_deleted_records_and_deleted_topics(
    broker: FakeBroker,
) -> None:
    send(broker, batch_of(b"x"))
    session_id = open_session(broker, 1)
    assert parts_of(more(broker, session_id, 1)) == {}
    partition = broker.data.partition("a", 0)
    assert partition is not None
    broker.data.delete_records(partition, 1)
    broker.loop.end_turn()
    assert parts_of(more(broker, session_id, 2))[0].log_start_offset == 1
    broker.data.stage([broker.catalog.delete_topic("a")])
    code = parts_of(more(broker, session_id, 3))[0].error_code
    assert code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
