"""Batches of a log partition to rows: the records, what does not read, and the gaps.

Gaps are the same however a log is divided into ranges: those before a batch come with
it, those within it end where it ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from coterie.errors import MalformedFrame
from coterie.pipeline.segments.batches import Batches
from coterie.pipeline.segments.rows import decode_batches
from coterie.pipeline.segments.schema import BRONZE
from coterie.pipeline.segments.varints import Ints
from coterie.pipeline.segments.walk import check_blob
from coterie.pipeline.sources.outcomes import Outcomes
from coterie.pipeline.sources.source import Rows
from coterie.pipeline.tables.log_gaps import LOG_GAPS
from coterie.pipeline.tables.quarantine import QUARANTINE
from coterie.pipeline.tables.records import RECORDS
from coterie.pipeline.tables.table import TIME, Table
from coterie.wire.record_batch import TRANSACTIONAL

_TIMES_END_MS: Final = 253_402_300_800_000
"""The year 10000: Python and Spark go no farther. Later times are none."""
_OUTCOMES: Final = pa.array(["committed", "aborted"])
_CODES: Final = {None: -1, "committed": 0, "aborted": 1}


class Fault(NamedTuple):
    """Bytes that gave no rows."""

    source: str
    """The file or store."""
    position: int
    """The byte there, or the row."""
    size_bytes: int
    reason: str


class Gap(NamedTuple):
    """Offsets that are not there."""

    from_offset: int
    until_offset: int
    reason: str


@dataclass(frozen=True, slots=True)
class Part:
    """Some batches as their source has them, in order; no two hold the same offset,
    unless a batch begins before the one before it ends."""

    source: str
    data: bytes
    """The bytes of the batches that can be read."""
    batches: Batches
    """Their headers; positions are of the data."""
    good: Ints
    """Which of all batches these are."""
    bad: Mapping[int, str]
    """What is wrong with the others."""
    bases: Ints
    """The first offset of each batch."""
    ends: Ints
    """The offset after each."""
    positions: Ints
    """The byte in the file, or the row."""
    sizes: Ints
    holes: Sequence[tuple[int, Fault]] = ()
    """Bytes that are no batch, and before which batch they stand."""
    begins_log: bool = False
    """The first batch is the first of the log."""

    @classmethod
    def of_blobs(
        cls,
        source: str,
        blobs: Sequence[bytes | memoryview],
        *,
        bases: Ints,
        ends: Ints,
        positions: Ints,
        begins_log: bool = False,
    ) -> Part:
        """Batches that come one by one, with their offsets beside them."""
        bad = {}
        for i, blob in enumerate(blobs):
            try:
                check_blob(blob)
            except MalformedFrame as error:
                bad[i] = str(error)
        good = [i for i in range(len(blobs)) if i not in bad]
        sizes = np.array([len(blob) for blob in blobs], np.int64)
        data = b"".join([blobs[i] for i in good])
        at = np.concatenate(([0], np.cumsum(sizes[good])[:-1]))
        return cls(
            source=source,
            data=data,
            batches=Batches.read(data, at[: len(good)].tolist()),
            good=np.array(good, np.int64),
            bad=bad,
            bases=bases,
            ends=ends,
            positions=positions,
            sizes=sizes,
            begins_log=begins_log,
        )


@dataclass
class RowMaker:
    """Makes rows of the batches of one range, given in order and in parts."""

    log_partition: int
    position: int
    """The offset that is next."""
    outcomes: Outcomes

    def rows(self, part: Part) -> Iterator[Rows]:
        """The rows of some more batches; several Rows when they are very large."""
        decoded = decode_batches(part.data, part.batches)
        bad = {**part.bad, **{int(part.good[i]): why for i, why in decoded.faults}}
        previous = np.concatenate(([self.position], part.ends[:-1]))
        begins = np.maximum(part.bases, previous)
        table = pa.Table.from_batches(decoded.tables, BRONZE)
        table, owners = _owned(table, part.bases, begins)
        gaps = _gaps_between(part, self.position, bad)
        gaps += _gaps_within(part, begins, bad, _offsets(table), owners)
        found = self._records(table, owners, self._codes(part, bad))
        *large, last = found.to_batches() or [_empty(RECORDS)]
        for each in large:
            yield self._rows(each)
        self.position = int(part.ends[-1])
        yield self._rows(last, _faults_of(part, bad), sorted(gaps))

    def finish(
        self, until: int, next_base: int | None, reason: str = "missing"
    ) -> Iterator[Rows]:
        """What is left when no batch of the range comes any more: the offsets up to
        `until`, or up to the next batch if that begins before, and why they are
        missing."""
        missing = until if next_base is None else min(until, next_base)
        gaps = []
        if missing > self.position:
            gaps.append(Gap(self.position, missing, reason))
        self.position = until
        yield self._rows(_empty(RECORDS), gaps=gaps)

    def _rows(
        self, records: Any, faults: Sequence[Fault] = (), gaps: Sequence[Gap] = ()
    ) -> Rows:
        return Rows(
            records=records,
            faults=_fault_rows(self.log_partition, faults),
            gaps=_gap_rows(self.log_partition, gaps),
            next_offset=self.position,
        )

    def _codes(self, part: Part, bad: Mapping[int, str]) -> Ints | None:
        """What became of each batch's transaction; None when none is of one."""
        of_transactions = np.flatnonzero(part.batches.has(TRANSACTIONAL)).tolist()
        if not of_transactions:
            return None
        codes = np.full(len(part.bases), -1)
        for i in of_transactions:
            number = int(part.good[i])
            if number not in bad:
                codes[number] = _CODES[self.outcomes.of(part.batches.header(i))]
        return codes

    def _records(self, table: Any, owners: Ints, codes: Ints | None) -> Any:
        """Bronze rows as the table `records` has them."""
        count = len(table)
        if codes is None:
            outcome = pa.nulls(count, pa.string())
        else:
            of_rows = codes[owners]
            outcome = _OUTCOMES.take(pa.array(of_rows, mask=of_rows < 0))
        lengths = [
            pc.fill_null(pc.binary_length(table[name]), 0) for name in ("key", "value")
        ]
        made = {
            "log_partition": pa.array(np.full(count, self.log_partition, np.int32)),
            "log_offset": table["record_offset"],
            "append_ts": _times(table["timestamp_ms"].to_numpy()),
            "size_bytes": pc.add(*lengths),
            "outcome": outcome,
        }
        columns = [
            made[name] if name in made else table[name] for name in RECORDS.schema.names
        ]
        return pa.table(columns, schema=RECORDS.schema)


