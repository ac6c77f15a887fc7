"""A client's view of a Kafka cluster: connections, topic names and ids, coordinators.

    cluster = Cluster("broker-1:9092,broker-2:9092", ClientOptions())
    response = await cluster.call(ListGroupsRequest(), ListGroupsResponse)
    response = await cluster.call_coordinator("g", request, Response, wanted=...)
    await cluster.close()

There is one connection to each address, opened on first use and again after it is lost.
Addresses and coordinators are cached until a request shows that they are outdated.

Rules of this file: `call` and `call_coordinator` send once. `retrying` is the one loop
that retries an attempt after retriable errors: a lost connection, a time-out, or a
coordinator that is loading, unavailable or elsewhere (KIP-848).

FindCoordinator requests name many groups where the broker supports that (KIP-699).
"""

from __future__ import annotations

import asyncio
from collections.abc import (
    Awaitable,
    Callable,
    Collection,
    Iterable,
    Iterator,
    Sequence,
)
from typing import Final, NamedTuple, TypeVar

from coterie.client.admin.groups import Node
from coterie.client.admin.results import api_error
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
    code_of,
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
"""The key types of FindCoordinator."""
LOOKUP_CHUNK: Final = 500
"""Keys in one FindCoordinator request."""
IN_FLIGHT_MAX: Final = 4
"""Requests of one call in flight to one broker."""
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
        self._nodes: dict[int, Node] = {}
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
            nodes = (Address(node.host, node.port) for node in self._nodes.values())
            for known in dict.fromkeys([*nodes, *self._bootstrap]):
                try:
                    return await self._connect(known)
                except ConnectionLost as error:
                    failures.append(str(error))
            raise ConnectionLost("; ".join(failures))
        if node_id not in self._nodes:
            await self.metadata([])
        if (node := self._nodes.get(node_id)) is None:
            raise ConnectionLost(f"the cluster has no node {node_id} now")
        return await self._connect(Address(node.host, node.port))

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
        if response.error_code:
            raise api_error(response.error_code, "Metadata")
        self._nodes.update((node.node_id, node) for node in nodes_in(response))
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
        node_id = (await self.find_coordinators([group_id]))[group_id]
        if isinstance(node_id, CoterieError):
            raise node_id
        try:
            return await self.connection(node_id)
        except ConnectionLost:
            self.forget_coordinator(group_id)
            raise

    async def find_coordinators(
        self, keys: Iterable[str], key_type: int | None = None
    ) -> dict[str, int | CoterieError]:
        """Return the node id of the coordinator of each group or transactional id, or
        the error of the key. Those of the cluster's `key_type` are cached.

        Brokers before Kafka 3.0 get a request for each key (KIP-699). Raises
        ConnectionLost and the other errors of `connection`.
        """
        if key_type is None:
            key_type = self._key_type
        found: dict[str, int | CoterieError] = {}
        unknown: list[str] = []
        for key in keys:
            if key_type == self._key_type and key in self._coordinators:
                found[key] = self._coordinators[key]
            else:
                unknown.append(key)
        if not unknown:
            return found
        connection = await self.connection()
        version = connection.version_of(m.FindCoordinatorRequest)
        is_batched = version >= _BATCHED_SINCE
        chunks = in_chunks(unknown, LOOKUP_CHUNK if is_batched else 1)

        async def look_up() -> None:
            for chunk in chunks:
                try:
                    request = find_coordinator_request(chunk, version, key_type)
                    response = await connection.call(request, m.FindCoordinatorResponse)
                except CoterieError as error:
                    found.update(dict.fromkeys(chunk, error))
                    continue
                results = read_find_coordinator(response, chunk, version)
                for key in chunk:
                    found[key] = self._learn(key, results.get(key), key_type)

        # The workers share the chunks: there are no more tasks than requests in flight.
        await asyncio.gather(*(look_up() for _ in range(IN_FLIGHT_MAX)))
        return found

    def _learn(
        self, key: str, result: CoordinatorResult | None, key_type: int
    ) -> int | CoterieError:
        """Return the node id of a coordinator, which is cached, or the key's error."""
        name = f"{'group' if key_type == GROUP else 'transactional id'} {key}"
        if result is None:
            return MalformedFrame(f"the FindCoordinator response omits {name}")
        if result.code is not ErrorCode.NONE:
            return api_error(result.code, name, result.message)
        self._nodes[result.node_id] = Node(result.node_id, result.host, result.port)
        if key_type == self._key_type:
            if len(self._coordinators) >= COORDINATORS_MAX:
                self._coordinators.clear()
            self._coordinators[key] = result.node_id
        return result.node_id

    def node(self, node_id: int) -> Node:
        """Return a node that a response has named."""
        return self._nodes[node_id]

    async def retrying(
        self,
        attempt: Callable[[], Awaitable[T]],
        deadline: Deadline | None = None,
        also: Collection[ErrorCode] = (),
    ) -> T:
        """Return the result of `attempt`, which is retried after retriable errors, and
        after those in `also`.

        At the deadline, by default `api_timeout_ms` from now, or after
        `first_contact_ms` when no broker was ever reached, it raises the last error of
        an attempt, which is more specific than a time-out.
        """
        deadline = deadline or Deadline(self.options)
        loop = asyncio.get_running_loop()
        contact_s = loop.time() + self.options.first_contact_ms / 1000
        last: CoterieError | None = None
        is_lost = False
        failures = 0
        while True:
            try:
                async with asyncio.timeout_at(deadline.end_s):
                    return await attempt()
            except TimeoutError:
                last = last or deadline.error()
                last.follows_lost_request = True
                raise last from None
            except CoterieError as error:
                last = error
                is_lost |= isinstance(error, ConnectionLost | RequestTimedOut)
                error.follows_lost_request |= is_lost
                failures += 1
                delay_s = backoff_s(self.options, failures)
                is_unreached = not self._was_reached
                is_late = is_unreached and loop.time() + delay_s > contact_s
                is_retried = is_retriable(error) or code_of(error) in also
                if is_late or self._is_closed or not is_retried:
                    raise
                if not deadline.leaves(delay_s):
                    raise
            await asyncio.sleep(delay_s)


