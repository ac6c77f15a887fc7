"""The routes of topics, records and groups."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, cast

from coterie.testing.control.http import ControlRequest, Route, bad_request
from coterie.testing.control.parameters import integer, refusals, text, timeout_s, unmet
from coterie.testing.in_process import check
from coterie.wire import messages as m

if TYPE_CHECKING:
    from coterie.client.admin.groups import MemberDescription
    from coterie.testing.groups import Group
    from coterie.testing.kafka import Kafka
    from coterie.testing.topics import Isolation, Record

_RECORDS_MAX: Final = 10_000
_PARTITIONS_MAX: Final = 1_000

Running = Callable[[], "AbstractContextManager[Kafka]"]


class DataRoutes:
    """The routes for one server. `running` yields it, or raises Refused."""

    def __init__(self, running: Running) -> None:
        self._running = running

    def routes(self) -> list[Route]:
        """Return the routes."""
        created = HTTPStatus.CREATED
        topic, group = "/v1/topics/{name}", "/v1/groups/{id}"
        return [
            Route("GET", "/v1/topics", "List topics", self._list_topics),
            Route("POST", "/v1/topics", "Create a topic", self._create_topic, created),
            Route("DELETE", topic, "Delete a topic", self._delete_topic),
            Route("GET", f"{topic}/records", "Read records", self._read),
            Route("POST", f"{topic}/records", "Append records", self._produce, created),
            Route("GET", "/v1/groups", "List groups", self._list_groups),
            Route("GET", group, "Describe a group, or wait for it", self._get_group),
            Route("DELETE", group, "Delete a group", self._delete_group),
        ]

    # Topics.

    def _list_topics(self, request: ControlRequest) -> Any:
        request.known()
        with self._running() as kafka:
            response = kafka.request(m.MetadataRequest(topics=None), m.MetadataResponse)
        return {
            "topics": [
                {"name": each.name, "partitions": len(each.partitions)}
                for each in sorted(response.topics, key=lambda topic: topic.name or "")
                if not each.is_internal
            ]
        }

    def _create_topic(self, request: ControlRequest) -> Any:
        request.known("name", "partitions", "config")
        name = text(request.body, "name")
        partitions = integer(request.body, "partitions")
        partitions = 1 if partitions is None else partitions
        if not 1 <= partitions <= _PARTITIONS_MAX:
            raise bad_request(
                f"partitions={partitions}", f"send 1 to {_PARTITIONS_MAX} partitions"
            )
        config = request.body.get("config") or {}
        if not isinstance(config, dict):
            raise bad_request(
                "config is not an object", 'send {"retention.ms": "1000"}'
            )
        with self._running() as kafka, refusals():
            name = kafka.topic(name, partitions=partitions, config=config)
        return {"name": name, "partitions": partitions}

    def _delete_topic(self, request: ControlRequest) -> Any:
        request.known()
        name = request.names["name"]
        message = m.DeleteTopicsRequest(topics=[m.DeleteTopicState(name=name)])
        with self._running() as kafka, refusals():
            (deleted,) = kafka.request(message, m.DeleteTopicsResponse).responses
            check(deleted.error_code, f"topic {name}", deleted.error_message)
        return {"name": name}

    def _produce(self, request: ControlRequest) -> Any:
        request.known("records", "partition", "timestamp_ms")
        body = request.body
        records = body.get("records")
        if not isinstance(records, list) or not 1 <= len(records) <= _RECORDS_MAX:
            raise bad_request(
                "records is not a list of 1 to 10000 records",
                'send {"records": [{"key": "k", "value": "v"}]}',
            )
        pairs = [_parse_record(each) for each in records]
        timestamp_ms = body.get("timestamp_ms")
        if timestamp_ms is not None and type(timestamp_ms) is not int:
            raise bad_request(f"timestamp_ms={timestamp_ms!r}", "send ms since 1970")
        with self._running() as kafka, refusals():
            produced = kafka.produce(
                request.names["name"],
                pairs,
                partition=integer(body, "partition"),
                timestamp_ms=timestamp_ms,
            )
        return {
            "records": [
                {"partition": each.partition, "offset": each.offset}
                for each in produced
            ]
        }

    def _read(self, request: ControlRequest) -> Any:
        request.known("partition", "isolation")
        isolation = request.query.get("isolation", "read_uncommitted")
        if isolation not in {"read_uncommitted", "read_committed"}:
            raise bad_request(
                f"isolation={isolation!r}", "use read_uncommitted or read_committed"
            )
        with self._running() as kafka, refusals():
            records = kafka.records(
                request.names["name"],
                partition=integer(request.query, "partition"),
                isolation=cast("Isolation", isolation),
            )
        return {"records": [_record(each) for each in records]}

    # Groups.

    def _list_groups(self, request: ControlRequest) -> Any:
        request.known()
        with self._running() as kafka:
            return {"groups": [*kafka.groups]}

    def _get_group(self, request: ControlRequest) -> Any:
        """Describe a group; with a condition, when it is true."""
        request.known("state", "members", "lag", "in_flight", "timeout_ms")
        query = request.query
        state, members = query.get("state"), integer(query, "members")
        lag, in_flight = integer(query, "lag"), integer(query, "in_flight")
        with self._running() as kafka, refusals():
            group = kafka.groups[request.names["id"]]
            if {state, members, lag, in_flight} != {None}:
                with unmet():
                    group.wait_for(
                        state=state,
                        members=members,
                        lag=lag,
                        in_flight=in_flight,
                        timeout=timeout_s(request),
                    )
            return _group(group)

    def _delete_group(self, request: ControlRequest) -> Any:
        request.known()
        with self._running() as kafka, refusals():
            kafka.groups[request.names["id"]].delete()
        return {"id": request.names["id"]}


def _parse_record(value: object) -> tuple[bytes | None, bytes | None]:
    if not isinstance(value, dict) or not value.keys() <= {"key", "value"}:
        raise bad_request(f"the record {value!r}", 'send {"key": "k", "value": "v"}')
    return _parse_bytes(value.get("key")), _parse_bytes(value.get("value"))


def _parse_bytes(value: object) -> bytes | None:
    """Return the bytes of a text, or of {"base64": text}."""
    if value is None:
        return None
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, dict) and isinstance(value.get("base64"), str):
        try:
            return base64.b64decode(value["base64"], validate=True)
        except binascii.Error as error:
            raise bad_request(f"base64: {error}", "correct the text") from None
    raise bad_request(
        f"{value!r} is not a key or value", 'send a text, null or {"base64": "AAE="}'
    )


def _content(value: bytes | None) -> str | Mapping[str, str] | None:
    """Return bytes for JSON: a text if they are UTF-8."""
    if value is None:
        return None
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(value).decode()}


def _record(each: Record) -> dict[str, Any]:
    return {
        "partition": each.partition,
        "offset": each.offset,
        "key": _content(each.key),
        "value": _content(each.value),
        "headers": [[name, _content(value)] for name, value in each.headers],
        "timestamp_ms": each.timestamp_ms,
    }


def _group(group: Group) -> dict[str, Any]:
    return {
        "id": group.group_id,
        "state": group.state,
        "members": [_member(each) for each in group.members],
        "offsets": [
            {"topic": topic, "partition": partition, "offset": offset}
            for (topic, partition), offset in group.offsets.items()
        ],
        "lag": group.lag,
        "deliveries": [
            {**record._asdict(), **asdict(delivery)}
            for record, delivery in group.deliveries.items()
        ],
    }


def _member(each: MemberDescription) -> dict[str, Any]:
    return {
        "id": each.member_id,
        "instance_id": each.instance_id,
        "client_id": each.client_id,
        "host": each.host,
        "assignment": [
            {"topic": topic, "partition": partition}
            for topic, partition in each.assignment
        ],
    }
