"""The words of the domain as types: what an int or a str means in a signature."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

GroupId: TypeAlias = str
MemberId: TypeAlias = str
TopicName: TypeAlias = str
TopicId: TypeAlias = bytes
"""Sixteen bytes; all zero means none."""
LogOffset: TypeAlias = int
ProducerId: TypeAlias = int


class TopicPartition(NamedTuple):
    """One partition of a topic, by name."""

    topic: TopicName
    partition: int
