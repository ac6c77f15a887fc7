"""Share groups (KIP-932): descriptions, and the start offsets of their partitions.

A share group has no committed offsets. For each partition that it has read it has a
start offset: the first record that may still be delivered. Records from there on may be
acknowledged in any order, so the lag is not the distance to the log end: brokers return
it from version 1 of DescribeShareGroupOffsets on (KIP-1226).

Rules of this file: an error of a group is raised or returned as the outcome of that
group; an error of one partition does not affect the others.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from coterie.client.admin import group_offsets, groups, results
from coterie.client.admin.family import Family, SyncFamily, blocking
from coterie.client.admin.routing import (
    Outcomes,
    send_to_coordinator,
    send_to_coordinators,
)
from coterie.errors import CoterieError
from coterie.types import GroupId, LogOffset, TopicName, TopicPartition
from coterie.wire import messages as m

_PROTOCOL_TYPE: Final = "share"
_UNKNOWN: Final = -1


def share_group(
    group: m.DescribedShareGroup, node: groups.Node
) -> groups.GroupDescription | CoterieError:
    """Convert one group of a ShareGroupDescribe response, or its error."""
    if group.error_code:
        return results.api_error(
            group.error_code, f"group {group.group_id}", group.error_message
        )
    members = sorted(group.members, key=lambda member: member.member_id)
    return groups.GroupDescription(
        group_id=group.group_id,
        type=groups.GroupType.SHARE,
        state=groups.GroupState.read(group.group_state),
        protocol_type=_PROTOCOL_TYPE,
        assignor=group.assignor_name,
        coordinator=node,
        members=tuple(map(_member, members)),
        group_epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
        authorized_operations=results.authorized_operations(
            group.authorized_operations
        ),
    )


def _member(member: m.ShareMember) -> groups.MemberDescription:
    return groups.MemberDescription(
        member_id=member.member_id,
        client_id=member.client_id,
        host=member.client_host,
        assignment=tuple(
            sorted(
                TopicPartition(topic.topic_name, partition)
                for topic in member.assignment.topic_partitions
                for partition in topic.partitions
            )
        ),
        rack_id=member.rack_id,
        epoch=member.member_epoch,
        subscribed_topics=tuple(sorted(member.subscribed_topic_names)),
    )


@dataclass(frozen=True, slots=True)
class ShareOffset:
    """The position of a share group in a partition."""

    start: LogOffset
    """The first record that may still be delivered."""
    leader_epoch: int | None = None
    """The leader epoch of the partition, when known."""
    lag: int | None = None
    """The records that are not acknowledged yet; None before Kafka 4.2, and when the
    broker does not know."""


@dataclass(frozen=True, slots=True)
class ShareGroupOffsets(results.Partial[TopicPartition]):
    """The positions of one share group.

    A partition that it has not read yet is None. One that could not be read is in
    `errors` only.
    """

    offsets: Mapping[TopicPartition, ShareOffset | None]
    errors: Mapping[TopicPartition, CoterieError] = field(default_factory=dict)

    def all(self) -> Mapping[TopicPartition, ShareOffset | None]:
        """Return every position. Raises the first partition's error, if any."""
        self.raise_any()
        return self.offsets

    def as_commits(self, *, with_epochs: bool) -> group_offsets.GroupOffsets:
        """Return the start offsets in the form of committed offsets. Without epochs,
        they equal those that `ShareGroups.alter_offsets` sets."""
        return group_offsets.GroupOffsets(
            {
                at: None
                if each is None
                else group_offsets.CommittedOffset(
                    each.start, each.leader_epoch if with_epochs else None
                )
                for at, each in self.offsets.items()
            },
            self.errors,
        )


