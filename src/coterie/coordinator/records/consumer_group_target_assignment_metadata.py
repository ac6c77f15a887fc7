"""Record type 6: the group epoch that a consumer group's target was made for."""

from __future__ import annotations

from coterie.wire.schema import Message, int32, int64, string


class ConsumerGroupTargetAssignmentMetadataKey(Message, versions="0"):
    group_id: str = string()


class ConsumerGroupTargetAssignmentMetadataValue(Message, versions="0", flexible="0+"):
    assignment_epoch: int = int32()
    assignment_timestamp: int = int64(tag=0, tagged="0+")
