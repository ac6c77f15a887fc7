"""Verdicts on one partition of a group: Burrow's rules, and rules of our own.

`burrow_verdict` is LinkedIn Burrow's evaluation, rule by rule, over the last commits of
a partition and its last known ends. It uses no lag threshold: a group that commits and
catches up is OK with any lag.

`evaluate` first checks conditions that only the coordinator's log shows: records
deleted before they were read, lag without an owner, and offsets reset by an operator.
It also does not report STOP when no record was written since the last commit, the most
frequent false alarm of Burrow on topics with little traffic. With lag and too few
commits, it reports TOO_NEW: a single commit spans no time, so that Burrow reports STOP
a second later.

Times are arguments, so that any past minute can be evaluated.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum
from itertools import pairwise
from typing import Final, NamedTuple

from coterie.pipeline.gold.settings import BurrowRules


class Verdict(Enum):
    """The state of a partition of a group. A whole group is OK, WARN or ERR."""

    OK = "OK"
    WARN = "WARN"
    """The group commits, but falls behind."""
    ERR = "ERR"
    """Whole groups only: at least one partition has a problem."""
    STOP = "STOP"
    """The group no longer commits."""
    STALL = "STALL"
    """The group commits the same offset repeatedly."""
    REWIND = "REWIND"
    """The group committed a lower offset and has not caught up since."""
    NO_COMMIT = "NO_COMMIT"
    """The partition has an owner, but no committed offset."""
    UNKNOWN = "UNKNOWN"
    """The same after a log gap, which may have held a commit."""
    TOO_NEW = "TOO_NEW"
    """There is lag, and there are too few commits for a verdict."""
    NO_OWNER = "NO_OWNER"
    """There are records to read, but no member owns the partition."""
    LOSING_DATA = "LOSING_DATA"
    """Records were deleted before the group read them."""
    RESET = "RESET"
    """An operator set a lower offset while the group had no members."""


BURROW_CODES: Final = {
    Verdict.OK: 1,
    Verdict.WARN: 2,
    Verdict.ERR: 3,
    Verdict.STOP: 4,
    Verdict.STALL: 5,
    Verdict.REWIND: 6,
}
"""Burrow's status codes; it has none for our own verdicts."""

GROUP_VERDICTS: Final = (Verdict.OK, Verdict.WARN, Verdict.ERR)
"""Verdicts on whole groups, from best to worst."""

# The first entries are Burrow's statuses. A RESET is intentional; NO_COMMIT and TOO_NEW
# are normal for a new group: none needs action. NO_OWNER is only a warning, as it is
# usual while a job is not running. Lost data is an error: it cannot be repaired later.
_GROUP_EFFECTS: Final = {
    Verdict.OK: Verdict.OK,
    Verdict.WARN: Verdict.WARN,
    Verdict.STOP: Verdict.ERR,
    Verdict.STALL: Verdict.ERR,
    Verdict.REWIND: Verdict.ERR,
    Verdict.NO_COMMIT: Verdict.OK,
    Verdict.UNKNOWN: Verdict.OK,
    Verdict.TOO_NEW: Verdict.OK,
    Verdict.RESET: Verdict.OK,
    Verdict.NO_OWNER: Verdict.WARN,
    Verdict.LOSING_DATA: Verdict.ERR,
}


class Commit(NamedTuple):
    """A commit in the window."""

    offset: int
    at_ms: int
    lag: int | None
    """Lag behind the last known end before the commit; None when none was known."""
    is_reset: bool = False
    """True when an operator made it: the group had no members."""


class Evaluation(NamedTuple):
    """A verdict, and a description of the rule that led to it."""

    verdict: Verdict
    rule: str


class PartitionState(NamedTuple):
    """The state of a partition at the time of the evaluation, without its window of
    commits.
    """

    now_ms: int
    has_commit: bool | None
    """None when it is unknown: a commit may have been removed from the log."""
    messages_lost: int = 0
    is_owned: bool | None = None
    """None when it is unknown, or the group never had members (K-07a)."""


