"""A Kafka cluster as its clients see it: brokers, topics' names and ids, coordinators.

    cluster = Cluster("broker-1:9092,broker-2:9092", ClientOptions())
    answer = await cluster.call(ListGroupsRequest(), ListGroupsResponse)
    answer = await cluster.call_coordinator("g", request, Response, wanted=...)
    await cluster.close()

There is one connection to each address; it is made when it is first needed, and again
after it is lost. What a broker says about itself and others is kept until it is wrong.

Rules of this file: `call` and `call_coordinator` try once, `retrying` tries again, and
only for what may pass: a lost connection, no answer, or a coordinator that is loading,
missing or elsewhere (E7-70, E7-71).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final, TypeVar

from coterie.client.connection import ANY_VERSION, Address, BrokerConnection
from coterie.client.coordinators import Found, lookup_request, read_lookup
from coterie.client.options import ClientOptions
from coterie.errors import (
    ApiError,
    ClientError,
    ConnectionLost,
    CoterieError,
    MalformedFrame,
    RequestTimedOut,
)
from coterie.types import GroupId, TopicId, TopicName
from coterie.wire.error_codes import ErrorCode
from coterie.wire.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from coterie.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from coterie.wire.schema import ZERO_UUID, Message, Versions

M = TypeVar("M", bound=Message)
T = TypeVar("T")

COORDINATOR_ELSEWHERE: Final = frozenset(
    {ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR}
)
TRIED_AGAIN: Final = COORDINATOR_ELSEWHERE | {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.UNSTABLE_OFFSET_COMMIT,
}
_NAMES_BY_ID: Final = Versions(12, 13)
"""Metadata asks by id since version 10, but null names are read since 12 only."""


class Cluster:
    """A cluster. See the module's docstring. `bootstrap` are addresses HOST:PORT, in a
    sequence or with commas between; any broker of the cluster does."""

    def __init__(self, bootstrap: str | Sequence[str], options: ClientOptions) -> None:
        listed = bootstrap.split(",") if isinstance(bootstrap, str) else bootstrap
        self._bootstrap = [Address.parse(each) for each in listed if each.strip()]
        if not self._bootstrap:
            raise ClientError("no bootstrap address was given; say HOST:PORT")
        self.options = options
        self._nodes: dict[int, Address] = {}
        self._coordinators: dict[GroupId, int] = {}
        self._connections: dict[Address, BrokerConnection] = {}
        self._locks: dict[Address, asyncio.Lock] = {}
        self._is_closed = False
        self._was_reached = False

    async def close(self) -> None:
        """Close every connection; none is made any more."""
        self._is_closed = True
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()
        await asyncio.sleep(0)  # transports say goodbye in the next turn of the loop

    # Connections.

    async def connection(self, node_id: int | None = None) -> BrokerConnection:
        """The connection to a node, or to any broker.

        Raises ConnectionLost when it cannot be made.
        """
        if node_id is None:
            return await self._any_connection()
        if node_id not in self._nodes:
            await self.metadata([])
        if (address := self._nodes.get(node_id)) is None:
            raise ConnectionLost(f"the cluster has no node {node_id} now")
        return await self._connect(address)

    async def call(
        self,
        request: Message,
        response: type[M],
        *,
        node_id: int | None = None,
        wanted: Versions = ANY_VERSION,
    ) -> M:
        """Ask a node, or any broker, once; raises what `BrokerConnection.call` does."""
        connection = await self.connection(node_id)
        return await connection.call(request, response, wanted=wanted)

    async def _any_connection(self) -> BrokerConnection:
        for connection in self._connections.values():
            if connection.is_open:
                return connection
        failures = []
        for address in dict.fromkeys([*self._nodes.values(), *self._bootstrap]):
            try:
                return await self._connect(address)
            except ConnectionLost as error:
                failures.append(str(error))
        raise ConnectionLost("; ".join(failures))

    async def _connect(self, address: Address) -> BrokerConnection:
        async with self._locks.setdefault(address, asyncio.Lock()):
            if self._is_closed:
                raise ConnectionLost("the client is closed")
            connection = self._connections.get(address)
            if connection is None or not connection.is_open:
                connection = await BrokerConnection.open(address, self.options)
                self._was_reached = True
                self._connections[address] = connection
                if self._is_closed:  # meanwhile
                    connection.close()
            return connection

    # Topics.

    async def metadata(self, topics: Iterable[TopicName] | None) -> MetadataResponse:
        """Brokers, and the named topics; None means all. No topic is made by asking.

        Errors of topics are in the answer. The brokers are remembered.
        """
        named = None if topics is None else [_by_name(name) for name in topics]
        return await self._metadata(named, ANY_VERSION)

    async def topic_names(self, ids: Iterable[TopicId]) -> dict[TopicId, TopicName]:
        """The names of topics by their ids; those that the broker does not know, or
        does not let us see, are left out (E7-82)."""
        asked = [MetadataRequestTopic(topic_id=each, name=None) for each in ids]
        answer = await self._metadata(asked, _NAMES_BY_ID)
        return {
            topic.topic_id: topic.name
            for topic in answer.topics
            if not topic.error_code and topic.name and topic.topic_id != ZERO_UUID
        }

    async def _metadata(
        self, topics: list[MetadataRequestTopic] | None, wanted: Versions
    ) -> MetadataResponse:
        request = MetadataRequest(topics=topics, allow_auto_topic_creation=False)
        answer = await self.call(request, MetadataResponse, wanted=wanted)
        _check(answer.error_code, "Metadata")
        for broker in answer.brokers:
            self._nodes[broker.node_id] = Address(broker.host, broker.port)
        return answer

    # Coordinators.

    async def coordinator(self, group_id: GroupId) -> BrokerConnection:
        """The connection to a group's coordinator, looked up when it is not known.

        Raises ApiError, ConnectionLost or RequestTimedOut, after having tried again
        what may pass for `api_timeout_ms`.
        """
        return await self.retrying(lambda: self._coordinator(group_id))

    def forget_coordinator(self, group_id: GroupId) -> None:
        """Look the coordinator up when it is next needed."""
        self._coordinators.pop(group_id, None)

    async def call_coordinator(
        self,
        group_id: GroupId,
        request: Message,
        response: type[M],
        *,
        wanted: Versions = ANY_VERSION,
    ) -> M:
        """Ask a group's coordinator, once. Codes in the answer are the caller's: at 15
        and 16 it should `forget_coordinator`."""
        connection = await self.coordinator(group_id)
        try:
            return await connection.call(request, response, wanted=wanted)
        except (ConnectionLost, RequestTimedOut):
            self.forget_coordinator(group_id)
            raise

    async def _coordinator(self, group_id: GroupId) -> BrokerConnection:
        node_id = self._coordinators.get(group_id)
        if node_id is None:
            node_id = await self._find_coordinator(group_id)
        try:
            connection = await self.connection(node_id)
        except ConnectionLost:
            self.forget_coordinator(group_id)
            raise
        self._coordinators[group_id] = node_id
        return connection

    async def _find_coordinator(self, group_id: GroupId) -> int:
        found = (await self.find_coordinators([group_id])).get(group_id)
        if found is None:
            raise MalformedFrame(f"FindCoordinator: nothing about group {group_id}")
        _check(found.code, f"the coordinator of group {group_id}")
        return found.node_id

    async def find_coordinators(
        self, group_ids: Sequence[GroupId]
    ) -> dict[GroupId, Found]:
        """Ask any broker, once and in one request, for the coordinators of groups, and
        keep those that it tells.

        Raises NoBatchedFindCoordinatorsError when there is more than one group and the
        broker looks up one at a time, and what `BrokerConnection.call` raises.
        """
        connection = await self.connection()
        version = connection.version_of(FindCoordinatorRequest)
        request = lookup_request(group_ids, version)
        answer = await connection.call(request, FindCoordinatorResponse)
        found = read_lookup(answer, group_ids, version)
        for group_id, each in found.items():
            if each.code is ErrorCode.NONE:
                self._nodes[each.node_id] = Address(each.host, each.port)
                self._coordinators[group_id] = each.node_id
        return found

    def known_coordinator(self, group_id: GroupId) -> tuple[int, Address] | None:
        """A group's coordinator as far as it is known: its node id and address."""
        node_id = self._coordinators.get(group_id)
        return None if node_id is None else (node_id, self._nodes[node_id])

    async def retrying(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """What `attempt` gives, tried again while it fails with something that may
        pass, for at most `api_timeout_ms`, or `first_contact_ms` while no broker was
        ever reached; then its last failure."""
        options = self.options
        loop = asyncio.get_running_loop()
        started_s = loop.time()
        delay_ms = options.retry_backoff_ms
        while True:
            try:
                return await attempt()
            except CoterieError as error:
                limit_ms = options.api_timeout_ms
                if not self._was_reached:
                    limit_ms = min(limit_ms, options.first_contact_ms)
                is_late = loop.time() + delay_ms / 1000 > started_s + limit_ms / 1000
                if is_late or self._is_closed or not may_pass(error):
                    raise
            await asyncio.sleep(delay_ms / 1000)
            delay_ms = min(2 * delay_ms, options.retry_backoff_max_ms)


def may_pass(error: CoterieError) -> bool:
    """Whether the same request may succeed a moment later."""
    if isinstance(error, ApiError):
        return error.code in TRIED_AGAIN
    return isinstance(error, ConnectionLost | RequestTimedOut)


def _by_name(name: TopicName) -> MetadataRequestTopic:
    return MetadataRequestTopic(topic_id=ZERO_UUID, name=name)


def _check(code: int, what: str) -> None:
    if code:
        read = ErrorCode.read(code)
        raise ApiError(read, f"{what}: {read.name}")
