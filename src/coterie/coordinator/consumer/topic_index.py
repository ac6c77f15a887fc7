"""Which groups are subscribed to a topic: from topics back to groups (E15-04, H-26)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable

from coterie.coordinator.consumer.group import ResolvedRegex
from coterie.coordinator.consumer.member import Member
from coterie.types import GroupId, TopicName


class TopicIndex:
    """For each topic the groups whose members name it, or match it by a regular
    expression, with how many do. Kept by replay; never written to the log (E2-05)."""

    def __init__(self) -> None:
        self._groups: dict[TopicName, Counter[GroupId]] = {}

    def __len__(self) -> int:
        return len(self._groups)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TopicIndex) and self._groups == other._groups

    __hash__ = None  # type: ignore[assignment]  # an index changes

    def groups(self, topic: TopicName) -> Collection[GroupId]:
        """The groups subscribed to a topic."""
        return self._groups.get(topic, Counter()).keys()

    def subscribe(
        self, group_id: GroupId, before: Member | None, after: Member | None
    ) -> None:
        """A member has another subscription; None: there was, or is, no such member."""
        self._add(group_id, () if after is None else after.topic_names, 1)
        self._add(group_id, () if before is None else before.topic_names, -1)

    def resolve(
        self,
        group_id: GroupId,
        before: ResolvedRegex | None,
        after: ResolvedRegex | None,
    ) -> None:
        """A regular expression of a group matches other topics."""
        self._add(group_id, () if after is None else after.topics, 1)
        self._add(group_id, () if before is None else before.topics, -1)

    def _add(self, group_id: GroupId, topics: Iterable[TopicName], by: int) -> None:
        for topic in topics:
            assert topic, "a topic has a name"
            groups = self._groups.setdefault(topic, Counter())
            groups[group_id] += by
            assert groups[group_id] >= 0, (topic, group_id)
            if not groups[group_id]:
                del groups[group_id]
            if not groups:
                del self._groups[topic]
