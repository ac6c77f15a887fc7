"""Watches a partition of a group go by: what Burrow would remember of it at any time.

Events come in the order of time (`partition_events`), as they happened; `status` tells
how things are then. No Spark: it is a plain state machine over rows.
"""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple

from coterie.pipeline.gold.verdict import (
    BURROW_CODES,
    Around,
    Commit,
    Rules,
    Verdict,
    burrow,
    judge,
)

_NOT_IN_BURROW: Final = BURROW_CODES[Verdict.OK]
"""Burrow does not know partitions without a commit, or calls them OK."""


class Committed(NamedTuple):
    """An offset was committed; None: taken away."""

    offset: int | None
    at_ms: int
    topic_id: str | None = None
    is_reset: bool = False


class Owned(NamedTuple):
    """The partition has another owner."""

    member_id: str | None
    at_ms: int
    topic_id: str | None = None


class Sampled(NamedTuple):
    """Somebody looked at where it begins and ends."""

    start: int
    end: int
    topic_id: str | None
    life: int
    previous_life_ms: int | None


class Status(NamedTuple):
    """How it is at a time."""

    verdict: Verdict
    burrow_code: int
    rule: str
    window_commits: int
    complete: float
    lag: int | None
    committed_offset: int | None
    log_end_offset: int | None


class Watch:
    """One partition of one group."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._commits: deque[Commit] = deque(maxlen=rules.intervals)
        self._ends: deque[int] = deque(maxlen=rules.intervals)
        self._held: Committed | None = None
        self._owner: Owned | None = None
        self._sample: Sampled | None = None

    def commit(self, commit: Committed) -> None:
        """It was committed."""
        if commit.offset is None:
            self._forget_commits()
            return
        self._held = commit
        at_ms = commit.at_ms
        last = self._commits[-1] if self._commits else None
        if last is not None and at_ms - last.at_ms < self._rules.min_distance_ms:
            at_ms = last.at_ms
            self._commits.pop()
        lag = None if self._sample is None else max(0, self._ends[-1] - commit.offset)
        self._commits.append(Commit(commit.offset, at_ms, lag, commit.is_reset))

    def own(self, owned: Owned) -> None:
        """It has another owner."""
        self._owner = owned

    def sample(self, sample: Sampled) -> None:
        """It was looked at. What is about another topic of that name is forgotten."""
        if self._sample is not None and self._sample.life != sample.life:
            self._begin_anew(sample.previous_life_ms)
        self._sample = sample
        self._ends.append(sample.end)
        if self._held is not None and not _is_about(self._held, sample):
            self._forget_commits()
        if self._owner is not None and not _is_about(self._owner, sample):
            self._owner = None

    def status(self, now_ms: int, *, has_members: bool) -> Status | None:
        """How it is; None when the group has nothing to do with it, or nobody ever
        looked. `has_members`: somebody owned something in the group before."""
        is_owned = self._owner is not None and self._owner.member_id is not None
        sample, held = self._sample, self._held
        if sample is None or (held is None and not is_owned):
            return None
        offset = None if held is None else held.offset
        next_offset = None if offset is None else max(offset, sample.start)
        lag = None if next_offset is None else max(0, sample.end - next_offset)
        lost = 0 if offset is None else max(0, sample.start - offset)
        around = Around(
            now_ms, offset is not None, lost, is_owned if has_members else None
        )
        window, ends = list(self._commits), list(self._ends)
        found = judge(window, lag, ends, around, self._rules)
        code = _NOT_IN_BURROW
        if offset is not None:
            theirs = burrow(
                window, max(0, sample.end - offset), ends, now_ms, self._rules
            )
            code = BURROW_CODES[theirs.verdict]
        complete = len(window) / self._rules.intervals
        about = (len(window), complete, lag, offset, sample.end)
        return Status(found.verdict, code, found.rule, *about)

    def _begin_anew(self, previous_life_ms: int | None) -> None:
        """The topic is another one. Commits since the old one was last seen stay, but
        the lag that they were noted with was none."""
        self._ends.clear()
        kept = [
            each._replace(lag=None)
            for each in self._commits
            if previous_life_ms is None or each.at_ms > previous_life_ms
        ]
        self._commits.clear()
        self._commits.extend(kept)

    def _forget_commits(self) -> None:
        self._held = None
        self._commits.clear()


def _is_about(what: Committed | Owned, sample: Sampled) -> bool:
    if what.topic_id is not None and sample.topic_id is not None:
        return what.topic_id == sample.topic_id
    since_ms = sample.previous_life_ms
    return since_ms is None or what.at_ms > since_ms
