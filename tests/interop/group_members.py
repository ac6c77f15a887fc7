"""Members of share groups (KIP-932) and streams groups (KIP-1071) by single requests.

A member sends heartbeats only when told to: its session of 45 s is longer than a test.
"""

from __future__ import annotations

import uuid as ids
from typing import Any, Final

from coterie.client.admin.group_calls import Groups
from coterie.client.cluster import Cluster
from coterie.client.options import ClientOptions
from coterie.errors import ApiError
from coterie.wire.error_codes import ErrorCode
from coterie.wire.schema import (
    Message,
    Struct,
    array,
    boolean,
    int8,
    int16,
    int32,
    int64,
    string,
    struct,
    uint16,
    uuid,
)

LEAVE: Final = -1
_REBALANCE_MS: Final = 30_000


class ShareGroupHeartbeatRequest(Message, key=76, versions="1", flexible="0+"):
    group_id: str = string()
    member_id: str = string()
    member_epoch: int = int32()
    rack_id: str | None = string(nullable="0+", default=None)
    subscribed_topic_names: list[str] | None = array(
        "string", nullable="0+", default=None
    )


class SharePartitions(Struct):
    topic_id: bytes = uuid()
    partitions: list[int] = array("int32")


class ShareAssignment(Struct):
    topic_partitions: list[SharePartitions] = array(SharePartitions)


