"""Rows, faults and gaps do not depend on how a log is divided or how it grows."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.pipeline.sources.planning import plan
from coterie.pipeline.sources.segment_files import LogFiles
from coterie.pipeline.sources.segments import SegmentSource
from coterie.pipeline.sources.source import OffsetRange
from tests.pipeline.sources.logs import (
    Read,
    marker,
    of_transaction,
    plain,
    read_all,
    read_in_many_runs,
    read_ranges,
    with_holes,
    write,
)

Log = dict[int, list[bytes]]
"""Batches by the first offset of their file."""


@st.composite
def logs(draw: st.DrawFn) -> Log:
    """Generate a log with all kinds of batches and faults, in several files."""
    offset, files, current = 0, dict[int, list[bytes]](), list[bytes]()
    for _ in range(draw(st.integers(1, 12))):
        if not files or draw(st.integers(0, 3)) == 0:
            current = files.setdefault(offset, [])
        count, producer = draw(st.integers(1, 4)), draw(st.integers(1, 2))
        match draw(st.integers(0, 9)):
            case 0 | 1 | 2:
                current.append(plain(offset, count, size=draw(st.integers(0, 200))))
            case 3 | 4:
                current.append(of_transaction(offset, producer, count))
            case 5 | 6:
                current.append(marker(offset, producer, commit=draw(st.booleans())))
                count = 1
            case 7:
                last = offset + count
                kept = draw(st.sets(st.integers(offset, last)))
                current.append(with_holes(sorted(kept), offset, last))
                count += 1
            case 8:
                current.append(draw(st.binary(min_size=1, max_size=90)))
                count = 0
            case 9:
                bad = bytearray(plain(offset, count))
                bad[-1] ^= 1
                current.append(bytes(bad))
        offset += count + draw(st.sampled_from([0, 0, 0, 5]))
    return files


def source_of(folder: Path, chunk_bytes: int = 10**6) -> SegmentSource:
    return SegmentSource(str(folder), LogFiles.at(str(folder)), chunk_bytes)


def fresh(folder: Path, files: Log) -> Path:
    for path in folder.rglob("*.log"):
        path.unlink()
    return write(folder, files)


def ends_of(source: SegmentSource) -> list[int]:
    """Return the offsets at which ranges may end."""
    head = source.heads()[0]
    assert head.cuts is not None
    return [int(each) for each in head.cuts.offsets if each]


def ranges_of(
    source: SegmentSource, cuts: list[int], *, with_places: bool
) -> Iterator[OffsetRange]:
    """Yield ranges from cut to cut, with or without the places of a plan."""
    heads = source.heads()
    for begin, until in pairwise([0, *cuts]):
        stable = heads[0]._replace(stable_offset=until)
        after = plan({0: stable}, {0: begin})[0].after if with_places else None
        yield OffsetRange(0, begin, until, after)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(logs(), st.data())
def test_rows_do_not_depend_on_ranges_and_chunk_sizes(
    tmp_path_factory: pytest.TempPathFactory, files: Log, data: st.DataObject
) -> None:
    folder = write(tmp_path_factory.mktemp("log"), files)
    whole = read_all(source_of(folder))
    ends = ends_of(source_of(folder))
    if not ends:
        return
    cuts = sorted({*data.draw(st.sets(st.sampled_from(ends))), ends[-1]})
    source = source_of(folder, data.draw(st.integers(1, 400)))
    with_places = data.draw(st.booleans())
    ranges = ranges_of(source, cuts, with_places=with_places)
    assert read_ranges(source, ranges) == whole
    assert read_in_many_runs(source, data.draw(st.integers(1, 9))) == whole
    assert read_in_many_runs(source_of(folder), 1) == whole


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(logs(), st.data())
def test_ranges_that_end_at_any_offset_return_each_record_once(
    tmp_path_factory: pytest.TempPathFactory, files: Log, data: st.DataObject
) -> None:
    source = source_of(write(tmp_path_factory.mktemp("log"), files))
    whole = read_all(source)
    stable = source.heads()[0].stable_offset
    if not stable:
        return
    cuts = sorted({*data.draw(st.sets(st.integers(1, stable))), stable})
    read = read_ranges(source, ranges_of(source, cuts, with_places=False))
    assert read.records == whole.records
    assert missing_offsets(read) == missing_offsets(whole)


def missing_offsets(read: Read) -> set[int]:
    return {at for begin, end, _ in read.missing for at in range(begin, end)}


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(logs(), st.data())
def test_a_growing_log_has_the_rows_of_the_whole_log(
    tmp_path_factory: pytest.TempPathFactory, files: Log, data: st.DataObject
) -> None:
    folder = write(tmp_path_factory.mktemp("log"), files)
    whole = read_all(source_of(folder))
    size = sum(len(each) for batches in files.values() for each in batches)
    source = source_of(folder)
    read = Read([], [], [], {})
    for shown in sorted({*data.draw(st.sets(st.integers(1, size))), size}):
        fresh(folder, first_bytes(files, shown))
        if data.draw(st.booleans()):
            source = source_of(folder)
        more = read_ranges(source, plan(source.heads(read.positions), read.positions))
        read.records.extend(more.records)
        read.faults.extend(more.faults)
        read.gaps.extend(more.gaps)
        read.positions.update(more.positions)
    assert read == whole


def first_bytes(files: Log, size: int) -> Log:
    shown: Log = {}
    for first, batches in files.items():
        if size <= 0:
            break
        shown[first] = [b"".join(batches)[:size]]
        size -= len(b"".join(batches))
    return shown


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(logs(), st.data())
def test_rows_of_a_log_with_a_corrupt_byte_do_not_depend_on_ranges(
    tmp_path_factory: pytest.TempPathFactory, files: Log, data: st.DataObject
) -> None:
    # The byte may be in a length or an offset, which no checksum covers.
    broken = data.draw(st.sampled_from(sorted(files)))
    content = bytearray(b"".join(files[broken]))
    if not content:
        return
    content[data.draw(st.integers(0, len(content) - 1))] ^= 1 << data.draw(
        st.integers(0, 7)
    )
    folder = write(tmp_path_factory.mktemp("log"), {**files, broken: [bytes(content)]})
    whole = read_all(source_of(folder))
    source = source_of(folder, data.draw(st.integers(1, 400)))
    assert read_in_many_runs(source, data.draw(st.integers(1, 9))) == whole
