"""Rebalances of groups: reported by our own server, or seen between two measurements.

Our server knows the reason of each rebalance (`coterie serve --ui`). From any other
cluster the page derives rebalances from state, epoch and members of two measurements;
several rebalances between them count as one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from coterie.client import (
    GroupDescription,
    GroupState,
    MemberDescription,
)
from coterie.types import GroupId

REBALANCES_MAX: Final = 200
"""The rebalances that are kept, of all groups together."""
_EVENTS_MAX: Final = 2_000
_REASONS_MAX: Final = 5
_NAMES_MAX: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebalance:
    """One rebalance. Times in ms since 1970; None as `ended_ms` and `outcome` while it
    is in progress."""

    number: int
    """A unique number, by which an update replaces an earlier version."""
    group: GroupId
    reasons: tuple[str, ...]
    started_ms: int
    members_before: int | None = None
    epoch_before: int | None = None
    ended_ms: int | None = None
    outcome: str | None = None
    """stable, or empty when the last member left."""
    members_after: int | None = None
    epoch_after: int | None = None
    is_exact: bool = False
    """Whether the server reported it; otherwise its times are those of
    measurements."""


class Rebalances:
    """The latest rebalances of a cluster, oldest first."""

    def __init__(self) -> None:
        self._entries: dict[int, Rebalance] = {}
        self._open: dict[GroupId, int] = {}
        self._changed: dict[int, None] = {}
        self._count = 0
        # Events arrive from the server's thread; appends to a deque are atomic.
        self._events: deque[tuple[str, int, Mapping[str, Any]]] | None = None

    def report(self, event: str, time_ms: int, fields: Mapping[str, Any]) -> None:
        """Take an event of the server's rebalance log; safe in any thread."""
        assert self._events is not None
        self._events.append((event, time_ms, fields))

    def expect_reports(self) -> None:
        """Take rebalances from `report` alone, and derive none."""
        self._events = deque(maxlen=_EVENTS_MAX)

    def observe(
        self,
        before: Mapping[GroupId, GroupDescription],
        after: Mapping[GroupId, GroupDescription],
        times_ms: tuple[int, int],
    ) -> None:
        """Compare two measurements, or take the reports that have arrived."""
        if self._events is not None:
            while self._events:
                event, time_ms, fields = self._events.popleft()
                group_id = fields["group"]
                groups = (each.get(group_id) for each in (before, after))
                reason = _named(fields["reason"], [each for each in groups if each])
                self._take(event, time_ms, {**fields, "reason": reason})
            return
        for group_id, group in after.items():
            known = before.get(group_id)
            if known is not group:
                self._compare(known, group, times_ms)
        for group_id in self._open.keys() - after.keys():
            self._end(group_id, times_ms[1], "empty", 0, None)

    def changes(self) -> list[dict[str, Any]]:
        """Return the rebalances that are new or changed since the last call."""
        changed = [self._entries[each] for each in self._changed]
        self._changed.clear()
        return [asdict(each) for each in changed]

    def latest(self) -> list[dict[str, Any]]:
        """Return all rebalances that are kept, oldest first."""
        return [asdict(each) for each in self._entries.values()]

    def _take(self, event: str, time_ms: int, fields: Mapping[str, Any]) -> None:
        group_id: GroupId = fields["group"]
        if event == "rebalance_started":
            epoch = fields.get("generation", fields.get("epoch"))
            self._start(
                group_id, time_ms, [fields["reason"]], (fields["members"], epoch)
            )
        else:
            epoch = fields.get("generation_after", fields.get("epoch_after"))
            members = fields["members_after"]
            self._end(group_id, time_ms, fields["outcome"], members, epoch)

    def _compare(
        self,
        before: GroupDescription | None,
        after: GroupDescription,
        times_ms: tuple[int, int],
    ) -> None:
        group_id, now_ms = after.group_id, times_ms[1]
        reasons = changes_between(before, after)
        if not reasons and group_id not in self._open:
            return
        # A rebalance that is over already took place between the measurements.
        if reasons:
            started_ms = now_ms if after.state.is_rebalancing else times_ms[0]
            members = None if before is None else len(before.members)
            epoch = None if before is None else epoch_of(before)
            self._start(group_id, started_ms, reasons, (members, epoch))
        if not after.state.is_rebalancing:
            is_empty = after.state in {GroupState.EMPTY, GroupState.DEAD}
            outcome = "empty" if is_empty else "stable"
            self._end(group_id, now_ms, outcome, len(after.members), epoch_of(after))

    def _start(
        self,
        group_id: GroupId,
        time_ms: int,
        reasons: Iterable[str],
        before: tuple[int | None, int | None],
    ) -> None:
        number = self._open.get(group_id)
        if number is not None:
            known = self._entries[number]
            both = tuple(dict.fromkeys((*known.reasons, *reasons)))[:_REASONS_MAX]
            self._put(replace(known, reasons=both))
            return
        self._count += 1
        self._open[group_id] = self._count
        self._put(
            Rebalance(
                number=self._count,
                group=group_id,
                reasons=tuple(reasons)[:_REASONS_MAX],
                started_ms=time_ms,
                members_before=before[0],
                epoch_before=before[1],
                is_exact=self._events is not None,
            )
        )

    def _end(
        self,
        group_id: GroupId,
        time_ms: int,
        outcome: str,
        members: int,
        epoch: int | None,
    ) -> None:
        number = self._open.pop(group_id, None)
        if number is not None:
            ended = replace(
                self._entries[number],
                ended_ms=time_ms,
                outcome=outcome,
                members_after=members,
                epoch_after=epoch,
            )
            self._put(ended)

    def _put(self, rebalance: Rebalance) -> None:
        self._entries[rebalance.number] = rebalance
        self._changed[rebalance.number] = None
        while len(self._entries) > REBALANCES_MAX:
            oldest = self._entries.pop(next(iter(self._entries)))
            self._changed.pop(oldest.number, None)
            if self._open.get(oldest.group) == oldest.number:
                del self._open[oldest.group]


