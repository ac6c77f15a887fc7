"""Calls about many groups, transactional ids or partitions: each is sent to its broker.

    results = await send_to_coordinators(cluster, group_ids, request)
    results = await send_to_leaders(cluster, partitions, request)

`request` sends one request to one broker and returns the outcome of each key: a value,
or the key's error. Keys of one broker are sent together.

A call finds unknown coordinators in batches (KIP-699), and leaders by Metadata. Keys
are retried after retriable errors until the deadline, `api_timeout_ms` for the whole
call: on the same broker while its coordinator loads, otherwise after another look-up.
Each broker proceeds on its own, so a slow or dead one delays only its own keys.

Rules of this file: each key gets one outcome. An error of a key or of its broker is not
raised; a call raises only when no broker can be reached, or none returns metadata.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Generic, TypeAlias, TypeVar

from coterie.client.admin import results
from coterie.client.cluster import (
    GROUP,
    IN_FLIGHT_MAX,
    Cluster,
    Deadline,
    backoff_s,
    in_chunks,
    is_retriable,
)
from coterie.errors import (
    ApiError,
    ConnectionLost,
    CoterieError,
    MalformedFrame,
    NoBatchedOffsetFetchError,
    RequestTimedOut,
    code_of,
)
from coterie.types import GroupId, TopicName, TopicPartition
from coterie.wire import messages as m
from coterie.wire.error_codes import ErrorCode

K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T")

Outcomes: TypeAlias = Mapping[K, V | CoterieError]
Request: TypeAlias = Callable[[int, Sequence[K]], Awaitable[Outcomes[K, V]]]

GROUP_CHUNK: Final = 100
"""Groups in one request to a coordinator: enough to make the round trip negligible,
few enough to bound the size of a response with all their members."""
TOPICS_PER_REQUEST: Final = 1_000
PARTITIONS_PER_REQUEST: Final = 10_000
UNKNOWN_TRIES: Final = 3
"""A broker may not know a topic yet that was just created; after as many responses
UNKNOWN_TOPIC_OR_PARTITION the topic counts as missing."""
_STRING_BYTES_MAX: Final = 32_767


async def send_to_coordinators(
    cluster: Cluster,
    keys: Iterable[str],
    request: Request[str, V],
    *,
    key_type: int = GROUP,
    chunk: int = GROUP_CHUNK,
    progress: results.Progress | None = None,
) -> results.Results[str, V]:
    """Send requests to the coordinators of groups or transactional ids; return the
    outcome of each key, in the order given.

    Raises ClientError when no broker can be reached.
    """
    call = _CoordinatorCall(cluster, keys, request, progress, chunk, key_type)
    return await call.run()


async def send_to_coordinator(
    cluster: Cluster,
    group_id: GroupId,
    request: Callable[[int], Awaitable[V | CoterieError]],
) -> V:
    """Send a request to the coordinator of one group; return its value. Raises the
    group's error."""

    async def of_one(node_id: int, _: Sequence[GroupId]) -> Outcomes[GroupId, V]:
        return {group_id: await request(node_id)}

    return (await send_to_coordinators(cluster, [group_id], of_one)).one(group_id)


@dataclass(slots=True)
class LeaderCache:
    """The metadata of topics, for repeated calls of `send_to_leaders`: it is fetched
    again only when a leader has moved."""

    topics: dict[TopicName, m.MetadataResponseTopic] = field(default_factory=dict)
    wait_ms: int | None = None
    """The time to retry a partition without a leader; None means `leader_wait_ms`."""


async def send_to_leaders(
    cluster: Cluster,
    partitions: Iterable[TopicPartition],
    request: Request[TopicPartition, V],
    progress: results.Progress | None = None,
    *,
    cache: LeaderCache | None = None,
) -> results.Results[TopicPartition, V]:
    """Send requests to the leaders of partitions; return the outcome of each.

    A partition whose leader is missing or unreachable is retried for `leader_wait_ms`.
    Raises ConnectionLost, RequestTimedOut or ApiError when no broker returns the
    metadata.
    """
    cache = LeaderCache() if cache is None else cache
    return await _LeaderCall(cluster, partitions, request, progress, cache).run()


