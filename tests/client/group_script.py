"""A scripted coordinator of one group."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from coterie.wire import messages as m
from coterie.wire.api import ApiKey
from coterie.wire.error_codes import ErrorCode
from tests.client.scripted_broker import ScriptedBroker

TOPIC = b"t" * 16
FOREVER_MS = 600_000
"""A heartbeat interval longer than any test: every heartbeat has another reason."""


class ScriptedGroup:
    """A coordinator that accepts one member at epoch 1 with partition 0 of "orders",
    and every commit.

    `heartbeats` and `commits` are error codes of the next responses; `hold`, if set,
    replaces the response to a heartbeat.
    """

    def __init__(self, broker: ScriptedBroker) -> None:
        self.broker = broker
        self.epoch = 1
        self.assigned: tuple[int, ...] = (0,)
        self.heartbeats: list[ErrorCode] = []
        self.commits: list[ErrorCode] = []
        self.names: dict[bytes, str] = {TOPIC: "orders"}
        self.hold: Callable[[Any], Any] | None = None
        broker.answers[ApiKey.CONSUMER_GROUP_HEARTBEAT] = self._heartbeat
        broker.answers[ApiKey.OFFSET_COMMIT] = self._commit
        broker.answers[ApiKey.METADATA] = self._metadata

    @property
    def epochs(self) -> list[int]:
        """The member epochs of the received heartbeats."""
        asked = self.broker.asked_of(m.ConsumerGroupHeartbeatRequest)
        return [request.member_epoch for request in asked]

    async def acknowledged(self) -> None:
        """Wait until the member has acknowledged its assignment."""
        await self.broker.until(lambda: len(self.epochs) > 1)

    @property
    def committed(self) -> list[tuple[int, int]]:
        """The member epoch and offset of each commit of partition 0."""
        return [
            (
                request.generation_id_or_member_epoch,
                request.topics[0].partitions[0].committed_offset,
            )
            for request in self.broker.asked_of(m.OffsetCommitRequest)
        ]

    def _heartbeat(self, request: m.ConsumerGroupHeartbeatRequest) -> Any:
        if self.hold is not None and (said := self.hold(request)) is not None:
            return said
        if self.heartbeats and (code := self.heartbeats.pop(0)):
            return m.ConsumerGroupHeartbeatResponse(error_code=code, error_message="no")
        if request.member_epoch < 0:
            return m.ConsumerGroupHeartbeatResponse(
                member_id=request.member_id, member_epoch=request.member_epoch
            )
        topics = [m.TopicPartitions(topic_id=TOPIC, partitions=list(self.assigned))]
        is_full = request.subscribed_topic_names is not None
        return m.ConsumerGroupHeartbeatResponse(
            member_id=request.member_id or "given-id",
            member_epoch=self.epoch,
            heartbeat_interval_ms=FOREVER_MS,
            assignment=m.Assignment(topic_partitions=topics) if is_full else None,
        )

    def _commit(self, request: m.OffsetCommitRequest) -> m.OffsetCommitResponse:
        code = self.commits.pop(0) if self.commits else ErrorCode.NONE
        return m.OffsetCommitResponse(
            topics=[
                m.OffsetCommitResponseTopic(
                    name=topic.name,
                    partitions=[
                        m.OffsetCommitResponsePartition(
                            partition_index=each.partition_index, error_code=code
                        )
                        for each in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )

    def _metadata(self, request: m.MetadataRequest) -> m.MetadataResponse:
        return m.MetadataResponse(
            topics=[
                m.MetadataResponseTopic(
                    topic_id=each.topic_id,
                    name=self.names.get(each.topic_id),
                    error_code=0
                    if each.topic_id in self.names
                    else ErrorCode.UNKNOWN_TOPIC_ID,
                )
                for each in request.topics or ()
            ]
        )
