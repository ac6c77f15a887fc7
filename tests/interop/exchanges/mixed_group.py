"""`Group`: requests of members of both protocols to one group."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from coterie.wire import messages as m
from tests.broker.server.harness import WireClient

from .members import ConsumerMember, heartbeat, join_consumer, join_request


@dataclass
class Group:
    """Requests to one group, whose members subscribe to `topic`."""

    wire: WireClient
    id: str
    topic: str

    def consumer(self, **fields: Any) -> ConsumerMember:
        """Join with the consumer protocol; the target is computed at once."""
        return join_consumer(self.wire, self.id, self.topic, **fields)

    def rejoin(
        self, member_id: str, *topics: str, **fields: Any
    ) -> m.ConsumerGroupHeartbeatResponse:
        """Send the heartbeat of a member that joins."""
        return heartbeat(
            self.wire,
            self.id,
            member_id,
            0,
            **{
                "rebalance_timeout_ms": 10_000,
                "subscribed_topic_names": list(topics or (self.topic,)),
                "topic_partitions": [],
                **fields,
            },
        )

    def join(self, member_id: str = "", *topics: str, **fields: Any) -> Any:
        """Send a JoinGroup v9, or of another version, without waiting for others."""
        version = fields.pop("version", 9)
        request = join_request(
            self.id, *(topics or (self.topic,)), member_id=member_id, **fields
        )
        response: m.JoinGroupResponse = self.wire.call(request, version)
        return response

    def sync(
        self, member_id: str, generation: int, **fields: Any
    ) -> m.SyncGroupResponse:
        usual: dict[str, Any] = {"protocol_type": "consumer", "protocol_name": "range"}
        request = m.SyncGroupRequest(
            group_id=self.id,
            member_id=member_id,
            generation_id=generation,
            **{**usual, **fields},
        )
        response: m.SyncGroupResponse = self.wire.call(request, 5)
        return response

    def beat(self, member_id: str, generation: int, **fields: Any) -> int:
        """Send a Heartbeat; return its error code."""
        request = m.HeartbeatRequest(
            group_id=self.id, member_id=member_id, generation_id=generation, **fields
        )
        code: int = self.wire.call(request, 4).error_code
        return code

    def leave(self, *members: tuple[str, str | None]) -> list[tuple[int, str]]:
        """Send a LeaveGroup; return the error code and member id of each member."""
        identities = [
            m.MemberIdentity(member_id=member_id, group_instance_id=instance_id)
            for member_id, instance_id in members
        ]
        request = m.LeaveGroupRequest(group_id=self.id, members=identities)
        response = self.wire.call(request, 5)
        assert response.error_code == 0
        return [(each.error_code, each.member_id) for each in response.members]

    def commit(self, member_id: str, epoch: int, instance_id: str | None = None) -> int:
        """Commit an offset of partition 0; return the error code."""
        request = m.OffsetCommitRequest(
            group_id=self.id,
            generation_id_or_member_epoch=epoch,
            member_id=member_id,
            group_instance_id=instance_id,
            topics=[
                m.OffsetCommitRequestTopic(
                    name=self.topic,
                    partitions=[
                        m.OffsetCommitRequestPartition(
                            partition_index=0,
                            committed_offset=1,
                            committed_metadata="",
                        )
                    ],
                )
            ],
        )
        [topic] = self.wire.call(request, 9).topics
        [partition] = topic.partitions
        code: int = partition.error_code
        return code

    def target_at_once(self) -> None:
        """Let every epoch compute its target at once."""
        config = m.IncrementalAlterableConfig(
            name="consumer.assignment.interval.ms", config_operation=0, value="0"
        )
        resource = m.IncrementalAlterConfigsResource(
            resource_type=32, resource_name=self.id, configs=[config]
        )
        request = m.IncrementalAlterConfigsRequest(resources=[resource])
        [response] = self.wire.call(request, 1).responses
        assert response.error_code == 0, response