class _Call(ABC, Generic[K, V]):
    """The state of one call. A key without an outcome yet is neither in `_values` nor
    in `_errors`."""

    def __init__(
        self,
        cluster: Cluster,
        keys: Iterable[K],
        request: Request[K, V],
        progress: results.Progress | None,
        chunk: int,
    ) -> None:
        self._cluster = cluster
        self._wanted = list(dict.fromkeys(keys))
        self._request = request
        self._progress = progress
        self._chunk = chunk
        self._values: dict[K, V] = {}
        self._errors: dict[K, CoterieError] = {}
        self._in_flight: dict[int, asyncio.Semaphore] = {}
        self._retried: dict[K, CoterieError] = {}  # the last error of a retry
        self._lost: set[K] = set()  # those with a request that had no response

    @abstractmethod
    async def _find(
        self, keys: Sequence[K], attempt: int
    ) -> Mapping[K, int | CoterieError]:
        """Return the broker of each key, or the error of the look-up."""

    @abstractmethod
    def _is_retried(self, key: K, error: CoterieError) -> bool:
        """Return whether a key is sent again after an error."""

    @abstractmethod
    def _name(self, key: K) -> str:
        """Return the key with its kind, for errors."""

    async def run(self) -> results.Results[K, V]:
        """Return the outcome of each key, in the order given. Raises ClientError when
        no broker can be reached."""
        self._deadline = Deadline(self._cluster.options)
        if keys := [key for key in self._wanted if key not in self._errors]:
            await self._cluster.retrying(self._cluster.connection, self._deadline)
            await self._run(keys, attempt=1)
        return results.Results(
            {key: self._values[key] for key in self._wanted if key in self._values},
            {key: self._errors[key] for key in self._wanted if key in self._errors},
        )

    async def _run(self, keys: Sequence[K], attempt: int) -> None:
        """Find the brokers of keys and send each broker its own."""
        by_node: dict[int, list[K]] = {}
        errors: dict[K, CoterieError] = {}
        for key, place in (await self._find(keys, attempt)).items():
            if isinstance(place, int):
                by_node.setdefault(place, []).append(key)
            else:
                errors[key] = place
        await asyncio.gather(
            *(self._send(node_id, own, attempt) for node_id, own in by_node.items()),
            self._retry_or_settle(errors, attempt),
        )

    async def _send(self, node_id: int, keys: Sequence[K], attempt: int) -> None:
        """Send a broker the requests about its keys, a few at a time."""
        chunks = in_chunks(keys, self._chunk)
        errors: dict[K, CoterieError] = {}
        failure: CoterieError | None = None

        async def work() -> None:
            nonlocal failure
            outcomes: Outcomes[K, V]
            for chunk in chunks:
                # After a retriable failure the remaining chunks fail at once, instead
                # of each waiting for its own time-out.
                if failure is None:
                    request = partial(self._request, node_id, chunk)
                    try:
                        outcomes = await self._limited(node_id, request)
                    except CoterieError as error:
                        if isinstance(error, ConnectionLost | RequestTimedOut):
                            self._lost.update(chunk)
                        outcomes = dict.fromkeys(chunk, error)
                        failure = error if is_retriable(error) else None
                else:
                    outcomes = dict.fromkeys(chunk, failure)
                values: dict[K, V] = {}
                for key in chunk:
                    if key not in outcomes:
                        errors[key] = MalformedFrame(
                            f"the response of node {node_id} omits {self._name(key)}"
                        )
                        continue
                    outcome = outcomes[key]
                    if isinstance(outcome, CoterieError):
                        errors[key] = outcome
                    else:
                        values[key] = outcome
                self._settle(values, {})

        # The workers share the chunks: there are no more tasks than requests in flight.
        await asyncio.gather(*(work() for _ in range(IN_FLIGHT_MAX)))
        await self._retry_or_settle(errors, attempt)

    async def _retry_or_settle(
        self, errors: Mapping[K, CoterieError], attempt: int
    ) -> None:
        """Retry keys with a retriable error after a backoff; settle the others."""
        if not errors:
            return
        unbatched = [
            key
            for key, error in errors.items()
            if isinstance(error, NoBatchedOffsetFetchError)
        ]
        delay_s = backoff_s(self._cluster.options, attempt)
        retried = {
            key: error
            for key, error in errors.items()
            if self._is_retried(key, error) and self._deadline.leaves(delay_s)
        }
        settled: dict[K, CoterieError] = {}
        for key in errors.keys() - retried.keys() - set(unbatched):
            error = errors[key]
            # Return the error that led to the retry; it is more specific than a
            # time-out.
            if isinstance(error, RequestTimedOut) and not self._deadline.leaves(0):
                error = self._retried.get(key, error)
            # One error may answer for several keys.
            error.follows_lost_request |= key in self._lost
            settled[key] = error
        self._settle({}, settled)
        if unbatched:
            self._chunk = 1  # this broker accepts only one group per request
            await self._run(unbatched, attempt)
        if retried:
            self._retried.update(retried)
            await asyncio.sleep(delay_s)
            await self._run(list(retried), attempt + 1)

    async def _limited(self, node_id: int, request: Callable[[], Awaitable[T]]) -> T:
        """Send a request within the deadline and the broker's limit in flight."""
        slots = self._in_flight.setdefault(node_id, asyncio.Semaphore(IN_FLIGHT_MAX))

        async def in_slot() -> T:
            async with slots:
                return await request()

        return await self._deadline.limit(in_slot)

    def _settle(self, values: Mapping[K, V], errors: Mapping[K, CoterieError]) -> None:
        self._values.update(values)
        self._errors.update(errors)
        if self._progress is not None and (values or errors):
            done = len(self._values) + len(self._errors)
            self._progress(done, len(self._wanted))


