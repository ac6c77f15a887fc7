"""Where the coordinator's log is read from: what every source can say and do.

A log partition is read up to its *stable offset*: the first offset of a transaction
that is still open, else its end. All before it is decided, so a position in a log
partition is one number, the next offset.

A batch is never divided: it belongs to the range that its last offset is in. So any
numbers may bound ranges, and ranges that follow one another give each record once.
Sources that know where their batches are (`Head.cuts`) get ranges that end after one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from coterie.errors import SettingError

Hint = Mapping[str, Any]


@dataclass(frozen=True, slots=True, eq=False)
class Cuts:
    """Where ranges of a log partition may end: after each of its batches. Arrays of
    one length, in log order."""

    offsets: NDArray[np.int64]
    """The offset after the batch."""
    records: NDArray[np.int64]
    """Records up to there."""
    size_bytes: NDArray[np.int64]
    """Bytes up to there."""
    hint: Callable[[int, int], Hint | None]
    """Where the bytes of the batches from one index to before another are."""


class Head(NamedTuple):
    """How far a log partition goes."""

    start_offset: int
    """The first offset that is there."""
    stable_offset: int
    """Up to here it is decided what counts."""
    end_offset: int
    cuts: Cuts | None = None
    """From the position that was asked for to the stable offset; None where the source
    knows its batches only as it reads them."""


class OffsetRange(NamedTuple):
    """A part of a log partition; it is pickled and sent to a worker."""

    log_partition: int
    from_offset: int
    until_offset: int
    hint: Hint | None = None
    """Where the bytes are, when that is known. It may be wrong."""


@dataclass(frozen=True, slots=True)
class Rows:
    """What some batches gave."""

    records: Any
    """An Arrow record batch of `tables.records.RECORDS`."""
    faults: Any
    """One of QUARANTINE."""
    gaps: Any
    """One of LOG_GAPS. A gap ends where a batch ends or begins, or a record does, so
    gaps are the same however the log was divided."""
    next_offset: int
    """All before it was read; `until_offset` in the last Rows of a range."""


class Source(Protocol):
    """A log of groups; picklable."""

    def describe(self) -> str:
        """What it is, as `open_source` takes it: "segments:/path"."""

    def heads(self, since: Mapping[int, int] | None = None) -> Mapping[int, Head]:
        """How far each log partition goes; asked by the driver.

        `since`: offsets up to which log partitions were read before, which need no
        second look. Raises LogError or ClientError.
        """

    def read(self, part: OffsetRange) -> Iterator[Rows]:
        """The rows of a range in order of offset, in a worker; at least one Rows.

        The range ends at or before the stable offset. Raises LogError or ClientError.
        """


_MODULES: Final = {
    "segments": "coterie.pipeline.sources.segment_folder",
    "store": "coterie.pipeline.sources.store",
    "kafka": "coterie.pipeline.sources.cluster",
}
"""Modules of sources, each with `open_it(where, **options) -> Source`."""
_HOST_PORT: Final = re.compile(r"[^/\\]+:\d+(,[^/\\]+:\d+)*")
_WAYS: Final = (
    "Say segments:DIR (log segments of Kafka; DIR may be a URI like s3://bucket/path),"
    " store:DIR (the --data directory of a Coterie server) or kafka:HOST:PORT."
)


def open_source(text: str, **options: Any) -> Source:
    """The source that `text` names: "segments:DIR_OR_URI", "store:DIR" or
    "kafka:HOST:PORT"; without the word before the colon, what stands there decides.

    Options are the source's own. Raises SettingError when it is none of these.
    """
    kind, where = read_name(text)
    source: Source = import_module(_MODULES[kind]).open_it(where, **options)
    return source


def read_name(text: str) -> tuple[str, str]:
    """The kind of source that `text` names ("segments", "store" or "kafka"), and where
    it is. Raises SettingError as `open_source` does."""
    kind, _, where = text.partition(":")
    if kind in _MODULES and where:
        return kind, where
    return _guess(text), text


def _guess(text: str) -> str:
    path = Path(text)
    if text and path.exists():
        return "store" if (path / "coterie.db").is_file() else "segments"
    if "://" in text:
        return "segments"
    if _HOST_PORT.fullmatch(text):
        return "kafka"
    raise SettingError(f"{text!r} is not there, and no source is called so. {_WAYS}")
