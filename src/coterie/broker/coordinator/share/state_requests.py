"""Requests to the store of the state of share partitions, and their completion.

The state of a share partition (its start offset, and the records that are in flight or
finished) is not part of the group. A group only records which partitions have state. A
handler that needs state initialized or deleted writes record 15 and sets a timer, due
at once, with a request of this module. The runtime hands the request to the store
(`Runtime.share_state`) and then handles a `ShareStateChanged` in the shard.
"""

from __future__ import annotations

from typing import Final, NamedTuple, TypeAlias

from coterie.broker.coordinator.result import Context, Ticket, Timer
from coterie.types import GroupId, TopicId, TopicName
from coterie.wire.error_codes import ErrorCode

NO_TICKET: Final[Ticket] = 0
"""The ticket of a change that no request waits for."""
BY_RESET_POLICY: Final = -1
"""The start offset of a partition that starts by `share.auto.offset.reset`."""


class SharePartitions(NamedTuple):
    """Partitions of a topic, sorted, that are to have the same start offset."""

    topic_id: TopicId
    topic_name: TopicName
    partitions: tuple[int, ...]
    start_offset: int = BY_RESET_POLICY


class InitializeShareState(NamedTuple):
    """The initialization of the state of share partitions.

    `ticket` is that of the request that waits for it, or `NO_TICKET`.
    """

    group_id: GroupId
    state_epoch: int
    topics: tuple[SharePartitions, ...]
    ticket: Ticket = NO_TICKET


class DeleteShareState(NamedTuple):
    """The deletion of the state of share partitions.

    With `deletes_group` the group is deleted afterwards, otherwise only the topics are
    removed from it. `refused` are the topics of the same request that cannot be
    deleted, each with the reason.
    """

    group_id: GroupId
    topics: tuple[SharePartitions, ...]
    deletes_group: bool
    ticket: Ticket = NO_TICKET
    refused: tuple[tuple[TopicName, str], ...] = ()


ShareStateRequest: TypeAlias = InitializeShareState | DeleteShareState
SHARE_STATE_REQUESTS: Final = (InitializeShareState, DeleteShareState)


class ShareStateChanged(NamedTuple):
    """The completion of a request: NONE once the change is durable, or the error."""

    request: ShareStateRequest
    code: ErrorCode


def request_timer(request: ShareStateRequest, context: Context) -> Timer:
    """Return the timer, due at once, that sends a request to the store."""
    assert request.topics, "a request changes something"
    key = ("share-state", request.group_id, str(context.ticket))
    return Timer(key, context.now_ms, request)
