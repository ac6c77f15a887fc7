"""The groups, members, topics and transactional ids that a request names, at its top
level or in its rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, NamedTuple

from coterie.auth.acl import PatternType, ResourceType
from coterie.broker import FetchSessions
from coterie.types import TopicId
from coterie.wire import messages as m

_ROWS: Final = ("groups", "transactions", "dirs")
"""The arrays whose elements name members, transactional ids or topics themselves."""
_GROUPS: Final = ("groups", "group_ids", "groups_names")
_TOPICS: Final = ("topics", "topic_data", "topic_partitions", "v3_and_below_topics")
_TOPIC_NAMES: Final = ("topic_names", "subscribed_topic_names")
_MEMBER_FIELDS: Final = ("member_id", "instance_id", "group_instance_id")
_TRANSACTIONAL_FIELDS: Final = ("transactional_id", "v3_and_below_transactional_id")
_KEY_GROUP: Final = 0
_KEY_TRANSACTION: Final = 1
CONFIG_TOPIC: Final = 2
CONFIG_GROUP: Final = 32

NameOf = Callable[[TopicId], str | None]
"""A function that returns the name of the topic with an id."""


class RequestNames(NamedTuple):
    """What a request names, each once and in the order of the request.

    `members` has member ids and instance ids: those of the sender, and in LeaveGroup
    those that leave. The members to which a leader assigns partitions are not among
    them, as the request is not theirs.
    """

    groups: tuple[str, ...]
    members: tuple[str, ...]
    topics: tuple[str, ...]
    transactional_ids: tuple[str, ...]


def names_in(request: Any, name_of: NameOf, sessions: FetchSessions) -> RequestNames:
    """Return the names in a request.

    `name_of` resolves topic ids. A Fetch names the topics of its session too, which
    are not in the request (KIP-227).
    """
    rows = [request, *_elements(request, _ROWS)]
    topics: Iterable[str | None]
    if isinstance(request, m.FetchRequest):
        requested = sessions.requested(request)
        topics = [key.topic or name_of(key.topic_id) for key in requested]
    else:
        topics = _topics(request, rows, name_of)
    return RequestNames(
        _distinct(_groups(request, rows)),
        _distinct(_members(request, rows)),
        _distinct(topics),
        _distinct(_transactional_ids(request, rows)),
    )


def _distinct(names: Iterable[str | None]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(filter(None, names)))


def _elements(request: Any, arrays: Iterable[str]) -> Iterator[Any]:
    for array in arrays:
        yield from getattr(request, array, None) or ()


def _fields(rows: Iterable[Any], names: Iterable[str]) -> Iterator[str | None]:
    for row in rows:
        for name in names:
            yield getattr(row, name, None)


def _groups(request: Any, rows: list[Any]) -> Iterator[str | None]:
    yield from _fields(rows, ("group_id",))
    yield from (each for each in _elements(request, _GROUPS) if isinstance(each, str))
    yield from _keys(request, _KEY_GROUP)
    yield from _resources(request, CONFIG_GROUP, ResourceType.GROUP)


def _members(request: Any, rows: list[Any]) -> Iterator[str | None]:
    yield from _fields(rows, _MEMBER_FIELDS)
    if isinstance(request, m.LeaveGroupRequest):
        yield from _fields(request.members, _MEMBER_FIELDS)


def _topics(request: Any, rows: list[Any], name_of: NameOf) -> Iterator[str | None]:
    for row in rows:
        for topic in _elements(row, _TOPICS):
            yield topic_of(topic, name_of)
    yield from _elements(request, _TOPIC_NAMES)
    yield from _resources(request, CONFIG_TOPIC, ResourceType.TOPIC)


def topic_of(row: Any, name_of: NameOf) -> str | None:
    """Return the name of the topic of a row."""
    for name in ("name", "topic", "topic_name"):
        value = getattr(row, name, None)
        if value:
            return str(value)
    topic_id = getattr(row, "topic_id", None)
    return name_of(topic_id) if topic_id else None


def _transactional_ids(request: Any, rows: list[Any]) -> Iterator[str | None]:
    yield from _fields(rows, _TRANSACTIONAL_FIELDS)
    yield from _elements(request, ("transactional_ids",))
    yield from _keys(request, _KEY_TRANSACTION)
    yield from _resources(request, None, ResourceType.TRANSACTIONAL_ID)


def _keys(request: Any, kind: int) -> Iterator[str]:
    """Yield the keys of a FindCoordinator request."""
    if getattr(request, "key_type", None) == kind:
        yield from request.coordinator_keys or (request.key,)


def _resources(
    request: Any, config_type: int | None, acl_type: ResourceType
) -> Iterator[str | None]:
    """Yield the names of a type of resource in requests about configurations and ACL
    bindings."""
    for each in getattr(request, "resources", ()):
        if each.resource_type == config_type:
            yield each.resource_name
    for each in getattr(request, "creations", ()):
        pattern = each.resource_pattern_type
        if (each.resource_type, pattern) == (acl_type, PatternType.LITERAL):
            yield each.resource_name
    for each in (request, *_elements(request, ("filters",))):
        wanted = getattr(each, "resource_type_filter", None)
        if wanted == acl_type and each.pattern_type_filter == PatternType.LITERAL:
            yield each.resource_name_filter
