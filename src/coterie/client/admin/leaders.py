"""Calls to the leaders of partitions: one request for each leader, each partition with
its own outcome.

    async def ask(node_id, wanted): ...         # one request; one outcome per partition
    results = await ask_leaders(cluster, wanted, ask)

Rules of this file: a partition whose leader has moved or is unreachable is retried
separately, after another Metadata request; no partition waits for the leader of another
one; an error that is not retriable fails only its partitions. A call raises only when
no broker returns the metadata.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Generic, TypeAlias, TypeVar

from coterie.client.admin.calls import Deadline, backoff_s, in_chunks
from coterie.client.admin.results import Progress, Results, api_error
from coterie.client.cluster import Cluster
from coterie.errors import (
    ApiError,
    ClientError,
    ConnectionLost,
    CoterieError,
    RequestTimedOut,
)
from coterie.types import TopicName, TopicPartition
from coterie.wire import messages as m
from coterie.wire.error_codes import ErrorCode

W = TypeVar("W")
V = TypeVar("V")
Outcomes: TypeAlias = Mapping[TopicPartition, V | CoterieError]
Ask: TypeAlias = Callable[[int, Mapping[TopicPartition, W]], Awaitable[Outcomes[V]]]
"""A function that sends one request to a node about partitions it leads, and returns
the value or error of each. An exception is the error of all of them.
"""

UNKNOWN_TRIES: Final = 3
"""A broker may not know a topic yet that was just created; after as many responses
UNKNOWN_TOPIC_OR_PARTITION the topic counts as missing."""
TOPICS_PER_REQUEST: Final = 1_000
PARTITIONS_PER_REQUEST: Final = 10_000
IN_FLIGHT_MAX: Final = 16
"""Requests of one call in flight."""


@dataclass(slots=True)
class LeaderCache:
    """The metadata of topics, for repeated calls of `ask_leaders`: it is fetched again
    only when a leader has moved."""

    topics: dict[TopicName, m.MetadataResponseTopic] = field(default_factory=dict)
    wait_ms: int | None = None
    """The time to retry a partition without a leader; None means `leader_wait_ms`."""


async def ask_leaders(
    cluster: Cluster,
    wanted: Mapping[TopicPartition, W],
    ask: Ask[W, V],
    progress: Progress | None = None,
    *,
    cache: LeaderCache | None = None,
) -> Results[TopicPartition, V]:
    """Send requests to the leader of each partition; retry retriable errors.

    It takes at most `api_timeout_ms`. Raises ConnectionLost, RequestTimedOut or
    ApiError when no broker returns the metadata.
    """
    call = _LeaderCall(cluster, wanted, ask, progress, cache or LeaderCache())
    if wanted:
        await call.run()
    return Results(
        {key: call.values[key] for key in wanted if key in call.values},
        {key: call.errors[key] for key in wanted if key in call.errors},
    )


async def topics_of(
    cluster: Cluster, deadline: Deadline, names: Iterable[TopicName]
) -> dict[TopicName, m.MetadataResponseTopic]:
    """Return the metadata of topics by name, errors included."""
    topics = {}
    for chunk in in_chunks(sorted(set(names)), TOPICS_PER_REQUEST):
        metadata = await deadline.retrying(partial(cluster.metadata, chunk))
        topics.update({topic.name or "": topic for topic in metadata.topics})
    return topics


class _LeaderCall(Generic[W, V]):
    """The state of one call of `ask_leaders`. A partition without an outcome yet is
    neither in `values` nor in `errors`."""

    def __init__(
        self,
        cluster: Cluster,
        wanted: Mapping[TopicPartition, W],
        ask: Ask[W, V],
        progress: Progress | None,
        cache: LeaderCache,
    ) -> None:
        wait_ms = cache.wait_ms
        if wait_ms is None:
            wait_ms = cluster.options.leader_wait_ms
        self.values: dict[TopicPartition, V] = {}
        self.errors: dict[TopicPartition, CoterieError] = {}
        self._cluster = cluster
        self._wanted = wanted
        self._ask = ask
        self._progress = progress
        self._cache = cache
        self._loop = asyncio.get_running_loop()
        self._deadline = Deadline(cluster)
        self._last_try_s = self._loop.time() + wait_ms / 1000
        self._slots = asyncio.Semaphore(IN_FLIGHT_MAX)
        self._unknown: Counter[TopicPartition] = Counter()
        self._tasks = asyncio.TaskGroup()

    async def run(self) -> None:
        """Fill `values` and `errors`."""
        topics = self._cache.topics
        if any(key.topic not in topics for key in self._wanted):
            topics = await self._topics(self._wanted)

        async def ask_until_settled() -> None:
            async with self._tasks:
                self._ask_all(self._wanted, topics, attempt=1)

        with contextlib.suppress(RequestTimedOut):
            await self._deadline.limit(ask_until_settled)
        limit_ms = self._cluster.options.api_timeout_ms
        for key in self._wanted.keys() - self.values.keys() - self.errors.keys():
            self.errors[key] = RequestTimedOut(
                f"the leader of {_name(key)} did not respond within {limit_ms} ms"
            )

    async def _topics(
        self, keys: Iterable[TopicPartition]
    ) -> dict[TopicName, m.MetadataResponseTopic]:
        names = {key.topic for key in keys}
        topics = await topics_of(self._cluster, self._deadline, names)
        self._cache.topics |= topics
        return topics

    def _ask_all(
        self,
        keys: Iterable[TopicPartition],
        topics: Mapping[TopicName, m.MetadataResponseTopic],
        attempt: int,
    ) -> None:
        partitions = {
            (name, each.partition_index): each
            for name, topic in topics.items()
            for each in topic.partitions
        }
        errors: dict[TopicPartition, V | CoterieError] = {}
        led: dict[int, list[TopicPartition]] = defaultdict(list)
        for key in keys:
            metadata = partitions.get(key)
            # An error code beside a valid leader is about replicas; it has no effect
            # here.
            if metadata is not None and metadata.leader_id >= 0:
                led[metadata.leader_id].append(key)
            elif metadata is not None:
                code = metadata.error_code or ErrorCode.LEADER_NOT_AVAILABLE
                errors[key] = api_error(code, f"partition {_name(key)}")
            else:
                topic = topics.get(key.topic)
                unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                if topic is None or topic.error_code:
                    code = topic.error_code if topic else unknown
                    errors[key] = api_error(code, f"topic {key.topic}")
                else:
                    errors[key] = api_error(unknown, f"partition {_name(key)}")
        for node_id, own in led.items():
            for chunk in in_chunks(own, PARTITIONS_PER_REQUEST):
                self._tasks.create_task(self._ask_one(node_id, chunk, attempt))
        self._settle(errors, attempt)

    async def _ask_one(
        self, node_id: int, keys: Sequence[TopicPartition], attempt: int
    ) -> None:
        outcomes: dict[TopicPartition, V | CoterieError]
        try:
            async with self._slots:
                response = await self._ask(
                    node_id, {key: self._wanted[key] for key in keys}
                )
            outcomes = {
                key: response[key]
                if key in response
                else ClientError(
                    f"the response of node {node_id} omits partition {_name(key)}"
                )
                for key in keys
            }
        except CoterieError as error:
            outcomes = dict.fromkeys(keys, error)
        self._settle(outcomes, attempt)

    def _settle(self, outcomes: Outcomes[V], attempt: int) -> None:
        """Store values and errors that are not retriable; retry the other
        partitions."""
        retried: list[TopicPartition] = []
        for key, outcome in outcomes.items():
            if not isinstance(outcome, CoterieError):
                self.values[key] = outcome
            elif self._is_retried(key, outcome):
                retried.append(key)
            else:
                self.errors[key] = outcome
        if self._progress is not None and outcomes:
            done = len(self.values) + len(self.errors)
            self._progress(done, len(self._wanted))
        if retried:
            self._tasks.create_task(self._retry(retried, attempt))

    async def _retry(self, keys: Collection[TopicPartition], attempt: int) -> None:
        await asyncio.sleep(backoff_s(self._cluster.options, attempt))
        try:
            topics = await self._topics(keys)
        except CoterieError as error:
            self._settle(dict.fromkeys(keys, error), attempt + 1)
        else:
            self._ask_all(keys, topics, attempt + 1)

    def _is_retried(self, key: TopicPartition, error: CoterieError) -> bool:
        if self._loop.time() >= self._last_try_s or not self._deadline.leaves(0):
            return False
        if isinstance(error, ApiError):
            if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                self._unknown[key] += 1
                return self._unknown[key] < UNKNOWN_TRIES
            return error.code.retriable
        return isinstance(error, ConnectionLost | RequestTimedOut)


def _name(key: TopicPartition) -> str:
    return f"{key.topic}-{key.partition}"