class _CoordinatorCall(_Call[str, V]):
    """A call about groups or transactional ids."""

    def __init__(
        self,
        cluster: Cluster,
        keys: Iterable[str],
        request: Request[str, V],
        progress: results.Progress | None,
        chunk: int,
        key_type: int,
    ) -> None:
        super().__init__(cluster, keys, request, progress, chunk)
        self._key_type = key_type

    async def run(self) -> results.Results[str, V]:
        """Return the outcome of each key, in the order given. An id that a request
        cannot carry has an error."""
        invalid = [key for key in self._wanted if not is_representable(key)]
        code = ErrorCode.INVALID_GROUP_ID
        if self._key_type != GROUP:
            code = ErrorCode.INVALID_REQUEST
        self._settle(
            {}, {key: ApiError(code, f"{key!r} is not a valid id") for key in invalid}
        )
        return await super().run()

    async def _find(
        self, keys: Sequence[str], attempt: int
    ) -> Mapping[str, int | CoterieError]:
        find = partial(self._cluster.find_coordinators, keys, self._key_type)
        try:
            return await self._deadline.limit(find)
        except CoterieError as error:
            return dict.fromkeys(keys, error)

    def _is_retried(self, key: str, error: CoterieError) -> bool:
        if not is_retriable(error):
            return False
        is_loading = code_of(error) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        if not is_loading and self._key_type == GROUP:
            self._cluster.forget_coordinator(key)
        return True

    def _name(self, key: str) -> str:
        return f"{'group' if self._key_type == GROUP else 'transactional id'} {key}"


class _LeaderCall(_Call[TopicPartition, V]):
    """A call about partitions."""

    def __init__(
        self,
        cluster: Cluster,
        keys: Iterable[TopicPartition],
        request: Request[TopicPartition, V],
        progress: results.Progress | None,
        cache: LeaderCache,
    ) -> None:
        super().__init__(cluster, keys, request, progress, PARTITIONS_PER_REQUEST)
        wait_ms = cache.wait_ms
        if wait_ms is None:
            wait_ms = cluster.options.leader_wait_ms
        self._cache = cache
        self._loop = asyncio.get_running_loop()
        self._last_try_s = self._loop.time() + wait_ms / 1000
        self._unknown: Counter[TopicPartition] = Counter()

    async def _find(
        self, keys: Sequence[TopicPartition], attempt: int
    ) -> Mapping[TopicPartition, int | CoterieError]:
        cache = self._cache
        if attempt > 1 or any(key.topic not in cache.topics for key in keys):
            try:
                names = {key.topic for key in keys}
                cache.topics |= await topics_of(self._cluster, self._deadline, names)
            except CoterieError as error:
                if attempt == 1:
                    raise
                return dict.fromkeys(keys, error)
        partitions = {
            TopicPartition(key.topic, partition.partition_index): partition
            for key in {key.topic: key for key in keys}.values()
            if key.topic in cache.topics
            for partition in cache.topics[key.topic].partitions
        }
        places: dict[TopicPartition, int | CoterieError] = {}
        for key in keys:
            partition, topic = partitions.get(key), cache.topics.get(key.topic)
            # An error code beside a valid leader is about replicas; it has no effect
            # here.
            if partition is not None and partition.leader_id >= 0:
                places[key] = partition.leader_id
            elif partition is not None:
                code = partition.error_code or ErrorCode.LEADER_NOT_AVAILABLE
                places[key] = results.api_error(code, self._name(key))
            elif topic is not None and not topic.error_code:
                unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                places[key] = results.api_error(unknown, self._name(key))
            else:
                unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                code = topic.error_code if topic else unknown
                places[key] = results.api_error(code, f"topic {key.topic}")
        return places

    def _is_retried(self, key: TopicPartition, error: CoterieError) -> bool:
        if self._loop.time() >= self._last_try_s:
            return False
        if isinstance(error, ApiError):
            if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                self._unknown[key] += 1
                return self._unknown[key] < UNKNOWN_TRIES
            return error.code.retriable
        return isinstance(error, ConnectionLost | RequestTimedOut)

    def _name(self, key: TopicPartition) -> str:
        return results.partition_name(key)


async def topics_of(
    cluster: Cluster, deadline: Deadline, names: Iterable[TopicName]
) -> dict[TopicName, m.MetadataResponseTopic]:
    """Return the metadata of topics by name, errors included. Raises ConnectionLost,
    RequestTimedOut or ApiError when no broker returns it."""
    topics = {}
    for chunk in in_chunks(sorted(set(names)), TOPICS_PER_REQUEST):
        metadata = await cluster.retrying(partial(cluster.metadata, chunk), deadline)
        topics.update({topic.name or "": topic for topic in metadata.topics})
    return topics


def is_representable(key: object) -> bool:
    """Return whether a request can carry an id: text of at most 32,767 bytes of
    UTF-8."""
    if not isinstance(key, str):
        return False
    try:
        return len(key.encode()) <= _STRING_BYTES_MAX
    except UnicodeEncodeError:  # an unpaired surrogate
        return False
