"""Divides what is to be read into ranges: no more records than wanted at once, and
several ranges of a log partition where it has many bytes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np

from coterie.pipeline.sources.source import Cuts, Head, OffsetRange

RANGE_BYTES: Final = 64 * 1024 * 1024
"""About how much one worker reads in one range."""
RANGE_OFFSETS: Final = 1_000_000
"""The same where bytes are not known."""


def plan(
    heads: Mapping[int, Head],
    positions: Mapping[int, int],
    *,
    max_records: int | None = None,
    range_bytes: int = RANGE_BYTES,
) -> list[OffsetRange]:
    """Ranges from the positions (0 where there is none) up to the stable offsets, in
    order of log partition and offset.

    Of `max_records` each log partition gets an equal share, and what one does not need
    others get. Where batches are known a share ends after a batch, and has one at
    least; elsewhere offsets are counted for records.
    """
    ranges: list[OffsetRange] = []
    shares = backlog(heads, positions)
    if max_records is not None:
        shares = _shares(shares, max_records)
    for partition, share in sorted(shares.items()):
        head, begin = heads[partition], positions.get(partition, 0)
        if head.cuts is None:
            until = min(begin + share, head.stable_offset)
            ranges += _by_offsets(partition, begin, until)
        else:
            ranges += _by_cuts(partition, begin, head.cuts, share, range_bytes)
    return ranges


def up_to(heads: Mapping[int, Head], ends: Mapping[int, int]) -> dict[int, Head]:
    """The heads as if log partitions were stable up to these offsets at most, and not
    at all where there is none."""
    return {
        partition: _up_to(head, ends[partition])
        for partition, head in heads.items()
        if partition in ends
    }


def _up_to(head: Head, end: int) -> Head:
    if end >= head.stable_offset:
        return head
    cuts = head.cuts
    if cuts is not None:
        count = int(np.searchsorted(cuts.offsets, end)) + 1
        offsets = np.minimum(cuts.offsets[:count], end)
        cuts = Cuts(offsets, cuts.records[:count], cuts.size_bytes[:count], cuts.hint)
    return head._replace(stable_offset=end, cuts=cuts)


def backlog(heads: Mapping[int, Head], positions: Mapping[int, int]) -> dict[int, int]:
    """How many records each log partition still has before its stable offset (offsets,
    where batches are not known), 1 at least; those that were read are left out."""
    return {
        partition: max(1, _left(head, positions.get(partition, 0)))
        for partition, head in heads.items()
        if positions.get(partition, 0) < head.stable_offset
    }


def _left(head: Head, begin: int) -> int:
    if head.cuts is None:
        return head.stable_offset - begin
    cuts = head.cuts
    first = int(np.searchsorted(cuts.offsets, begin, side="right"))
    return _sum(cuts.records, first, len(cuts.offsets))


def _sum(upto: np.ndarray, first: int, end: int) -> int:
    """How much there is from batch `first` to before batch `end`."""
    if end <= first:
        return 0
    return int(upto[end - 1]) - (int(upto[first - 1]) if first else 0)


def _shares(left: Mapping[int, int], max_records: int) -> dict[int, int]:
    """What each gets: who needs least is served first, and the others divide the
    rest."""
    shares, rest = {}, max_records
    waiting = sorted(left, key=lambda partition: left[partition])
    while waiting:
        share = min(left[waiting[0]], rest // len(waiting))
        partition = waiting.pop(0)
        shares[partition] = share
        rest -= share
    if not any(shares.values()):
        longest = max(left, key=lambda partition: left[partition], default=None)
        return {} if longest is None else {longest: max_records}
    return {partition: share for partition, share in shares.items() if share}


def _by_offsets(partition: int, begin: int, until: int) -> Iterator[OffsetRange]:
    for at in range(begin, until, RANGE_OFFSETS):
        yield OffsetRange(partition, at, min(at + RANGE_OFFSETS, until))


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
        yield OffsetRange(partition, begin, until, cuts.hint(first, after))
        begin, first = until, after
