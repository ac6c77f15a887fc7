"""The seam between a test server and its faults and records.

    traffic = Traffic()
    server = Server(plan, wrap_handlers=traffic.wrap)
    await server.start()
    traffic.attach(server.assembly.broker, loop)

`wrap` puts itself before the handlers of all APIs: each request is recorded, meets the
first fault that matches it, and its response is recorded when it is sent.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from functools import partial
from itertools import count
from typing import Any
from weakref import WeakKeyDictionary

from coterie.broker import Broker, Call, Handler
from coterie.testing.error_responses import error_names
from coterie.testing.faults.recorded_call import RecordedCall
from coterie.testing.faults.registry import Faults
from coterie.testing.recorder import Rebalances, RecordedRequest, Requests, render
from coterie.testing.request_names import names_in
from coterie.types import TopicId
from coterie.wire.api import ApiKey
from coterie.wire.commit import Commit, CommitResponse, decoded
from coterie.wire.primitives import EncodedArray
from coterie.wire.schema import Struct

_LOGGER = logging.getLogger(__name__)


class Traffic:
    """The requests, rebalances and faults of one server. They outlive a restart."""

    def __init__(self) -> None:
        self.requests = Requests()
        self.rebalances = Rebalances()
        self.faults = Faults(self.requests)
        self._peers: WeakKeyDictionary[Any, int] = WeakKeyDictionary()
        self._numbers = count(1)
        self._topic_names: dict[TopicId, str] = {}

    def attach(self, broker: Broker, loop: asyncio.AbstractEventLoop) -> None:
        """Connect to a server that was started, again after each restart."""
        broker.runtime.rebalances.listener = self.rebalances.observe
        self.faults.attach(broker, loop, self._open_peers)

    def detach(self) -> None:
        """Remove the faults, before the server is closed for good."""
        self.faults.detach()

    def history(self, group: str | None = None) -> str:
        """Return the requests and rebalances of a group, or of all, as a table."""
        if group is None:
            return render(self.requests, self.rebalances)
        return render(self.requests.of(group=group), self.rebalances.of(group))

    def wrap(self, handlers: Mapping[int, Handler]) -> Mapping[int, Handler]:
        """Return the handlers with records and faults before them."""
        return {
            key: partial(self._handle, ApiKey(key).title, handler)
            for key, handler in handlers.items()
        }

    def _handle(self, api: str, handler: Handler, call: Call) -> None:
        recorded = self._record(api, call)
        self.requests.append(recorded)
        recorded_call = RecordedCall(
            call, recorded, partial(self._finish, call.node.broker)
        )
        fault = self.faults.claim(recorded)
        if fault is None:
            handler(recorded_call)
        else:
            recorded.fault = fault.name
            fault.apply(recorded_call, handler)

    def _record(self, api: str, call: Call) -> RecordedRequest:
        peer: Any = call.peer
        number = self._peers.get(peer)
        if number is None:
            number = self._peers[peer] = next(self._numbers)
        request, broker = call.request, call.node.broker
        if isinstance(request, Commit):
            request = request.message()  # the handler still gets its rows
        name_of = partial(self._name_of, broker)
        names = names_in(request, name_of, broker.fetch_sessions)
        kept, record_bytes = request, 0
        if api == "Produce":
            kept, record_bytes = _without_records(
                request, "topic_data", "partition_data"
            )
        return RecordedRequest(
            time_ms=broker.clock(),
            node=call.node.node_id,
            connection=number,
            client=call.client_host.removeprefix("/"),
            client_id=call.client_id,
            principal=str(call.principal),
            api=api,
            version=call.api_version,
            groups=names.groups,
            members=names.members,
            topics=names.topics,
            transactional_ids=names.transactional_ids,
            request=kept,
            record_bytes=record_bytes,
        )

    def _name_of(self, broker: Broker, topic_id: TopicId) -> str | None:
        """Return the name of a topic, which it keeps after its deletion."""
        name = broker.catalog.topic_name(topic_id)
        if name is not None:
            self._topic_names[topic_id] = name
        return self._topic_names.get(topic_id)

    def _finish(
        self, broker: Broker, recorded: RecordedRequest, response: Any, is_sent: bool
    ) -> None:
        """Record a response. A failure here must not keep it from being sent."""
        try:
            if isinstance(response, CommitResponse) or _has_encoded_array(response):
                response = decoded(response, recorded.version)
            if recorded.api == "Fetch" and response is not None:
                response, recorded.record_bytes = _without_records(
                    response, "responses", "partitions"
                )
            recorded.response = response
            recorded.errors = error_names(response)
            if is_sent:
                recorded.duration_ms = broker.clock() - recorded.time_ms
        except Exception:
            _LOGGER.exception("a response of %s could not be recorded", recorded.api)
        recorded.is_done = True
        self.faults.observe(recorded)
        self.requests.notify()

    def _open_peers(self) -> list[Any]:
        return list(self._peers)


def _has_encoded_array(value: Any) -> bool:
    """Return whether a message, or an element of one, has an array in encoded form."""
    if isinstance(value, EncodedArray):
        return True
    if isinstance(value, list):
        return any(map(_has_encoded_array, value))
    return isinstance(value, Struct) and any(
        _has_encoded_array(getattr(value, name))
        for name, declared in value.FIELDS.items()
        if declared.element is not None
    )


# Records.


def _without_records(message: Any, topics: str, partitions: str) -> tuple[Any, int]:
    """Return a copy of a Produce request or Fetch response without records, and their
    size in bytes."""
    size = 0
    copied = []
    for topic in getattr(message, topics):
        rows = []
        for row in getattr(topic, partitions):
            size += _size(row.records)
            rows.append(_copy(row, records=None))
        copied.append(_copy(topic, **{partitions: rows}))
    return _copy(message, **{topics: copied}), size


def _copy(value: Any, **changed: Any) -> Any:
    fields = {name: getattr(value, name) for name in value.FIELDS}
    return type(value)(**(fields | changed))


def _size(records: Any) -> int:
    if records is None:
        return 0
    if isinstance(records, list | tuple):
        return sum(map(len, records))
    return len(records)
