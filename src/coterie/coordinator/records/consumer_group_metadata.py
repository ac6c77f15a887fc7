"""Record type 3: the epoch of a consumer group."""

from __future__ import annotations

from coterie.wire.schema import Message, int32, int64, string


class ConsumerGroupMetadataKey(Message, versions="0"):
    group_id: str = string()


class ConsumerGroupMetadataValue(Message, versions="0", flexible="0+"):
    epoch: int = int32()
    metadata_hash: int = int64(tag=0, tagged="0+")
    creation_time_ms: int = int64(default=-1, tag=1, tagged="0+")
    """Kafka's trunk after 4.4 tells it; we read it and do not write it."""
