"""Commits to topics that the copy of upstream's topics does not have yet.

The copy is a few seconds old. A client that has created a topic, or got more partitions
of one, may commit at once, and most clients do not repeat a commit after
UNKNOWN_TOPIC_OR_PARTITION. So such a request waits for the next copy before it is
handled; requests after it on the connection wait, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, TypeAlias

from coterie.broker.catalog.catalog import Catalog
from coterie.broker.server.call import Call, Handler
from coterie.wire.api import ApiKey
from coterie.wire.plain_commit import ROW, PlainTopic
from coterie.wire.schema import ZERO_UUID

Refresh: TypeAlias = Callable[[Callable[[], None]], None]
"""A function that copies upstream's topics soon, and then calls its argument, whether
it has succeeded or not."""

WAITING: Final = (
    ApiKey.OFFSET_COMMIT,
    ApiKey.TXN_OFFSET_COMMIT,
    ApiKey.OFFSET_DELETE,
)


def waiting_for_topics(
    handlers: Mapping[int, Handler], refresh: Refresh
) -> Mapping[int, Handler]:
    """Return the handlers, of which those of commits and of OffsetDelete wait for
    unknown topics."""
    waiting: dict[int, Handler] = {
        key: partial(_handle, handlers[key], refresh) for key in WAITING
    }
    return {**handlers, **waiting}


def _handle(handler: Handler, refresh: Refresh, call: Call) -> None:
    catalog = call.node.broker.catalog
    if all(_is_known(catalog, topic) for topic in call.request.topics):
        handler(call)
    else:
        call.peer.hold_requests()
        refresh(partial(handler, call))


def _is_known(catalog: Catalog, topic: Any) -> bool:
    """Return whether the catalog has all partitions of a commit to a topic."""
    topic_id = getattr(topic, "topic_id", ZERO_UUID)  # OffsetDelete has names only
    name = topic.name or catalog.topic_name(topic_id)
    known = catalog.topics.get(name) if name else None
    if known is None:
        return False
    if isinstance(topic, PlainTopic):
        rows = topic.rows
        starts = range(0, len(rows), ROW.size)
        indexes = [int.from_bytes(rows[at : at + 4], signed=True) for at in starts]
    else:
        indexes = [each.partition_index for each in topic.partitions]
    return max(indexes, default=0) < known.partition_count
