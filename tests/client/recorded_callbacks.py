"""A member whose callbacks are recorded."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

from coterie.client import GroupMember
from coterie.client.notifier import Notifier
from coterie.types import TopicPartition
from tests.client.scripted_broker import WAIT_S

Entry = tuple[str, frozenset[TopicPartition]]


def of(topic: str, *numbers: int) -> frozenset[TopicPartition]:
    return frozenset(TopicPartition(topic, number) for number in numbers)


class RecordedCallbacks:
    """The callbacks of a member, in order: "assigned", "revoked" and "lost"."""

    def __init__(self, name: str = "", common: list[tuple[str, Entry]] | None = None):
        self.entries: list[Entry] = []
        self.commits: dict[TopicPartition, int] = {}
        self._name = name
        self._common = common if common is not None else []
        self._notifier = Notifier()

    def member(self, bootstrap: str, **options: Any) -> GroupMember:
        """Return a member of group "g" with recorded callbacks."""
        return GroupMember(
            bootstrap,
            group_id=options.pop("group_id", "g"),
            on_assigned=self._assigned,
            on_revoked=self._revoked,
            on_lost=self._lost,
            **options,
        )

    async def until(self, is_so: Callable[[], bool]) -> None:
        """Wait until the condition holds, checking it after each callback."""
        async with asyncio.timeout(WAIT_S):
            await self._notifier.wait_until(is_so)

    async def wait_for(self, what: str, partitions: Iterable[TopicPartition]) -> None:
        """Wait for a callback with the given partitions."""
        entry = (what, frozenset(partitions))
        await self.until(lambda: entry in self.entries)

    async def wait_for_count(self, count: int) -> None:
        """Wait until the member owns the given number of partitions."""
        await self.until(lambda: len(self.owned) == count)

    @property
    def owned(self) -> frozenset[TopicPartition]:
        """The owned partitions, by the recorded callbacks."""
        held: frozenset[TopicPartition] = frozenset()
        for what, partitions in self.entries:
            held = held | partitions if what == "assigned" else held - partitions
        return held

    def _write(self, what: str, partitions: frozenset[TopicPartition]) -> None:
        self.entries.append((what, partitions))
        self._common.append((self._name, (what, partitions)))
        self._notifier.notify()

    async def _assigned(self, partitions: frozenset[TopicPartition]) -> None:
        self._write("assigned", partitions)

    async def _revoked(
        self, partitions: frozenset[TopicPartition]
    ) -> dict[TopicPartition, int]:
        self._write("revoked", partitions)
        return {each: self.commits[each] for each in partitions & self.commits.keys()}

    async def _lost(self, partitions: frozenset[TopicPartition]) -> None:
        self._write("lost", partitions)
