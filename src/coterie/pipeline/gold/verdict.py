"""Is a group in trouble on a partition? Burrow's rules, and what we know besides.

`burrow` is LinkedIn Burrow's evaluation, rule by rule, over the last commits of a
partition and the ends that were last seen of it (peer-tools c.3). It knows no
thresholds: a group that commits and gets nearer is well, however far behind it is.

`judge` asks first what the log of a coordinator tells and Burrow does not see: records
that were deleted unread, lag that nobody is there to work off, offsets that an operator
set back. And it does not call a group stopped when nothing was written since its last
commit, which on quiet topics is Burrow's most frequent false alarm.

Times come by argument, so that any past minute can be judged.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise
from typing import Final, NamedTuple


class Verdict(Enum):
    """How a partition of a group is, or a whole group (OK, WARN, ERR)."""

    OK = "OK"
    WARN = "WARN"
    """It commits, and falls behind."""
    ERR = "ERR"
    """Of a group: it has a partition in trouble."""
    STOP = "STOP"
    """It does not commit any more."""
    STALL = "STALL"
    """It commits the same offset again and again."""
    REWIND = "REWIND"
    """It went back to a lower offset, and has not made up for it."""
    NO_COMMIT = "NO_COMMIT"
    """Somebody owns the partition, and nothing is committed for it."""
    NO_OWNER = "NO_OWNER"
    """There are records to read and nobody is assigned to read them."""
    LOSING_DATA = "LOSING_DATA"
    """Records were deleted before it read them."""
    RESET = "RESET"
    """It went back because somebody set its offset while it had no members."""


BURROW_CODES: Final = {
    Verdict.OK: 1,
    Verdict.WARN: 2,
    Verdict.ERR: 3,
    Verdict.STOP: 4,
    Verdict.STALL: 5,
    Verdict.REWIND: 6,
}
"""Burrow's numbers; it has none for our own verdicts."""

_IN_ITS_GROUP: Final = {
    Verdict.OK: Verdict.OK,
    Verdict.NO_COMMIT: Verdict.OK,
    Verdict.RESET: Verdict.OK,
    Verdict.WARN: Verdict.WARN,
    Verdict.NO_OWNER: Verdict.WARN,
    Verdict.STOP: Verdict.ERR,
    Verdict.STALL: Verdict.ERR,
    Verdict.REWIND: Verdict.ERR,
    Verdict.LOSING_DATA: Verdict.ERR,
}
GROUP_VERDICTS: Final = (Verdict.OK, Verdict.WARN, Verdict.ERR)
"""What a group can be, from best to worst."""


class Commit(NamedTuple):
    """A commit of the window."""

    offset: int
    at_ms: int
    lag: int | None
    """Behind the end that was last seen before it; None when none was."""
    is_reset: bool = False
    """An operator made it: the group had no members."""


class Judgement(NamedTuple):
    """A verdict and the rule that gave it, in words."""

    verdict: Verdict
    rule: str


@dataclass(frozen=True, slots=True)
class Rules:
    """Burrow's settings, with its defaults."""

    intervals: int = 10
    """How many commits and ends are remembered."""
    min_distance_ms: int = 0
    """A commit that is closer to the one before takes its place."""
    allowed_lag: int = 0
    minimum_complete: float = 0.0
    """How much of the window must be filled before anything but OK is said, 0 to 1."""


class Around(NamedTuple):
    """What else is known of the partition at that time."""

    now_ms: int
    has_commit: bool
    messages_lost: int = 0
    is_owned: bool | None = None
    """None: it is not known, or the group never has members (K-07)."""


