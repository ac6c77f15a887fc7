"""Which transactional batches count: those whose producer's next marker is a COMMIT
(K-08). A pure pass over batches in log order; its state goes from chunk to chunk."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from coterie.errors import MalformedFrame
from coterie.wire.record_batch import BatchHeader, LogRecord, decode_marker


class Ended(NamedTuple):
    """A transaction that ended: batches of the producer from `first_offset` to the
    marker are committed or aborted."""

    producer_id: int
    first_offset: int
    marker_offset: int
    is_committed: bool


@dataclass(frozen=True, slots=True)
class Transactions:
    """The first offset of each producer's transaction that has not ended."""

    open: Mapping[int, int] = field(default_factory=dict)

    def follow(
        self, batches: Iterable[tuple[BatchHeader, LogRecord | None]]
    ) -> tuple[Transactions, tuple[Ended, ...]]:
        """The state after some more batches, and what ended in them.

        With each control batch comes its record; None when compaction left none. A
        control record of an unknown kind, or one that is cut short, ends nothing.
        """
        still, ended = dict(self.open), []
        for header, record in batches:
            if not header.is_transactional:
                continue
            producer = header.producer_id
            if not header.is_control:
                still.setdefault(producer, header.base_offset)
                continue
            is_committed = _commits(record)
            if is_committed is not None and producer in still:
                first = still.pop(producer)
                ended.append(Ended(producer, first, header.base_offset, is_committed))
        return Transactions(still), tuple(ended)


def _commits(record: LogRecord | None) -> bool | None:
    if record is None:
        return None
    try:
        marker = decode_marker(record)
    except MalformedFrame:
        return None
    return None if marker is None else marker.commit


def outcome(header: BatchHeader, ended: Iterable[Ended]) -> str | None:
    """What became of a batch: "committed", "aborted" or "open"; None when it is not of
    a transaction, or is a marker."""
    if not header.is_transactional or header.is_control:
        return None
    for each in ended:
        is_of = each.producer_id == header.producer_id
        if is_of and each.first_offset <= header.base_offset < each.marker_offset:
            return "committed" if each.is_committed else "aborted"
    return "open"
