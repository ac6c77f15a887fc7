"""The headers of many record batches, each field one array: a batch of one record costs
as much as its record, and a header object as much as ten."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from coterie.pipeline.segments.varints import Flags, Ints
from coterie.wire.record_batch import (
    CODEC_BITS,
    HEADER_BYTES,
    LENGTH_END,
    BatchHeader,
)

_HEADER: Final = np.dtype(
    [
        ("base_offset", ">i8"),
        ("size_bytes", ">i4"),
        ("leader_epoch", ">i4"),
        ("magic", "i1"),
        ("crc", ">u4"),
        ("attributes", ">i2"),
        ("last_offset_delta", ">i4"),
        ("base_timestamp_ms", ">i8"),
        ("max_timestamp_ms", ">i8"),
        ("producer_id", ">i8"),
        ("producer_epoch", ">i2"),
        ("base_sequence", ">i4"),
        ("record_count", ">i4"),
    ]
)
"""As it stands in the log; named like the fields of BatchHeader."""
assert _HEADER.itemsize == HEADER_BYTES
assert _HEADER.names == BatchHeader._fields


@dataclass(frozen=True, slots=True, eq=False)
class Batches:
    """Where batches begin, and their headers."""

    position: Ints
    fields: Any
    """A numpy array of _HEADER."""

    @classmethod
    def read(cls, data: bytes, positions: Sequence[int]) -> Batches:
        """The headers at these positions, all of them in `data`."""
        position = np.array(positions, np.int64)
        if not len(position):
            return cls(position, np.zeros(0, _HEADER))
        count = len(data) - HEADER_BYTES + 1
        return cls(
            position, np.ndarray((count,), _HEADER, data, strides=(1,))[position]
        )

    def __len__(self) -> int:
        return len(self.position)

    def some(self, which: Ints | Flags) -> Batches:
        """Some of them, by a mask or by indexes."""
        return Batches(self.position[which], self.fields[which])

    def moved(self, by: int) -> Batches:
        """The same ones with other positions: counted from `by` bytes earlier."""
        return Batches(self.position + by, self.fields)

    def header(self, index: int) -> BatchHeader:
        """One as an object."""
        header = BatchHeader(*self.fields[index].item())
        return header._replace(size_bytes=header.size_bytes + LENGTH_END)

    @property
    def base_offset(self) -> Ints:
        """The offset of the first record that the batch once had."""
        return self.column("base_offset")

    @property
    def last_offset(self) -> Ints:
        """The offset of the last one."""
        return self.column("base_offset") + self.column("last_offset_delta")

    @property
    def size_bytes(self) -> Ints:
        """Of the whole batch."""
        return self.column("size_bytes") + LENGTH_END

    @property
    def codec(self) -> Ints:
        """The number of the compression."""
        return self.column("attributes") & CODEC_BITS

    def has(self, attribute: int) -> Flags:
        """Which have this attribute: LOG_APPEND_TIME, TRANSACTIONAL or CONTROL."""
        flags: Flags = (self.column("attributes") & attribute) != 0
        return flags

    def column(self, name: str) -> Ints:
        """A field of BatchHeader, as it stands there."""
        values: Ints = self.fields[name].astype(np.int64)
        return values
