"""Build rows from the batches of a log partition: records, faults and gaps.

Gaps do not depend on the division of the log into ranges: a gap before a batch is
yielded with that batch, and a gap within a batch ends at most at the batch's end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from coterie.errors import MalformedFrame
from coterie.pipeline.segments.batches import BAD_CHECKSUM, BatchHeaders, Fault, Ints
from coterie.pipeline.segments.records import (
    BRONZE,
    DecodedBatches,
    decode_batches,
)
from coterie.pipeline.segments.transactions import BatchKind, TransactionBatch
from coterie.pipeline.sources.source import Rows
from coterie.pipeline.tables.ingested import LOG_GAPS, QUARANTINE, RECORDS
from coterie.pipeline.tables.table import TIME, TIME_MS_MAX, Table
from coterie.wire.record_batch import (
    CONTROL,
    TRANSACTIONAL,
    crc_matches,
    read_header,
)

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
    data: bytes
    """The bytes of the readable batches; other bytes may be between them."""
    headers: BatchHeaders
    """The headers of readable batches; positions are relative to `data`."""
    good: Ints
    """The indexes of readable batches among all batches."""
    bad: Mapping[int, str]
    """The indexes of the other batches, with the reason."""
    bases: Ints
    """The base offset of each batch."""
    ends: Ints
    """The offset after each."""
    positions: Ints
    """The position of each batch in the file; without files, its base offset."""
    sizes: Ints
    faults: Sequence[tuple[int, Fault]] = ()
    """Bytes that are no batch, with the index of the batch that follows them."""
    begins_log: bool = False
    """Whether the first batch is the first of the log."""

    def part(self, begin: int, end: int) -> BatchRun:
        """Return the part from one readable batch up to another, by their indexes."""
        if begin == 0 and end == len(self.good):
            return self
        first = int(self.good[begin]) if begin else 0
        is_last = end == len(self.good)
        last = len(self.bases) if is_last else int(self.good[end])
        return BatchRun(
            source=self.source,
            data=self.data,
            headers=self.headers.select(slice(begin, end)),
            good=self.good[begin:end] - first,
            bad={i - first: why for i, why in self.bad.items() if first <= i < last},
            bases=self.bases[first:last],
            ends=self.ends[first:last],
            positions=self.positions[first:last],
            sizes=self.sizes[first:last],
            faults=[
                (i - first, fault)
                for i, fault in self.faults
                if first <= i < last or (is_last and i >= last)
            ],
            begins_log=self.begins_log and first == 0,
        )

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
    ) -> BatchRun:
        """Combine single batches, with their offsets, into one run of batches."""
        bad = {}
        for i, blob in enumerate(blobs):
            try:
                size = read_header(blob).size_bytes
            except MalformedFrame as error:
                bad[i] = str(error)
                continue
            if size != len(blob):
                bad[i] = f"{len(blob)} bytes hold a batch of {size}"
            elif not crc_matches(blob):
                bad[i] = BAD_CHECKSUM
        good = [i for i in range(len(blobs)) if i not in bad]
        sizes = np.array([len(blob) for blob in blobs], np.int64)
        data = b"".join([blobs[i] for i in good])
        at = np.concatenate(([0], np.cumsum(sizes[good])[:-1]))
        return cls(
            source=source,
            data=data,
            headers=BatchHeaders.read(data, at[: len(good)]),
            good=np.array(good, np.int64),
            bad=bad,
            bases=bases,
            ends=ends,
            positions=positions,
            sizes=sizes,
            begins_log=begins_log,
        )


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
        """Yield the rows of more batches; several `Rows` if they are very large."""
        begin = 0
        for decoded in decode_batches(run.data, run.headers):
            faults = [(i - begin, reason) for i, reason in decoded.faults]
            part = run.part(begin, decoded.end)
            yield from self._decoded_rows(part, decoded._replace(faults=faults))
            begin = decoded.end

    def _decoded_rows(self, run: BatchRun, decoded: DecodedBatches) -> Iterator[Rows]:
        bad = {**run.bad, **{int(run.good[i]): why for i, why in decoded.faults}}
        previous = np.concatenate(([self.position], run.ends[:-1]))
        begins = np.maximum(run.bases, previous)
        table = pa.Table.from_batches(decoded.tables, BRONZE)
        table, owners = _owned(table, run.bases, begins)
        gaps = _gaps_between(run, self.position, bad)
        gaps += _gaps_within(
            run, begins, bad, table["record_offset"].to_numpy(), owners
        )
        records = self._records(table, owners, self._outcome_codes(run, bad))
        *full, last = records.to_batches() or [_empty(RECORDS)]
        for each in full:
            yield self._rows(each)
        self.position = int(run.ends[-1])
        faults = [fault for _, fault in run.faults]
        for i, reason in bad.items():
            message = f"{reason} (offsets {run.bases[i]} to {run.ends[i] - 1})"
            position, size = int(run.positions[i]), int(run.sizes[i])
            faults.append(Fault(run.source, position, size, message))
        yield self._rows(last, sorted(faults), sorted(gaps))

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
        own, numbers = run.headers.select(is_transactional), run.good[is_transactional]
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
        return pa.table(columns, schema=RECORDS.schema)


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
