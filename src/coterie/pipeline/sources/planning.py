"""Divide the unread part of a log into ranges, up to a total number of records. A log
partition with many bytes is divided into several ranges.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np

from coterie.pipeline.sources.source import Cuts, Head, OffsetRange

RANGE_BYTES: Final = 64 * 1024 * 1024
"""The approximate size of a range."""
RANGE_OFFSETS: Final = 1_000_000
"""The size of a range, in offsets, of a source without known sizes in bytes."""


def plan(
    heads: Mapping[int, Head],
    positions: Mapping[int, int],
    *,
    max_records: int | None = None,
    range_bytes: int = RANGE_BYTES,
) -> list[OffsetRange]:
    """Return ranges from the positions (0 by default) up to the stable offsets, in
    order of log partition and offset.

    `max_records` is divided equally among log partitions; the unused part of a share is
    divided among the others. With cuts a share ends after a batch and has at least one
    batch; without cuts offsets are counted instead of records.
    """
    ranges: list[OffsetRange] = []
    shares = backlog(heads, positions)
    if max_records is not None:
        shares = _shares(shares, max_records)
    for partition, share in sorted(shares.items()):
        head, begin = heads[partition], positions.get(partition, 0)
        if head.cuts is None:
            until = min(begin + share, head.stable_offset)
            ranges += [
                OffsetRange(partition, at, min(at + RANGE_OFFSETS, until))
                for at in range(begin, until, RANGE_OFFSETS)
            ]
        else:
            ranges += _by_cuts(partition, begin, head.cuts, share, range_bytes)
    return ranges


def backlog(heads: Mapping[int, Head], positions: Mapping[int, int]) -> dict[int, int]:
    """Return the number of unread records of each log partition up to its stable
    offset, at least 1. For sources without cuts offsets are counted; log partitions
    without a backlog are left out.
    """
    unread = {}
    for partition, head in heads.items():
        begin, cuts = positions.get(partition, 0), head.cuts
        if begin >= head.stable_offset:
            continue
        records = head.stable_offset - begin
        if cuts is not None:
            first = int(np.searchsorted(cuts.offsets, begin, side="right"))
            records = _sum(cuts.records, first, len(cuts.offsets))
        unread[partition] = max(1, records)
    return unread


def _sum(totals: np.ndarray, first: int, end: int) -> int:
    """Return the sum of the values of batches `first` to `end - 1`, from running
    totals.
    """
    if end <= first:
        return 0
    return int(totals[end - 1]) - (int(totals[first - 1]) if first else 0)


def _shares(left: Mapping[int, int], max_records: int) -> dict[int, int]:
    """Divide `max_records` fairly: in ascending order of backlog, each log partition
    gets at most an equal share of the remaining records.
    """
    shares, rest = {}, max_records
    ascending = sorted(left, key=lambda partition: left[partition])
    for count, partition in zip(range(len(left), 0, -1), ascending, strict=True):
        shares[partition] = min(left[partition], rest // count)
        rest -= shares[partition]
    if not any(shares.values()):
        longest = max(left, key=lambda partition: left[partition], default=None)
        return {} if longest is None else {longest: max_records}
    return {partition: share for partition, share in shares.items() if share}


def _by_cuts(
    partition: int, begin: int, cuts: Cuts, share: int, range_bytes: int
) -> Iterator[OffsetRange]:
    first = int(np.searchsorted(cuts.offsets, begin, side="right"))
    before = _sum(cuts.records, 0, first)
    end = int(np.searchsorted(cuts.records, before + share, side="right"))
    end = max(end, first + 1)
    while first < end:
        upto = _sum(cuts.size_bytes, 0, first) + range_bytes
        after = int(np.searchsorted(cuts.size_bytes, upto, side="right"))
        after = min(max(after, first + 1), end)
        until = int(cuts.offsets[after - 1])
        yield OffsetRange(partition, begin, until, cuts.place_before(first))
        begin, first = until, after
