"""Producer state of a partition after a restart."""

from __future__ import annotations

import pytest

from coterie.broker.runtime import partitions
from coterie.broker.runtime.partitions import PRODUCERS_SPACE, Poll, partition_key
from coterie.errors import LogCorrupt
from coterie.wire.record_batch import Producer
from tests.broker.server.apis.fake_broker import FakeBroker, batch_of, produce_request

BATCHES = 25


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> FakeBroker:
    monkeypatch.setattr(partitions, "SAVE_EVERY_BATCHES", 10)
    made = FakeBroker()
    made.create("a")
    for sequence in range(BATCHES):
        assert send(made, sequence) == sequence
    return made


def send(broker: FakeBroker, sequence: int) -> int:
    batch = batch_of(b"x", producer=Producer(7, 0, sequence))
    response = broker.call(produce_request(batch), 12)
    [part] = response.responses[0].partition_responses
    assert part.error_code == 0
    offset: int = part.base_offset
    return offset


def test_only_batches_after_the_saved_producer_state_are_read_at_restart(
    broker: FakeBroker,
) -> None:
    broker.restart()
    partition = broker.data.partition("a", 0)
    assert partition is not None
    read: list[int] = []
    headers = broker.log.headers

    def counted(log_partition: object, offset: int = 0) -> object:
        read.append(offset)
        return headers(log_partition, offset)  # type: ignore[arg-type]

    broker.log.headers = counted  # type: ignore[method-assign,assignment]
    assert send(broker, BATCHES - 1) == BATCHES - 1
    assert send(broker, BATCHES) == BATCHES
    assert read == [20]


def test_records_are_deleted_before_the_producer_state_is_loaded(
    broker: FakeBroker, caplog: pytest.LogCaptureFixture
) -> None:
    broker.restart()
    partition = broker.data.partition("a", 0)
    assert partition is not None
    version = partition.version
    broker.data.truncate(partition, 3)
    broker.log.flush()
    broker.loop.end_turn()
    assert partition.version > version
    assert caplog.records == []
    assert send(broker, BATCHES) == BATCHES


def test_saved_producer_state_is_deleted_with_its_topic(broker: FakeBroker) -> None:
    assert len(list(broker.log.items(PRODUCERS_SPACE))) == 1
    broker.data.stage([broker.catalog.delete_topic("a")])
    broker.log.flush()
    assert list(broker.log.items(PRODUCERS_SPACE)) == []


def test_a_partition_that_is_missing_in_the_log_is_damage_at_start() -> None:
    broker = FakeBroker()
    broker.create("a", partition_count=2)
    missing = broker.data.partition("a", 1)
    assert missing is not None
    broker.log.delete(missing.log_partition)
    broker.log.flush()
    with pytest.raises(LogCorrupt, match="partition a-1 is in the catalog and not in"):
        broker.restart()


def test_a_saved_producer_state_that_cannot_be_decoded_is_a_read_error() -> None:
    broker = FakeBroker()
    broker.create("a")
    partition = broker.data.partition("a", 0)
    assert partition is not None
    broker.log.put(PRODUCERS_SPACE, partition_key(partition.log_partition), b"{")
    broker.log.flush()
    with pytest.raises(LogCorrupt, match="the saved producer state cannot be decoded"):
        partition.last_stable_offset()


def test_a_fetch_that_waits_ends_after_its_time(broker: FakeBroker) -> None:
    partition = broker.data.partition("a", 0)
    assert partition is not None
    ended: list[bool] = []
    poll = Poll(
        [partition],
        missing_bytes=1,
        committed=False,
        finished=lambda: ended.append(True),
    )
    poll.start(broker.scheduler, 500)
    broker.scheduler.advance(0.499_9)
    assert ended == []
    assert partition.polls == {poll}
    broker.scheduler.advance(0.000_2)
    assert ended == [True]
    assert partition.polls == set()
