"""Asking the leaders of partitions: one request a leader, each partition by itself.

    async def ask(node_id, wanted): ...         # one request; an outcome a partition
    results = await ask_leaders(cluster, wanted, ask)

Rules of this file: a partition whose leader moved, or cannot be reached, is looked up
and asked for again, it alone; no partition waits for another's leader; what fails for
good fails for its own partitions. So a call raises only when nobody tells who leads.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Final, Generic, TypeAlias, TypeVar

from coterie.client.admin.bulk import backoff_s, in_chunks
from coterie.client.admin.deadline import Deadline
from coterie.client.admin.refusals import refusal
from coterie.client.admin.results import Progress, Results
from coterie.client.cluster import Cluster
from coterie.errors import (
    ApiError,
    ClientError,
    ConnectionLost,
    CoterieError,
    RequestTimedOut,
)
from coterie.types import TopicName, TopicPartition
from coterie.wire.error_codes import ErrorCode
from coterie.wire.messages.metadata import MetadataResponseTopic

W = TypeVar("W")
V = TypeVar("V")
Outcomes: TypeAlias = Mapping[TopicPartition, V | CoterieError]
Ask: TypeAlias = Callable[[int, Mapping[TopicPartition, W]], Awaitable[Outcomes[V]]]
"""Asks a node, by its id, about partitions it leads: of each its value or its error.
What it raises is the error of all of them."""

UNKNOWN_TRIES: Final = 3
"""A broker may not have heard yet of a topic that was just made. After as many answers
that there is none, there is none."""
TOPICS_PER_REQUEST: Final = 1_000
PARTITIONS_PER_REQUEST: Final = 10_000
IN_FLIGHT_MAX: Final = 16
"""Requests of one call that wait for their answers."""


async def ask_leaders(
    cluster: Cluster,
    wanted: Mapping[TopicPartition, W],
    ask: Ask[W, V],
    progress: Progress | None = None,
) -> Results[TopicPartition, V]:
    """Ask the leader of each partition, and again while that may help.

    It takes `api_timeout_ms` at most. Raises ConnectionLost, RequestTimedOut or
    ApiError when no broker tells who leads.
    """
    call = _Call(cluster, wanted, ask, progress)
    if wanted:
        await call.run()
    return Results(
        {key: call.values[key] for key in wanted if key in call.values},
        {key: call.errors[key] for key in wanted if key in call.errors},
    )


async def topics_of(
    cluster: Cluster, deadline: Deadline, names: Iterable[TopicName]
) -> dict[TopicName, MetadataResponseTopic]:
    """What a broker knows of topics, their errors included, by name."""
    found = {}
    for some in in_chunks(sorted(set(names)), TOPICS_PER_REQUEST):
        answer = await deadline.retrying(partial(cluster.metadata, some))
        found.update({topic.name or "": topic for topic in answer.topics})
    return found


class _Call(Generic[W, V]):
    """One call of `ask_leaders`. What has no outcome yet is in no map."""

    def __init__(
        self,
        cluster: Cluster,
        wanted: Mapping[TopicPartition, W],
        ask: Ask[W, V],
        progress: Progress | None,
    ) -> None:
        options = cluster.options
        self.values: dict[TopicPartition, V] = {}
        self.errors: dict[TopicPartition, CoterieError] = {}
        self._cluster = cluster
        self._wanted = wanted
        self._ask = ask
        self._progress = progress
        self._loop = asyncio.get_running_loop()
        self._deadline = Deadline(cluster)
        self._last_try_s = self._loop.time() + options.leader_wait_ms / 1000
        self._permits = asyncio.Semaphore(IN_FLIGHT_MAX)
        self._unknown: Counter[TopicPartition] = Counter()
        self._tasks = asyncio.TaskGroup()

    async def run(self) -> None:
        """Fill `values` and `errors`."""
        found = await self._topics(self._wanted)
        with contextlib.suppress(RequestTimedOut):
            await self._deadline.limit(lambda: self._pursue(found))
        limit_ms = self._cluster.options.api_timeout_ms
        for key in self._wanted.keys() - self.values.keys() - self.errors.keys():
            self.errors[key] = RequestTimedOut(
                f"the leader of {_name(key)} gave no answer in {limit_ms} ms"
            )

    async def _pursue(self, found: Mapping[TopicName, MetadataResponseTopic]) -> None:
        async with self._tasks:
            self._ask_all(self._wanted, found, 1)

    async def _topics(
        self, keys: Iterable[TopicPartition]
    ) -> dict[TopicName, MetadataResponseTopic]:
        names = {key.topic for key in keys}
        return await topics_of(self._cluster, self._deadline, names)

    def _ask_all(
        self,
        keys: Iterable[TopicPartition],
        topics: Mapping[TopicName, MetadataResponseTopic],
        tries: int,
    ) -> None:
        outcomes: dict[TopicPartition, V | CoterieError] = {}
        led: dict[int, list[TopicPartition]] = defaultdict(list)
        leaders = _Leaders(topics)
        for key in keys:
            try:
                led[leaders.of(key)].append(key)
            except ApiError as error:
                outcomes[key] = error
        for node_id, mine in led.items():
            for some in in_chunks(mine, PARTITIONS_PER_REQUEST):
                self._tasks.create_task(self._ask_one(node_id, some, tries))
        self._settle(outcomes, tries)

    async def _ask_one(
        self, node_id: int, keys: Sequence[TopicPartition], tries: int
    ) -> None:
        outcomes: dict[TopicPartition, V | CoterieError]
        try:
            async with self._permits:
                wanted = {key: self._wanted[key] for key in keys}
                answered = await self._ask(node_id, wanted)
            outcomes = {key: answered.get(key, _no_word(key, node_id)) for key in keys}
        except CoterieError as error:
            outcomes = dict.fromkeys(keys, error)
        self._settle(outcomes, tries)

    async def _ask_again(self, keys: Collection[TopicPartition], tries: int) -> None:
        await asyncio.sleep(backoff_s(self._cluster.options, tries))
        try:
            topics = await self._topics(keys)
        except CoterieError as error:
            self._settle(dict.fromkeys(keys, error), tries + 1)
        else:
            self._ask_all(keys, topics, tries + 1)

    def _settle(self, outcomes: Outcomes[V], tries: int) -> None:
        again: list[TopicPartition] = []
        for key, outcome in outcomes.items():
            if not isinstance(outcome, CoterieError):
                self.values[key] = outcome
            elif self._may_pass(key, outcome):
                again.append(key)
            else:
                self.errors[key] = outcome
        if self._progress is not None and outcomes:
            done = len(self.values) + len(self.errors)
            self._progress(done, len(self._wanted))
        if again:
            self._tasks.create_task(self._ask_again(again, tries))

    def _may_pass(self, key: TopicPartition, error: CoterieError) -> bool:
        if self._loop.time() >= self._last_try_s or not self._deadline.leaves(0):
            return False
        if isinstance(error, ApiError):
            if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                self._unknown[key] += 1
                return self._unknown[key] < UNKNOWN_TRIES
            return error.code.retriable
        return isinstance(error, ConnectionLost | RequestTimedOut)


class _Leaders:
    """Who leads the partitions of some topics, as a broker knows them."""

    def __init__(self, topics: Mapping[TopicName, MetadataResponseTopic]) -> None:
        self._topics = topics
        self._partitions = {
            (name, each.partition_index): each
            for name, topic in topics.items()
            for each in topic.partitions
        }

    def of(self, key: TopicPartition) -> int:
        """The node that leads a partition.

        Raises ApiError when the topic or the partition is unknown or has no leader.
        """
        found = self._partitions.get(key)
        if found is None:
            topic = self._topics.get(key.topic)
            unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            if topic is None or topic.error_code:
                code = topic.error_code if topic else unknown
                raise refusal(code, f"topic {key.topic}")
            raise refusal(unknown, f"partition {_name(key)}")
        # Codes beside a leader tell of replicas, which are no concern here.
        if found.leader_id < 0:
            code = found.error_code or ErrorCode.LEADER_NOT_AVAILABLE
            raise refusal(code, f"partition {_name(key)}")
        return found.leader_id


def _name(key: TopicPartition) -> str:
    return f"{key.topic}-{key.partition}"


def _no_word(key: TopicPartition, node_id: int) -> ClientError:
    return ClientError(f"node {node_id} said nothing of partition {_name(key)}")
