"""Streams groups (KIP-1071): StreamsGroupDescribe, decoded.

Their committed offsets are read and written like those of consumer groups.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from coterie.client.admin import groups
from coterie.client.admin.results import api_error, authorized_operations
from coterie.errors import CoterieError
from coterie.types import TopicName, TopicPartition
from coterie.wire import messages as m

_PROTOCOL_TYPE: Final = "streams"


def streams_group(
    group: m.DescribedStreamsGroup, node: groups.Node
) -> groups.GroupDescription | CoterieError:
    """Convert one group of a StreamsGroupDescribe response, or its error."""
    if group.error_code:
        return api_error(
            group.error_code, f"group {group.group_id}", group.error_message
        )
    topology = None if group.topology is None else _topology(group.topology)
    topics = {
        each.subtopology_id: (*each.source_topics, *each.repartition_source_topics)
        for each in (topology.subtopologies if topology else ())
    }
    members = sorted(group.members, key=lambda member: member.member_id)
    return groups.GroupDescription(
        group_id=group.group_id,
        type=groups.GroupType.STREAMS,
        state=groups.GroupState.read(group.group_state),
        protocol_type=_PROTOCOL_TYPE,
        assignor="",
        coordinator=node,
        members=tuple(_member(each, topics) for each in members),
        group_epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
        authorized_operations=authorized_operations(group.authorized_operations),
        topology=topology,
    )


def _topology(topology: m.Topology) -> groups.Topology:
    return groups.Topology(
        topology.epoch,
        tuple(
            groups.Subtopology(
                each.subtopology_id,
                tuple(sorted(each.source_topics)),
                _names(each.repartition_source_topics),
                tuple(sorted(each.repartition_sink_topics)),
                _names(each.state_changelog_topics),
            )
            for each in topology.subtopologies or ()
        ),
    )


def _names(topics: Iterable[m.TopicInfo]) -> tuple[TopicName, ...]:
    return tuple(sorted(each.name for each in topics))


def _member(
    member: m.StreamsMember, topics: dict[str, tuple[TopicName, ...]]
) -> groups.MemberDescription:
    tasks = _tasks(member.assignment)
    target = _tasks(member.target_assignment)
    subtopologies = {each.subtopology_id for each in (*tasks.active, *target.active)}
    read = {topic for each in subtopologies for topic in topics.get(each, ())}
    return groups.MemberDescription(
        member_id=member.member_id,
        client_id=member.client_id,
        host=member.client_host,
        assignment=_partitions(tasks.active, topics),
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        target_assignment=_partitions(target.active, topics),
        epoch=member.member_epoch,
        is_classic=member.is_classic,
        subscribed_topics=tuple(sorted(read)),
        tasks=tasks,
        target_tasks=target,
        topology_epoch=member.topology_epoch,
        process_id=member.process_id,
    )


def _tasks(assignment: m.TaskAssignment) -> groups.Tasks:
    def sort(ids: Iterable[m.TaskIds]) -> tuple[groups.Task, ...]:
        return tuple(
            sorted(
                groups.Task(each.subtopology_id, partition)
                for each in ids
                for partition in each.partitions
            )
        )

    return groups.Tasks(
        sort(assignment.active_tasks),
        sort(assignment.standby_tasks),
        sort(assignment.warmup_tasks),
    )


def _partitions(
    tasks: Collection[groups.Task], topics: dict[str, tuple[TopicName, ...]]
) -> tuple[TopicPartition, ...]:
    """Return the partitions that tasks read. A topic may have fewer partitions than its
    subtopology has tasks: the response has no partition counts."""
    return tuple(
        sorted(
            TopicPartition(topic, task.partition)
            for task in tasks
            for topic in topics.get(task.subtopology_id, ())
        )
    )
