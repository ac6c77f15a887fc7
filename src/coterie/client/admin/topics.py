"""Topics: looked at, made, grown and deleted.

They are looked at by Metadata, which every broker speaks and which tells of a thousand
topics in one answer. DescribeTopicPartitions (KIP-966) pages through the same, 2,000
partitions at a time, for the sake of what nobody here asks about.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Final

from coterie.client.admin.bulk import backoff_s
from coterie.client.admin.controller import broker_timeout_ms, call_controller
from coterie.client.admin.deadline import Deadline
from coterie.client.admin.leaders import UNKNOWN_TRIES, topics_of
from coterie.client.admin.offset_values import PartitionDescription, TopicDescription
from coterie.client.admin.refusals import refusal
from coterie.client.admin.results import Results, results_of
from coterie.client.admin.topic_values import CreatedTopic, NewTopic
from coterie.client.cluster import Cluster
from coterie.errors import ApiError, CoterieError
from coterie.types import TopicName
from coterie.wire.error_codes import ErrorCode
from coterie.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from coterie.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from coterie.wire.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from coterie.wire.messages.metadata import MetadataResponseTopic
from coterie.wire.schema import VERSION_MAX, ZERO_UUID, Versions

_BROKERS_CHOICE: Final = -1
_COUNTS_SINCE: Final = 4
"""CreateTopics leaves numbers to the broker since this version (KIP-464)."""


async def describe_topics(
    cluster: Cluster, names: Iterable[TopicName] | None = None
) -> Results[TopicName, TopicDescription]:
    """Topics by name; None means all that the caller may see. None is made by asking.

    One that is unknown is asked for a few times: it may have been made just now.
    """
    deadline = Deadline(cluster)
    if names is None:
        answer = await deadline.retrying(lambda: cluster.metadata(None))
        found = {topic.name or "": topic for topic in answer.topics}
        return _described(sorted(found), found)
    wanted = list(dict.fromkeys(names))
    found = await topics_of(cluster, deadline, wanted)
    for tries in range(1, UNKNOWN_TRIES):
        unsure = [name for name in wanted if _may_come(found.get(name))]
        if not unsure:
            break
        await asyncio.sleep(backoff_s(cluster.options, tries))
        found |= await topics_of(cluster, deadline, unsure)
    return _described(wanted, found)


async def create_topics(
    cluster: Cluster, topics: Iterable[NewTopic], *, validate_only: bool = False
) -> Results[TopicName, CreatedTopic]:
    """Make topics, or with `validate_only` only see whether they could be made.

    Raises RequestTimedOut or ConnectionLost when it is unknown whether they were.
    """
    wanted = list(topics)
    request = CreateTopicsRequest(
        topics=[_to_make(topic) for topic in wanted],
        timeout_ms=broker_timeout_ms(cluster.options),
        validate_only=validate_only,
    )
    is_open = any(
        each.num_partitions < 0 or each.replication_factor < 0
        for each in request.topics
        if not each.assignments
    )
    answer = await call_controller(
        cluster,
        request,
        CreateTopicsResponse,
        lambda answer: (topic.error_code for topic in answer.topics),
        wanted=Versions(_COUNTS_SINCE if is_open else 0, VERSION_MAX),
    )
    return results_of(
        (topic.name for topic in wanted),
        {
            each.name: _refused(each.name, each.error_code, each.error_message)
            or _made(each)
            for each in answer.topics
        },
    )


async def delete_topics(
    cluster: Cluster, names: Iterable[TopicName]
) -> Results[TopicName, None]:
    """Delete topics and all they hold.

    Raises RequestTimedOut or ConnectionLost when it is unknown whether they are gone.
    """
    wanted = list(dict.fromkeys(names))
    request = DeleteTopicsRequest(
        topics=[DeleteTopicState(name=name) for name in wanted],
        topic_names=wanted,
        timeout_ms=broker_timeout_ms(cluster.options),
    )
    answer = await call_controller(
        cluster,
        request,
        DeleteTopicsResponse,
        lambda answer: (each.error_code for each in answer.responses),
    )
    return results_of(
        wanted,
        {
            each.name or "": _refused(each.name, each.error_code, each.error_message)
            for each in answer.responses
        },
    )


async def create_partitions(
    cluster: Cluster, counts: Mapping[TopicName, int], *, validate_only: bool = False
) -> Results[TopicName, None]:
    """Let topics have so many partitions in all; no topic can have fewer than it has.

    Raises RequestTimedOut or ConnectionLost when it is unknown whether they do.
    """
    request = CreatePartitionsRequest(
        topics=[
            CreatePartitionsTopic(name=name, count=count, assignments=None)
            for name, count in counts.items()
        ],
        timeout_ms=broker_timeout_ms(cluster.options),
        validate_only=validate_only,
    )
    answer = await call_controller(
        cluster,
        request,
        CreatePartitionsResponse,
        lambda answer: (each.error_code for each in answer.results),
    )
    return results_of(
        counts,
        {
            each.name: _refused(each.name, each.error_code, each.error_message)
            for each in answer.results
        },
    )


def _may_come(topic: MetadataResponseTopic | None) -> bool:
    return topic is None or ErrorCode.read(topic.error_code).retriable


def _described(
    names: Iterable[TopicName], found: Mapping[TopicName, MetadataResponseTopic]
) -> Results[TopicName, TopicDescription]:
    outcomes: dict[TopicName, TopicDescription | CoterieError] = {}
    for name in names:
        topic = found.get(name)
        code = topic.error_code if topic else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if topic is None or code:
            outcomes[name] = refusal(code, f"topic {name}")
        else:
            outcomes[name] = _description(name, topic)
    return results_of(outcomes, outcomes)


def _description(name: TopicName, topic: MetadataResponseTopic) -> TopicDescription:
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


def _to_make(topic: NewTopic) -> CreatableTopic:
    def number(chosen: int | None) -> int:
        return _BROKERS_CHOICE if chosen is None or topic.assignments else chosen

    return CreatableTopic(
        name=topic.name,
        num_partitions=number(topic.partitions),
        replication_factor=number(topic.replication_factor),
        assignments=[
            CreatableReplicaAssignment(partition_index=at, broker_ids=list(node_ids))
            for at, node_ids in topic.assignments.items()
        ],
        configs=[
            CreatableTopicConfig(name=name, value=value)
            for name, value in topic.configs.items()
        ],
    )


def _made(topic: CreatableTopicResult) -> CreatedTopic:
    def known(number: int) -> int | None:
        return number if number >= 0 else None

    return CreatedTopic(
        name=topic.name,
        topic_id=topic.topic_id if topic.topic_id != ZERO_UUID else None,
        partitions=known(topic.num_partitions),
        replication_factor=known(topic.replication_factor),
    )


def _refused(name: str | None, code: int, said: str | None) -> ApiError | None:
    return refusal(code, f"topic {name}", said) if code else None