def burrow_verdict(
    window: Sequence[Commit],
    lag: int,
    ends: Sequence[int],
    now_ms: int,
    rules: BurrowRules,
) -> Evaluation:
    """Evaluate a partition as Burrow does: the first matching rule decides.

    The window and the ends are in the order of time. `lag` is the lag at `now_ms`, 0 or
    more.
    """
    if not window or len(window) / rules.intervals < rules.minimum_complete:
        return Evaluation(Verdict.OK, "too few commits")
    if lag <= rules.allowed_lag:
        return Evaluation(Verdict.OK, "the lag is within the allowed lag")
    # Burrow's clock has a resolution of one second.
    first_ms, last_ms = window[0].at_ms, window[-1].at_ms
    is_silent = now_ms // 1000 * 1000 - last_ms > last_ms - first_ms
    if is_silent and all(end > window[-1].offset for end in ends):
        return Evaluation(
            Verdict.STOP,
            "no commit for longer than the window spans, and the lag was never 0",
        )
    drop = _first_drop(window)
    if drop and all(each.offset < window[drop - 1].offset for each in window[drop:]):
        return Evaluation(
            Verdict.REWIND, "committed a lower offset and has not caught up since"
        )
    lags = [commit.lag for commit in window if commit.lag is not None]
    if all(lag > rules.allowed_lag for lag in lags):
        if len({commit.offset for commit in window}) == 1:
            return Evaluation(
                Verdict.STALL, "behind, and every commit has the same offset"
            )
        if all(after >= before for before, after in pairwise(lags)):
            return Evaluation(Verdict.WARN, "commits, but the lag never shrank")
    return Evaluation(Verdict.OK, "the lag shrank, or was within the allowed lag")


def evaluate(
    window: Sequence[Commit],
    lag: int | None,
    ends: Sequence[int],
    state: PartitionState,
    rules: BurrowRules,
) -> Evaluation:
    """Evaluate a partition by our rules, then Burrow's. `lag` is None without a
    committed offset or a known end."""
    if state.has_commit is None:
        return Evaluation(
            Verdict.UNKNOWN, "a commit may have been removed from the log"
        )
    if not state.has_commit:
        return Evaluation(Verdict.NO_COMMIT, "owned, but no offset is committed")
    if state.messages_lost > 0:
        return Evaluation(
            Verdict.LOSING_DATA, "records were deleted before they were read"
        )
    if lag is None:
        return Evaluation(Verdict.OK, "the end of the partition is unknown")
    if lag > rules.allowed_lag and state.is_owned is False:
        return Evaluation(
            Verdict.NO_OWNER, "there is lag, and no member owns the partition"
        )
    return _window_verdict(window, lag, ends, state.now_ms, rules)


def _window_verdict(
    window: Sequence[Commit],
    lag: int,
    ends: Sequence[int],
    now_ms: int,
    rules: BurrowRules,
) -> Evaluation:
    """Evaluate a partition by Burrow's rules, without its false alarms."""
    if lag > rules.allowed_lag and len(window) < rules.least_commits:
        if len(window) == 1 and not _was_written_since(window, ends):
            return Evaluation(Verdict.OK, "no record was written since the last commit")
        return Evaluation(
            Verdict.TOO_NEW, "there is lag, and there are few commits yet"
        )
    evaluation = burrow_verdict(window, lag, ends, now_ms, rules)
    if evaluation.verdict is Verdict.STOP and not _was_written_since(window, ends):
        # Nothing was written since the last commit, so there was nothing to commit. The
        # verdict at that commit is still valid.
        evaluation = burrow_verdict(window, lag, ends, window[-1].at_ms, rules)
        if evaluation.verdict is Verdict.OK:
            return Evaluation(Verdict.OK, "no record was written since the last commit")
    if evaluation.verdict is Verdict.REWIND and window[_first_drop(window)].is_reset:
        return Evaluation(Verdict.RESET, "an operator reset the offset")
    return evaluation


def group_effect(verdict: Verdict) -> Verdict:
    """Return the verdict on a group whose only partition has this verdict."""
    return _GROUP_EFFECTS[verdict]


def group_verdict(verdicts: Iterable[Verdict]) -> Verdict:
    """Return the verdict on a group, by its partition with the worst verdict: OK, WARN
    or ERR.
    """
    effects = map(group_effect, verdicts)
    return max(effects, key=GROUP_VERDICTS.index, default=Verdict.OK)


def _first_drop(window: Sequence[Commit]) -> int:
    """Return the index of the first commit with a lower offset than the previous
    commit; 0 if there is none. Burrow ignores further decreases.
    """
    for index, (before, after) in enumerate(pairwise(window), 1):
        if after.offset < before.offset:
            return index
    return 0


def _was_written_since(window: Sequence[Commit], ends: Sequence[int]) -> bool:
    """Return whether records were written since the last commit; True when unknown."""
    last = window[-1]
    return last.lag is None or not ends or ends[-1] > last.offset + last.lag
