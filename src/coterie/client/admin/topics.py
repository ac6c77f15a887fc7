"""Describe, create and delete topics, and increase their partition counts.

Topics are described by Metadata, which every broker serves and which returns a thousand
topics in one response. DescribeTopicPartitions (KIP-966) pages through the same data,
2,000 partitions at a time; its additional fields are not needed here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from coterie.client.admin.calls import broker_timeout_ms, call_controller
from coterie.client.admin.family import Family, SyncFamily, blocking
from coterie.client.admin.results import Results, api_error, results_of
from coterie.client.admin.routing import UNKNOWN_TRIES, topics_of
from coterie.client.cluster import Cluster, Deadline, backoff_s
from coterie.errors import ApiError, CoterieError, UnsupportedByBroker
from coterie.types import TopicId, TopicName, TopicPartition
from coterie.wire import messages as m
from coterie.wire.configs import ConfigResourceType
from coterie.wire.error_codes import ErrorCode
from coterie.wire.schema import VERSION_MAX, ZERO_UUID, Versions


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create. The broker chooses the values that are None; for a broker
    before Kafka 2.4 the client takes them from the controller's settings.
    """

    name: TopicName
    partitions: int | None = None
    replication_factor: int | None = None
    configs: Mapping[str, str] = field(default_factory=dict)
    assignments: Mapping[int, Sequence[int]] = field(default_factory=dict)
    """The replicas of each partition by node id, instead of the two numbers."""


@dataclass(frozen=True, slots=True)
class CreatedTopic:
    """A created topic, with the fields that the broker returns."""

    name: TopicName
    topic_id: TopicId | None = None
    """None before Kafka 2.8."""
    partitions: int | None = None
    """None before Kafka 2.4."""
    replication_factor: int | None = None
    """None before Kafka 2.4."""


@dataclass(frozen=True, slots=True)
class PartitionDescription:
    """One partition of a topic. `leader_id` is -1 without a leader."""

    partition: int
    leader_id: int
    replicas: tuple[int, ...] = ()
    in_sync: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """A topic and its partitions, in order. `topic_id` is None on brokers before
    2.8."""

    name: str
    topic_id: TopicId | None
    is_internal: bool
    partitions: tuple[PartitionDescription, ...]

    @property
    def all_partitions(self) -> tuple[TopicPartition, ...]:
        """The partitions by name."""
        return tuple(
            TopicPartition(self.name, each.partition) for each in self.partitions
        )


_BROKER_DEFAULT: Final = -1
_DEFAULTS_SINCE: Final = 4
"""The first version of CreateTopics in which the broker chooses the numbers of
partitions and replicas (KIP-464)."""
_NUMBER_SETTINGS: Final = ("num.partitions", "default.replication.factor")


class Topics(Family):
    """Calls about topics and their partitions."""

    async def describe(
        self, names: Iterable[TopicName] | None = None
    ) -> Results[TopicName, TopicDescription]:
        """Describe topics and their partitions; None means every topic that the
        principal may describe."""
        deadline = Deadline(self._cluster.options)
        if names is None:
            metadata = await self._cluster.retrying(
                lambda: self._cluster.metadata(None), deadline
            )
            topics = {topic.name or "": topic for topic in metadata.topics}
            return _described(sorted(topics), topics)
        wanted = list(dict.fromkeys(names))
        topics = await topics_of(self._cluster, deadline, wanted)
        for attempt in range(1, UNKNOWN_TRIES):
            retried = [
                name
                for name in wanted
                if name not in topics
                or ErrorCode.read(topics[name].error_code).retriable
            ]
            if not retried:
                break
            await asyncio.sleep(backoff_s(self._cluster.options, attempt))
            topics |= await topics_of(self._cluster, deadline, retried)
        return _described(wanted, topics)

    async def create(
        self, new: Iterable[NewTopic], *, validate_only: bool = False
    ) -> Results[TopicName, CreatedTopic]:
        """Create topics, or with `validate_only` check whether they can be created.

        Raises RequestTimedOut or ConnectionLost when the outcome is unknown.
        """
        wanted = list(new)
        request = m.CreateTopicsRequest(
            topics=[_creatable(topic) for topic in wanted],
            timeout_ms=broker_timeout_ms(self._cluster.options),
            validate_only=validate_only,
        )

        async def send(least: int) -> m.CreateTopicsResponse:
            return await call_controller(
                self._cluster,
                request,
                m.CreateTopicsResponse,
                lambda response: (topic.error_code for topic in response.topics),
                wanted=Versions(least, VERSION_MAX),
            )

        incomplete = [
            each
            for each in request.topics
            if not each.assignments
            and (each.num_partitions < 0 or each.replication_factor < 0)
        ]
        try:
            response = await send(_DEFAULTS_SINCE if incomplete else 0)
        except UnsupportedByBroker:
            if not incomplete:
                raise
            await _fill_numbers(self._cluster, incomplete)
            response = await send(0)
        return results_of(
            (topic.name for topic in wanted),
            {
                each.name: _refused(each.name, each.error_code, each.error_message)
                or _created(each)
                for each in response.topics
            },
        )

    async def delete(self, names: Iterable[TopicName]) -> Results[TopicName, None]:
        """Delete topics with their records. Raises as `create` does."""
        wanted = list(dict.fromkeys(names))
        request = m.DeleteTopicsRequest(
            topics=[m.DeleteTopicState(name=name) for name in wanted],
            topic_names=wanted,
            timeout_ms=broker_timeout_ms(self._cluster.options),
        )
        response = await call_controller(
            self._cluster,
            request,
            m.DeleteTopicsResponse,
            lambda response: (each.error_code for each in response.responses),
        )
        return results_of(
            wanted,
            {
                each.name or "": _refused(
                    each.name, each.error_code, each.error_message
                )
                for each in response.responses
            },
        )

    async def create_partitions(
        self, counts: Mapping[TopicName, int], *, validate_only: bool = False
    ) -> Results[TopicName, None]:
        """Increase the number of partitions of topics to the given totals. Raises as
        `create` does."""
        request = m.CreatePartitionsRequest(
            topics=[
                m.CreatePartitionsTopic(name=name, count=count, assignments=None)
                for name, count in counts.items()
            ],
            timeout_ms=broker_timeout_ms(self._cluster.options),
            validate_only=validate_only,
        )
        response = await call_controller(
            self._cluster,
            request,
            m.CreatePartitionsResponse,
            lambda response: (each.error_code for each in response.results),
        )
        return results_of(
            counts,
            {
                each.name: _refused(each.name, each.error_code, each.error_message)
                for each in response.results
            },
        )