def _offsets(table: Any) -> Ints:
    offsets: Ints = table["record_offset"].to_numpy()
    return offsets


def _owned(table: Any, bases: Ints, begins: Ints) -> tuple[Any, Ints]:
    """The rows from where each batch begins, and which batch each is of."""
    of_base = table["base_offset"].to_numpy()
    owners = np.searchsorted(bases, of_base)
    if (begins == bases).all():
        return table, owners
    keep = _offsets(table) >= begins[owners]
    return table.filter(pa.array(keep)), owners[keep]


def _times(timestamp_ms: Ints) -> Any:
    """Times in microseconds; null for none (-1) and for those that cannot be."""
    absent = (timestamp_ms < 0) | (timestamp_ms >= _TIMES_END_MS)
    return pa.array(np.where(absent, 0, timestamp_ms) * 1_000, TIME, mask=absent)


def _gaps_between(part: Part, position: int, bad: Mapping[int, str]) -> list[Gap]:
    """Those before batches, and batches that do not read."""
    previous = np.concatenate(([position], part.ends[:-1]))
    behind_holes = {index for index, _ in part.holes}
    gaps = []
    for i in np.flatnonzero(part.bases > previous).tolist():
        reason = "unreadable" if i in behind_holes else "missing"
        if i == 0 and part.begins_log:
            reason = "log_start"
        gaps.append(Gap(int(previous[i]), int(part.bases[i]), reason))
    for i in bad:
        begin = max(int(previous[i]), int(part.bases[i]))
        gaps.append(Gap(begin, int(part.ends[i]), "unreadable"))
    return gaps


def _gaps_within(
    part: Part, begins: Ints, bad: Mapping[int, str], offsets: Ints, owners: Ints
) -> list[Gap]:
    """Those that compaction left within batches."""
    spans = part.ends - begins
    spans[list(bad)] = 0
    if int(spans.sum()) == len(offsets):
        return []
    first = np.ones(len(owners), np.bool_)
    first[1:] = owners[1:] != owners[:-1]
    expected = np.concatenate(([0], offsets[:-1] + 1))[: len(offsets)]
    expected[first] = begins[owners[first]]
    after = begins.copy()
    after[owners] = offsets + 1
    after[list(bad)] = part.ends[list(bad)]
    pairs = np.concatenate(
        [np.stack([expected, offsets], 1), np.stack([after, part.ends], 1)]
    )
    pairs = pairs[pairs[:, 0] < pairs[:, 1]]
    return [Gap(begin, end, "missing") for begin, end in pairs.tolist()]


def _faults_of(part: Part, bad: Mapping[int, str]) -> list[Fault]:
    faults = [fault for _, fault in part.holes]
    for i, reason in bad.items():
        where = int(part.positions[i]), int(part.sizes[i])
        about = f"{reason} (offsets {part.bases[i]} to {part.ends[i] - 1})"
        faults.append(Fault(part.source, *where, about))
    return sorted(faults)


def _fault_rows(log_partition: int, faults: Sequence[Fault]) -> Any:
    if not faults:
        return _NO_FAULTS
    rows = [
        {
            "log_partition": log_partition,
            "source": each.source,
            "position": each.position,
            "reason": "bad_batch",
            "message": f"{each.size_bytes} bytes: {each.reason}",
        }
        for each in faults
    ]
    return pa.RecordBatch.from_pylist(rows, QUARANTINE.schema)


def _gap_rows(log_partition: int, gaps: Sequence[Gap]) -> Any:
    if not gaps:
        return _NO_GAPS
    columns = [[log_partition] * len(gaps), *zip(*gaps, strict=True)]
    arrays = [
        pa.array(column, kind)
        for column, kind in zip(columns, LOG_GAPS.schema.types, strict=True)
    ]
    return pa.record_batch(arrays, schema=LOG_GAPS.schema)


def _empty(table: Table) -> Any:
    """No rows of a table."""
    arrays = [pa.array([], kind) for kind in table.schema.types]
    return pa.record_batch(arrays, schema=table.schema)


_NO_FAULTS: Final = _empty(QUARANTINE)
_NO_GAPS: Final = _empty(LOG_GAPS)
