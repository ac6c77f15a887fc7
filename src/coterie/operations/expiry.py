"""Expiration of committed offsets, as far as admin requests return it.

No API returns when an offset was committed or when a group became empty. Only two facts
can be determined: the event from which the retention time counts, if it counts at all,
and that time, `offsets.retention.minutes`. The rules are those of Kafka's
OffsetExpirationCondition and of its choice by ClassicGroup, ConsumerGroup and
StreamsGroup. Positions of share groups do not expire.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from coterie import client
from coterie.errors import CoterieError
from coterie.types import TopicName


class ExpiryClock(Enum):
    """The event from which the retention of an offset counts."""

    STOPPED = "stopped"
    """The offset does not expire while the group does not change."""
    SINCE_EMPTY = "since_empty"
    """The group lost its last member."""
    SINCE_COMMIT = "since_commit"
    """The offset was committed, with or without members in the group."""


def expiry_clock(
    group: client.GroupDescription, topic: TopicName
) -> ExpiryClock | None:
    """Return the event from which the retention of a group's offsets of a topic counts;
    None when it is unknown."""
    if group.type is client.GroupType.CONSUMER:
        return _unless_subscribed(group, topic)
    if group.type is client.GroupType.STREAMS:
        subtopologies = group.topology.subtopologies if group.topology else ()
        is_read = group.state.is_active and any(
            topic in (*each.source_topics, *each.repartition_source_topics)
            for each in subtopologies
        )
        return ExpiryClock.STOPPED if is_read else ExpiryClock.SINCE_COMMIT
    if group.type is not client.GroupType.CLASSIC:
        return None
    if group.is_simple:
        return ExpiryClock.SINCE_COMMIT
    if group.state is client.GroupState.EMPTY:
        return ExpiryClock.SINCE_EMPTY
    if group.state is client.GroupState.STABLE and group.protocol_type == "consumer":
        return _unless_subscribed(group, topic)
    return ExpiryClock.STOPPED


def _unless_subscribed(
    group: client.GroupDescription, topic: TopicName
) -> ExpiryClock | None:
    """Return STOPPED for a topic that a member subscribes to, otherwise SINCE_COMMIT,
    or None when the subscriptions are unknown.

    An empty KIP-848 group subscribes to nothing: unlike a classic group, it can lose an
    old offset at once when its last member leaves.
    """
    for member in group.members:
        if topic in (member.subscribed_topics or ()):
            return ExpiryClock.STOPPED
        if any(topic == each.topic for each in member.assignment):
            return ExpiryClock.STOPPED
    is_known = all(
        each.subscribed_topics is not None and not each.subscribed_topic_regex
        for each in group.members
    )
    return ExpiryClock.SINCE_COMMIT if is_known else None


SETTING: Final = "offsets.retention.minutes"


async def offsets_retention_ms(admin: client.AdminClient) -> int | None:
    """Return `offsets.retention.minutes` of one broker, in ms, which should be the same
    on all; None when it cannot be read."""
    try:
        cluster = await admin.brokers.describe()
        brokers = [
            client.ConfigResource(client.ConfigResourceType.BROKER, str(each.node_id))
            for each in cluster.nodes[:1]
        ]
        described = await admin.configs.describe(brokers, names=[SETTING])
    except CoterieError:
        return None
    values = [
        entry.value
        for entries in described.values.values()
        for entry in entries
        if entry.name == SETTING
    ]
    return int(values[0]) * 60_000 if values and values[0] else None
