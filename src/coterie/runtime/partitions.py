"""One partition as the data plane drives it: append, what readers may see, waiters.

What a partition remembers of its producers is read back from the log when it is first
needed, so that a server with many partitions starts at once; and it is kept beside the
log from time to time, so that there is never much to read.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Final, NamedTuple, Protocol

from coterie.catalog.incoming import IncomingBatch, placed
from coterie.catalog.producers import (
    AbortedTransaction,
    ProducerBatch,
    Producers,
    Written,
)
from coterie.catalog.topic_configs import TopicSettings
from coterie.errors import ApiError
from coterie.log.log import BatchInfo, Bounds, Log, LogPartition
from coterie.types import LogOffset, ProducerId, TopicPartition
from coterie.wire.error_codes import ErrorCode
from coterie.wire.record_batch import (
    BatchHeader,
    decode_marker,
    decode_records,
    encode_marker,
    read_header,
)

PRODUCERS_SPACE: Final = "producers"
"""Where the log keeps what partitions remember of their producers."""
KEPT_EVERY_BATCHES: Final = 5_000
LEARNT_PER_STEP: Final = 500


def partition_key(where: LogPartition) -> bytes:
    """The key of a partition in the spaces of what is kept beside the log."""
    assert len(where.topic_id) == 16
    return where.topic_id + where.partition.to_bytes(4, "big")


class Waiter(Protocol):
    """A fetch that waits for bytes."""

    def grew(self, partition: Partition, size_bytes: int) -> None:
        """That many bytes have become durable in the partition."""

    def finish(self) -> None:
        """Wait no longer: the partition is gone."""


class Read(NamedTuple):
    """What a fetch finds. `aborted` is None unless only committed records count."""

    batches: Sequence[bytes]
    bounds: Bounds
    last_stable_offset: LogOffset
    aborted: tuple[AbortedTransaction, ...] | None


def info_of(header: BatchHeader) -> BatchInfo:
    """What the log keeps of a batch beside its bytes."""
    return BatchInfo(
        base_offset=header.base_offset,
        last_offset=header.last_offset,
        max_timestamp_ms=header.max_timestamp_ms,
        size_bytes=header.size_bytes,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        last_sequence=header.last_sequence,
        is_transactional=header.is_transactional,
        is_control=header.is_control,
    )


class Partition:
    """One partition. `name` is for messages and results, `where` its place in the log;
    `version` grows with everything that a reader may want to know of.

    Somebody else may append to the same log partition, as the runtime does with
    `__consumer_offsets`: `_seen_offset` says up to where the producers are known.
    """

    __slots__ = (
        "_log",
        "_producers",
        "_seen_batches",
        "_seen_offset",
        "name",
        "version",
        "waiters",
        "where",
    )

    def __init__(self, name: TopicPartition, where: LogPartition, log: Log) -> None:
        self.name = name
        self.where = where
        self.version = 0
        self.waiters: set[Waiter] = set()
        self._log = log
        self._producers: Producers | None = None
        self._seen_offset: LogOffset = 0
        self._seen_batches = 0

    def bounds(self) -> Bounds:
        """Its offsets."""
        return self._log.bounds(self.where)

    def forget(self) -> None:
        """Read the producers from the log again when they are next needed."""
        self.version += 1
        self._producers = None

    # Writing.

    def find_repeated(self, producer: ProducerBatch) -> Written | None:
        """Where a batch lies already. Raises ApiError as `Producers.check` does."""
        return self._known_producers().check(producer)

    def append(
        self, batch: IncomingBatch, settings: TopicSettings, now_ms: int
    ) -> BatchHeader:
        """Stage a batch that has been checked; its header as kept."""
        producers = self._known_producers()
        offset = self.bounds().next_offset
        kept = placed(batch, offset, settings, now_ms)
        header = kept.header
        assert header.base_offset == offset
        assert header.size_bytes == len(kept.data)
        info = info_of(header)
        self._log.append(self.where, kept.data, info)
        producer = kept.producer
        if producer is not None:
            producers.written(producer, _written(info))
        self._saw(info)
        return header

    def append_marker(
        self, producer_id: ProducerId, epoch: int, *, committed: bool, now_ms: int
    ) -> int:
        """Stage an end-of-transaction marker; its size in bytes."""
        assert producer_id >= 0
        assert epoch >= 0
        producers = self._known_producers()
        data = encode_marker(
            self.bounds().next_offset, now_ms, producer_id, epoch, commit=committed
        )
        info = info_of(read_header(data))
        self._log.append(self.where, data, info)
        producers.ended(producer_id, epoch, committed=committed, where=_written(info))
        self._saw(info)
        return info.size_bytes

    def grew(self, size_bytes: int) -> None:
        """Tell the waiters that bytes have become durable."""
        assert size_bytes > 0
        self.version += 1
        if self.waiters:
            for waiter in tuple(self.waiters):
                waiter.grew(self, size_bytes)

    def closed(self) -> None:
        """Send the waiters home: the partition is gone."""
        self.version += 1
        for waiter in tuple(self.waiters):
            waiter.finish()
        assert not self.waiters

    # Reading.

    def read(
        self, offset: LogOffset, bytes_max: int, *, committed: bool, at_least_one: bool
    ) -> Read:
        """The batches from the one that holds `offset` on, as many as fit, the first
        in any case with `at_least_one`. With `committed`, only up to the last stable
        offset.

        Raises ApiError OFFSET_OUT_OF_RANGE, and LogError.
        """
        bounds = self.bounds()
        if not bounds.log_start_offset <= offset <= bounds.flushed_offset:
            raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE)
        stable = self.last_stable_offset()
        before = stable if committed else bounds.flushed_offset
        assert bounds.log_start_offset <= bounds.flushed_offset <= bounds.next_offset
        assert stable <= bounds.flushed_offset
        nothing = Read((), bounds, stable, () if committed else None)
        if offset >= before or not (bytes_max > 0 or at_least_one):
            return nothing
        batches = self._log.read(self.where, offset, bytes_max)
        if batches and len(batches[0]) > bytes_max and not at_least_one:
            return nothing
        if not committed:
            return Read(batches, bounds, stable, None)
        decided = [batch for batch in batches if base_offset_of(batch) < before]
        if not decided:
            return nothing
        last = decided[-1]
        end = base_offset_of(last) + last_offset_delta_of(last) + 1
        return Read(decided, bounds, stable, self.aborted(offset, min(end, before)))

    def last_stable_offset(self) -> LogOffset:
        """Up to where every transaction is decided, durably."""
        producers = self._known_producers()
        return producers.last_stable_offset(self.bounds().flushed_offset)

    def aborted(
        self, offset: LogOffset, before: LogOffset
    ) -> tuple[AbortedTransaction, ...]:
        """The aborted transactions a reader of that range must leave out."""
        assert offset <= before
        return self._known_producers().aborted(offset, before)

    def has_open(self, producer_id: ProducerId) -> bool:
        """Whether that producer has a transaction open here."""
        return self._known_producers().has_open(producer_id)

    def truncated(self, before: LogOffset) -> None:
        """The log start is now at `before`, durably."""
        assert before <= self.bounds().flushed_offset
        self.version += 1
        if self._producers is not None:
            self._producers.truncate(before)

    def expire_producers(self, before_ms: int) -> None:
        """Forget producers that are silent since then."""
        if self._producers is not None:
            self._producers.expire(before_ms)

    def catch_up(self) -> Iterator[None]:
        """Learn of the batches that others have written, `LEARNT_PER_STEP` a step. What
        needs to know them learns of all at once, which takes seconds for a million."""
        while True:
            producers, seen = self._last_known(), self._seen_offset
            if seen >= self.bounds().flushed_offset:
                return
            infos = self._log.infos(self.where, seen)
            self._learn_all(producers, islice(infos, LEARNT_PER_STEP))
            if self._seen_offset == seen:
                return  # compaction took the rest
            yield

    def _known_producers(self) -> Producers:
        producers = self._last_known()
        if self._seen_offset < self.bounds().flushed_offset:
            infos = self._log.infos(self.where, self._seen_offset)
            self._learn_all(producers, infos)
        return producers

    def _last_known(self) -> Producers:
        if self._producers is None:
            self._producers = self._kept_producers(self.bounds().log_start_offset)
        return self._producers

    def _kept_producers(self, log_start_offset: LogOffset) -> Producers:
        kept = self._log.get(PRODUCERS_SPACE, partition_key(self.where))
        if kept is None:
            self._seen_offset = log_start_offset
            return Producers()
        value = json.loads(kept)
        self._seen_offset = max(value["seen_offset"], log_start_offset)
        assert self._seen_offset <= self.bounds().next_offset
        producers = Producers.from_value(value)
        producers.truncate(log_start_offset)
        return producers

    def _saw(self, info: BatchInfo) -> None:
        """One batch more is known; now and then all that is known is kept."""
        assert info.last_offset >= self._seen_offset, "a batch is learnt once"
        self._seen_offset = info.last_offset + 1
        self._seen_batches += 1
        if self._seen_batches >= KEPT_EVERY_BATCHES and self._producers is not None:
            self._seen_batches = 0
            value = self._producers.to_value() | {"seen_offset": self._seen_offset}
            text = json.dumps(value, separators=(",", ":"))
            self._log.put(PRODUCERS_SPACE, partition_key(self.where), text.encode())

    def _learn_all(self, producers: Producers, infos: Iterable[BatchInfo]) -> None:
        for info in infos:
            self._learn(producers, info)
            self._saw(info)

    def _learn(self, producers: Producers, info: BatchInfo) -> None:
        if info.producer_id < 0:
            return
        if info.is_control:
            producers.ended(
                info.producer_id,
                info.producer_epoch,
                committed=self._reads_commit(info.base_offset),
                where=_written(info),
            )
            return
        batch = ProducerBatch(
            info.producer_id,
            info.producer_epoch,
            info.base_sequence,
            info.last_sequence,
            info.is_transactional,
        )
        producers.written(batch, _written(info))

    def _reads_commit(self, offset: LogOffset) -> bool:
        [data, *_] = self._log.read(self.where, offset, 1)
        marker = decode_marker(decode_records(data)[0])
        return marker is not None and marker.commit


def base_offset_of(batch: bytes) -> LogOffset:
    """A batch's first offset, without reading the rest of its header."""
    return int.from_bytes(batch[:8], "big")


def last_offset_delta_of(batch: bytes) -> int:
    """A batch's last offset less its first."""
    return int.from_bytes(batch[23:27], "big")


def _written(info: BatchInfo) -> Written:
    return Written(info.base_offset, info.last_offset, info.max_timestamp_ms)
