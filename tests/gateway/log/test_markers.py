"""Markers that arrive together with the batches of their transactions."""

from __future__ import annotations

import pytest

from coterie.broker.coordinator.record_serde import encode_record
from coterie.broker.coordinator.records import OffsetCommitKey, OffsetCommitValue
from coterie.broker.coordinator.result import Origin, Record
from coterie.errors import ConnectionLost, CoterieError
from coterie.wire.record_batch import TRANSACTIONAL, LogRecord, Producer, encode_batch
from tests.gateway.log.fake_upstream import Request
from tests.gateway.log.shard_world import Node, node

GROUP = "g"
EARLIER, LATER = Producer(500, 0, 0), Producer(600, 0, 0)


class Shard:
    """A shard whose markers are being read, as a transaction is open. Produce requests
    wait for the test."""

    def __init__(self) -> None:
        self.node: Node = node()
        self.results: list[int | CoterieError] = []
        self.write(EARLIER, 0)
        self.node.loop.settle()
        assert isinstance(self.results[0], int)
        self.node.upstream.answers_produce = False

    def write(self, producer: Producer, partition: int) -> None:
        key = OffsetCommitKey(group=GROUP, topic="t", partition=partition)
        record = Record(key, OffsetCommitValue(offset=50), 3)
        batch = encode_batch(
            [LogRecord(0, 0, *encode_record(record))],
            producer=producer,
            attributes=TRANSACTIONAL,
        )

        def done(result: int | CoterieError) -> None:
            self.results.append(result)
            if isinstance(result, int):
                origin = Origin(result, 0, *producer[:2])
                self.node.partition(GROUP).shard.replay(record, origin)

        writer = self.node.writer_of(GROUP)
        writer.produce_transactional(batch, 1, "app", done)

    def append(self) -> tuple[Request, int]:
        """Append the waiting batch; its acknowledgement is still on its way."""
        self.node.loop.settle()
        request = self.node.upstream.requests.popleft()
        return request, self.node.partition_of(GROUP).append(request.batch)

    def end(self, producer: Producer, *, commit: bool) -> None:
        self.node.partition_of(GROUP).end_transaction(producer, commit=commit)

    def read(self) -> None:
        """Let the reader fetch what is there."""
        self.node.loop.advance(1)

    @property
    def is_pending(self) -> bool:
        pending = self.node.partition(GROUP).shard.state.offsets.pending
        return LATER.producer_id in pending.transactions

    def offset(self, partition: int) -> int | None:
        stored = self.node.partition(GROUP).shard.state.offsets.stored
        found = stored.get(GROUP, "t", partition)
        return None if found is None else found.offset


@pytest.mark.parametrize("commit", [True, False])
def test_a_marker_may_be_read_before_its_batch_is_acknowledged(commit: bool) -> None:
    shard = Shard()
    shard.write(LATER, 1)
    request, base = shard.append()
    shard.end(LATER, commit=commit)
    shard.read()
    request.done(base)
    shard.read()
    assert not shard.is_pending
    assert shard.offset(1) == (50 if commit else None)
    shard.end(EARLIER, commit=True)
    shard.read()
    assert shard.offset(0) == 50


def test_a_marker_in_the_response_with_its_batch_ends_the_transaction() -> None:
    shard = Shard()
    shard.write(LATER, 1)
    request, base = shard.append()
    shard.end(LATER, commit=True)
    request.done(base)
    assert not shard.offset(1)
    shard.read()
    assert not shard.is_pending
    assert shard.offset(1) == 50


def test_a_batch_that_waits_for_markers_ends_with_the_ownership() -> None:
    shard = Shard()
    shard.write(LATER, 1)
    request, base = shard.append()
    request.done(base)
    shard.node.loop.settle()  # the batch is read back
    count = len(shard.results)
    shard.node.ownership.lost()
    assert len(shard.results) == count + 1


def test_a_partition_that_has_lost_its_end_is_loaded_again() -> None:
    """As after an unclean election: the markers that are waited for never come."""
    shard = Shard()
    world = shard.node
    opened = len(world.opened)
    world.upstream.answers_produce = True
    tail = world.opened[world.runtime.shard_of(GROUP)].tail
    tail._position += 1_000
    world.loop.advance(1_000)

    assert len(world.opened) == opened + 1
    assert world.is_active(GROUP)


def test_the_reader_goes_on_after_a_failed_fetch() -> None:
    shard = Shard()
    errors: list[CoterieError] = [ConnectionLost("lost"), ConnectionLost("lost")]
    shard.node.upstream.fails = lambda name: (
        errors.pop() if name == "fetch" and errors else None
    )
    shard.read()
    assert not errors
    shard.end(EARLIER, commit=True)
    shard.read()
    assert shard.offset(0) == 50
