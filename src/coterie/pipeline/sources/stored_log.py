"""The interface to read the log in a data directory, and the rows that it returns.

A partition is named by its number in the store. Batches are read from the one that
holds an offset to the end, some at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from coterie.broker.catalog.topics import Topic
from coterie.pipeline.segments.batches import Fault
from coterie.types import TopicId


class NumberedPartition(NamedTuple):
    """A partition of a topic."""

    partition: int
    number: int
    """Its number in the store."""
    next_offset: int
    """It is kept when compaction removes the last batch."""


StoredHeader: TypeAlias = tuple[int, int, int, bytes | memoryview | None]
"""The base offset, last offset and size of a batch; and its bytes, if it is
transactional."""
StoredBatch: TypeAlias = tuple[int, int, int, bytes | memoryview]
"""The base offset, last offset and position of a batch, and its bytes."""


class StoredRun(NamedTuple):
    """Consecutive batches."""

    file: str
    """The name of their file."""
    batches: Sequence[StoredBatch]
    faults: Sequence[tuple[int, Fault]] = ()
    """Bytes that are no batch, with the index of the batch that follows them."""


SampledPositions: TypeAlias = Mapping[tuple[TopicId, int], int]
"""The end offsets of partitions when they were last sampled; 0 for new ones."""


Minutes: TypeAlias = Sequence[tuple[int, int]]


class Growth(NamedTuple):
    """The offsets of a partition, and its growth after a sample.

    Timestamps come from the clocks of producers, which differ, and may be those of old
    events. So the time of an end offset is the newest timestamp up to that offset:
    neither times nor end offsets decrease.
    """

    topic_id: TopicId
    partition: int
    log_start_offset: int
    end_offset: int
    minutes: NDArray[np.int64]
    """The last time in ms and the end offset of each minute in which the partition
    grew, a row of two values each."""

    @classmethod
    def of(
        cls, partition: tuple[TopicId, int], start: int, end: int, minutes: Minutes
    ) -> Growth:
        """Return the growth with a list of minutes."""
        array = np.array(minutes, np.int64).reshape(-1, 2)
        return cls(*partition, start, end, array)


class StoredLog(Protocol):
    """The log in a data directory, read-only. Each method raises LogError, and
    SettingError when the store is missing or has a newer version."""

    @property
    def directory(self) -> Path:
        """The server's data directory."""

    def topics(self) -> Sequence[Topic]:
        """Return the topics of the catalog."""

    def partitions(self, topic_id: TopicId) -> Sequence[NumberedPartition]:
        """Return the partitions of a topic."""

    def start_offset(self, number: int) -> int:
        """Return the first offset of a partition; OFFSET_MAX for an empty one."""

    def headers(self, number: int, offset: int) -> Iterator[Sequence[StoredHeader]]:
        """Yield the headers of a partition's batches, from the batch that holds an
        offset."""

    def batches(self, number: int, offset: int) -> Iterator[StoredRun]:
        """Yield a partition's batches, from the batch that holds an offset."""

    def growth(
        self, positions: SampledPositions, after_ms: int, now_ms: int
    ) -> Sequence[Growth]:
        """Return the growth of these partitions after `after_ms`. Batches before their
        positions, and those with timestamps after `now_ms`, have no minute.
        """