def burrow(
    window: Sequence[Commit],
    lag: int,
    ends: Sequence[int],
    now_ms: int,
    rules: Rules,
) -> Judgement:
    """What Burrow says: the first rule that fits. The window and the ends are in the
    order of time; `lag` is the one at `now_ms`, 0 or more."""
    if not window or len(window) / rules.intervals < rules.minimum_complete:
        return Judgement(Verdict.OK, "too few commits to tell")
    if lag <= rules.allowed_lag:
        return Judgement(Verdict.OK, "no more lag than allowed")
    if _is_silent(window, now_ms) and not _was_at_end(window, ends):
        return Judgement(
            Verdict.STOP, "no commit for longer than the window spans, and never at end"
        )
    drop = _first_drop(window)
    if drop and not _is_made_up_for(window, drop):
        return Judgement(Verdict.REWIND, "went back and did not come as far again")
    lags = [each.lag for each in window if each.lag is not None]
    if all(each > rules.allowed_lag for each in lags):
        if len({each.offset for each in window}) == 1:
            return Judgement(Verdict.STALL, "behind, and every commit is the same")
        if all(after >= before for before, after in pairwise(lags)):
            return Judgement(Verdict.WARN, "commits, but its lag never shrank")
    return Judgement(Verdict.OK, "it gets nearer, or was there")


def judge(
    window: Sequence[Commit],
    lag: int | None,
    ends: Sequence[int],
    around: Around,
    rules: Rules,
) -> Judgement:
    """What we say. `lag` is None when nothing is committed or no end is known."""
    if not around.has_commit:
        return Judgement(Verdict.NO_COMMIT, "owned, and nothing is committed")
    if around.messages_lost > 0:
        return Judgement(
            Verdict.LOSING_DATA, "records were deleted before they were read"
        )
    if lag is None:
        return Judgement(Verdict.OK, "no end of the partition is known")
    if lag > rules.allowed_lag and around.is_owned is False:
        return Judgement(Verdict.NO_OWNER, "there is lag, and nobody owns it")
    found = burrow(window, lag, ends, around.now_ms, rules)
    if found.verdict is Verdict.STOP and not _has_grown(window, ends):
        found = _while_quiet(window, lag, ends, rules)
    if found.verdict is Verdict.REWIND and window[_first_drop(window)].is_reset:
        return Judgement(Verdict.RESET, "an operator set it back")
    return found


def _while_quiet(
    window: Sequence[Commit], lag: int, ends: Sequence[int], rules: Rules
) -> Judgement:
    """Nothing was written since the last commit, so there was nothing to commit. What
    was true then still is; one commit alone says nothing of it."""
    then = burrow(window, lag, ends, window[-1].at_ms, rules)
    if len(window) > 1 and then.verdict is not Verdict.OK:
        return then
    return Judgement(Verdict.OK, "nothing was written since its last commit")


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """How a group is whose partitions are so: OK, WARN or ERR."""
    found = (in_its_group(each) for each in verdicts)
    return max(found, key=GROUP_VERDICTS.index, default=Verdict.OK)


def in_its_group(verdict: Verdict) -> Verdict:
    """What a partition's verdict makes of its group."""
    return _IN_ITS_GROUP[verdict]


def _is_silent(window: Sequence[Commit], now_ms: int) -> bool:
    """Burrow's clock goes by whole seconds."""
    first_ms, last_ms = window[0].at_ms, window[-1].at_ms
    return now_ms // 1000 * 1000 - last_ms > last_ms - first_ms


def _was_at_end(window: Sequence[Commit], ends: Sequence[int]) -> bool:
    """Whether the lag was zero not long ago."""
    return any(end <= window[-1].offset for end in ends)


def _first_drop(window: Sequence[Commit]) -> int:
    """Where an offset is lower than the one before; 0 for nowhere. A second drop is
    not looked at."""
    for index, (before, after) in enumerate(pairwise(window), 1):
        if after.offset < before.offset:
            return index
    return 0


def _is_made_up_for(window: Sequence[Commit], drop: int) -> bool:
    before = window[drop - 1].offset
    return any(each.offset >= before for each in window[drop:])


def _has_grown(window: Sequence[Commit], ends: Sequence[int]) -> bool:
    """Whether records were written since the last commit; yes when that is not
    known."""
    last = window[-1]
    return last.lag is None or not ends or ends[-1] > last.offset + last.lag
