"""Ownership of partitions: the intervals in which a member owns a partition.

An interval begins with the record that assigns the partition and ends with the record
that revokes it. A partition pending revocation is owned until the member has revoked it
(K-06a). The interval of a partition that stays with its member continues through
generations and epochs, and through a change of the group's protocol.

Intervals of one partition do not overlap. If the coordinator assigned a partition
twice, both intervals stay as recorded, so that the error is visible in the table. Only
when records between them are missing does the older interval end where the newer one
begins.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from coterie.pipeline.gold.groups.record import Moment, TopicPartition
from coterie.pipeline.gold.groups.sessions import OPEN, Session

# Values of partition_ownership_history.end_reason.
MOVED: Final = "moved"
MEMBER_LEFT: Final = "member_left"
GROUP_EMPTY: Final = "group_empty"
T = TypeVar("T")


@dataclass(eq=False)
class Interval:
    """A row of partition_ownership_history: the interval in which one member owned a
    partition. Times are in microseconds.
    """

    partition: TopicPartition
    session: Session
    source: str
    epoch_from: int
    valid_from: int
    from_log_offset: int
    is_lower_bound: bool
    gap_before_us: int | None
    epoch_to: int | None = None
    valid_to: int | None = None
    to_log_offset: int | None = None
    end_reason: str = OPEN


class Ownership:
    """All ownership intervals of one group, in the order in which they began."""

    def __init__(self) -> None:
        self.all: list[Interval] = []
        self.owners: dict[TopicPartition, Interval] = {}
        """Partitions with an owner."""
        self.last_owner: dict[TopicPartition, str] = {}
        """Member ID of each partition's current or last owner. Cleared when the group
        becomes empty, because later assignments are no moves."""
        self._by_member: dict[str, dict[TopicPartition, Interval]] = {}
        self._closed: dict[TopicPartition, Interval] = {}
        self._topic_ids: dict[str, str] = {}
        self._has_partitions_by_name = False

    def revoke(
        self,
        session: Session,
        keep: Iterable[TopicPartition],
        moment: Moment,
        reason: str,
    ) -> list[Interval]:
        """Revoke all partitions of a member except these; return their intervals."""
        owned = self._by_member.get(session.member_id)
        if not owned:
            return []
        kept = {key for wanted in keep if (key := self._key_in(owned, wanted))}
        revoked = [
            interval for partition, interval in owned.items() if partition not in kept
        ]
        for interval in revoked:
            self._close(interval, moment, reason)
        return revoked

    def assign(
        self,
        session: Session,
        partitions: Iterable[TopicPartition],
        moment: Moment,
        source: str,
        *,
        is_lower_bound: bool,
    ) -> list[tuple[bool, int]]:
        """Assign partitions to a member. For each partition that it did not own before,
        return whether another member was the last owner, and the microseconds without
        an owner while the group had members.
        """
        owned = self._by_member.setdefault(session.member_id, {})
        assigned = []
        for partition in partitions:
            key = self._key_in(owned, partition)
            if key is not None:
                self._set_topic_id(owned, key, partition)
                continue
            # Records missing since the old owner's newest record may have revoked the
            # partition. Without a gap the coordinator assigned it twice: keep both.
            owner = self.owners.get(partition)
            if owner and moment.record.is_after_gap(owner.session.last_offset):
                self._close(owner, moment, MOVED)
            interval = self._open(partition, session, moment, source, is_lower_bound)
            owned[partition] = self.owners[partition] = interval
            assigned.append(self._compare_with_last_owner(interval))
        return assigned

    def replace_member_id(self, old_id: str, new_id: str) -> None:
        """Rename a static member that returned with another member ID: its partitions
        have not moved.
        """
        for partition, member_id in self.last_owner.items():
            if member_id == old_id:
                self.last_owner[partition] = new_id

    def last_owner_of(self, partition: TopicPartition) -> str | None:
        """Return the member ID of the current or last owner."""
        return self.last_owner.get(partition) or _get(
            self.last_owner, self._alias(partition)
        )

    def _key_in(
        self, owned: Collection[TopicPartition], partition: TopicPartition
    ) -> TopicPartition | None:
        if partition in owned:
            return partition
        alias = self._alias(partition)
        return alias if alias in owned else None

    def _alias(self, partition: TopicPartition) -> TopicPartition | None:
        """Return the partition as the group's other protocol identifies its topic: by
        name in classic groups, by ID in consumer groups. Return None if the group has
        always used one protocol.
        """
        topic_id, topic, number = partition
        if topic_id is not None:
            by_name = self._has_partitions_by_name
            return TopicPartition(None, topic, number) if by_name else None
        known_id = self._topic_ids.get(topic or "") if self._topic_ids else None
        return None if known_id is None else TopicPartition(known_id, topic, number)

    def _set_topic_id(
        self,
        owned: dict[TopicPartition, Interval],
        key: TopicPartition,
        partition: TopicPartition,
    ) -> None:
        """Add the topic ID to a partition known by name, after an upgrade of the group.
        A downgrade does not remove the ID.
        """
        if key.topic_id is None and partition.topic_id is not None:
            interval = owned[partition] = owned.pop(key)
            interval.partition = partition
            self.owners[partition] = self.owners.pop(key)
            self.last_owner[partition] = self.last_owner.pop(key)
            self._index_topic(partition)

    def _index_topic(self, partition: TopicPartition) -> None:
        if partition.topic_id is None:
            self._has_partitions_by_name = True
        elif partition.topic is not None:
            self._topic_ids[partition.topic] = partition.topic_id

    def _open(
        self,
        partition: TopicPartition,
        session: Session,
        moment: Moment,
        source: str,
        is_lower_bound: bool,
    ) -> Interval:
        before = self._closed.get(partition) or _get(
            self._closed, self._alias(partition)
        )
        gap_us = None
        if before is not None and before.valid_to is not None:
            gap_us = moment.now_us - before.valid_to
        interval = Interval(
            partition=partition,
            session=session,
            source=source,
            epoch_from=moment.epoch,
            valid_from=moment.now_us,
            from_log_offset=moment.record.log_offset,
            is_lower_bound=is_lower_bound,
            gap_before_us=gap_us,
        )
        self.all.append(interval)
        self._index_topic(partition)
        return interval

    def _compare_with_last_owner(self, interval: Interval) -> tuple[bool, int]:
        partition, member_id = interval.partition, interval.session.member_id
        before = self.last_owner_of(partition)
        alias = self._alias(partition)
        if alias is not None:
            self.last_owner.pop(alias, None)
        self.last_owner[partition] = member_id
        # Without a last owner the group was empty in between, and that time does not
        # count.
        unowned_us = interval.gap_before_us if before is not None else None
        return before not in {None, member_id}, unowned_us or 0

    def _close(self, interval: Interval, moment: Moment, reason: str) -> None:
        partition = interval.partition
        interval.to_log_offset = moment.record.log_offset
        interval.valid_to = moment.now_us
        interval.epoch_to = moment.epoch
        interval.end_reason = reason
        self._by_member[interval.session.member_id].pop(partition, None)
        if self.owners.get(partition) is interval:
            del self.owners[partition]
        self._closed[partition] = interval

    def rows(self) -> Iterable[dict[str, Any]]:
        return map(_row, self.all)


def _get(
    values: Mapping[TopicPartition, T], partition: TopicPartition | None
) -> T | None:
    return None if partition is None else values.get(partition)


def _row(interval: Interval) -> dict[str, Any]:
    row = vars(interval).copy()
    session, gap_us = row.pop("session"), row.pop("gap_before_us")
    return row | {
        **interval.partition._asdict(),
        "member_id": session.member_id,
        "instance_id": session.instance_id,
        "client_id": session.client_id,
        "client_host": session.client_host,
        "rack_id": session.rack_id,
        "gap_before_ms": None if gap_us is None else gap_us // 1000,
    }
