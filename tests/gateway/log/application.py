"""An application that commits offsets in transactions of its own producer."""

from __future__ import annotations

from coterie.broker.coordinator.record_serde import encode_record
from coterie.broker.coordinator.records import OffsetCommitKey, OffsetCommitValue
from coterie.broker.coordinator.result import Origin, Record
from coterie.errors import CoterieError
from coterie.wire.record_batch import (
    TRANSACTIONAL,
    LogRecord,
    Producer,
    encode_batch,
)
from tests.gateway.log.shard_world import Node

APPLICATION = Producer(7, 0, 0)


def offset_record(group_id: str, offset: int) -> Record:
    value = OffsetCommitValue(
        offset=offset, leader_epoch=-1, metadata="", commit_timestamp=0
    )
    return Record(OffsetCommitKey(group=group_id, topic="t", partition=0), value, 3)


class Transactions:
    """An application that commits offsets in transactions."""

    def __init__(self, world: Node) -> None:
        self.world = world
        self.sequence = 0
        self.errors: list[CoterieError] = []

    def commit(self, group_id: str, offset: int) -> None:
        """Write an offset of a transaction; it is pending once it is durable."""
        world, record = self.world, offset_record(group_id, offset)
        producer = APPLICATION._replace(base_sequence=self.sequence)
        self.sequence += 1
        batch = encode_batch(
            [LogRecord(0, 0, *encode_record(record))],
            producer=producer,
            attributes=TRANSACTIONAL,
        )

        def done(result: int | CoterieError) -> None:
            if isinstance(result, CoterieError):
                self.errors.append(result)
                return
            origin = Origin(result, 0, *producer[:2])
            world.partition(group_id).shard.replay(record, origin)

        world.writer_of(group_id).produce_transactional(batch, 1, "app", done)

    def end(self, group_id: str, *, commit: bool) -> None:
        """Write the marker, as upstream's transaction coordinator does."""
        self.world.partition_of(group_id).end_transaction(APPLICATION, commit=commit)