class SyncTopics(SyncFamily[Topics]):
    """The blocking methods of `Topics`."""

    describe = blocking(Topics.describe)
    create = blocking(Topics.create)
    delete = blocking(Topics.delete)
    create_partitions = blocking(Topics.create_partitions)


async def _fill_numbers(cluster: Cluster, topics: Iterable[m.CreatableTopic]) -> None:
    """Fill in the numbers that a broker before Kafka 2.4 does not choose, from the
    controller's settings. Raises the error of reading them."""
    # Imported here: newer brokers do not need it.
    from coterie.client.admin.configs import ConfigResource, Configs

    metadata = await cluster.retrying(lambda: cluster.metadata([]))
    broker = ConfigResource(ConfigResourceType.BROKER, str(metadata.controller_id))
    settings = {
        each.name: int(each.value or 1)
        for each in (
            await Configs(cluster).describe([broker], names=_NUMBER_SETTINGS)
        ).one(broker)
    }
    partitions, replicas = (settings.get(name, 1) for name in _NUMBER_SETTINGS)
    for each in topics:
        if each.num_partitions < 0:
            each.num_partitions = partitions
        if each.replication_factor < 0:
            each.replication_factor = replicas


def _described(
    names: Iterable[TopicName], topics: Mapping[TopicName, m.MetadataResponseTopic]
) -> Results[TopicName, TopicDescription]:
    outcomes: dict[TopicName, TopicDescription | CoterieError] = {}
    for name in names:
        topic = topics.get(name)
        code = topic.error_code if topic else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if topic is None or code:
            outcomes[name] = api_error(code, f"topic {name}")
        else:
            outcomes[name] = _description(name, topic)
    return results_of(outcomes, outcomes)


def _description(name: TopicName, topic: m.MetadataResponseTopic) -> TopicDescription:
    partitions = sorted(topic.partitions, key=lambda each: each.partition_index)
    return TopicDescription(
        name=name,
        topic_id=topic.topic_id if topic.topic_id != ZERO_UUID else None,
        is_internal=topic.is_internal,
        partitions=tuple(
            PartitionDescription(
                partition=each.partition_index,
                leader_id=each.leader_id,
                replicas=tuple(each.replica_nodes),
                in_sync=tuple(each.isr_nodes),
            )
            for each in partitions
        ),
    )


def _creatable(topic: NewTopic) -> m.CreatableTopic:
    def number(chosen: int | None) -> int:
        return _BROKER_DEFAULT if chosen is None or topic.assignments else chosen

    return m.CreatableTopic(
        name=topic.name,
        num_partitions=number(topic.partitions),
        replication_factor=number(topic.replication_factor),
        assignments=[
            m.CreatableReplicaAssignment(partition_index=at, broker_ids=list(node_ids))
            for at, node_ids in topic.assignments.items()
        ],
        configs=[
            m.CreatableTopicConfig(name=name, value=value)
            for name, value in topic.configs.items()
        ],
    )


def _created(topic: m.CreatableTopicResult) -> CreatedTopic:
    def known(number: int) -> int | None:
        return number if number >= 0 else None

    return CreatedTopic(
        name=topic.name,
        topic_id=topic.topic_id if topic.topic_id != ZERO_UUID else None,
        partitions=known(topic.num_partitions),
        replication_factor=known(topic.replication_factor),
    )


def _refused(name: str | None, code: int, message: str | None) -> ApiError | None:
    return api_error(code, f"topic {name}", message) if code else None
