"""Which partitions a write is about: `topic`, or `topic:0,1,2` (C-64)."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final, Self, TypeAlias

from coterie.errors import CoterieError, SettingError
from coterie.operations.admin import GroupReader
from coterie.types import TopicName, TopicPartition


@dataclass(frozen=True, slots=True)
class TopicSelector:
    """Some partitions of a topic, or all of them: `partitions` is None."""

    topic: TopicName
    partitions: tuple[int, ...] | None = None

    @classmethod
    def read(cls, text: str) -> Self:
        """The selector that was written as `topic` or `topic:0,1,2`.

        Raises SettingError.
        """
        topic, colon, numbers = text.partition(":")
        parts = numbers.split(",")
        if not topic or (colon and not all(_is_partition(part) for part in parts)):
            raise SettingError(
                f"{text!r} names no partitions: write topic, or topic:0,1,2"
            )
        if not colon:
            return cls(topic)
        return cls(topic, tuple(sorted({int(part) for part in parts})))

    def __str__(self) -> str:
        if self.partitions is None:
            return self.topic
        return f"{self.topic}:{','.join(str(each) for each in self.partitions)}"


def _is_partition(text: str) -> bool:
    return text.isascii() and text.isdigit() and int(text) < 2**31


Scope: TypeAlias = tuple[TopicSelector, ...] | None
ALL_COMMITTED: Final[Scope] = None
"""Every partition for which the group has a commit (`--all-topics`)."""


def is_in_scope(at: TopicPartition, scope: Scope) -> bool:
    """Whether a partition for which there is a commit is meant."""
    return scope is None or any(
        at.topic == each.topic
        and (each.partitions is None or at.partition in each.partitions)
        for each in scope
    )


@dataclass(frozen=True, slots=True)
class ScopeFound:
    """The partitions of a scope, and the topics whose partitions are not known."""

    partitions: tuple[TopicPartition, ...]
    """Sorted, each once."""
    errors: tuple[tuple[TopicName, CoterieError], ...] = ()


async def find_partitions(
    admin: GroupReader, selectors: Collection[TopicSelector]
) -> ScopeFound:
    """The partitions that are selected; asks the cluster only about whole topics."""
    named = {
        TopicPartition(each.topic, partition)
        for each in selectors
        for partition in each.partitions or ()
    }
    whole = sorted({each.topic for each in selectors if each.partitions is None})
    if not whole:
        return ScopeFound(tuple(sorted(named)))
    found = await admin.describe_topics(whole)
    for description in found.values.values():
        named.update(description.all_partitions)
    return ScopeFound(tuple(sorted(named)), tuple(sorted(found.errors.items())))
