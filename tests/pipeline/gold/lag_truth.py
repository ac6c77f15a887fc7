"""True lag and verdicts, computed one by one from the truth of a generated log."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

from coterie.pipeline.gold.settings import BurrowRules
from coterie.pipeline.gold.verdict import Commit, PartitionState, evaluate
from tests.testing.log_generator.generated_log import read_truth as lines_of

Lines: TypeAlias = list[dict[str, Any]]
Partition: TypeAlias = tuple[str, str, int]
"""Group, topic, partition."""
_FILES: Final = ("commits", "deletions", "ends", "ownership", "topics")
_RATES: Final = (0.2, 1.0, 5.0, 20.0)
"""Records per second that the generator writes to a topic."""


class Event(NamedTuple):
    """A commit; without an offset, a tombstone."""

    at_ms: int
    log_offset: int
    offset: int | None
    topic_id: str | None
    actor: str | None


class Sample(NamedTuple):
    """The end of a partition, with the ID of its topic."""

    at_ms: int
    end: int
    topic_id: str


class Truth:
    """The events of each partition."""

    def __init__(
        self,
        commits: Lines,
        deletions: Lines,
        ends: Lines,
        owners: Lines,
        created_ms: dict[str, int],
    ) -> None:
        self.created_ms = created_ms
        self.events: dict[Partition, list[Event]] = defaultdict(list)
        for each in commits:
            self.events[_partition(each)].append(
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
                self.events[_partition(each)].append(event)
        for events in self.events.values():
            events.sort(key=lambda each: each.log_offset)
        self.samples: dict[tuple[str, int], list[Sample]] = defaultdict(list)
        for each in ends:
            sample = Sample(each["at_ms"], each["end_offset"], each["topic_id"])
            self.samples[each["topic"], each["partition"]].append(sample)
        self.owners: dict[Partition, Lines] = defaultdict(list)
        for each in owners:
            self.owners[_partition(each)].append(each)

    def last_commit(self, partition: Partition, sample: Sample) -> Event | None:
        """Return the last commit before a sample, if it is for the same topic ID."""
        before = [each for each in self.events[partition] if each.at_ms <= sample.at_ms]
        last = before[-1] if before else None
        if last is None or last.offset is None or last.topic_id != sample.topic_id:
            return None
        return last

    def owner(self, partition: Partition, at_ms: int, topic_id: str) -> str | None:
        """Return the member ID of the owner at a time."""
        for each in self.owners[partition]:
            is_over = each["to_ms"] is not None and each["to_ms"] <= at_ms
            is_this = each["topic_id"] == topic_id and each["from_ms"] <= at_ms
            if is_this and not is_over:
                return str(each["member_id"])
        return None

    def partitions(self) -> Iterator[tuple[Partition, list[Sample]]]:
        """Yield the partitions with a commit or an owner, and their samples."""
        for partition in sorted({*self.events, *self.owners}):
            yield partition, self.samples[partition[1:]]

    def verdict(
        self, partition: Partition, tick_ms: int
    ) -> tuple[str, int | None] | None:
        """Return the verdict and the lag at the end of a minute."""
        samples = [each for each in self.samples[partition[1:]] if each.at_ms < tick_ms]
        if not samples:
            return None
        now = samples[-1]
        mine = [each for each in samples if each.topic_id == now.topic_id]
        window: list[Commit] = []
        for each in self.events[partition]:
            if each.at_ms < tick_ms and each.offset is None:
                window = []
            elif each.at_ms < tick_ms and each.topic_id == now.topic_id:
                assert each.offset is not None
                lag = _lag_then(samples, each)
                is_reset = each.actor == "admin"
                window.append(Commit(each.offset, each.at_ms, lag, is_reset))
        owner = self.owner(partition, tick_ms - 1, now.topic_id)
        if not window and owner is None:
            return None
        lag = max(0, now.end - window[-1].offset) if window else None
        is_owned = (
            owner is not None if self._had_members(partition[0], tick_ms) else None
        )
        state = PartitionState(tick_ms, bool(window), 0, is_owned)
        ends = [each.end for each in mine[-10:]]
        return evaluate(
            window[-10:], lag, ends, state, BurrowRules()
        ).verdict.value, lag

    def _had_members(self, group_id: str, tick_ms: int) -> bool:
        return any(
            each["from_ms"] < tick_ms
            for partition, lines in self.owners.items()
            if partition[0] == group_id
            for each in lines
        )

    def is_first(self, partition: Partition, sample: Sample) -> bool:
        """Return whether this is the first sample of its topic ID."""
        mine = [
            each for each in self.samples[partition[1:]] if each[2] == sample.topic_id
        ]
        return mine[0] == sample

    def written_ms(self, partition: Partition, sample: Sample, offset: int) -> float:
        """Return when a record was produced, to a second: topics grow evenly."""
        mine = [
            each for each in self.samples[partition[1:]] if each[2] == sample.topic_id
        ]
        created_ms = self.created_ms[sample.topic_id]
        last, share = mine[-1], 1 - partition[2] / 100
        seconds = (last.at_ms - created_ms) / 1000
        rate = min(_RATES, key=lambda each: abs(each * share * seconds - last.end))
        return created_ms + (offset + 1) / (rate * share) * 1000


def truth_of(folder: Path, until_ms: int | None = None) -> Truth:
    """Return the truth of a log, up to a time."""
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
    """Return the time in ms from which the state of a group is unknown, because of an
    open transaction in its log partition."""
    open_ms: dict[int, int] = {}
    for each in lines_of(folder, "commits"):
        if each["outcome"] == "open":
            open_ms.setdefault(each["log_partition"], each["commit_ms"])
    return {
        each["group_id"]: open_ms.get(each["log_partition"], 2**62)
        for each in lines_of(folder, "groups")
    }


def check_lag(rows: Lines, truth: Truth, unknown: dict[str, int]) -> None:
    """Check the rows of lag_history."""
    found = {(*_partition(row), _ms(row["sample_ts"])): row for row in rows}
    known = 0
    for partition, samples in truth.partitions():
        for sample in samples:
            if sample.at_ms >= unknown[partition[0]]:
                continue
            row = found.get((*partition, sample.at_ms))
            commit = truth.last_commit(partition, sample)
            owner = truth.owner(partition, sample.at_ms, sample.topic_id)
            if commit is None and owner is None:
                assert row is None, (partition, sample, row)
                continue
            assert row is not None, (partition, sample, commit, owner)
            assert row["owner_member_id"] == owner, (partition, sample)
            assert row["committed_offset"] == (commit and commit.offset), (
                partition,
                sample,
            )
            known += 1
            if commit is not None:
                _check_time_lag(row, truth, partition, sample)
    assert known > 1_000


def _check_time_lag(
    row: dict[str, Any], truth: Truth, partition: Partition, sample: Sample
) -> None:
    offset = row["committed_offset"]
    assert row["lag"] == max(0, sample.end - offset), (partition, sample)
    if row["time_lag_method"] == "interpolated":
        true_ms = sample.at_ms - truth.written_ms(partition, sample, offset)
        off_ms = abs(row["time_lag_ms"] - true_ms)
        assert off_ms <= row["time_lag_error_ms"] + 1_000, (partition, sample, off_ms)
    else:
        assert row["lag"] == 0 or truth.is_first(partition, sample), (partition, sample)


def check_status(rows: Lines, truth: Truth, unknown: dict[str, int]) -> None:
    """Check the rows of group_status, every third minute."""
    found = {
        (*_partition(row), _ms(row["window_end_ts"])): row
        for row in rows
        if row["topic"] is not None
    }
    ticks: dict[str, set[int]] = defaultdict(set)
    for partition, samples in truth.partitions():
        ticks[partition[0]] |= {(each.at_ms // 60_000 + 1) * 60_000 for each in samples}
    verdicts = set()
    for partition, _ in truth.partitions():
        for tick_ms in sorted(ticks[partition[0]])[::3]:
            if tick_ms < unknown[partition[0]]:
                row = found.get((*partition, tick_ms))
                actual = None if row is None else (row["verdict"], row["lag"])
                assert actual == truth.verdict(partition, tick_ms), (partition, tick_ms)
                verdicts.add(actual and actual[0])
    assert {"OK", "STOP", "NO_OWNER"} <= verdicts


def _is_by(at_ms: int, until_ms: int | None) -> bool:
    return until_ms is None or at_ms <= until_ms


def _ms(at: datetime) -> int:
    return round(at.timestamp() * 1000)


def _partition(line: dict[str, Any]) -> Partition:
    return line["group_id"], line["topic"], line["partition"]


def _lag_then(samples: list[Sample], commit: Event) -> int | None:
    before = [each for each in samples if each.at_ms < commit.at_ms]
    if not before or before[-1].topic_id != commit.topic_id:
        return None
    assert commit.offset is not None
    return max(0, before[-1].end - commit.offset)
