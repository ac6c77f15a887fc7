"""When committed offsets will be deleted for want of use, as far as anybody can tell.

No API says when an offset was committed, nor when a group became empty. What can be
said is whether the clock runs, from which of the two it started, and how long it takes:
`offsets.retention.minutes`. Source: Kafka's OffsetExpirationCondition, and how classic
and consumer groups choose it.
"""

from __future__ import annotations

from enum import Enum

from coterie.client.admin.group_values import (
    GroupDescription,
    GroupState,
    GroupType,
)
from coterie.types import TopicName


class ExpiryClock(Enum):
    """What the retention of an offset counts from."""

    STOPPED = "stopped"
    """It does not expire as long as the group stays as it is."""
    SINCE_EMPTY = "since_empty"
    """From when the group lost its last member."""
    SINCE_COMMIT = "since_commit"
    """From the commit, whether or not the group has members."""


def expiry_clock(group: GroupDescription, topic: TopicName) -> ExpiryClock | None:
    """What counts for a group's offsets of a topic; None when that is not known."""
    if group.type is GroupType.CONSUMER:
        return _unless_subscribed(group, topic)
    if group.type is not GroupType.CLASSIC:
        return None
    if group.is_simple:
        return ExpiryClock.SINCE_COMMIT
    if group.state is GroupState.EMPTY:
        return ExpiryClock.SINCE_EMPTY
    if group.state is GroupState.STABLE and group.protocol_type == "consumer":
        return _unless_subscribed(group, topic)
    return ExpiryClock.STOPPED


def _unless_subscribed(group: GroupDescription, topic: TopicName) -> ExpiryClock | None:
    """An offset of a topic that some member reads does not expire. An empty group
    subscribes to nothing: unlike a classic one, a group of KIP-848 can lose an old
    offset at once when its last member leaves."""
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