def nodes_in(metadata: m.MetadataResponse) -> tuple[Node, ...]:
    """Return the brokers that a Metadata response names, sorted by id."""
    brokers = metadata.brokers
    return tuple(
        sorted(Node(each.node_id, each.host, each.port, each.rack) for each in brokers)
    )


class Deadline:
    """The end of a call that starts now: `api_timeout_ms` from here, in the running
    loop's time."""

    def __init__(self, options: ClientOptions) -> None:
        self._limit_ms = options.api_timeout_ms
        self.end_s = asyncio.get_running_loop().time() + self._limit_ms / 1000

    def leaves(self, delay_s: float) -> bool:
        """Return whether at least `delay_s` seconds are left."""
        return asyncio.get_running_loop().time() + delay_s <= self.end_s

    def error(self) -> RequestTimedOut:
        """Return the error of a request that the deadline cut off."""
        return RequestTimedOut(f"no response within the call's {self._limit_ms} ms")

    async def limit(self, job: Callable[[], Awaitable[T]]) -> T:
        """Await a job. Raises RequestTimedOut at the deadline."""
        try:
            async with asyncio.timeout_at(self.end_s):
                return await job()
        except TimeoutError:
            raise self.error() from None


def in_chunks(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """Yield the items in order, `size` at a time."""
    for start in range(0, len(items), size):
        yield items[start : start + size]


def backoff_s(options: ClientOptions, attempt: int) -> float:
    """Return the backoff after the `attempt`-th attempt (s), which doubles each
    time."""
    delay_ms = options.retry_backoff_ms * (1 << min(attempt - 1, 16))
    return min(delay_ms, options.retry_backoff_max_ms) / 1000


def is_retriable(error: CoterieError) -> bool:
    """Return whether an error is retriable: the same request may succeed later."""
    if isinstance(error, ApiError):
        return error.code in RETRIED_CODES
    return isinstance(error, ConnectionLost | RequestTimedOut)


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