def epoch_of(group: GroupDescription) -> int | None:
    """Return the group epoch, or the generation of a classic group if it is known."""
    return group.generation_id if group.group_epoch is None else group.group_epoch


def changes_between(
    before: GroupDescription | None, after: GroupDescription
) -> list[str]:
    """Return why a group has rebalanced between two descriptions, as far as they show
    it; empty when they show no rebalance."""
    if before is None:
        return ["the group was created"] if after.state.is_rebalancing else []
    old = {each.member_id: each for each in before.members}
    new = {each.member_id: each for each in after.members}
    joined = [each for key, each in new.items() if key not in old]
    left = [each for key, each in old.items() if key not in new]
    instances = {each.instance_id for each in joined if each.instance_id}
    replaced = [each for each in left if each.instance_id in instances]
    names = {each.instance_id for each in replaced}
    reasons = _sentences("restarted", replaced)
    reasons += _sentences("joined", [e for e in joined if e.instance_id not in names])
    reasons += _sentences("left", [each for each in left if each not in replaced])
    resubscribed = [
        each
        for key, each in new.items()
        if key in old and _resubscribed(old[key], each)
    ]
    reasons += _sentences("changed its subscription", resubscribed)
    if reasons:
        return reasons
    epochs = epoch_of(before), epoch_of(after)
    if epochs[0] != epochs[1] and None not in epochs:
        return [f"epoch {epochs[0]} became {epochs[1]}"]
    if after.state.is_rebalancing and not before.state.is_rebalancing:
        return [f"the state became {after.state.value}"]
    if any(set(old[key].assignment) != set(new[key].assignment) for key in new):
        return ["partitions were assigned again"]
    return []


def _named(reason: str, groups: Iterable[GroupDescription]) -> str:
    """Return the reason with client ids in place of random member ids."""
    for group in groups:
        for each in group.members:
            if each.instance_id is None and each.client_id:
                reason = reason.replace(
                    f"member {each.member_id} ", f"member {each.client_id} "
                )
    return reason


def _resubscribed(before: MemberDescription, after: MemberDescription) -> bool:
    return (
        before.subscribed_topics != after.subscribed_topics
        or before.subscribed_topic_regex != after.subscribed_topic_regex
    )


def _sentences(verb: str, members: Iterable[MemberDescription]) -> list[str]:
    names = [each.instance_id or each.client_id or each.member_id for each in members]
    if not names:
        return []
    if len(names) == 1:
        return [f"member {names[0]} {verb}"]
    more = f" and {len(names) - _NAMES_MAX} more" if len(names) > _NAMES_MAX else ""
    return [f"members {', '.join(names[:_NAMES_MAX])}{more} {verb}"]
