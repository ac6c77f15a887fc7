"""Which groups need attention, each with the reasons in plain English."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from coterie.pipeline.report.groups import LEVELS, GroupRow
from coterie.pipeline.report.texts import ago, count, plural, short_name, span

_BAD: Final = ("LOSING_DATA", "STOP", "STALL", "REWIND", "NO_OWNER", "WARN")
"""The verdicts on partitions that matter, the most serious first. The others, such as
RESET, are intended or usual."""
_WORDS: Final = {
    "LOSING_DATA": "records were deleted by the topic's retention before they were"
    " read",
    "STOP": "it stopped committing although there are records to read",
    "STALL": "it commits the same offset again and again, so its consumers run without"
    " progress",
    "REWIND": "it went back to an earlier offset and has not caught up since",
    "WARN": "it commits, but its lag does not shrink",
}
_TOPICS_MAX: Final = 2


@dataclass(frozen=True)
class Expiry:
    """The offsets of a group that will expire soon."""

    offsets: int
    first_ms: int
    """Time until the first of them expires; below 0 at the next check of the broker."""
    at_risk: int
    """Unread records whose position would be forgotten."""


@dataclass(frozen=True)
class Storm:
    """A rebalance storm."""

    group_id: str
    start: datetime
    end: datetime
    rebalances: int


def add_attention(
    groups: Mapping[str, GroupRow],
    expiries: Mapping[str, Expiry],
    storms: Mapping[str, Storm],
    now: datetime,
) -> list[GroupRow]:
    """Set the severity of each group and its reasons; return the groups, the most
    serious first.
    """
    for group in groups.values():
        group.level = {"": "none", "OK": "ok", "WARN": "warn"}.get(group.verdict, "bad")
        reasons = _verdict_reasons(group, now)
        if group.messages_lost and group.verdict in {"", "OK", "WARN"}:
            group.level = "bad"
        if (storm := storms.get(group.group_id)) is not None:
            reasons.append(_storm_reason(storm, now))
        expiry = expiries.get(group.group_id)
        if expiry and expiry.at_risk:
            reasons.append(_expiry_reason(expiry))
        if reasons and group.level in {"ok", "none"}:
            group.level = "warn"
        group.reasons = [*reasons, _lag_reason(group, now)] if reasons else []
    return sorted(
        groups.values(),
        key=lambda group: (
            LEVELS.index(group.level),
            -group.messages_lost,
            -(group.lag or 0),
            group.group_id,
        ),
    )


def _verdict_reasons(group: GroupRow, now: datetime) -> list[str]:
    reasons = []
    if group.messages_lost:
        reasons.append(
            f"{plural(group.messages_lost, 'record')}"
            f" {'was' if group.messages_lost == 1 else 'were'} deleted by the topic's"
            " retention before the group read them."
        )
    if group.verdict in {"", "OK"}:
        return reasons
    numbers = Counter(row["verdict"] for row in group.troubles)
    worst = next((each for each in _BAD if numbers[each]), None)
    if worst is None:
        reasons.append(f"{_sentence(group.rule)} (verdict {group.verdict}).")
    elif worst != "LOSING_DATA" or not group.messages_lost:
        where = _partitions_text(group, worst)
        words = _WORDS.get(worst) or _no_owner_words(group)
        reasons.append(f"{_sentence(words)}: {where}.")
    # A minute is judged at its end, which may be after the newest record.
    if group.evaluated and now - group.evaluated >= timedelta(days=1):
        reasons.append(f"This verdict is from {ago(group.evaluated, now)}.")
    return reasons


def _no_owner_words(group: GroupRow) -> str:
    if group.members:
        return "there are records to read, but no member is assigned to them"
    return "there are records to read, but the group has no members"


def _partitions_text(group: GroupRow, verdict: str) -> str:
    topics = Counter(
        row["topic"] for row in group.troubles if row["verdict"] == verdict
    )
    texts = [
        f"{plural(number, 'partition')} of {short_name(topic, 28)}"
        for topic, number in topics.most_common(_TOPICS_MAX)
    ]
    if rest := len(topics) - len(texts):
        texts.append(plural(rest, "more topic"))
    return ", ".join(texts)


def _lag_reason(group: GroupRow, now: datetime) -> str:
    """Return a sentence about the lag and its course."""
    if group.lag is None:
        return "Its lag is unknown."
    if not group.lag:
        return "It has read everything so far."
    known = "at least " if group.unsampled else ""
    text = f"It is {known}{plural(group.lag, 'record')} behind"
    if group.time_lag_ms is not None:
        bound = "at least " if group.is_lower_bound else "about "
        text += f", {bound}{span(group.time_lag_ms)}"
    if group.eta_s is not None:
        text += f"; at the current rate it catches up in {span(group.eta_s * 1000)}"
    elif group.last_commit:
        text += f"; its last commit was {ago(group.last_commit, now)}"
    return f"{text}."


def _storm_reason(storm: Storm, now: datetime) -> str:
    length = span((storm.end - storm.start).total_seconds() * 1000)
    return (
        f"It rebalanced {count(storm.rebalances)} times in {length} (a rebalance"
        f" storm), most recently {ago(storm.end, now)}."
    )


def _expiry_reason(expiry: Expiry) -> str:
    when = f"in {span(expiry.first_ms)}" if expiry.first_ms > 0 else "at any moment"
    verb = "expires" if expiry.offsets == 1 else "expire"
    first = "" if expiry.offsets == 1 else ", the first"
    return (
        f"{plural(expiry.offsets, 'committed offset')} {verb} within 24 h{first}"
        f" {when}; {plural(expiry.at_risk, 'record')} that the group has not read"
        " would then be skipped, or older ones read again."
    )


def _sentence(text: Any) -> str:
    return f"{text[:1].upper()}{text[1:]}"
