"""Evaluation of groups, minute by minute, in Spark's Python workers.

The input is Arrow batches of events, the output Arrow batches of group_status rows.
This module does not import Spark, so workers need not load it. The events of one group
are consecutive and in the order of time; batches may be cut anywhere. The state of a
partition is a window of its last commits and end offsets, as in Burrow.

A group is evaluated at the end of each minute with a sample of one of its partitions,
before any event at the start of the next minute is applied.

An evaluation may begin at the state of an earlier one. The states come before all
events, and the last samples before the beginning, which have `ends`, are not evaluated.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec
import pyarrow as pa

from coterie.pipeline.gold.plans import Plan
from coterie.pipeline.gold.settings import BurrowRules, GoldSettings
from coterie.pipeline.gold.verdict import (
    BURROW_CODES,
    GROUP_VERDICTS,
    Commit,
    PartitionState,
    Verdict,
    burrow_verdict,
    evaluate,
    group_effect,
    group_verdict,
)
from coterie.pipeline.tables.all_tables import GOLD

# Kinds of events.
WINDOW: Final = 0
COMMIT: Final = 1
OWNER: Final = 2
SAMPLE: Final = 3
# Kinds of rows in group_windows.
STATUS: Final = "status"
STATE: Final = "window"
_SCHEMA: Final = GOLD["group_windows"].declared.file_schema
_MINUTE_MS: Final = 60_000
_BATCH_ROWS: Final = 10_000
_NAMES: Final = ["kind", *GOLD["group_status"].declared.schema.names]
Partition: TypeAlias = tuple[str, int]
"""Topic and partition."""


class Event(NamedTuple):
    """An event on a partition, or its state before the events: one row of the input.

    A column that does not apply to the kind of event is None. The `offset` of a
    tombstone and the `member_id` of a partition without an owner are None, too.
    """

    group_id: str
    topic: str
    partition: int
    kind: int
    at_ms: int
    seq: int = 0
    """The order of commits and changes of owner at the same time."""
    topic_id: str | None = None
    offset: int | None = None
    commit_ms: int | None = None
    is_reset: bool | None = None
    member_id: str | None = None
    is_lower_bound: bool | None = None
    """Changes of owner only: the ownership may have begun earlier."""
    start: int = 0
    """Samples only, as the next four."""
    end: int = 0
    life: int | None = None
    previous_life_ms: int | None = None
    ends: list[int] | None = None
    """The last ends of this life up to the last sample before the beginning."""
    state: bytes | None = None
    """State only. Without a topic there is none: the group had members."""


class Status(NamedTuple):
    """The columns of group_status after its key."""

    verdict: Verdict
    burrow_code: int
    rule: str
    window_commits: int
    complete: float
    lag: int | None
    committed_offset: int | None
    log_end_offset: int | None


class PartitionWindow:
    """The last commits and end offsets of one partition, for one group."""

    def __init__(self, rules: BurrowRules) -> None:
        self._rules = rules
        self._commits: deque[Commit] = deque(maxlen=rules.intervals)
        self._ends: deque[int] = deque(maxlen=rules.intervals)
        self._last: Event | None = None
        """The last commit or tombstone of this life of the topic."""
        # The last ones of any life, and the last commit before the last sample.
        self._last_commit: Event | None = None
        self._last_owner: Event | None = None
        self._sampled: Event | None = None
        self._owner: Event | None = None
        self._sample: Event | None = None

    def add_commit(self, commit: Event) -> None:
        """Apply a commit or a tombstone."""
        self._last = self._last_commit = commit
        if commit.offset is None:
            self._commits.clear()
            return
        at_ms = commit.at_ms
        last = self._commits[-1] if self._commits else None
        if last is not None and at_ms - last.at_ms < self._rules.min_distance_ms:
            at_ms = last.at_ms
            self._commits.pop()
        lag = None if self._sample is None else max(0, self._ends[-1] - commit.offset)
        self._commits.append(Commit(commit.offset, at_ms, lag, bool(commit.is_reset)))

    def set_owner(self, owner: Event) -> None:
        last = self._last_owner
        if last is None or (owner.at_ms, owner.seq) >= (last.at_ms, last.seq):
            self._owner = self._last_owner = owner

    def add_sample(self, sample: Event) -> None:
        """Apply a sample. When the topic was created again, drop the commits and the
        owner of the earlier topic with that name."""
        if sample.ends is not None:
            self._sample, self._ends = sample, deque(sample.ends, self._rules.intervals)
            return
        if self._sample is not None and self._sample.life != sample.life:
            # Commits after the last sample of the deleted topic may be commits for the
            # new topic. They stay, without a lag: it was measured from the end of the
            # deleted topic.
            since_ms = sample.previous_life_ms
            kept = [
                commit._replace(lag=None)
                for commit in self._commits
                if since_ms is None or commit.at_ms > since_ms
            ]
            self._ends.clear()
            self._commits.clear()
            self._commits.extend(kept)
        self._sample = sample
        self._ends.append(sample.end)
        if self._last and not _is_about_same_topic(self._last, sample):
            self._last = None
            self._commits.clear()
        if self._owner and not _is_about_same_topic(self._owner, sample):
            self._owner = None
        self._sampled = self._last

    def state(self) -> dict[str, Any]:
        """Return the state before the next event, except for samples."""
        value = _State(
            list(self._commits),
            self._last_commit,
            self._last is None,
            self._last_owner,
            self._owner is None,
            self._sampled,
        )
        return {
            "state": msgspec.msgpack.encode(value),
            "last": _commit_row(self._last_commit),
            "sampled": _commit_row(self._sampled),
            "owner": _owner_row(self._last_owner),
        }

    def restore(self, encoded: bytes) -> None:
        """Continue from a state."""
        state = _State(*msgspec.msgpack.decode(encoded))
        self._commits.extend(Commit(*each) for each in state.commits)
        self._last_commit = state.last and Event(*state.last)
        self._last = None if state.is_last_over else self._last_commit
        self._last_owner = state.owner and Event(*state.owner)
        self._owner = None if state.is_owner_over else self._last_owner
        self._sampled = state.sampled and Event(*state.sampled)

    def status(self, now_ms: int, *, has_members: bool) -> Status | None:
        """Evaluate the partition; None without a sample, or without both a commit and
        an owner. `has_members` is true when the group ever had an owner."""
        owner, sample, last = self._owner, self._sample, self._last
        is_owned = owner is not None and owner.member_id is not None
        offset = None if last is None else last.offset
        if sample is None or (offset is None and not is_owned):
            return None
        # Before its first known commit, an owner from before a log gap may have had an
        # earlier one, which is missing.
        is_missing = last is None and owner is not None and owner.is_lower_bound
        next_offset = None if offset is None else max(offset, sample.start)
        lag = None if next_offset is None else max(0, sample.end - next_offset)
        state = PartitionState(
            now_ms,
            has_commit=None if is_missing else offset is not None,
            messages_lost=0 if offset is None else max(0, sample.start - offset),
            is_owned=is_owned if has_members else None,
        )
        window, ends, rules = list(self._commits), list(self._ends), self._rules
        evaluation = evaluate(window, lag, ends, state, rules)
        # Burrow ignores partitions without a commit: they count as OK. It measures lag
        # from the committed offset, even if that is below the log start offset.
        burrow = Verdict.OK
        if offset is not None:
            raw_lag = max(0, sample.end - offset)
            burrow = burrow_verdict(window, raw_lag, ends, now_ms, rules).verdict
        return Status(
            verdict=evaluation.verdict,
            burrow_code=BURROW_CODES[burrow],
            rule=evaluation.rule,
            window_commits=len(window),
            complete=len(window) / rules.intervals,
            lag=lag,
            committed_offset=offset,
            log_end_offset=sample.end,
        )


class _State(NamedTuple):
    """The encoded state of a partition."""

    commits: list[Commit]
    last: Event | None
    is_last_over: bool
    """It belongs to an earlier life of the topic."""
    owner: Event | None
    is_owner_over: bool
    sampled: Event | None


def _commit_row(commit: Event | None) -> dict[str, Any] | None:
    if commit is None:
        return None
    commit_ms = commit.at_ms if commit.commit_ms is None else commit.commit_ms
    return {
        "log_offset": commit.seq // 2,
        "at_ts": commit.at_ms * 1_000,
        "commit_ts": commit_ms * 1_000,
        "committed_offset": commit.offset,
        "topic_id": commit.topic_id,
        "is_reset": bool(commit.is_reset),
    }


def _owner_row(owner: Event | None) -> dict[str, Any] | None:
    if owner is None:
        return None
    return {
        "at_ts": owner.at_ms * 1_000,
        "seq": owner.seq,
        "topic_id": owner.topic_id,
        "member_id": owner.member_id,
        "is_lower_bound": owner.is_lower_bound,
    }


def _is_about_same_topic(event: Event, sample: Event) -> bool:
    if event.topic_id is not None and sample.topic_id is not None:
        return event.topic_id == sample.topic_id
    since_ms = sample.previous_life_ms
    return since_ms is None or event.at_ms > since_ms


def status_batches(
    settings: GoldSettings, plan: Plan, batches: Iterable[Any]
) -> Iterator[Any]:
    """Yield batches of group_windows rows from batches of events: rows of group_status,
    and states at the cuts."""
    rules = settings.burrow
    cuts_ms = [round(cut.timestamp() * 1_000) for cut in plan.cuts]
    group = _Group(None, rules, ())  # "" is the id of a group, too
    rows: list[tuple[Any, ...]] = []
    states: list[dict[str, Any]] = []
    for batch in batches:
        columns = batch.select([*Event._fields]).columns
        for event in map(Event, *(column.to_pylist() for column in columns)):
            if event.group_id != group.group_id:
                rows += group.rows_until(None)
                states += group.states_until(None)
                group = _Group(event.group_id, rules, cuts_ms)
            rows += group.rows_until(event.at_ms)
            states += group.states_until(event.at_ms)
            group.apply(event)
        if len(rows) + len(states) >= _BATCH_ROWS:
            yield from _batches(rows, states)
            rows, states = [], []
    rows += group.rows_until(None)
    states += group.states_until(None)
    yield from _batches(rows, states)


class _Group:
    """The state of the partitions of one group."""

    def __init__(
        self, group_id: str | None, rules: BurrowRules, cuts_ms: Iterable[int]
    ) -> None:
        self.group_id = group_id
        self._rules = rules
        self._cuts_ms = deque(cuts_ms)
        self._windows: dict[Partition, PartitionWindow] = {}
        self._has_members = False
        self._due_ms: int | None = None
        """End of the first minute with a sample since the last evaluation."""

    def apply(self, event: Event) -> None:
        if event.kind == WINDOW and event.state is None:
            self._has_members = True
            return
        partition = (event.topic, event.partition)
        window = self._windows.get(partition)
        if window is None:
            window = self._windows[partition] = PartitionWindow(self._rules)
        if event.kind == COMMIT:
            window.add_commit(event)
        elif event.kind == OWNER:
            self._has_members = True
            window.set_owner(event)
        elif event.kind == WINDOW:
            assert event.state is not None
            window.restore(event.state)
        else:
            window.add_sample(event)
            if self._due_ms is None and event.ends is None:
                self._due_ms = (event.at_ms // _MINUTE_MS + 1) * _MINUTE_MS

    def rows_until(self, at_ms: int | None) -> list[tuple[Any, ...]]:
        """Evaluate the group if a minute ended by this time. `at_ms` is None after the
        last event.
        """
        due_ms = self._due_ms
        if due_ms is None or (at_ms is not None and at_ms < due_ms):
            return []
        self._due_ms = None
        statuses = {
            partition: status
            for partition, window in self._windows.items()
            if (status := window.status(due_ms, has_members=self._has_members))
        }
        if not statuses:
            return []
        whole = _group_status(statuses, self._rules)
        return [
            (STATUS, self.group_id, *key, due_ms * 1_000, *status)
            for key, status in (((None, None), whole), *statuses.items())
        ]

    def states_until(self, at_ms: int | None) -> list[dict[str, Any]]:
        """Return the states at the cuts up to this time. `at_ms` is None after the last
        event.
        """
        rows = []
        while self._cuts_ms and (at_ms is None or self._cuts_ms[0] <= at_ms):
            cut = {
                "kind": STATE,
                "cut_ts": self._cuts_ms.popleft() * 1_000,
                "group_id": self.group_id,
            }
            if self._has_members:
                rows.append(cut)
            for (topic, number), window in self._windows.items():
                place = {"topic": topic, "partition": number}
                rows.append(cut | place | window.state())
        return rows


def _group_status(statuses: dict[Partition, Status], rules: BurrowRules) -> Status:
    """Return the verdict on a group: that of its partition with the worst verdict."""

    def badness(partition: Partition) -> tuple[int, int, Partition]:
        status = statuses[partition]
        lag = -1 if status.lag is None else status.lag
        severity = GROUP_VERDICTS.index(group_effect(status.verdict))
        return severity, lag, partition

    bad = sum(badness(partition)[0] > 0 for partition in statuses)
    rule = "all partitions are OK"
    if bad:
        topic, number = worst = max(statuses, key=badness)
        verdict = statuses[worst].verdict.value
        rule = (
            f"{verdict} on {topic}-{number};"
            f" {bad} of {len(statuses)} partitions are not OK"
        )
    commits = sum(status.window_commits for status in statuses.values())
    lags = [status.lag for status in statuses.values() if status.lag is not None]
    # As in Burrow, the code of a group is at most ERR, even if a partition has a higher
    # one.
    code = max(status.burrow_code for status in statuses.values())
    return Status(
        verdict=group_verdict(status.verdict for status in statuses.values()),
        burrow_code=min(code, BURROW_CODES[Verdict.ERR]),
        rule=rule,
        window_commits=commits,
        complete=commits / (len(statuses) * rules.intervals),
        lag=sum(lags) if lags else None,
        committed_offset=None,
        log_end_offset=None,
    )


def _batches(
    rows: list[tuple[Any, ...]], states: list[dict[str, Any]]
) -> Iterator[Any]:
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(_NAMES)
    values: dict[str, Any] = dict(zip(_NAMES, columns, strict=True))
    values["verdict"] = [each.value for each in values["verdict"]]
    arrays = [
        pa.array(values[each.name], each.type)
        if each.name in values
        else pa.nulls(len(rows), each.type)
        for each in _SCHEMA
    ]
    yield pa.RecordBatch.from_arrays(arrays, schema=_SCHEMA)
    yield pa.RecordBatch.from_pylist(states, schema=_SCHEMA)
