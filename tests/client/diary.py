"""A member whose callbacks write down what they are told."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

from coterie.client import GroupMember
from coterie.client.pulse import Pulse
from coterie.types import TopicPartition
from tests.client.scripted import WAIT_S

Entry = tuple[str, frozenset[TopicPartition]]


def of(topic: str, *numbers: int) -> frozenset[TopicPartition]:
    return frozenset(TopicPartition(topic, number) for number in numbers)


class Diary:
    """What a member was told, in order: "assigned", "revoked" and "lost"."""

    def __init__(self, name: str = "", common: list[tuple[str, Entry]] | None = None):
        self.entries: list[Entry] = []
        self.commits: dict[TopicPartition, int] = {}
        self._name = name
        self._common = common if common is not None else []
        self._pulse = Pulse()

    def member(self, bootstrap: str, **options: Any) -> GroupMember:
        """A member of group "g" that writes into this diary."""
        return GroupMember(
            bootstrap,
            group_id=options.pop("group_id", "g"),
            on_assigned=self._assigned,
            on_revoked=self._revoked,
            on_lost=self._lost,
            **options,
        )

    async def until(self, is_so: Callable[[], bool]) -> None:
        """Wait until an entry makes it so."""
        async with asyncio.timeout(WAIT_S):
            await self._pulse.until(is_so)

    async def told(self, what: str, partitions: Iterable[TopicPartition]) -> None:
        """Wait for an entry."""
        entry = (what, frozenset(partitions))
        await self.until(lambda: entry in self.entries)

    async def holds(self, count: int) -> None:
        """Wait until it has so many partitions."""
        await self.until(lambda: len(self.held) == count)

    @property
    def held(self) -> frozenset[TopicPartition]:
        """What it has, by what it was told."""
        held: frozenset[TopicPartition] = frozenset()
        for what, partitions in self.entries:
            held = held | partitions if what == "assigned" else held - partitions
        return held

    def _write(self, what: str, partitions: frozenset[TopicPartition]) -> None:
        self.entries.append((what, partitions))
        self._common.append((self._name, (what, partitions)))
        self._pulse.beat()

    async def _assigned(self, partitions: frozenset[TopicPartition]) -> None:
        self._write("assigned", partitions)

    async def _revoked(
        self, partitions: frozenset[TopicPartition]
    ) -> dict[TopicPartition, int]:
        self._write("revoked", partitions)
        return {each: self.commits[each] for each in partitions & self.commits.keys()}

    async def _lost(self, partitions: frozenset[TopicPartition]) -> None:
        self._write("lost", partitions)
