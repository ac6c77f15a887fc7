"""Responses with an error, as a broker sends them that has its cause.

An error of the whole request is sent at once, and the request is not handled. An error
of a row does not say anything about the others: a Fetch of two topics of which one is
not authorized returns the records of the other one. The handler gets what the fault
does not hit, and the rows with the error are put into its response.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import Any, Final

from coterie.broker import LEADER_EPOCH, Handler, leader_of
from coterie.testing.error_responses import error_response
from coterie.testing.error_rows import (
    OF_ONE_TOPIC,
    OF_PARTITIONS,
    Rows,
    copied_fields,
    shape_of,
)
from coterie.testing.faults.recorded_call import RecordedCall
from coterie.testing.recorder import Filter
from coterie.testing.request_names import (
    CONFIG_GROUP,
    CONFIG_TOPIC,
    NameOf,
    topic_of,
)
from coterie.wire import messages as m
from coterie.wire.api import ApiKey, api_of
from coterie.wire.commit import Commit, decoded
from coterie.wire.error_codes import ErrorCode

_NO_LEADER: Final = -1
_NO_OFFSET: Final = -1
_TOPIC_IDS_SINCE: Final = 13
_MEMBER_ID_REQUIRED_SINCE: Final = 4
_LEADER_HINTS_SINCE: Final = {ApiKey.PRODUCE: 10, ApiKey.FETCH: 16}
"""The versions whose rows name the current leader (KIP-951)."""
_ELSEWHERE: Final = {ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH}
_NOT_ATTEMPTED: Final = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
}
"""The codes of one topic in AddPartitionsToTxn for which no other is added either."""


def reply_error(
    call: RecordedCall, handler: Handler, code: ErrorCode, wanted: Filter
) -> None:
    """Respond with an error to what `wanted` matches in a request; let `handler`
    respond to the rest.

    A Produce request with acks=0 has no response: its connection is closed, as Kafka
    does.
    """
    key, version = ApiKey(call.request.API_KEY), call.api_version
    shape = shape_of(key, version, code)
    has_top = shape.is_top and _has_top(key, version)
    if _is_first_join(call, code):
        handler(call)
        return
    if has_top or not shape.rows:
        _send(call, error_response(call.request, version, code))
        return
    if key is ApiKey.METADATA:
        _reply_metadata(call, handler, code, wanted)
    elif key is ApiKey.DESCRIBE_LOG_DIRS:
        _reply_log_dirs(call, handler, code)
    elif key is ApiKey.OFFSET_FETCH and not shape.is_top:
        _reply_offsets(call, handler, code, wanted)
    else:
        _reply_rows(call, handler, code, shape.rows[0], wanted)


def _has_top(key: ApiKey, version: int) -> bool:
    declared = api_of(key).response.FIELDS.get("error_code")
    return declared is not None and version in declared.versions


def _is_first_join(call: RecordedCall, code: ErrorCode) -> bool:
    """Return whether the code assigns the member id, which the member joins with: the
    group has to know it."""
    request = call.request
    return (
        code is ErrorCode.MEMBER_ID_REQUIRED
        and isinstance(request, m.JoinGroupRequest)
        and call.api_version >= _MEMBER_ID_REQUIRED_SINCE
        and not (request.member_id or request.group_instance_id)
    )


def _send(call: RecordedCall, response: Any) -> None:
    if response is None:
        call.drop(close=True)
    else:
        call.send(response)


# Responses to requests that need not name their rows: of the handler, with errors.


def _reply_metadata(
    call: RecordedCall, handler: Handler, code: ErrorCode, wanted: Filter
) -> None:
    request = copy(call.request)
    request.allow_auto_topic_creation = False
    is_listing = not request.topics

    def add_error(response: Any) -> None:
        response = decoded(response, call.api_version)
        topics = []
        for topic in response.topics:
            if wanted.topic is None or topic.name == wanted.topic:
                if is_listing and code is ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                    continue  # a list of all topics has those that are authorized
                _fail_topic(topic, code)
            topics.append(topic)
        response.topics = topics
        call.send(response)

    call.request = request
    call.intercept = add_error
    handler(call)


def _fail_topic(topic: Any, code: ErrorCode) -> None:
    if code in OF_PARTITIONS and topic.partitions:
        for partition in topic.partitions:
            partition.error_code = code
            if code is not ErrorCode.REPLICA_NOT_AVAILABLE:
                partition.leader_id = _NO_LEADER
    else:
        topic.error_code, topic.partitions = code, []


def _reply_log_dirs(call: RecordedCall, handler: Handler, code: ErrorCode) -> None:
    def add_error(response: Any) -> None:
        response = decoded(response, call.api_version)
        for directory in response.results:
            directory.error_code, directory.topics = code, []
        call.send(response)

    call.intercept = add_error
    handler(call)


def _reply_offsets(
    call: RecordedCall, handler: Handler, code: ErrorCode, wanted: Filter
) -> None:
    requested = call.request.groups or [call.request]
    listed = {each.group_id for each in requested if each.topics is None}

    def add_error(response: Any) -> None:
        response = decoded(response, call.api_version)
        # Before v8 the response has no groups.
        for group in response.groups or [response]:
            group_id = getattr(group, "group_id", requested[0].group_id)
            if wanted.group in {None, group_id}:
                is_hidden = (
                    group_id in listed and code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
                )
                _fail_offsets(group, code, is_hit, is_hidden=is_hidden)
        call.send(response)

    name_of = call.node.broker.catalog.topic_name

    def is_hit(topic: Any) -> bool:
        return wanted.topic in {None, topic_of(topic, name_of)}

    call.intercept = add_error
    handler(call)


def _fail_offsets(
    group: Any, code: ErrorCode, is_hit: Callable[[Any], bool], *, is_hidden: bool
) -> None:
    if is_hidden:  # a list of all offsets has the topics that are authorized
        group.topics = [topic for topic in group.topics if not is_hit(topic)]
    for topic in filter(is_hit, group.topics):
        cls: Any = type(topic)
        element = cls.FIELDS["partitions"].element
        topic.partitions = [
            element(
                partition_index=each.partition_index,
                error_code=code,
                committed_offset=_NO_OFFSET,
            )
            for each in topic.partitions
        ]


# Responses whose rows are those of the request.


class _Hits:
    """The rows of a request that a fault hits."""

    def __init__(self, call: RecordedCall, code: ErrorCode, wanted: Filter) -> None:
        catalog = call.node.broker.catalog
        self._name_of: NameOf = catalog.topic_name
        self._wanted = wanted
        self._topic = wanted.topic if code in OF_ONE_TOPIC else None
        is_transaction = getattr(call.request, "key_type", 0)
        self._key_kind = "transactional_id" if is_transaction else "group"

    def split(self, request: Any, rows: Rows) -> tuple[Any, Any]:
        """Return copies of a request, or of an element of it: one with the rows that
        the fault hits, one with the others."""
        hit, rest = [], []
        for element in getattr(request, rows.request) or ():
            if not self.has(element, rows):
                rest.append(element)
            elif rows.nested is None or not rows.nested.nested:
                hit.append(element)
            else:
                inner_hit, inner_rest = self.split(element, rows.nested)
                hit.append(inner_hit)
                if getattr(inner_rest, rows.nested.request):
                    rest.append(inner_rest)
        return _with(request, rows.request, hit), _with(request, rows.request, rest)

    def has(self, element: Any, rows: Rows) -> bool:
        """Return whether the fault hits a row."""
        wanted = self._wanted
        if rows.kind == "topic":
            name = element if isinstance(element, str) else None
            name = name or topic_of(element, self._name_of)
            return self._topic in {None, name}
        if rows.kind == "member":
            names = {None, element.member_id, element.group_instance_id}
            return wanted.member in names
        kind = self._key_kind if rows.kind == "key" else rows.kind
        if kind == "group":
            name = element if isinstance(element, str) else element.group_id
            member = getattr(element, "member_id", None)
            return wanted.group in {None, name} and wanted.member in {None, member}
        if kind == "transactional_id":
            name = element if isinstance(element, str) else element.transactional_id
            return wanted.transactional_id in {None, name}
        if kind == "resource":
            named = {CONFIG_TOPIC: wanted.topic, CONFIG_GROUP: wanted.group}
            name = named.get(element.resource_type)
            return not any(named.values()) or name == element.resource_name
        return True


def _with(value: Any, name: str, content: Any) -> Any:
    changed = copy(value)
    setattr(changed, name, content)
    return changed


def _reply_rows(
    call: RecordedCall, handler: Handler, code: ErrorCode, rows: Rows, wanted: Filter
) -> None:
    key, version = ApiKey(call.request.API_KEY), call.api_version
    hits = _Hits(call, code, wanted)
    if isinstance(call.request, Commit):
        _reply_commit(call, handler, code, rows, hits)
        return
    hit, rest = hits.split(_with_all_rows(call), rows)
    errors: Any = error_response(hit, version, code)
    if errors is not None and code in _ELSEWHERE:
        _name_leaders(call, key, rows, errors)
    if key is ApiKey.FETCH:
        # The session advances, and partitions without the error are read.
        call.request = _with(call.request, "max_wait_ms", 0)
    elif not getattr(rest, rows.request):
        _send(call, errors)
        return
    elif key is ApiKey.ADD_PARTITIONS_TO_TXN and code in _NOT_ATTEMPTED:
        others = error_response(rest, version, ErrorCode.OPERATION_NOT_ATTEMPTED)
        _merge(others, errors, rows)
        _send(call, others)
        return
    else:
        call.request = rest

    def add_errors(response: Any) -> None:
        if errors is None:
            call.drop(close=True)
            return
        merged = decoded(response, call.api_version)
        if getattr(merged, "error_code", ErrorCode.NONE) == ErrorCode.NONE:
            _merge(merged, errors, rows)
            if key in _LEADER_HINTS_SINCE:
                merged.node_endpoints = errors.node_endpoints or merged.node_endpoints
        call.send(merged)

    call.intercept = add_errors
    handler(call)


def _reply_commit(
    call: RecordedCall, handler: Handler, code: ErrorCode, rows: Rows, hits: _Hits
) -> None:
    """Refuse the topics that the fault hits, as an authorizer does: the group's shard
    responds for all of them."""
    request: Commit = call.request
    refused = [topic for topic in request.topics if hits.has(topic, rows)]
    if len(refused) == len(request.topics):
        _send(call, error_response(request.message(), call.api_version, code))
        return
    for topic in refused:
        topic.error_code = code
    handler(call)


def _with_all_rows(call: RecordedCall) -> Any:
    """Return the request with the rows that it stands for without naming them."""
    request = call.request
    if isinstance(request, m.FetchRequest):
        return _with_session(call)
    if isinstance(request, m.ElectLeadersRequest) and request.topic_partitions is None:
        return _with_all_topics(call)
    return request


def _with_session(call: RecordedCall) -> Any:
    """Return a Fetch request that lists the partitions of its session too."""
    topics: dict[tuple[str, bytes], m.FetchTopic] = {}
    for key in call.node.broker.fetch_sessions.requested(call.request):
        topic = topics.get(key[:2])
        if topic is None:
            name = key.topic if call.api_version < _TOPIC_IDS_SINCE else ""
            topic = m.FetchTopic(topic=name, topic_id=key.topic_id)
            topics[key[:2]] = topic
        topic.partitions.append(m.FetchPartition(partition=key.partition))
    return _with(call.request, "topics", list(topics.values()))


def _with_all_topics(call: RecordedCall) -> Any:
    """Return an ElectLeaders request for all partitions that lists them."""
    topics = [
        m.ElectedTopic(topic=topic.name, partitions=list(range(topic.partition_count)))
        for topic in call.node.broker.catalog.topics.values()
    ]
    return _with(call.request, "topic_partitions", topics)


def _merge(target: Any, errors: Any, rows: Rows) -> None:
    """Put the rows of `errors` into those of `target`, in place of rows of the same
    topic, partition or group."""
    present = {_key(row, rows): row for row in getattr(target, rows.response)}
    for row in getattr(errors, rows.response):
        key = _key(row, rows)
        if rows.nested is not None and key in present:
            _merge(present[key], row, rows.nested)
        else:
            present[key] = row
    setattr(target, rows.response, list(present.values()))


def _key(row: Any, rows: Rows) -> tuple[Any, ...]:
    return tuple(getattr(row, name) for name, _ in copied_fields(rows.fields))


def _name_leaders(call: RecordedCall, key: ApiKey, rows: Rows, errors: Any) -> None:
    """Add the current leaders, for clients that then need not ask for metadata."""
    since = _LEADER_HINTS_SINCE.get(key)
    if since is None or call.api_version < since or rows.nested is None:
        return
    leaders = {}
    for topic in getattr(errors, rows.response):
        for row in getattr(topic, rows.nested.response):
            is_produce = key is ApiKey.PRODUCE
            index = row.index if is_produce else row.partition_index
            leader = leader_of(call, index)
            leaders[leader.node_id] = m.NodeEndpoint(
                node_id=leader.node_id, host=leader.host, port=leader.port
            )
            row.current_leader = m.LeaderIdAndEpoch(
                leader_id=leader.node_id, leader_epoch=LEADER_EPOCH
            )
    errors.node_endpoints = list(leaders.values())
