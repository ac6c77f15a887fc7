"""The barrier: the first record of each owner of a shard, in the shard's partition.

After it, upstream refuses batches of earlier owners (INVALID_PRODUCER_EPOCH). An owner
has loaded the shard when it has replayed its own barrier. Compaction keeps the newest
barrier of each cluster id and partition count, which are in the key: a barrier for
which a node refuses the log must stay when that node has written its own. An owner
repeats its barrier from time to time: upstream forgets producers that write nothing
(`producer.id.expiration.ms`).
"""

from __future__ import annotations

from typing import Final

from coterie.broker import BARRIER_TYPE, is_barrier
from coterie.errors import LogCorrupt, MalformedFrame
from coterie.types import ProducerId
from coterie.wire.codec import decode, encode
from coterie.wire.record_batch import (
    BatchHeader,
    LogRecord,
    decode_records,
    encode_batch,
)
from coterie.wire.schema import Message, boolean, int32, int64, string

_KEY: Final = BARRIER_TYPE.to_bytes(2, "big")
_VERSION: Final = b"\0\0"


class Barrier(Message, versions="0", flexible="0+"):
    """The value of a barrier record."""

    cluster_id: str = string()
    """The cluster that the owner's topic is in: a copy of the topic elsewhere is not
    the shard's log."""
    node: str = string()
    partition_count: int = int32()
    """The number of shards, which maps groups to shards and never changes."""
    time_ms: int = int64()
    """The time at which the owner asked for its producer epoch, in ms since the epoch.
    """
    is_repeated: bool = boolean()


def encode_barrier(barrier: Barrier, now_ms: int) -> bytes:
    """Return a batch with one barrier, without a producer."""
    count = barrier.partition_count.to_bytes(4, "big")
    key = _KEY + count + barrier.cluster_id.encode()
    record = LogRecord(0, now_ms, key, _VERSION + encode(barrier, 0))
    return encode_batch([record])


def read_barrier(batch: bytes, header: BatchHeader) -> Barrier | None:
    """Return the barrier that a batch consists of; None for any other batch.

    Raises LogCorrupt for a barrier that cannot be decoded.
    """
    if header.record_count != 1 or _KEY not in batch:
        return None
    try:
        (record,) = decode_records(batch, header)
        if not is_barrier(record.key) or record.value is None:
            return None
        if record.value[:2] != _VERSION:
            raise LogCorrupt(
                f"offset {record.offset}: a barrier of a newer gateway; upgrade this "
                "node"
            )
        return decode(Barrier, 0, record.value, len(_VERSION))[0]
    except MalformedFrame as error:
        raise LogCorrupt(f"offset {header.base_offset}: barrier: {error}") from None


class Lineage:
    """The owners of a shard in the order of their barriers, while a log is read.

    Upstream refuses an earlier owner's batches only while it knows the producer id. If
    it does not, a batch of an earlier owner may follow a later owner's barrier; readers
    drop it.

    `own_id` is the producer id of the reader, which upstream gave at `own_since_ms`.
    Upstream never gives an id again that it has forgotten. So the reader's id is that
    of all the last owners, unless the reader itself is late.
    """

    def __init__(self, own_id: ProducerId, own_since_ms: int) -> None:
        self._own_id = own_id
        self._own_since_ms = own_since_ms
        self._current: tuple[ProducerId, int] | None = None
        self._since_ms = 0

    def accepts(self, header: BatchHeader) -> bool:
        """Return whether a batch that is no barrier belongs to the log.

        Batches before the first barrier do: compaction removed theirs. So do those of a
        later epoch, and of the reader's producer id, which is the owner's from here:
        compaction has removed its barrier, since the last one was read, or because that
        one was written late, by an earlier owner.
        """
        producer = (header.producer_id, header.producer_epoch)
        current = self._current
        if current is None:
            if producer[0] == self._own_id:
                self._current, self._since_ms = producer, self._own_since_ms
            return True
        if producer[0] == current[0]:
            self._current = max(current, producer)
        elif producer[0] == self._own_id and self._since_ms < self._own_since_ms:
            self._current, self._since_ms = producer, self._own_since_ms
        return producer == self._current

    def observe(self, header: BatchHeader, barrier: Barrier) -> bool:
        """Register a barrier; return whether its producer owns the shard from here."""
        producer = (header.producer_id, header.producer_epoch)
        if self._current is None:
            is_newer = True
        elif producer[0] == self._current[0]:
            is_newer = producer[1] >= self._current[1]
        else:
            is_newer = barrier.time_ms > self._since_ms and not barrier.is_repeated
        if is_newer:
            self._current = producer
            self._since_ms = barrier.time_ms
        return is_newer
