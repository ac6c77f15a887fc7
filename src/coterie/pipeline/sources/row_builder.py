"""Build rows from the batches of a log partition: records, faults and gaps.

Gaps do not depend on the division of the log into ranges: a gap before a batch is
yielded with that batch, and a gap within a batch ends at most at the batch's end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from coterie.pipeline.segments.batches import (
    BAD_CHECKSUM,
    BatchHeaders,
    Fault,
    Flags,
    Ints,
)
from coterie.pipeline.segments.records import decode_batches, pieces
from coterie.pipeline.segments.transactions import (
    BatchKind,
    TransactionBatch,
    transaction_batches,
)
from coterie.pipeline.sources.source import Rows
from coterie.pipeline.tables.ingested import LOG_GAPS, QUARANTINE, RECORDS
from coterie.pipeline.tables.table import TIME, TIME_MS_MAX, Table
from coterie.wire.record_batch import CONTROL, TRANSACTIONAL

_OUTCOMES: Final = pa.array(["committed", "aborted"])
_CODES: Final = {None: -1, "committed": 0, "aborted": 1}


class Gap(NamedTuple):
    """Offsets without records."""

    from_offset: int
    until_offset: int
    reason: str


@dataclass(frozen=True, slots=True)
class BatchRun:
    """Consecutive batches of a source. In copied logs batches may overlap; overlapping
    offsets are taken from the first batch.
    """

    source: str
    """The file, or the cluster."""
    data: bytes
    headers: BatchHeaders
    """Positions are relative to `data`."""
    is_bad: Flags
    """The batches with a wrong checksum."""
    bases: Ints
    """The base offset of each batch."""
    ends: Ints
    """The offset after each."""
    places: Ints
    """The position of each batch in the file; without files, its base offset."""
    position: int
    """The next offset before the run; it may be within the first batch."""
    faults: Sequence[tuple[int, Fault]] = ()
    """Bytes that are no batch, with the index of the batch that follows them."""
    begins_log: bool = False
    """Whether the first batch is the first of the log."""

    def part(self, rows: slice) -> BatchRun:
        """Return some of the batches, with the faults before each of them."""
        faults = [
            (i - rows.start, each)
            for i, each in self.faults
            if rows.start <= i < rows.stop
        ]
        return replace(
            self,
            headers=self.headers.select(rows),
            is_bad=self.is_bad[rows],
            bases=self.bases[rows],
            ends=self.ends[rows],
            places=self.places[rows],
            faults=faults,
            begins_log=self.begins_log and rows.start == 0,
        )

    def transactional(self) -> list[TransactionBatch]:
        """Read the transactional batches that have a valid checksum."""
        return transaction_batches(self.data, self.headers.select(~self.is_bad))


@dataclass
class RowBuilder:
    """A builder of the rows of one range from its batches, which are added in order."""

    log_partition: int
    position: int
    """The next offset."""
    outcome: Callable[[TransactionBatch], str | None]
    """The function that returns the outcome of a batch's transaction; called in log
    order.
    """

    def rows(self, run: BatchRun) -> Iterator[Rows]:
        """Yield the rows of more batches; several `Rows` if they are many."""
        self.position = min(self.position, run.position)
        for piece in pieces(run.headers):
            yield self._piece_rows(run.part(piece))

    def _piece_rows(self, run: BatchRun) -> Rows:
        good = np.flatnonzero(~run.is_bad)
        decoded = decode_batches(run.data, run.headers.select(good))
        bad = dict.fromkeys(np.flatnonzero(run.is_bad).tolist(), BAD_CHECKSUM)
        bad |= {int(good[i]): reason for i, reason in decoded.faults}
        previous = np.concatenate(([self.position], run.ends[:-1]))
        begins = np.maximum(run.bases, previous)
        table, owners = _owned(decoded.rows, run.bases, begins)
        gaps = _gaps_between(run, self.position, bad)
        gaps += _gaps_within(
            run, begins, bad, table["record_offset"].to_numpy(), owners
        )
        records = self._records(table, owners, self._outcome_codes(run, bad))
        self.position = int(run.ends[-1])
        faults = [fault for _, fault in run.faults]
        sizes = run.headers.size_bytes
        for i, reason in bad.items():
            message = f"{reason} (offsets {run.bases[i]} to {run.ends[i] - 1})"
            faults.append(Fault(run.source, int(run.places[i]), int(sizes[i]), message))
        return self._rows(records, sorted(faults), sorted(gaps))

    def finish(
        self, until: int, next_base: int | None, reason: str = "missing"
    ) -> Iterator[Rows]:
        """Yield the gap at the end of the range, after its last batch: up to `until`,
        or up to the next batch if that begins earlier.
        """
        missing = until if next_base is None else min(until, next_base)
        gaps = []
        if missing > self.position:
            gaps.append(Gap(self.position, missing, reason))
        self.position = until
        yield self._rows(_empty(RECORDS), gaps=gaps)

    def _rows(
        self, records: Any, faults: Sequence[Fault] = (), gaps: Sequence[Gap] = ()
    ) -> Rows:
        fault_rows = [
            {
                "log_partition": self.log_partition,
                "source": each.source,
                "position": each.position,
                "reason": "bad_batch",
                "message": f"{each.size_bytes} bytes: {each.reason}",
            }
            for each in faults
        ]
        gap_rows = _empty(LOG_GAPS)
        if gaps:  # by column: a compacted log has many
            columns = [[self.log_partition] * len(gaps), *zip(*gaps, strict=True)]
            arrays = [
                pa.array(column, kind)
                for column, kind in zip(columns, LOG_GAPS.schema.types, strict=True)
            ]
            gap_rows = pa.record_batch(arrays, schema=LOG_GAPS.schema)
        return Rows(
            records=records,
            faults=pa.RecordBatch.from_pylist(fault_rows, QUARANTINE.schema),
            gaps=gap_rows,
            next_offset=self.position,
        )

    def _outcome_codes(self, run: BatchRun, bad: Mapping[int, str]) -> Ints | None:
        """Return the outcome of each batch's transaction, as an index of _OUTCOMES;
        None when no batch is transactional."""
        is_transactional = run.headers.has(TRANSACTIONAL)
        if not is_transactional.any():
            return None
        codes = np.full(len(run.bases), -1)
        own, numbers = (
            run.headers.select(is_transactional),
            np.flatnonzero(is_transactional),
        )
        kinds = own.has(CONTROL) * BatchKind.OTHER_MARKER.value
        columns = (own.base_offset, own.last_offset, own.column("producer_id"), kinds)
        rows = zip(numbers.tolist(), *(each.tolist() for each in columns), strict=True)
        for number, *batch in rows:
            if number not in bad:
                codes[number] = _CODES[self.outcome(TransactionBatch._make(batch))]
        return codes

    def _records(self, table: Any, owners: Ints, codes: Ints | None) -> Any:
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
        rows = pa.table(columns, schema=RECORDS.schema).combine_chunks()
        return next(iter(rows.to_batches()), _empty(RECORDS))


def _owned(table: Any, bases: Ints, begins: Ints) -> tuple[Any, Ints]:
    """Return the rows without records below `begins`, the first offset to read of each
    batch; and the index of each row's batch.
    """
    of_base = table["base_offset"].to_numpy()
    owners = np.searchsorted(bases, of_base)
    if (begins == bases).all():
        return table, owners
    keep = table["record_offset"].to_numpy() >= begins[owners]
    return table.filter(pa.array(keep)), owners[keep]


def _times(timestamp_ms: Ints) -> Any:
    """Return times in microseconds; null for -1 (absent) and for impossible times."""
    absent = (timestamp_ms < 0) | (timestamp_ms > TIME_MS_MAX)
    return pa.array(np.where(absent, 0, timestamp_ms) * 1_000, TIME, mask=absent)


def _gaps_between(run: BatchRun, position: int, bad: Mapping[int, str]) -> list[Gap]:
    """Return the gaps before batches, and a gap for each unreadable batch."""
    previous = np.concatenate(([position], run.ends[:-1]))
    after_faults = {index for index, _ in run.faults}
    gaps = []
    for i in np.flatnonzero(run.bases > previous).tolist():
        reason = "unreadable" if i in after_faults else "missing"
        if i == 0 and run.begins_log:
            reason = "log_start"
        gaps.append(Gap(int(previous[i]), int(run.bases[i]), reason))
    for i in bad:
        begin = max(int(previous[i]), int(run.bases[i]))
        gaps.append(Gap(begin, int(run.ends[i]), "unreadable"))
    return gaps


def _gaps_within(
    run: BatchRun, begins: Ints, bad: Mapping[int, str], offsets: Ints, owners: Ints
) -> list[Gap]:
    """Return the gaps that compaction left within batches."""
    spans = run.ends - begins
    spans[list(bad)] = 0
    if int(spans.sum()) == len(offsets):
        return []
    first = np.ones(len(owners), np.bool_)
    first[1:] = owners[1:] != owners[:-1]
    expected = np.concatenate(([0], offsets[:-1] + 1))[: len(offsets)]
    expected[first] = begins[owners[first]]
    after = begins.copy()
    after[owners] = offsets + 1
    after[list(bad)] = run.ends[list(bad)]
    pairs = np.concatenate(
        [np.stack([expected, offsets], 1), np.stack([after, run.ends], 1)]
    )
    pairs = pairs[pairs[:, 0] < pairs[:, 1]]
    return [Gap(begin, end, "missing") for begin, end in pairs.tolist()]


def _empty(table: Table) -> Any:
    arrays = [pa.array([], kind) for kind in table.schema.types]
    return pa.record_batch(arrays, schema=table.schema)
