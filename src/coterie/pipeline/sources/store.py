"""Coterie's embedded store as a source, also while its server runs.

A row of the store is a batch as Kafka writes it, with its offsets beside it, so the
driver finds what is decided without opening any.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import numpy as np

from coterie.catalog.topics import OFFSETS_TOPIC
from coterie.errors import LogError
from coterie.log.sqlite import OFFSET_BITS, OFFSET_MAX
from coterie.pipeline.segments.transactions import Transactions
from coterie.pipeline.segments.varints import Ints
from coterie.pipeline.sources.batch_rows import Part, RowMaker
from coterie.pipeline.sources.ends.of_store import sample_store
from coterie.pipeline.sources.outcomes import Followed, Outcomes, follow_one
from coterie.pipeline.sources.source import Cuts, Head, OffsetRange, Rows
from coterie.pipeline.sources.store_file import StoreFile

_BYTES: Final = 8 * 1024 * 1024
"""Of batches, at once."""
_BATCHES_AT_ONCE: Final = 50_000
_CUTS_AT_ONCE: Final = 4_096
"""Of so many batches about so many are places where a range may end."""
_SPAN: Final = """
FROM batches WHERE place BETWEEN coalesce(
    (SELECT place FROM batches WHERE place BETWEEN :low AND :from
     ORDER BY place DESC LIMIT 1), :low) AND :high
    AND last_offset >= :from & :offset_max
"""
"""The batches of a log partition from the one that holds an offset on."""
_LOOK: Final = f"""
SELECT place, last_offset, size_bytes, CASE WHEN flags THEN bytes END {_SPAN}
ORDER BY place LIMIT {_BATCHES_AT_ONCE}
"""
"""What a driver wants to know: transactional batches are opened, others not."""
_BLOBS: Final = f"SELECT place, last_offset, bytes {_SPAN} ORDER BY place"
_MARKED: Final = f"SELECT place, bytes {_SPAN} AND flags ORDER BY place"


def open_it(where: str) -> Store:
    """The store in the data directory of a server. Raises SettingError when there is
    none, or one that this version does not read."""
    store = Store(StoreFile(Path(where).absolute()))
    store.file.topic(OFFSETS_TOPIC)
    return store


@dataclass(frozen=True, slots=True)
class Store:
    """See the module's docstring."""

    file: StoreFile

    def describe(self) -> str:
        """What it is, as `open_source` takes it."""
        return f"store:{self.file.directory}"

    def heads(self, since: Mapping[int, int] | None = None) -> Mapping[int, Head]:
        """How far each log partition goes. Raises SettingError, LogError."""
        return {
            partition: self._head(number, (since or {}).get(partition, 0), next_offset)
            for partition, number, next_offset in self._partitions()
        }

    def read(self, part: OffsetRange) -> Iterator[Rows]:
        """The rows of a range. Raises SettingError, LogError."""
        number = self._number(part.log_partition)
        ahead = self._ahead(number, part.from_offset)
        maker = RowMaker(part.log_partition, part.from_offset, Outcomes(ahead))
        begins_log = part.from_offset <= self._first(number)
        while rows := self.file.ask(
            _BLOBS, _span(number, maker.position), bytes_max=_BYTES
        ):
            own = [row for row in rows if row[1] < part.until_offset]
            if own:
                maker.position = min(maker.position, own[0][0] & OFFSET_MAX)
                yield from maker.rows(self._part(own, begins_log=begins_log))
                begins_log = False
            if len(own) < len(rows) and maker.position < part.until_offset:
                following = rows[len(own)][0] & OFFSET_MAX
                yield from maker.finish(part.until_offset, following)
            if maker.position >= part.until_offset:
                return
        raise LogError(
            f"{self.file.path}: log partition {part.log_partition} ends at offset"
            f" {maker.position}, and went to {part.until_offset} a moment ago"
        )

    def sample_ends(self, after_ts: datetime | None = None) -> Any:
        """Where partitions of topics ended, each minute in which they grew."""
        return sample_store(self.file, after_ts)

    def _partitions(self) -> list[tuple[int, int, int]]:
        """The log partitions by index: the number of each in the store, and the offset
        that compaction must not forget."""
        topic = self.file.topic(OFFSETS_TOPIC)
        if topic is None:
            return []
        return self.file.ask(
            "SELECT partition, number, next_offset FROM partitions"
            " WHERE topic_id = ? ORDER BY partition",
            (topic.topic_id,),
        )

    def _number(self, log_partition: int) -> int:
        for partition, number, _ in self._partitions():
            if partition == log_partition:
                return number
        raise LogError(
            f"{self.file.path} has no log partition {log_partition} any more"
        )

    def _first(self, number: int) -> int:
        """The first offset of a log partition; the last there can be, for none."""
        rows = self.file.ask(
            "SELECT min(place) FROM batches WHERE place BETWEEN :low AND :high",
            _span(number, 0),
        )
        return OFFSET_MAX if rows[0][0] is None else int(rows[0][0]) & OFFSET_MAX

    def _head(self, number: int, since: int, next_offset: int) -> Head:
        look = _Look(since)
        while rows := self.file.ask(_LOOK, _span(number, look.end)):
            look.add(rows)
        end = max(look.end, next_offset)
        return Head(min(self._first(number), look.end), look.stable, end, look.cuts())

    def _ahead(self, number: int, offset: int) -> Iterator[list[Followed]]:
        """Transactional batches from an offset to the log's end."""
        while rows := self.file.ask(_MARKED, _span(number, offset), bytes_max=_BYTES):
            followed = [follow_one(blob) for _, blob in rows]
            yield [each for each in followed if each is not None]
            offset = (rows[-1][0] & OFFSET_MAX) + 1

    def _part(
        self, rows: Sequence[tuple[int, int, bytes]], *, begins_log: bool
    ) -> Part:
        places, lasts, blobs = zip(*rows, strict=True)
        at = np.array(places, np.int64)
        return Part.of_blobs(
            self.file.path.name,
            blobs,
            bases=at & OFFSET_MAX,
            ends=np.array(lasts, np.int64) + 1,
            positions=at,
            begins_log=begins_log,
        )


