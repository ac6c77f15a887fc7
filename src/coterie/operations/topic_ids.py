"""Ids of topics, which tell a topic that was deleted and created again from the one
whose offsets a plan or a snapshot contains (KIP-516).

Kafka deletes the committed offsets of a deleted topic. The offsets in a file remain,
and would be committed for other records of a topic of the same name.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Iterable, Mapping
from typing import TypeAlias

from coterie import client
from coterie.errors import code_of
from coterie.types import TopicName

TopicIds: TypeAlias = Mapping[TopicName, str | None]
"""The ids of topics by name, in the form that Kafka prints; None for a topic that does
not exist. A topic whose id is unknown is left out."""


async def read_topic_ids(
    admin: client.AdminClient, topics: Iterable[TopicName]
) -> TopicIds:
    """Return the ids of topics. Brokers before Kafka 2.8 have none, and a topic that
    the principal may not describe has an unknown one. Raises ClientError."""
    wanted = sorted(set(topics))
    if not wanted:
        return {}
    described = await admin.topics.describe(wanted)
    ids: dict[TopicName, str | None] = {}
    for name, topic in described.values.items():
        if topic.topic_id is not None:
            ids[name] = urlsafe_b64encode(topic.topic_id).decode().rstrip("=")
    for name, error in described.errors.items():
        if code_of(error) is client.ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            ids[name] = None
    return ids


def recreated_topics(before: TopicIds, now: TopicIds) -> tuple[TopicName, ...]:
    """Return the topics that exist now with another id than before, sorted."""
    return tuple(
        name
        for name in sorted(before)
        if now.get(name) is not None and now[name] != before[name]
    )