class ShareGroupHeartbeatResponse(Message, key=76, versions="1", flexible="0+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    member_id: str | None = string(nullable="0+", default=None)
    member_epoch: int = int32()
    heartbeat_interval_ms: int = int32()
    assignment: ShareAssignment | None = struct(
        ShareAssignment, nullable="0+", default=None
    )


class KeyValue(Struct):
    key: str = string()
    value: str = string()


class TopicInfo(Struct):
    name: str = string()
    partitions: int = int32()
    replication_factor: int = int16()
    topic_configs: list[KeyValue] = array(KeyValue)


class CopartitionGroup(Struct):
    source_topics: list[int] = array("int16")
    source_topic_regex: list[int] = array("int16")
    repartition_source_topics: list[int] = array("int16")


class Subtopology(Struct):
    subtopology_id: str = string()
    source_topics: list[str] = array("string")
    source_topic_regex: list[str] = array("string")
    state_changelog_topics: list[TopicInfo] = array(TopicInfo)
    repartition_sink_topics: list[str] = array("string")
    repartition_source_topics: list[TopicInfo] = array(TopicInfo)
    copartition_groups: list[CopartitionGroup] = array(CopartitionGroup)


class Topology(Struct):
    epoch: int = int32()
    subtopologies: list[Subtopology] = array(Subtopology)


class TaskIds(Struct):
    subtopology_id: str = string()
    partitions: list[int] = array("int32")


class Endpoint(Struct):
    host: str = string()
    port: int = uint16()


class TaskOffset(Struct):
    subtopology_id: str = string()
    partition: int = int32()
    offset: int = int64()


class StreamsGroupHeartbeatRequest(Message, key=88, versions="0", flexible="0+"):
    group_id: str = string()
    member_id: str = string()
    member_epoch: int = int32()
    endpoint_information_epoch: int = int32()
    instance_id: str | None = string(nullable="0+", default=None)
    rack_id: str | None = string(nullable="0+", default=None)
    rebalance_timeout_ms: int = int32(default=-1)
    topology: Topology | None = struct(Topology, nullable="0+", default=None)
    active_tasks: list[TaskIds] | None = array(TaskIds, nullable="0+", default=None)
    standby_tasks: list[TaskIds] | None = array(TaskIds, nullable="0+", default=None)
    warmup_tasks: list[TaskIds] | None = array(TaskIds, nullable="0+", default=None)
    process_id: str | None = string(nullable="0+", default=None)
    user_endpoint: Endpoint | None = struct(Endpoint, nullable="0+", default=None)
    client_tags: list[KeyValue] | None = array(KeyValue, nullable="0+", default=None)
    task_offsets: list[TaskOffset] | None = array(
        TaskOffset, nullable="0+", default=None
    )
    task_end_offsets: list[TaskOffset] | None = array(
        TaskOffset, nullable="0+", default=None
    )
    shutdown_application: bool = boolean()


class Status(Struct):
    status_code: int = int8()
    status_detail: str = string()


class TopicPartitions(Struct):
    topic: str = string()
    partitions: list[int] = array("int32")


class EndpointPartitions(Struct):
    user_endpoint: Endpoint = struct(Endpoint)
    active_partitions: list[TopicPartitions] = array(TopicPartitions)
    standby_partitions: list[TopicPartitions] = array(TopicPartitions)


class StreamsGroupHeartbeatResponse(Message, key=88, versions="0", flexible="0+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    member_id: str = string()
    member_epoch: int = int32()
    heartbeat_interval_ms: int = int32()
    acceptable_recovery_lag: int = int32()
    task_offset_interval_ms: int = int32()
    status: list[Status] | None = array(Status, nullable="0+", default=None)
    active_tasks: list[TaskIds] | None = array(TaskIds, nullable="0+", default=None)
    standby_tasks: list[TaskIds] | None = array(TaskIds, nullable="0+", default=None)
    warmup_tasks: list[TaskIds] | None = array(TaskIds, nullable="0+", default=None)
    endpoint_information_epoch: int = int32()
    partitions_by_user_endpoint: list[EndpointPartitions] | None = array(
        EndpointPartitions, nullable="0+", default=None
    )


class GroupMember:
    """A member of a share group or a streams group, at its member epoch."""

    def __init__(
        self,
        bootstrap: str,
        group_id: str,
        request: type[Message],
        response: type[Message],
    ) -> None:
        self.member_id = str(ids.uuid4())
        self._cluster = Cluster(bootstrap, ClientOptions())
        self._group_id = group_id
        self._kinds = request, response
        self._epoch = 0

    async def heartbeat(self, **values: Any) -> Any:
        """Send a heartbeat to the coordinator and return the response."""
        request, response = self._kinds
        values = {"member_epoch": self._epoch, **values}

        async def once() -> Any:
            found = await Groups(self._cluster).find_coordinators([self._group_id])
            answer: Any = await self._cluster.call(
                request(group_id=self._group_id, member_id=self.member_id, **values),
                response,
                node_id=found.one(self._group_id).node_id,
            )
            if answer.error_code:
                raise ApiError(ErrorCode.read(answer.error_code), answer.error_message)
            return answer

        # A coordinator of a new cluster is loading at first.
        answer = await self._cluster.retrying(once)
        self._epoch = answer.member_epoch
        return answer

    async def leave(self) -> None:
        """Leave the group."""
        await self.heartbeat(member_epoch=LEAVE)
        await self.close()

    async def close(self) -> None:
        """Close the connections; the member stays until its session times out."""
        await self._cluster.close()


async def join_share_group(bootstrap: str, group_id: str, *topics: str) -> GroupMember:
    """Join a share group; the member gets partitions when others send heartbeats."""
    member = GroupMember(
        bootstrap, group_id, ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
    )
    await member.heartbeat(subscribed_topic_names=list(topics))
    return member


async def join_streams_group(
    bootstrap: str, group_id: str, *topics: str
) -> GroupMember:
    """Join a streams group whose topology reads the topics and writes to no store."""
    member = GroupMember(
        bootstrap,
        group_id,
        StreamsGroupHeartbeatRequest,
        StreamsGroupHeartbeatResponse,
    )
    reading = Subtopology(subtopology_id="0", source_topics=list(topics))
    await member.heartbeat(
        rebalance_timeout_ms=_REBALANCE_MS,
        topology=Topology(epoch=1, subtopologies=[reading]),
        active_tasks=[],
        standby_tasks=[],
        warmup_tasks=[],
        process_id="process-1",
        client_tags=[],
    )
    return member
