"""Log segments as Kafka lays them out: a folder a partition, a file a segment, named
after its first offset. Indexes are left out: a broker makes them anew, readers of dumps
do without."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

TOPIC = "__consumer_offsets"


class SegmentFiles:
    """The segments of one partition, appended to."""

    def __init__(self, folder: Path, partition: int, segment_bytes: int) -> None:
        self._folder = folder / f"{TOPIC}-{partition}"
        self._folder.mkdir(parents=True, exist_ok=True)
        self._segment_bytes = segment_bytes
        self._file: BinaryIO | None = None
        self._written = 0

    def append(self, base_offset: int, batch: bytes) -> None:
        """Write a batch, in a new segment when the present one is full."""
        is_full = self._written + len(batch) > self._segment_bytes
        if self._file is None or is_full:
            self._roll(base_offset)
        assert self._file is not None
        self._file.write(batch)
        self._written += len(batch)

    def _roll(self, base_offset: int) -> None:
        self.close()
        self._file = (self._folder / f"{base_offset:020d}.log").open("wb")
        self._written = 0

    def close(self) -> None:
        """Close the present segment."""
        if self._file is not None:
            self._file.close()
            self._file = None
