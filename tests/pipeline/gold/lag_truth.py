"""How far behind groups truly were, by counting: from a generated log's truth, without
Spark, window or watch."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

from coterie.pipeline.gold.verdict import Around, Commit, Rules, judge
from tests.pipeline.generator.reading import truth_of as lines_of

Lines: TypeAlias = list[dict[str, Any]]
Place: TypeAlias = tuple[str, str, int]
"""Group, topic, partition."""
_FILES: Final = ("commits", "deletions", "ends", "ownership", "topics")
_RATES: Final = (0.2, 1.0, 5.0, 20.0)
"""How many records a second the generator writes to a topic."""


class Event(NamedTuple):
    """A commit, or a tombstone without an offset."""

    at_ms: int
    log_offset: int
    offset: int | None
    topic_id: str | None
    actor: str | None


class Sample(NamedTuple):
    """Where a partition of one life of a topic ended."""

    at_ms: int
    end: int
    topic_id: str


class Truth:
    """What happened, by place."""

    def __init__(
        self,
        commits: Lines,
        deletions: Lines,
        ends: Lines,
        owners: Lines,
        created_ms: dict[str, int],
    ) -> None:
        self.created_ms = created_ms
        self.events: dict[Place, list[Event]] = defaultdict(list)
        for each in commits:
            self.events[_place(each)].append(
                Event(
                    each["commit_ms"],
                    each["log_offset"],
                    each["offset"],
                    each["topic_id"],
                    each["actor"],
                )
            )
        for each in deletions:
            if each["topic"] is not None:
                event = Event(each["at_ms"], each["log_offset"], None, None, None)
                self.events[_place(each)].append(event)
        for events in self.events.values():
            events.sort(key=lambda each: each.log_offset)
        self.samples: dict[tuple[str, int], list[Sample]] = defaultdict(list)
        for each in ends:
            sample = Sample(each["at_ms"], each["end_offset"], each["topic_id"])
            self.samples[each["topic"], each["partition"]].append(sample)
        self.owners: dict[Place, Lines] = defaultdict(list)
        for each in owners:
            self.owners[_place(each)].append(each)

    def held(self, place: Place, sample: Sample) -> Event | None:
        """The commit that holds at a sample, for that very topic."""
        before = [each for each in self.events[place] if each.at_ms <= sample.at_ms]
        last = before[-1] if before else None
        if last is None or last.offset is None or last.topic_id != sample.topic_id:
            return None
        return last

    def owner(self, place: Place, at_ms: int, topic_id: str) -> str | None:
        """Who owned it then."""
        for each in self.owners[place]:
            is_over = each["to_ms"] is not None and each["to_ms"] <= at_ms
            is_this = each["topic_id"] == topic_id and each["from_ms"] <= at_ms
            if is_this and not is_over:
                return str(each["member_id"])
        return None

    def places(self) -> Iterator[tuple[Place, list[Sample]]]:
        """What groups had to do with, and its samples."""
        for place in sorted({*self.events, *self.owners}):
            yield place, self.samples[place[1:]]

    def verdict(self, place: Place, tick_ms: int) -> tuple[str, int | None] | None:
        """The verdict at the end of a minute, and the lag."""
        samples = [each for each in self.samples[place[1:]] if each.at_ms < tick_ms]
        if not samples:
            return None
        now = samples[-1]
        mine = [each for each in samples if each.topic_id == now.topic_id]
        window: list[Commit] = []
        for each in self.events[place]:
            if each.at_ms < tick_ms and each.offset is None:
                window = []
            elif each.at_ms < tick_ms and each.topic_id == now.topic_id:
                assert each.offset is not None
                lag = _lag_then(samples, each)
                is_reset = each.actor == "admin"
                window.append(Commit(each.offset, each.at_ms, lag, is_reset))
        owner = self.owner(place, tick_ms - 1, now.topic_id)
        if not window and owner is None:
            return None
        lag = max(0, now.end - window[-1].offset) if window else None
        is_owned = owner is not None if self._had_members(place[0], tick_ms) else None
        around = Around(tick_ms, bool(window), 0, is_owned)
        ends = [each.end for each in mine[-10:]]
        return judge(window[-10:], lag, ends, around, Rules()).verdict.value, lag

    def _had_members(self, group_id: str, tick_ms: int) -> bool:
        return any(
            each["from_ms"] < tick_ms
            for place, lines in self.owners.items()
            if place[0] == group_id
            for each in lines
        )

    def is_first(self, place: Place, sample: Sample) -> bool:
        """Whether this life of the topic was not looked at before."""
        mine = [each for each in self.samples[place[1:]] if each[2] == sample.topic_id]
        return mine[0] == sample

    def written_ms(self, place: Place, sample: Sample, offset: int) -> float:
        """When a record was truly written, to a second: topics grow steadily."""
        mine = [each for each in self.samples[place[1:]] if each[2] == sample.topic_id]
        created_ms = self.created_ms[sample.topic_id]
        last, share = mine[-1], 1 - place[2] / 100
        seconds = (last.at_ms - created_ms) / 1000
        rate = min(_RATES, key=lambda each: abs(each * share * seconds - last.end))
        return created_ms + (offset + 1) / (rate * share) * 1000


def truth_of(folder: Path, until_ms: int | None = None) -> Truth:
    """The truth beside a log; of the time up to then."""
    read = {name: lines_of(folder, name) for name in _FILES}
    counts = {"plain", "committed"}
    commits = [each for each in read["commits"] if each["outcome"] in counts]
    return Truth(
        [each for each in commits if _is_by(each["commit_ms"], until_ms)],
        [each for each in read["deletions"] if _is_by(each["at_ms"], until_ms)],
        [each for each in read["ends"] if _is_by(each["at_ms"], until_ms)],
        read["ownership"],
        {each["topic_id"]: each["created_ms"] for each in read["topics"]},
    )


def unknown_from(folder: Path) -> dict[str, int]:
    """Since when nothing is known of a group, as its log partition is held back by an
    open transaction, in ms."""
    held: dict[int, int] = {}
    for each in lines_of(folder, "commits"):
        if each["outcome"] == "open":
            held.setdefault(each["log_partition"], each["commit_ms"])
    return {
        each["group_id"]: held.get(each["log_partition"], 2**62)
        for each in lines_of(folder, "groups")
    }


def check_lag(rows: Lines, truth: Truth, unknown: dict[str, int]) -> None:
    """Rows of lag_history are what is true."""
    found = {(*_place(row), _ms(row["sample_ts"])): row for row in rows}
    known = 0
    for place, samples in truth.places():
        for sample in samples:
            if sample.at_ms >= unknown[place[0]]:
                continue
            row = found.get((*place, sample.at_ms))
            held = truth.held(place, sample)
            owner = truth.owner(place, sample.at_ms, sample.topic_id)
            if held is None and owner is None:
                assert row is None, (place, sample, row)
                continue
            assert row is not None, (place, sample, held, owner)
            assert row["owner_member_id"] == owner, (place, sample)
            assert row["committed_offset"] == (held and held.offset), (place, sample)
            known += 1
            if held is not None:
                _check_time_lag(row, truth, place, sample)
    assert known > 1_000


def _check_time_lag(
    row: dict[str, Any], truth: Truth, place: Place, sample: Sample
) -> None:
    offset = row["committed_offset"]
    assert row["lag"] == max(0, sample.end - offset), (place, sample)
    if row["time_lag_method"] == "interpolated":
        true_ms = sample.at_ms - truth.written_ms(place, sample, offset)
        off_ms = abs(row["time_lag_ms"] - true_ms)
        assert off_ms <= row["time_lag_error_ms"] + 1_000, (place, sample, off_ms)
    else:
        assert row["lag"] == 0 or truth.is_first(place, sample), (place, sample)


def check_status(rows: Lines, truth: Truth, unknown: dict[str, int]) -> None:
    """Rows of group_status are what is true; of the time, each third minute."""
    found = {
        (*_place(row), _ms(row["window_end_ts"])): row
        for row in rows
        if row["topic"] is not None
    }
    ticks: dict[str, set[int]] = defaultdict(set)
    for place, samples in truth.places():
        ticks[place[0]] |= {(each.at_ms // 60_000 + 1) * 60_000 for each in samples}
    verdicts = set()
    for place, _ in truth.places():
        for tick_ms in sorted(ticks[place[0]])[::3]:
            if tick_ms < unknown[place[0]]:
                row = found.get((*place, tick_ms))
                said = None if row is None else (row["verdict"], row["lag"])
                assert said == truth.verdict(place, tick_ms), (place, tick_ms)
                verdicts.add(said and said[0])
    assert {"OK", "STOP", "NO_OWNER"} <= verdicts


def _is_by(at_ms: int, until_ms: int | None) -> bool:
    return until_ms is None or at_ms <= until_ms


def _ms(at: datetime) -> int:
    return round(at.timestamp() * 1000)


def _place(line: dict[str, Any]) -> Place:
    return line["group_id"], line["topic"], line["partition"]


def _lag_then(samples: list[Sample], commit: Event) -> int | None:
    before = [each for each in samples if each.at_ms < commit.at_ms]
    if not before or before[-1].topic_id != commit.topic_id:
        return None
    assert commit.offset is not None
    return max(0, before[-1].end - commit.offset)
