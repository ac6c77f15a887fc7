"""Rows of `group_status` from events in order: what runs in Spark's Python workers.

Arrow batches in, Arrow batches out, and no Spark here, so that a worker loads nothing
else. Events of one group stand together, in the order of time; batches may be cut
anywhere. A group is judged at the end of each minute in which one of its partitions was
looked at, before what happens in that moment: a minute is over when the next begins.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

import pyarrow as pa

from coterie.pipeline.gold.verdict import (
    BURROW_CODES,
    GROUP_VERDICTS,
    Rules,
    Verdict,
    in_its_group,
)
from coterie.pipeline.gold.watching import Committed, Owned, Sampled, Status, Watch
from coterie.pipeline.tables.group_status import GROUP_STATUS

COMMIT: Final = 1
OWNER: Final = 2
SAMPLE: Final = 3
_MINUTE_MS: Final = 60_000
_ROWS_A_BATCH: Final = 10_000

Place = tuple[str, int]
"""Topic and partition."""


class Event(NamedTuple):
    """An event as it crosses to Python, column by column."""

    group_id: str
    topic: str
    partition: int
    kind: int
    at_ms: int
    topic_id: str | None = None
    offset: int | None = None
    is_reset: bool | None = None
    member_id: str | None = None
    start: int | None = None
    end: int | None = None
    life: int | None = None
    previous_life_ms: int | None = None


def judged(rules: Rules, batches: Iterable[Any]) -> Iterator[Any]:
    """Rows of GROUP_STATUS."""
    group = _Group("", rules)
    rows: list[tuple[Any, ...]] = []
    for batch in batches:
        for event in map(Event, *(column.to_pylist() for column in batch.columns)):
            if event.group_id != group.group_id:
                rows += group.judged_until(None)
                group = _Group(event.group_id, rules)
            rows += group.judged_until(event.at_ms)
            group.see(event)
        if len(rows) >= _ROWS_A_BATCH:
            yield _batch(rows)
            rows = []
    rows += group.judged_until(None)
    yield _batch(rows)


class _Group:
    """A group as it goes by."""

    def __init__(self, group_id: str, rules: Rules) -> None:
        self.group_id = group_id
        self._rules = rules
        self._watches: dict[Place, Watch] = {}
        self._has_members = False
        self._due_ms: int | None = None
        """When the minute is over in which it was looked at."""

    def see(self, event: Event) -> None:
        """Something happened on one of its partitions."""
        place = (event.topic, event.partition)
        watch = self._watches.get(place)
        if watch is None:
            watch = self._watches[place] = Watch(self._rules)
        about = (event.at_ms, event.topic_id)
        if event.kind == COMMIT:
            watch.commit(Committed(event.offset, *about, bool(event.is_reset)))
        elif event.kind == OWNER:
            self._has_members = True
            watch.own(Owned(event.member_id, *about))
        else:
            watch.sample(_sampled(event))
            if self._due_ms is None:
                self._due_ms = (event.at_ms // _MINUTE_MS + 1) * _MINUTE_MS

    def judged_until(self, at_ms: int | None) -> list[tuple[Any, ...]]:
        """Rows for the minute that is over by then; None: nothing comes any more."""
        due_ms = self._due_ms
        if due_ms is None or (at_ms is not None and at_ms < due_ms):
            return []
        self._due_ms = None
        found = {
            place: status
            for place, watch in self._watches.items()
            if (status := watch.status(due_ms, has_members=self._has_members))
        }
        if not found:
            return []
        ours = (self.group_id, None, None, due_ms * 1_000, *_whole(found, self._rules))
        return [
            ours,
            *(
                (self.group_id, *place, due_ms * 1_000, *status)
                for place, status in found.items()
            ),
        ]


def _sampled(event: Event) -> Sampled:
    assert event.start is not None, "a sample says where a partition begins"
    assert event.end is not None, "a sample says where a partition ends"
    assert event.life is not None, "samples come by with_lives"
    return Sampled(
        event.start, event.end, event.topic_id, event.life, event.previous_life_ms
    )


def _whole(found: dict[Place, Status], rules: Rules) -> Status:
    """A group is as bad as its worst partition."""
    worst, (topic, partition) = max((_badness(each), at) for at, each in found.items())
    severity = worst[0]
    bad = sum(_badness(each)[0] > 0 for each in found.values())
    rule = "all partitions are OK"
    if bad:
        verdict = found[topic, partition].verdict.value
        rule = f"{verdict} on {topic}-{partition}; {bad} of {len(found)} are not OK"
    commits = sum(each.window_commits for each in found.values())
    lags = [each.lag for each in found.values() if each.lag is not None]
    return Status(
        GROUP_VERDICTS[severity],
        min(
            max(each.burrow_code for each in found.values()), BURROW_CODES[Verdict.ERR]
        ),
        rule,
        commits,
        commits / (len(found) * rules.intervals),
        sum(lags) if lags else None,
        None,
        None,
    )


def _badness(status: Status) -> tuple[int, int]:
    lag = -1 if status.lag is None else status.lag
    return GROUP_VERDICTS.index(in_its_group(status.verdict)), lag


def _batch(rows: list[tuple[Any, ...]]) -> Any:
    names = [column.name for column in GROUP_STATUS.columns]
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(names)
    arrays = [
        pa.array([each.value for each in values] if name == "verdict" else values, kind)
        for name, values, kind in zip(names, columns, _TYPES, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, names=names)


_TYPES: Final = tuple(column.type for column in GROUP_STATUS.columns)
