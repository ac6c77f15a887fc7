"""Initialize the state of share partitions, and delete it (KIP-932).

Before a partition can be assigned, its state must be initialized. A heartbeat does that
for all partitions of the topics that the group subscribes to: it writes that they are
`initializing`, the store initializes them, and another record says so. A heartbeat
never waits for it. An initialization that has not ended after
`group.share.initialize.retry.interval.ms` is repeated.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from coterie.broker.coordinator.consumer.topics import existing_topics
from coterie.broker.coordinator.result import Context, Record, Result, TopicView
from coterie.broker.coordinator.share.draft import ShareDraft
from coterie.broker.coordinator.share.group import (
    NO_PARTITIONS,
    PartitionStates,
    ShareGroup,
    ShareTopic,
    ShareTopics,
)
from coterie.broker.coordinator.share.record_builders import partitions_record
from coterie.broker.coordinator.share.state_requests import (
    BY_RESET_POLICY,
    InitializeShareState,
    SharePartitions,
    ShareStateRequest,
    request_timer,
)
from coterie.broker.coordinator.state import State
from coterie.types import TopicId
from coterie.wire.error_codes import ErrorCode


def initialize_partitions(draft: ShareDraft) -> None:
    """Initialize the partitions of subscribed topics that are neither initialized nor
    being initialized.

    Partitions of a topic that is new to the group start by its reset policy. Those that
    are added to a known topic start at offset 0, so that none of their records is
    missed (KAFKA-20742).
    """
    new = _missing(draft)
    if not new:
        return
    states = draft.partitions
    known = states.initialized.keys() | states.initializing.keys()
    request = InitializeShareState(
        draft.group_id,
        draft.epoch,
        tuple(
            SharePartitions(
                topic_id,
                topic.name,
                tuple(sorted(topic.partitions)),
                0 if topic_id in known else BY_RESET_POLICY,
            )
            for topic_id, topic in sorted(new.items())
        ),
    )
    draft.put_partitions(initializing(states, request))
    draft.set(request_timer(request, draft.context))


def initializing(
    states: PartitionStates, request: InitializeShareState
) -> PartitionStates:
    """Return the states while a request is under way."""
    topics = topics_of(request)
    return states._replace(
        initializing=_union(states.initializing, topics),
        deleting={
            topic_id: name
            for topic_id, name in states.deleting.items()
            if topic_id not in topics
        },
    )


def _missing(draft: ShareDraft) -> dict[TopicId, ShareTopic]:
    context, states = draft.context, draft.partitions
    settings = context.environment.settings
    age_ms = context.now_ms - states.initializing_ms
    ready = states.initialized
    if age_ms < settings.group_share_initialize_retry_interval_ms:
        ready = _union(ready, states.initializing)
    new: dict[TopicId, ShareTopic] = {}
    names = draft.topic_names()
    for name, topic_id, count, _ in existing_topics(names, context.environment.topics):
        known = ready.get(topic_id)
        if known is not None and len(known.partitions) == count:
            continue
        missing = frozenset(range(count))
        if known is not None:
            missing -= known.partitions
        if missing:
            new[topic_id] = ShareTopic(name, missing)
    return new


def _union(some: ShareTopics, others: ShareTopics) -> dict[TopicId, ShareTopic]:
    united = dict(some)
    for topic_id, topic in others.items():
        before = united.get(topic_id)
        united[topic_id] = (
            topic
            if before is None
            else before._replace(partitions=before.partitions | topic.partitions)
        )
    return united


def _difference(some: ShareTopics, others: ShareTopics) -> dict[TopicId, ShareTopic]:
    left: dict[TopicId, ShareTopic] = {}
    for topic_id, topic in some.items():
        other = others.get(topic_id)
        partitions = topic.partitions
        if other is not None:
            partitions -= other.partitions
        if partitions:
            left[topic_id] = topic._replace(partitions=partitions)
    return left


def topics_of(request: ShareStateRequest) -> dict[TopicId, ShareTopic]:
    """Return the partitions of a request by topic."""
    found: dict[TopicId, ShareTopic] = {}
    for each in request.topics:
        topic = ShareTopic(each.topic_name, frozenset(each.partitions))
        found = _union(found, {each.topic_id: topic})
    return found


def finish_initialization(
    group: ShareGroup, request: InitializeShareState, code: ErrorCode, context: Context
) -> Result:
    """Mark the partitions of a request as initialized; after an error as not
    initializing, so that the next heartbeat initializes them again."""
    assert request.topics, "a request initializes something"
    draft = ShareDraft(group, context)
    states, topics = draft.partitions, topics_of(request)
    initializing = _difference(states.initializing, topics)
    if code is ErrorCode.NONE:
        initialized = _union(states.initialized, topics)
        draft.put_partitions(
            states._replace(initializing=initializing, initialized=initialized)
        )
    elif initializing != states.initializing:
        draft.put_partitions(states._replace(initializing=initializing))
    return draft.result()


def without_topics(
    group: ShareGroup, topic_ids: Iterable[TopicId]
) -> PartitionStates | None:
    """Return the group's partitions without some topics; None if it has none of
    them."""
    states = group.partitions or NO_PARTITIONS
    gone = {
        topic_id
        for topic_id in topic_ids
        if topic_id in states.initialized
        or topic_id in states.initializing
        or topic_id in states.deleting
    }
    if not gone:
        return None
    return states._replace(
        initializing=_without(states.initializing, gone),
        initialized=_without(states.initialized, gone),
        deleting={
            topic: name for topic, name in states.deleting.items() if topic not in gone
        },
    )


def _without(topics: Mapping[TopicId, ShareTopic], gone: set[TopicId]) -> ShareTopics:
    return {each: topic for each, topic in topics.items() if each not in gone}


def deletable_partitions(
    group: ShareGroup, topics: TopicView
) -> tuple[SharePartitions, ...]:
    """Return the partitions of a group that have state, or may have it.

    Of a topic that is being deleted from the group, these are all its partitions.
    """
    states = group.partitions or NO_PARTITIONS
    deleting = {
        topic_id: ShareTopic(name, frozenset(range(topics.partition_count(name) or 0)))
        for topic_id, name in states.deleting.items()
        if topics.topic_id(name) == topic_id
    }
    found = _union(_union(states.initialized, states.initializing), deleting)
    return tuple(
        SharePartitions(topic_id, topic.name, tuple(sorted(topic.partitions)))
        for topic_id, topic in sorted(found.items())
    )


def forget_topics(state: State, topic_ids: Collection[TopicId]) -> list[Record]:
    """Return the records that remove deleted topics from all groups that have them.

    The store deletes their state itself.
    """
    records: list[Record] = []
    for group in state.share_groups.values():
        left = without_topics(group, topic_ids)
        if left is not None:
            records.append(partitions_record(group.group_id, left))
    return records
