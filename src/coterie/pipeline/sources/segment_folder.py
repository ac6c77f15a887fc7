"""Kafka's log segments in a folder or an object store, as a source: dumps, copies of a
broker's disk, or that disk itself.

The driver walks over the headers of what is new and finds how far the log is decided;
workers open the batches. While the driver lives it goes on where it was; a new one
begins with the file in which the position is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
from crc32c import crc32c

from coterie.errors import LogError, SettingError
from coterie.pipeline.segments.batches import Batches
from coterie.pipeline.sources.batch_rows import Fault, Part, RowMaker
from coterie.pipeline.sources.log_files import LogFile, LogFiles, Vanished
from coterie.pipeline.sources.log_walk import LOOKS, Step, Walk
from coterie.pipeline.sources.look import Look, transactional
from coterie.pipeline.sources.outcomes import Followed, Outcomes
from coterie.pipeline.sources.scan import STRETCH_BYTES, stretches
from coterie.pipeline.sources.source import Head, Hint, OffsetRange, Rows
from coterie.wire.record_batch import CHECKED_FROM

_LEAST_STRETCH_BYTES: Final = 64 * 1024
_BROKEN: Final = "the checksum is wrong: these are not the bytes that were written"


def open_it(where: str, *, log_partition: int | str = 0) -> SegmentFolder:
    """A source over a folder, a file or a URI.

    `log_partition` is that of files whose folder does not say it. Raises SettingError.
    """
    if not str(log_partition).isdecimal():
        raise SettingError(
            f"log_partition: {log_partition!r} is not a number from 0 on"
        )
    if "://" not in where:
        where = str(Path(where).absolute())
    return SegmentFolder(where, LogFiles.at(where, int(log_partition)))


@dataclass
class SegmentFolder:
    """See the module's docstring."""

    where: str
    files: LogFiles
    stretch_bytes: int = STRETCH_BYTES
    _looks: dict[int, Look] = field(default_factory=dict, compare=False, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_looks": {}}

    def describe(self) -> str:
        """What it is, as `open_source` takes it."""
        return f"segments:{self.where}"

    def heads(self, since: Mapping[int, int] | None = None) -> Mapping[int, Head]:
        """How far each log partition goes. Raises SettingError, LogError."""
        heads = {}
        for number, files in self.files.find().items():
            begin = (since or {}).get(number, 0)
            look = self._looks.get(number)
            if look is None or look.begin > begin:
                look = self._looks[number] = Look(begin, begin)
            look.forget(begin)
            for step in self._walk(number, look.position, look.hint()).steps():
                look.add(step)
            start = self._start(number, files)
            heads[number] = look.head(look.position if start is None else start)
        return heads

    def read(self, part: OffsetRange) -> Iterator[Rows]:
        """The rows of a range. Raises LogError; also when the log does not go that far
        any more."""
        maker = RowMaker(
            part.log_partition, part.from_offset, Outcomes(self._ahead(part))
        )
        walk = self._walk(part.log_partition, part.from_offset, part.hint)
        for step in walk.steps():
            ends = step.stretch.ends[step.new]
            count = int(np.searchsorted(ends, part.until_offset, side="right"))
            if count:
                maker.position = min(maker.position, step.position)
                yield from maker.rows(_part(step, count))
            if count < len(ends) and maker.position < part.until_offset:
                base = int(step.stretch.bases[step.new[count]])
                yield from maker.finish(part.until_offset, base)
            if maker.position >= part.until_offset:
                return
        raise LogError(
            f"{self.where}: log partition {part.log_partition} ends at offset"
            f" {maker.position}, and went to {part.until_offset} a moment ago:"
            " were files taken away?"
        )

    def _walk(self, log_partition: int, position: int, hint: Hint | None) -> Walk:
        size = self.stretch_bytes
        if hint is not None and "size_bytes" in hint:
            size = min(size, max(_LEAST_STRETCH_BYTES, int(hint["size_bytes"])))
        return Walk(self.files, log_partition, position, hint, size)

    def _ahead(self, part: OffsetRange) -> Iterator[list[Followed]]:
        """Transactional batches from the range's beginning to the log's end."""
        walk = self._walk(part.log_partition, part.from_offset, part.hint)
        return (transactional(step) for step in walk.steps())

    def _start(self, log_partition: int, files: Sequence[LogFile]) -> int | None:
        """The first offset of the log; None for a log without batches."""
        for _ in range(LOOKS - 1):
            try:
                return self._first_offset(files)
            except Vanished:
                files = self.files.files(log_partition)
        return self._first_offset(files)

    def _first_offset(self, files: Sequence[LogFile]) -> int | None:
        for file in files:
            with self.files.open(file) as opened:
                found = stretches(
                    opened,
                    first_offset=file.first_offset,
                    is_last=True,
                    stretch_bytes=_LEAST_STRETCH_BYTES,
                )
                for stretch in found:
                    if len(stretch.bases):
                        return int(stretch.bases[0])
        return None


def _part(step: Step, count: int) -> Part:
    """The first new batches of a step, with their checksums looked at."""
    found, new = step.stretch, step.new[:count]
    batches = found.batches.some(new)
    bad = _broken(found.data, batches)
    good = np.setdiff1d(np.arange(count), list(bad)) if bad else np.arange(count)
    return Part(
        source=step.file.name,
        data=found.data,
        batches=batches.some(good),
        good=good,
        bad=bad,
        bases=found.bases[new],
        ends=found.ends[new],
        positions=found.at + batches.position,
        sizes=batches.size_bytes,
        holes=[
            (each.number, Fault(each.file, *each.hole[1:]))
            for each in step.holes
            if each.number < count
        ],
        begins_log=step.begins_log,
    )


def _broken(data: bytes, batches: Batches) -> dict[int, str]:
    """Which batches do not have the checksum that they should."""
    view = memoryview(data)
    begins = (batches.position + CHECKED_FROM).tolist()
    ends = (batches.position + batches.size_bytes).tolist()
    stated = batches.fields["crc"].tolist()
    return {
        i: _BROKEN
        for i, (begin, end, crc) in enumerate(zip(begins, ends, stated, strict=True))
        if crc32c(view[begin:end]) != crc
    }
