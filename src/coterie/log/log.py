"""The log: record batches by partition, durable after a flush. The narrow interface.

A `Log` holds many partitions in one store. Appending stages a batch and gives it its
offsets at once; `flush` makes everything staged so far durable, atomically, across all
partitions. Reads see flushed batches only. Batches are Kafka's own v2 bytes.

Which thread: everything is called from one thread, but for `Staged.write`, which a
runtime may run in another one while the first goes on staging.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

from coterie.types import LogOffset, ProducerId, TopicId


class LogPartition(NamedTuple):
    """A partition of a topic, by topic id: a topic made anew never sees old bytes."""

    topic_id: TopicId
    partition: int


class BatchInfo(NamedTuple):
    """What is known of a batch without opening it."""

    base_offset: LogOffset
    last_offset: LogOffset
    max_timestamp_ms: int
    size_bytes: int
    producer_id: ProducerId = -1
    producer_epoch: int = -1
    base_sequence: int = -1
    last_sequence: int = -1
    is_transactional: bool = False
    is_control: bool = False


class Bounds(NamedTuple):
    """The offsets of a partition: the first kept, the next to be flushed, the next."""

    log_start_offset: LogOffset
    flushed_offset: LogOffset
    next_offset: LogOffset


class Staged(Protocol):
    """Appends taken together out of a log, to be made durable by one sync."""

    @property
    def operations(self) -> Sequence[object]:
        """What was staged, in order."""

    @property
    def size_bytes(self) -> int:
        """Of the batches and values together; what drops batches counts as much."""

    def write(self) -> None:
        """Write and sync. May run in another thread.

        Raises LogFull or LogError, and then nothing of it is durable or visible.
        """


class Log(Protocol):
    """Record batches of many partitions. See the module's docstring."""

    def create(self, partition: LogPartition) -> None:
        """Begin an empty partition (staged)."""

    def delete(self, partition: LogPartition) -> None:
        """Forget a partition and its batches (staged)."""

    def partitions(self) -> Sequence[LogPartition]:
        """All partitions that exist."""

    def bounds(self, partition: LogPartition) -> Bounds:
        """The partition's offsets. Raises KeyError when there is no such partition."""

    def append(self, partition: LogPartition, batch: bytes, info: BatchInfo) -> None:
        """Stage a batch. `info.base_offset` must be the partition's next offset, and
        the batch's bytes must already carry it."""

    def staged(self) -> bool:
        """Whether anything waits to be flushed."""

    def take(self) -> Staged:
        """Hand over all that is staged, in order; later appends belong to the next."""

    def settle(self, staged: Staged) -> None:
        """After `staged.write()` returned: make its batches visible to reads."""

    def abandon(self, staged: Staged) -> None:
        """After `staged.write()` raised: forget it and everything staged since."""

    def flush(self) -> None:
        """take, write and settle (or abandon and raise) in one call."""

    def read(
        self, partition: LogPartition, offset: LogOffset, bytes_max: int
    ) -> Sequence[bytes]:
        """Flushed batches from the one that holds `offset` (or the next one after it)
        on: at least one if there is any, else as many as fit in `bytes_max`."""

    def infos(
        self, partition: LogPartition, offset: LogOffset = 0
    ) -> Iterator[BatchInfo]:
        """The flushed batches' facts from the one that holds `offset` on."""

    def find_timestamp(
        self, partition: LogPartition, timestamp_ms: int
    ) -> BatchInfo | None:
        """The first flushed batch whose max timestamp is `timestamp_ms` or later."""

    def truncate(self, partition: LogPartition, before: LogOffset) -> None:
        """Drop batches that end before `before`; it becomes the log start (staged)."""

    def replace(
        self, partition: LogPartition, base_offset: LogOffset, batch: bytes | None
    ) -> None:
        """Put a compacted batch in the place of the one at `base_offset`; None drops
        it (staged). Offsets of the records that stay do not change."""

    def put(self, space: str, key: bytes, value: bytes | None) -> None:
        """Keep a small value beside the log, in the same flush (staged): snapshots,
        ids. None takes it away."""

    def get(self, space: str, key: bytes) -> bytes | None:
        """A flushed value that `put` kept."""

    def items(self, space: str) -> Iterator[tuple[bytes, bytes]]:
        """All flushed keys and values of a space, by key."""

    def size_bytes(self, partition: LogPartition) -> int:
        """The flushed size of a partition."""

    def close(self) -> None:
        """Flush and close."""
