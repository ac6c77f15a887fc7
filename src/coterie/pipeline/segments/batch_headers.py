"""The headers of many record batches, with one array for each field. A batch may have a
single record: creating an object for each header would cost more than decoding the
record.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from coterie.wire.record_batch import CODEC_BITS, HEADER_BYTES, LENGTH_END, BatchHeader

Ints: TypeAlias = NDArray[np.int64]
Flags: TypeAlias = NDArray[np.bool_]

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
"""The layout in the log, with the field names of BatchHeader."""
assert _HEADER.itemsize == HEADER_BYTES
assert _HEADER.names == BatchHeader._fields


@dataclass(frozen=True, slots=True, eq=False)
class BatchHeaders:
    """The positions of batches, and their headers."""

    position: Ints
    fields: Any
    """A numpy array of _HEADER; `size_bytes` as in the log, without LENGTH_END."""

    @classmethod
    def read(cls, data: bytes, positions: Sequence[int]) -> BatchHeaders:
        position = np.array(positions, np.int64)
        if not len(position):
            return cls(position, np.zeros(0, _HEADER))
        # A view with stride 1 has an element at each byte, aligned or not.
        count = len(data) - HEADER_BYTES + 1
        view = np.ndarray((count,), _HEADER, data, strides=(1,))
        return cls(position, view[position])

    def __len__(self) -> int:
        return len(self.position)

    def select(self, rows: Ints | Flags) -> BatchHeaders:
        """Return some of the headers, by a mask or by indexes."""
        return BatchHeaders(self.position[rows], self.fields[rows])

    def header(self, index: int) -> BatchHeader:
        header = BatchHeader(*self.fields[index].item())
        return header._replace(size_bytes=header.size_bytes + LENGTH_END)

    @property
    def base_offset(self) -> Ints:
        return self.column("base_offset")

    @property
    def last_offset(self) -> Ints:
        """The offset of the last record of each batch, even if compaction removed the
        record.
        """
        return self.column("base_offset") + self.column("last_offset_delta")

    @property
    def size_bytes(self) -> Ints:
        return self.column("size_bytes") + LENGTH_END

    @property
    def codec(self) -> Ints:
        return self.column("attributes") & CODEC_BITS

    def has(self, attribute: int) -> Flags:
        """Return a mask of the batches with the attribute LOG_APPEND_TIME,
        TRANSACTIONAL or CONTROL.
        """
        flags: Flags = (self.column("attributes") & attribute) != 0
        return flags

    def column(self, name: str) -> Ints:
        """Return a field of all headers, with the values in the log."""
        values: Ints = self.fields[name].astype(np.int64)
        return values