def _span(number: int, offset: int) -> dict[str, int]:
    """A log partition's places, from an offset on."""
    low = number << OFFSET_BITS
    return {
        "low": low,
        "high": low | OFFSET_MAX,
        "from": low | min(offset, OFFSET_MAX),
        "offset_max": OFFSET_MAX,
    }


class _Look:
    """What is decided of a log partition, and where ranges may end."""

    def __init__(self, since: int) -> None:
        self.end = since
        self._transactions = Transactions()
        self._decided: dict[int, int] = {}
        """Of each open transaction by its first offset: where the batch before it
        ends."""
        self._cuts: list[Ints] = []
        """Rows of offsets, and records and bytes since the cut before."""

    def add(self, rows: Sequence[tuple[int, int, int, bytes | None]]) -> None:
        """Some more batches."""
        places, lasts, sizes, marked = zip(*rows, strict=True)
        bases = np.array(places, np.int64) & OFFSET_MAX
        ends = np.array(lasts, np.int64) + 1
        before = np.concatenate(([self.end], ends[:-1]))
        for i in (i for i, blob in enumerate(marked) if blob is not None):
            followed = follow_one(marked[i])
            if followed is not None:
                self._transactions, _ = self._transactions.follow([followed])
                self._decided.setdefault(int(bases[i]), int(before[i]))
        still = set(self._transactions.open.values())
        self._decided = {at: end for at, end in self._decided.items() if at in still}
        self.end = int(ends[-1])
        upto = np.stack([ends, np.cumsum(ends - bases), np.cumsum(sizes)])
        every = -(-len(rows) // _CUTS_AT_ONCE)
        kept = upto[:, ::-every][:, ::-1]
        kept[1:] = np.diff(kept[1:], prepend=0)
        self._cuts.append(kept)

    @property
    def stable(self) -> int:
        """Up to here it is decided what counts."""
        return min(self._decided.values(), default=self.end)

    def cuts(self) -> Cuts:
        """The cuts up to the stable offset, which is the last of them."""
        ends, records, size_bytes = np.concatenate(
            [np.zeros((3, 0), np.int64), *self._cuts], axis=1
        )
        count = min(int(np.searchsorted(ends, self.stable)) + 1, len(ends))
        return Cuts(
            np.minimum(ends[:count], self.stable),
            np.cumsum(records[:count]),
            np.cumsum(size_bytes[:count]),
            lambda *_: None,
        )
