"""A client's view of a Kafka cluster: connections, topic names and ids, coordinators.

    cluster = Cluster("broker-1:9092,broker-2:9092", ClientOptions())
    response = await cluster.call(ListGroupsRequest(), ListGroupsResponse)
    response = await cluster.call_coordinator("g", request, Response, wanted=...)
    await cluster.close()

There is one connection to each address, opened on first use and again after it is lost.
Addresses and coordinators are cached until a request shows that they are outdated.

Rules of this file: `call` and `call_coordinator` send once. `retrying` retries after
retriable errors: a lost connection, a time-out, or a coordinator that is loading,
unavailable or elsewhere (E7-70, E7-71).

FindCoordinator requests name many groups where the broker supports that (KIP-699).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from typing import Final, NamedTuple, TypeVar

from coterie.client.connection import ANY_VERSION, Address, BrokerConnection
from coterie.client.options import ClientOptions
from coterie.errors import (
    ApiError,
    ClientError,
    ConnectionLost,
    CoterieError,
    MalformedFrame,
    NoBatchedFindCoordinatorsError,
    RequestTimedOut,
    UnsupportedByBroker,
)
from coterie.types import GroupId, TopicId, TopicName
from coterie.wire import messages as m
from coterie.wire.error_codes import ErrorCode
from coterie.wire.schema import ZERO_UUID, Message, Versions

M = TypeVar("M", bound=Message)
T = TypeVar("T")

COORDINATOR_ELSEWHERE: Final = frozenset(
    {ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR}
)
RETRIED_CODES: Final = COORDINATOR_ELSEWHERE | {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.UNSTABLE_OFFSET_COMMIT,
}
GROUP: Final = 0
TRANSACTION: Final = 1
COORDINATORS_MAX: Final = 100_000
"""The coordinators that are cached."""
_NAMES_BY_ID: Final = Versions(12, 13)
"""Metadata requests have topic ids since version 10, but brokers accept null names
since version 12 only."""


class Cluster:
    """A Kafka cluster. `bootstrap` holds addresses HOST:PORT, as a sequence or
    separated by commas; any brokers of the cluster suffice. The coordinators are those
    of groups, or with the `key_type` TRANSACTION those of transactional ids."""

    def __init__(
        self,
        bootstrap: str | Sequence[str],
        options: ClientOptions,
        key_type: int = GROUP,
    ) -> None:
        listed = bootstrap.split(",") if isinstance(bootstrap, str) else bootstrap
        self._bootstrap = [Address.parse(each) for each in listed if each.strip()]
        if not self._bootstrap:
            raise ClientError("no bootstrap address was given; write HOST:PORT")
        self.options = options
        self._key_type = key_type
        self._nodes: dict[int, Address] = {}
        self._coordinators: dict[GroupId, int] = {}
        self._connections: dict[Address, BrokerConnection] = {}
        self._locks: dict[Address, asyncio.Lock] = {}
        self._failures: dict[Address, CoterieError] = {}
        """The last failure to connect to an address."""
        self._is_closed = False
        self._was_reached = False

    async def close(self) -> None:
        """Close every connection and open no more."""
        self._is_closed = True
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()
        await asyncio.sleep(0)  # transports close in the next iteration of the loop

    # Connections.

    async def connection(self, node_id: int | None = None) -> BrokerConnection:
        """Return the connection to a node, or to any broker.

        Raises ConnectionLost when the cluster has no such node or no broker can be
        reached, and the errors of
        `BrokerConnection.open`.
        """
        if node_id is None:
            for connection in self._connections.values():
                if connection.is_open:
                    return connection
            failures = []
            for known in dict.fromkeys([*self._nodes.values(), *self._bootstrap]):
                try:
                    return await self._connect(known)
                except ConnectionLost as error:
                    failures.append(str(error))
            raise ConnectionLost("; ".join(failures))
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
        """Send a request to a node or to any broker, once. Raises the errors of
        `connection` and of `BrokerConnection.call`."""
        connection = await self.connection(node_id)
        return await connection.call(request, response, wanted=wanted)

    async def _connect(self, address: Address) -> BrokerConnection:
        failure = self._failures.get(address)
        async with self._locks.setdefault(address, asyncio.Lock()):
            if self._is_closed:
                raise ConnectionLost("the client is closed")
            # A caller shares the failure that it has waited for: with an attempt for
            # each, many callers would wait for a hanging broker one after another.
            last_failure = self._failures.get(address)
            if last_failure is not None and last_failure is not failure:
                raise last_failure
            connection = self._connections.get(address)
            if connection is None or not connection.is_open:
                try:
                    connection = await BrokerConnection.open(address, self.options)
                except CoterieError as error:
                    self._failures[address] = error
                    raise
                self._was_reached = True
                self._connections[address] = connection
                if self._is_closed:  # by another task, while this one connected
                    connection.close()
            return connection

    # Topics.

    async def metadata(self, topics: Iterable[TopicName] | None) -> m.MetadataResponse:
        """Request the metadata of the brokers and of topics; None means all topics.

        Errors of topics are in the response. No topic is auto-created. The addresses of
        brokers are cached.
        """
        named = None
        if topics is not None:
            named = [m.MetadataRequestTopic(topic_id=ZERO_UUID, name=x) for x in topics]
        return await self._metadata(named, ANY_VERSION)

    async def topic_names(self, ids: Iterable[TopicId]) -> dict[TopicId, TopicName]:
        """Return the names of topics by id, without topics that do not exist or that
        the principal may not describe (E7-82).
        """
        topics = [m.MetadataRequestTopic(topic_id=each, name=None) for each in ids]
        response = await self._metadata(topics, _NAMES_BY_ID)
        return {
            topic.topic_id: topic.name
            for topic in response.topics
            if not topic.error_code and topic.name and topic.topic_id != ZERO_UUID
        }

    async def _metadata(
        self, topics: list[m.MetadataRequestTopic] | None, wanted: Versions
    ) -> m.MetadataResponse:
        request = m.MetadataRequest(topics=topics, allow_auto_topic_creation=False)
        response = await self.call(request, m.MetadataResponse, wanted=wanted)
        _check(response.error_code, "Metadata")
        for broker in response.brokers:
            self._nodes[broker.node_id] = Address(broker.host, broker.port)
        return response

    # Coordinators.

    async def coordinator(self, group_id: GroupId) -> BrokerConnection:
        """Return the connection to a group's coordinator.

        Raises ApiError, ConnectionLost or RequestTimedOut, after retries for
        `api_timeout_ms`.
        """
        return await self.retrying(lambda: self._coordinator(group_id))

    def forget_coordinator(self, group_id: GroupId) -> None:
        """Remove the group's coordinator from the cache."""
        self._coordinators.pop(group_id, None)

    async def call_coordinator(
        self,
        group_id: GroupId,
        request: Message,
        response: type[M],
        *,
        wanted: Versions = ANY_VERSION,
    ) -> M:
        """Send a request to a group's coordinator, once.

        Error codes in the response are not checked: for those in COORDINATOR_ELSEWHERE
        the caller should call `forget_coordinator`.
        """
        connection = await self.coordinator(group_id)
        try:
            return await connection.call(request, response, wanted=wanted)
        except (ConnectionLost, RequestTimedOut):
            self.forget_coordinator(group_id)
            raise

    async def _coordinator(self, group_id: GroupId) -> BrokerConnection:
        node_id = self._coordinators.get(group_id)
        if node_id is None:
            kind = "group" if self._key_type == GROUP else "transactional id"
            what = f"{kind} {group_id}"
            result = (await self.find_coordinators([group_id])).get(group_id)
            if result is None:
                raise MalformedFrame(f"the FindCoordinator response omits {what}")
            _check(result.code, f"the coordinator of {what}")
            node_id = result.node_id
        try:
            connection = await self.connection(node_id)
        except ConnectionLost:
            self.forget_coordinator(group_id)
            raise
        self._coordinators[group_id] = node_id
        return connection

    async def find_coordinators(
        self, group_ids: Sequence[GroupId]
    ) -> dict[GroupId, CoordinatorResult]:
        """Look up the coordinators of groups by one request to any broker, and cache
        them.

        Raises NoBatchedFindCoordinatorsError for more than one group when the broker
        accepts one per request, and the errors of `BrokerConnection.call`.
        """
        connection = await self.connection()
        version = connection.version_of(m.FindCoordinatorRequest)
        request = find_coordinator_request(group_ids, version, self._key_type)
        response = await connection.call(request, m.FindCoordinatorResponse)
        found = read_find_coordinator(response, group_ids, version)
        if len(self._coordinators) >= COORDINATORS_MAX:
            self._coordinators.clear()
        for group_id, each in found.items():
            if each.code is ErrorCode.NONE:
                self._nodes[each.node_id] = Address(each.host, each.port)
                self._coordinators[group_id] = each.node_id
        return found

    def cached_coordinator(self, group_id: GroupId) -> tuple[int, Address] | None:
        """Return the node id and address of a cached coordinator."""
        node_id = self._coordinators.get(group_id)
        return None if node_id is None else (node_id, self._nodes[node_id])

    async def retrying(
        self, attempt: Callable[[], Awaitable[T]], also: Collection[ErrorCode] = ()
    ) -> T:
        """Return the result of `attempt`, which is retried after retriable errors, and
        after those in `also`.

        Raises its last error after `api_timeout_ms`, or after `first_contact_ms` when
        no broker was ever reached.
        """
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
                is_retried = is_retriable(error) or (
                    isinstance(error, ApiError) and error.code in also
                )
                if is_late or self._is_closed or not is_retried:
                    raise
            await asyncio.sleep(delay_ms / 1000)
            delay_ms = min(2 * delay_ms, options.retry_backoff_max_ms)


