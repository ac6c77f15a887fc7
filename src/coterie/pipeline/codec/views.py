"""Reads many places of one Arrow buffer at once: numbers by views that begin at every
byte, strings as segments of the buffer that Arrow itself copies (spark.md 1.4)."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Ints: TypeAlias = NDArray[np.int64]
Flags: TypeAlias = NDArray[np.bool_]


class Bytes:
    """A binary column, or some of its rows in their order: where each value begins and
    ends in one buffer. A null value has no length."""

    def __init__(self, data: Any, begin: Ints, end: Ints) -> None:
        self._data = data
        self.begin = begin
        self.end = end

    @classmethod
    def of(cls, column: Any) -> Bytes:
        """All of a column."""
        _, offsets, data = column.buffers()
        narrow = np.frombuffer(offsets, np.int32, len(column) + 1, column.offset * 4)
        edges = narrow.astype(np.int64)
        return cls(pa.py_buffer(b"") if data is None else data, edges[:-1], edges[1:])

    def rows(self, which: Any) -> Bytes:
        """Some of the rows, by a mask or by their indexes in order."""
        return Bytes(self._data, self.begin[which], self.end[which])

    def read(self, kind: str, at: Ints) -> Any:
        """The numbers of a big-endian kind, like ">i4", at places. What is not all in
        the buffer gives any number: it is for the caller to see that it was not."""
        last = self._data.size - int(kind[2:])
        if last < 0:
            return np.zeros(len(at), kind)
        view = np.ndarray((last + 1,), kind, self._data, strides=(1,))
        return view[np.clip(at, 0, last)]

    def strings(self, *places: tuple[Ints, Ints]) -> list[Any]:
        """String columns of places (begin, end) of each row. Rows and places follow one
        another in the buffer. Whether they are UTF-8 is not looked at."""
        rows, step = len(self.begin), 2 * len(places)
        edges = np.empty(step * rows + 1, np.int32)
        for number, (begin, end) in enumerate(places):
            edges[2 * number : -1 : step] = begin
            edges[2 * number + 1 : -1 : step] = end
        edges[-1] = edges[-2] if rows else 0
        pieces = pa.StringArray.from_buffers(
            step * rows, pa.py_buffer(edges), self._data
        )
        return [
            pieces.take(pa.array(np.arange(2 * number, step * rows, step)))
            for number in range(len(places))
        ]

    def runs(self, at: Ints, size: int) -> Any:
        """The `size` bytes at each place, all of them in the buffer."""
        data = np.frombuffer(self._data, np.uint8)
        found = data[at[:, None] + np.arange(size)]
        kind = pa.binary(size)
        return pa.Array.from_buffers(kind, len(at), [None, pa.py_buffer(found)])
