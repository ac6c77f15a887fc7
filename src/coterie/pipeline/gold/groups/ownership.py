"""Who owns which partition of a group's topics, from which record to which.

An interval begins with the record that gives a partition to a member and ends with the
one that takes it; what is to be revoked is owned until the member gave it up (K-06). A
partition that stays with its member goes on through generations and epochs, and through
a change of the group's protocol.

Two intervals of a partition never overlap. If the coordinator said otherwise, both stay
as it said, to be found; unless the log lost records in between: then the older one ends
where the newer one begins.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from coterie.pipeline.gold.groups.record import At, Part
from coterie.pipeline.gold.groups.sessions import Session

MOVED: Final = "moved"
MEMBER_LEFT: Final = "member_left"
GROUP_EMPTY: Final = "group_empty"
GROUP_DELETED: Final = "group_deleted"
OPEN: Final = "open"
T = TypeVar("T")


@dataclass(eq=False)
class Interval:
    """A member's time with a partition."""

    part: Part
    session: Session
    source: str
    epoch_from: int
    from_us: int
    from_offset: int
    is_lower_bound: bool
    gap_before_us: int | None
    epoch_to: int | None = None
    to_us: int | None = None
    to_offset: int | None = None
    end_reason: str = OPEN


@dataclass(frozen=True, slots=True)
class Gain:
    """A partition that a member got."""

    is_move: bool
    """Another member had it last."""
    unowned_us: int
    """How long nobody had it, while the group had members."""


class Ownership:
    """All intervals of one group, in order of their beginnings."""

    def __init__(self) -> None:
        self.all: list[Interval] = []
        self.owners: dict[Part, Interval] = {}
        """Partitions with an owner."""
        self.last_owner: dict[Part, str] = {}
        """Who had each partition last; forgotten when the group is empty."""
        self._held: dict[str, dict[Part, Interval]] = {}
        self._closed: dict[Part, Interval] = {}
        self._ids: dict[str, str] = {}
        self._has_names = False

    def held(self, member_id: str) -> Collection[Part]:
        """What a member owns."""
        return self._held.get(member_id, {}).keys()

    def release(
        self,
        session: Session,
        keep: Iterable[Part],
        at: At,
        reason: str,
    ) -> list[Interval]:
        """Take from a member all but these."""
        held = self._held.get(session.member_id)
        if not held:
            return []
        kept = {key for part in keep if (key := self._known(part, held))}
        gone = [interval for part, interval in held.items() if part not in kept]
        for interval in gone:
            self._close(interval, at, reason)
        return gone

    def give(
        self,
        session: Session,
        parts: Iterable[Part],
        at: At,
        source: str,
        *,
        is_lower_bound: bool,
    ) -> list[Gain]:
        """Give a member what it does not own yet of these partitions."""
        held = self._held.setdefault(session.member_id, {})
        gains = []
        for part in parts:
            known = self._known(part, held)
            if known is not None:
                self._rename(held, known, part)
                continue
            self._push_out(part, session, at)
            interval = self._open(part, session, at, source, is_lower_bound)
            held[part] = self.owners[part] = interval
            gains.append(self._gain(interval))
        return gains

    def replace(self, old_id: str, new_id: str) -> None:
        """A static member came back with another id: no partition has moved."""
        for part, member_id in self.last_owner.items():
            if member_id == old_id:
                self.last_owner[part] = new_id

    def forget_owners(self) -> None:
        """The group is empty: who comes next takes nothing from anybody."""
        self.last_owner.clear()

    def had(self, part: Part) -> str | None:
        """Who had a partition last."""
        return self.last_owner.get(part) or _get(self.last_owner, self._other(part))

    def _known(self, part: Part, held: Collection[Part]) -> Part | None:
        if part in held:
            return part
        other = self._other(part)
        return other if other in held else None

    def _other(self, part: Part) -> Part | None:
        """The same partition as the group's other protocol names it, if it ever had
        another."""
        topic_id, topic, partition = part
        if topic_id is not None:
            return Part(None, topic, partition) if self._has_names else None
        found = self._ids.get(topic or "") if self._ids else None
        return None if found is None else Part(found, topic, partition)

    def _rename(self, held: dict[Part, Interval], known: Part, part: Part) -> None:
        """A classic group's partition gets its topic's id when the group is upgraded;
        it keeps the id when the group is downgraded."""
        if known.topic_id is None and part.topic_id is not None:
            interval = held[part] = held.pop(known)
            interval.part = part
            self.owners[part] = self.owners.pop(known)
            self.last_owner[part] = self.last_owner.pop(known)
            self._learn(part)

    def _learn(self, part: Part) -> None:
        if part.topic_id is None:
            self._has_names = True
        elif part.topic is not None:
            self._ids[part.topic] = part.topic_id

    def _push_out(self, part: Part, session: Session, at: At) -> None:
        other = self.owners.get(part)
        if other is not None and at.record.is_after_gap(other.session.seen_offset):
            self._close(other, at, MOVED)

    def _open(
        self,
        part: Part,
        session: Session,
        at: At,
        source: str,
        is_lower_bound: bool,
    ) -> Interval:
        before = self._closed.get(part) or _get(self._closed, self._other(part))
        gap_us = None
        if before is not None and before.to_us is not None:
            gap_us = at.now_us - before.to_us
        interval = Interval(
            part=part,
            session=session,
            source=source,
            epoch_from=at.epoch,
            from_us=at.now_us,
            from_offset=at.record.log_offset,
            is_lower_bound=is_lower_bound,
            gap_before_us=gap_us,
        )
        self.all.append(interval)
        self._learn(part)
        return interval

    def _gain(self, interval: Interval) -> Gain:
        part, member_id = interval.part, interval.session.member_id
        before = self.had(part)
        other = self._other(part)
        if other is not None:
            self.last_owner.pop(other, None)
        self.last_owner[part] = member_id
        unowned_us = interval.gap_before_us if before is not None else None
        return Gain(before not in {None, member_id}, unowned_us or 0)

    def _close(self, interval: Interval, at: At, reason: str) -> None:
        part = interval.part
        interval.to_offset, interval.to_us = at.record.log_offset, at.now_us
        interval.epoch_to = at.epoch
        interval.end_reason = reason
        self._held[interval.session.member_id].pop(part, None)
        if self.owners.get(part) is interval:
            del self.owners[part]
        self._closed[part] = interval

    def rows(self) -> Iterable[dict[str, Any]]:
        """Rows of partition_ownership_history."""
        return map(_row, self.all)


def _get(found: Mapping[Part, T], part: Part | None) -> T | None:
    return None if part is None else found.get(part)


def _row(interval: Interval) -> dict[str, Any]:
    session, gap_us = interval.session, interval.gap_before_us
    return {
        "topic": interval.part.topic,
        "topic_id": interval.part.topic_id,
        "partition": interval.part.partition,
        "member_id": session.member_id,
        "instance_id": session.instance_id,
        "client_id": session.client_id,
        "client_host": session.client_host,
        "rack_id": session.rack_id,
        "epoch_from": interval.epoch_from,
        "epoch_to": interval.epoch_to,
        "valid_from": interval.from_us,
        "valid_to": interval.to_us,
        "from_log_offset": interval.from_offset,
        "to_log_offset": interval.to_offset,
        "end_reason": interval.end_reason,
        "gap_before_ms": None if gap_us is None else gap_us // 1000,
        "source": interval.source,
        "is_lower_bound": interval.is_lower_bound,
    }
