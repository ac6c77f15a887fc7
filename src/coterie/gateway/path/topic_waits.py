"""Requests about topics that the copy of upstream's topics does not have yet.

The copy is a few seconds old, but a client knows a topic as soon as it is created, and
new partitions as soon as they are added. Such a request waits for the next copy before
it is handled, and requests after it on the connection wait, too:

- commits: most clients do not repeat them after UNKNOWN_TOPIC_OR_PARTITION;
- members that join: when a group of the classic protocol is converted, partitions of
  unknown topics are taken from its members, who still consume them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final, TypeAlias

from coterie.broker import Call, Catalog, Handler
from coterie.errors import MalformedFrame
from coterie.types import TopicName
from coterie.wire import messages as m
from coterie.wire.api import ApiKey
from coterie.wire.codec import EMBEDDED_ELEMENTS_MAX, decode
from coterie.wire.commit import Commit

Refresh: TypeAlias = Callable[[Callable[[], None]], None]
"""A function that copies upstream's topics soon, and then calls its argument, whether
it has succeeded or not."""

_CONSUMER: Final = "consumer"
_VERSION_BYTES: Final = 2


def waiting_for_topics(
    handlers: Mapping[int, Handler], refresh: Refresh
) -> Mapping[int, Handler]:
    """Return the handlers, of which those that need topics wait for unknown ones."""
    waiting: dict[int, Handler] = {
        key: partial(_handle, handlers[key], refresh, knows)
        for key, knows in _KNOWS.items()
        if key in handlers
    }
    return {**handlers, **waiting}


def _handle(
    handler: Handler,
    refresh: Refresh,
    knows: Callable[[Catalog, Any], bool],
    call: Call,
) -> None:
    if knows(call.node.broker.catalog, call.request):
        handler(call)
    else:
        call.peer.hold_requests()
        refresh(partial(handler, call))


def _knows_commit(catalog: Catalog, request: Commit) -> bool:
    for topic in request.topics:
        name: str | None = topic.name
        if request.layout.by_id:
            name = catalog.topic_name(topic.topic_id)
        if not _has_partitions(catalog, name, topic.rows.partitions):
            return False
    return True


def _knows_partitions(catalog: Catalog, request: m.OffsetDeleteRequest) -> bool:
    return all(
        _has_partitions(
            catalog, topic.name, (each.partition_index for each in topic.partitions)
        )
        for topic in request.topics
    )


def _has_partitions(
    catalog: Catalog, name: TopicName | None, partitions: Iterable[int]
) -> bool:
    """Return whether the catalog has all partitions of a topic in a request."""
    known = catalog.topics.get(name or "")
    return known is not None and max(partitions, default=0) < known.partition_count


def _knows_subscription(
    catalog: Catalog, request: m.ConsumerGroupHeartbeatRequest
) -> bool:
    return _knows_names(catalog, request.subscribed_topic_names or ())


def _knows_protocols(catalog: Catalog, request: m.JoinGroupRequest) -> bool:
    """Return whether the catalog has the topics of a classic member's first protocol;
    its others subscribe to the same."""
    if request.protocol_type != _CONSUMER or not request.protocols:
        return True
    try:
        subscription, _ = decode(
            m.ConsumerProtocolSubscription,
            0,
            request.protocols[0].metadata,
            _VERSION_BYTES,
            EMBEDDED_ELEMENTS_MAX,
        )
    except MalformedFrame:
        return True  # the group server decides what it accepts
    return _knows_names(catalog, subscription.topics)


def _knows_names(catalog: Catalog, names: Iterable[str]) -> bool:
    return all(name in catalog.topics for name in names)


_KNOWS: Final[Mapping[int, Callable[[Catalog, Any], bool]]] = {
    ApiKey.OFFSET_COMMIT: _knows_commit,
    ApiKey.TXN_OFFSET_COMMIT: _knows_commit,
    ApiKey.OFFSET_DELETE: _knows_partitions,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: _knows_subscription,
    ApiKey.JOIN_GROUP: _knows_protocols,
}
"""For each API that waits, the function that returns whether it need not."""