def is_retriable(error: CoterieError) -> bool:
    """Return whether an error is retriable: the same request may succeed later."""
    if isinstance(error, ApiError):
        return error.code in RETRIED_CODES
    return isinstance(error, ConnectionLost | RequestTimedOut)


def _check(code: int, what: str) -> None:
    if code:
        read = ErrorCode.read(code)
        raise ApiError(read, f"{what}: {read.name}")


_BATCHED_SINCE: Final = 4
_TYPES_SINCE: Final = 1
_NO_NODE: Final = -1


class CoordinatorResult(NamedTuple):
    """The result of FindCoordinator for one key. With an error code the node is
    undefined."""

    code: ErrorCode
    message: str | None
    node_id: int
    host: str
    port: int


def find_coordinator_request(
    keys: Sequence[GroupId], version: int, key_type: int = GROUP
) -> m.FindCoordinatorRequest:
    """Return the request for the coordinators of `keys` (B-22).

    Raises:
        NoBatchedFindCoordinatorsError: More than one key in a version before 4.
        UnsupportedByBroker: A transactional id in version 0, which supports groups
        only.
    """
    if key_type != GROUP and version < _TYPES_SINCE:
        raise UnsupportedByBroker(
            f"FindCoordinator v{version} finds coordinators of groups only"
        )
    if version >= _BATCHED_SINCE:
        return m.FindCoordinatorRequest(key_type=key_type, coordinator_keys=list(keys))
    if len(keys) != 1:
        raise NoBatchedFindCoordinatorsError(
            f"FindCoordinator v{version} takes one key, not {len(keys)}; "
            f"{_BATCHED_SINCE} is needed"
        )
    return m.FindCoordinatorRequest(key_type=key_type, key=keys[0])


def read_find_coordinator(
    response: m.FindCoordinatorResponse, keys: Sequence[GroupId], version: int
) -> dict[GroupId, CoordinatorResult]:
    """Return the result for each key that the response contains."""
    if version < _BATCHED_SINCE:
        return {keys[0]: _coordinator_result(response)}
    return {each.key: _coordinator_result(each) for each in response.coordinators}


def _coordinator_result(
    each: m.Coordinator | m.FindCoordinatorResponse,
) -> CoordinatorResult:
    code = ErrorCode.read(each.error_code)
    # A response without a node means that there is no coordinator, even with code NONE.
    if code is ErrorCode.NONE and each.node_id == _NO_NODE:
        code = ErrorCode.COORDINATOR_NOT_AVAILABLE
    return CoordinatorResult(
        code, each.error_message, each.node_id, each.host, each.port
    )
