"""Routing that several APIs share: leaders, coordinators and delayed responses."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Final, Generic, Protocol, TypeVar

from coterie.broker.catalog.topics import Topic
from coterie.broker.runtime.partitions import Partition
from coterie.broker.server.broker import Node
from coterie.broker.server.call import Call
from coterie.errors import ApiError
from coterie.types import GroupId, TopicName
from coterie.wire.error_codes import ErrorCode
from coterie.wire.schema import Struct

LEADER_EPOCH: Final = 0
"""Leaders never change, so every partition is in its first leader epoch."""

NO_EPOCH: Final = -1

Response = TypeVar("Response")


class HasErrorCode(Protocol):
    """A response, or a part of one, with an error code."""

    error_code: int


# Partition leaders.


def leader_of(call: Call, index: int) -> Node:
    """Return the node that leads partition `index` of any topic."""
    nodes = call.node.broker.nodes
    return nodes[index % len(nodes)]


def replicas_of(call: Call, topic: Topic, index: int) -> list[int]:
    """Return the node ids reported as a partition's replicas, its leader first."""
    nodes = call.node.broker.nodes
    count = min(topic.replication_factor, len(nodes))
    return [nodes[(index + at) % len(nodes)].node_id for at in range(count)]


def check_leader(call: Call, index: int, leader_epoch: int = NO_EPOCH) -> None:
    """Raise ApiError NOT_LEADER_OR_FOLLOWER unless the node leads the partition, or
    UNKNOWN_LEADER_EPOCH or FENCED_LEADER_EPOCH when the request has a later or an
    earlier epoch than the current one; -1 is none."""
    if leader_of(call, index) is not call.node:
        raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    if leader_epoch > LEADER_EPOCH:
        raise ApiError(ErrorCode.UNKNOWN_LEADER_EPOCH)
    if leader_epoch < NO_EPOCH:
        raise ApiError(ErrorCode.FENCED_LEADER_EPOCH)


def find_partition(
    call: Call, topic: TopicName, index: int, leader_epoch: int = NO_EPOCH
) -> Partition:
    """Return a partition that this node leads.

    Raises ApiError UNKNOWN_TOPIC_OR_PARTITION, or as `check_leader` does.
    """
    partition = call.node.broker.data.partition(topic, index)
    if partition is None:
        raise unknown_partition()
    check_leader(call, index, leader_epoch)
    return partition


def unknown_partition() -> ApiError:
    """Return the error for a topic or partition that does not exist."""
    return ApiError(
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        "This server does not host this topic-partition.",
    )


# Group coordinators.


def submit_to_coordinator(
    call: Call, group_id: GroupId, request: Any, respond: Callable[[Any], None]
) -> None:
    """Submit a request to the group's shard; `respond` receives the response.

    It receives NOT_COORDINATOR when this node does not coordinate the group, unless the
    request's own fields are wrong.
    """
    node = call.node
    broker = node.broker
    shard = broker.runtime.shard_of(group_id)
    if broker.shard_node(shard) is not node:
        respond(broker.runtime.refusal(request, call, ErrorCode.NOT_COORDINATOR))
    elif broker.admit is None:
        broker.runtime.submit(shard, request, call, respond)
    else:
        broker.admit(shard, group_id, partial(_submit, call, shard, request, respond))


def _submit(
    call: Call,
    shard: int,
    request: Any,
    respond: Callable[[Any], None],
    code: ErrorCode,
) -> None:
    """Submit a request for a group that was admitted; refuse it with another code."""
    runtime = call.node.broker.runtime
    if code is ErrorCode.NONE:
        runtime.submit(shard, request, call, respond)
    else:
        respond(runtime.refusal(request, call, code))


def respond_with_error(call: Call, code: ErrorCode) -> None:
    """Respond to a request about one group with an error, in the field that its schema
    has for it."""
    call.respond(call.node.broker.runtime.refusal(call.request, call, code))


class ResponseCollector(Generic[Response]):
    """A collector of the responses to the parts of one request.

    The parts may respond in any order. `done` is called once, with all responses in
    the order of the parts.
    """

    def __init__(
        self, part_count: int, done: Callable[[Sequence[Response]], None]
    ) -> None:
        self._responses: list[Response | None] = [None] * part_count
        self._missing = part_count
        self._done = done
        if not part_count:
            done(())

    def part(self, at: int) -> Callable[[Response], None]:
        """Return the function that takes the response to one part."""

        def take(response: Response) -> None:
            assert self._responses[at] is None, "a part has one response"
            self._responses[at] = response
            self._missing -= 1
            if not self._missing:
                self._done([each for each in self._responses if each is not None])

        return take


# Responses that wait for the disk.


def respond_when_durable(
    call: Call,
    response: Struct,
    results: Iterable[HasErrorCode],
    failures: int | None = None,
) -> None:
    """Respond once all that is staged is durable.

    When the flush fails, or others since there were `failures` of them (see
    `DataPlane.when_durable`), `results`, which are parts of the response, get the error
    unless they have an error already.
    """

    def durable(error: ErrorCode) -> None:
        if error is not ErrorCode.NONE:
            for result in results:
                result.error_code = result.error_code or error
        call.respond(response)

    call.node.broker.data.when_durable(durable, failures)
