"""The interface of the pipeline's sources, from which `__consumer_offsets` is read.

A log partition is read up to its *stable offset*: the first offset of an open
transaction, else its end. All records before it are known to be committed or aborted,
so a position in a log partition is one number, the next offset.

A batch is never divided: it belongs to the range that contains its last offset. So
ranges may end at any offset, and consecutive ranges return each record once. If a
source has the positions of batches (`Head.cuts`), each of its ranges ends after a
batch.
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


class BatchPlace(NamedTuple):
    """The place of a batch in a segment file, from which a scan may continue. It may be
    outdated."""

    file: str
    position: int
    base_offset: int


@dataclass(frozen=True, slots=True, eq=False)
class Cuts:
    """Offsets at which ranges of a log partition may end, each after a batch. The
    arrays have one length, in log order."""

    offsets: NDArray[np.int64]
    """The offset after the batch."""
    records: NDArray[np.int64]
    """The number of records up to there."""
    size_bytes: NDArray[np.int64]
    """The number of bytes up to there."""
    place_before: Callable[[int], BatchPlace | None]
    """The function that returns the place of the last batch before a cut, by index."""


class Head(NamedTuple):
    """The start, stable and end offset of a log partition."""

    start_offset: int
    """The first offset that is in the log."""
    stable_offset: int
    """All transactions before it have ended."""
    end_offset: int
    cuts: Cuts | None = None
    """The cuts from the requested position to the stable offset; None when the source
    finds batches only while it reads them.
    """


class OffsetRange(NamedTuple):
    """A range of a log partition. It is pickled and sent to a worker."""

    log_partition: int
    from_offset: int
    until_offset: int
    after: BatchPlace | None = None
    """The batch that ends at `from_offset`, if known."""


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of some batches, as Arrow record batches."""

    records: Any
    """Rows of the table `records`."""
    faults: Any
    """Rows of `quarantine`."""
    gaps: Any
    """Rows of `log_gaps`. A gap begins and ends at a batch or a record, so gaps do not
    depend on how the log is divided into ranges."""
    next_offset: int
    """All offsets before it are read; `until_offset` in the last Rows of a range."""


class Source(Protocol):
    """A log of `__consumer_offsets`; picklable."""

    def describe(self) -> str:
        """Return the name that `open_source` takes, like "segments:/path"."""

    def check(self) -> None:
        """Check that the source exists, can be read and is a log; called in the driver.

        Called before a lake is created for the source, so that a mistyped name has no
        effect. Raises SettingError, LogError or ClientError.
        """

    def heads(self, since: Mapping[int, int] | None = None) -> Mapping[int, Head]:
        """Return the head of each log partition; called in the driver.

        `since` has the positions of the reader, by log partition: batches before them
        need not be scanned. Raises LogError or ClientError.
        """

    def read(self, part: OffsetRange) -> Iterator[Rows]:
        """Read a range in order of offset, in a worker; yield at least one `Rows`.

        The range ends at or before the stable offset. Raises LogError or ClientError.
        """


_OPENERS: Final = {
    "segments": ("coterie.pipeline.sources.segments", "open_segments"),
    "kafka": ("coterie.pipeline.sources.cluster", "open_cluster"),
}
"""Module and function of each kind of source. A module is imported when it is used, so
that reading segments does not import the client."""
_HOST_PORT: Final = re.compile(r"[^/\\]+:\d+(,[^/\\]+:\d+)*")
_KNOWN_SOURCES: Final = (
    "Use segments:DIR (Kafka log segments; DIR may be a URI like s3://bucket/path) or"
    " kafka:HOST:PORT."
)


def open_source(text: str, **options: Any) -> Source:
    """Open the source with this name: "segments:DIR_OR_URI" or "kafka:HOST:PORT".
    Without a prefix the kind is that of the name: a path, a URI or HOST:PORT. `options`
    are the options of the source. Raises SettingError.
    """
    kind, where = parse_source_name(text)
    module, function = _OPENERS[kind]
    source: Source = getattr(import_module(module), function)(where, **options)
    return source


def parse_source_name(text: str) -> tuple[str, str]:
    """Return the kind of a source ("segments" or "kafka") and its place.

    Raises SettingError when `text` is not the name of a source.
    """
    kind, _, where = text.partition(":")
    if kind in _OPENERS and where:
        return kind, where
    if text and ("://" in text or Path(text).exists()):
        return "segments", text
    if _HOST_PORT.fullmatch(text):
        return "kafka", text
    raise SettingError(f"{text!r} does not exist and is no source. {_KNOWN_SOURCES}")