class ShareGroups(Family):
    """Calls about start offsets of share groups."""

    async def fetch_offsets(
        self,
        wanted: Mapping[GroupId, Collection[TopicPartition] | None],
        *,
        progress: results.Progress | None = None,
    ) -> results.Results[GroupId, ShareGroupOffsets]:
        """Fetch the start offsets and the lag of share groups (KIP-932); None means
        every partition of the group.

        Brokers before Kafka 4.1 have the error UnsupportedByBroker for each group.
        """

        async def request(
            node_id: int, group_ids: Sequence[GroupId]
        ) -> Outcomes[GroupId, ShareGroupOffsets]:
            response = await self._cluster.call(
                m.DescribeShareGroupOffsetsRequest(
                    groups=[_wanted_group(each, wanted[each]) for each in group_ids]
                ),
                m.DescribeShareGroupOffsetsResponse,
                node_id=node_id,
            )
            return {each.group_id: _share_offsets(each) for each in response.groups}

        return await send_to_coordinators(
            self._cluster,
            wanted,
            request,
            chunk=group_offsets.OFFSETS_CHUNK,
            progress=progress,
        )

    async def alter_offsets(
        self, group_id: GroupId, starts: Mapping[TopicPartition, LogOffset]
    ) -> results.Results[TopicPartition, None]:
        """Set start offsets of a share group without members; the group is created if
        it does not exist (KIP-932).

        Raises the group's ApiError: NON_EMPTY_GROUP when it has members.
        """
        topics = [
            m.AlterShareGroupOffsetsRequestTopic(
                topic_name=name,
                partitions=[
                    m.AlterShareGroupOffsetsRequestPartition(
                        partition_index=index,
                        start_offset=starts[TopicPartition(name, index)],
                    )
                    for index in indexes
                ],
            )
            for name, indexes in group_offsets.by_topic(starts).items()
        ]
        change = m.AlterShareGroupOffsetsRequest(group_id=group_id, topics=topics)

        async def request(
            node_id: int,
        ) -> results.Results[TopicPartition, None] | CoterieError:
            response = await self._cluster.call(
                change, m.AlterShareGroupOffsetsResponse, node_id=node_id
            )
            if response.error_code:
                name, message = f"group {group_id}", response.error_message
                return results.api_error(response.error_code, name, message)
            outcomes: dict[TopicPartition, CoterieError | None] = {}
            for topic in response.responses:
                for each in topic.partitions:
                    partition = TopicPartition(topic.topic_name, each.partition_index)
                    outcomes[partition] = _error(
                        each.error_code,
                        results.partition_name(partition),
                        each.error_message,
                    )
            return results.results_of(starts, outcomes)

        return await send_to_coordinator(self._cluster, group_id, request)

    async def delete_offsets(
        self, group_id: GroupId, topics: Collection[TopicName]
    ) -> results.Results[TopicName, None]:
        """Delete the start offsets of whole topics from a share group without members
        (KIP-932). Raises as `alter_offsets` does."""
        change = m.DeleteShareGroupOffsetsRequest(
            group_id=group_id,
            topics=[
                m.DeleteShareGroupOffsetsRequestTopic(topic_name=each)
                for each in dict.fromkeys(topics)
            ],
        )

        async def request(
            node_id: int,
        ) -> results.Results[TopicName, None] | CoterieError:
            response = await self._cluster.call(
                change, m.DeleteShareGroupOffsetsResponse, node_id=node_id
            )
            if response.error_code:
                name, message = f"group {group_id}", response.error_message
                return results.api_error(response.error_code, name, message)
            outcomes = {
                each.topic_name: _error(
                    each.error_code, f"topic {each.topic_name}", each.error_message
                )
                for each in response.responses
            }
            return results.results_of(topics, outcomes)

        return await send_to_coordinator(self._cluster, group_id, request)


class SyncShareGroups(SyncFamily[ShareGroups]):
    """The blocking methods of `ShareGroups`."""

    fetch_offsets = blocking(ShareGroups.fetch_offsets)
    alter_offsets = blocking(ShareGroups.alter_offsets)
    delete_offsets = blocking(ShareGroups.delete_offsets)


def _wanted_group(
    group_id: GroupId, named: Collection[TopicPartition] | None
) -> m.DescribeShareGroupOffsetsRequestGroup:
    topics = None
    if named is not None:
        topics = [
            m.DescribeShareGroupOffsetsRequestTopic(topic_name=name, partitions=indexes)
            for name, indexes in group_offsets.by_topic(named).items()
        ]
    return m.DescribeShareGroupOffsetsRequestGroup(group_id=group_id, topics=topics)


def _share_offsets(
    group: m.DescribeShareGroupOffsetsResponseGroup,
) -> ShareGroupOffsets | CoterieError:
    if group.error_code:
        return results.api_error(
            group.error_code, f"group {group.group_id}", group.error_message
        )
    found: dict[TopicPartition, ShareOffset | None] = {}
    errors: dict[TopicPartition, CoterieError] = {}
    for topic in group.topics:
        for each in topic.partitions:
            partition = TopicPartition(topic.topic_name, each.partition_index)
            if each.error_code:
                name = results.partition_name(partition)
                errors[partition] = results.api_error(
                    each.error_code, name, each.error_message
                )
            elif each.start_offset < 0:
                found[partition] = None
            else:
                found[partition] = ShareOffset(
                    each.start_offset, _known(each.leader_epoch), _known(each.lag)
                )
    return ShareGroupOffsets(found, errors)


def _known(number: int) -> int | None:
    return None if number <= _UNKNOWN else number


def _error(code: int, subject: str, message: str | None) -> CoterieError | None:
    return results.api_error(code, subject, message) if code else None
