"""The input and the output of a server-side assignor."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from coterie.types import MemberId, TopicId


class MemberSpec(NamedTuple):
    """A member of the group; `partitions` are those of its previous target."""

    member_id: MemberId
    instance_id: str | None
    rack_id: str | None
    subscribed_topic_ids: frozenset[TopicId]
    partitions: Mapping[TopicId, Collection[int]]


class TopicSpec(NamedTuple):
    """A topic; `racks` holds the racks of each partition, or is empty if unknown.

    `assignable` are the partitions that may be assigned in a share group, sorted; an
    assignor of consumer groups assigns all.
    """

    partition_count: int
    racks: Sequence[Collection[str]] = ()
    assignable: Sequence[int] = ()


class GroupSpec(NamedTuple):
    """The members of a group, and all topics that any of them subscribes to."""

    members: Mapping[MemberId, MemberSpec]
    topics: Mapping[TopicId, TopicSpec]


Assignment: TypeAlias = Mapping[MemberId, Mapping[TopicId, Collection[int]]]
"""Partitions by member and topic; a missing member gets none."""
Assign: TypeAlias = Callable[[GroupSpec], Assignment]
"""An assignor. An exception fails the request that needed the target."""
