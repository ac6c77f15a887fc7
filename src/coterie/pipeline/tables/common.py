"""Columns that many tables have."""

from __future__ import annotations

from typing import Final

from coterie.pipeline.tables.table import (
    INT,
    LONG,
    STRING,
    TIME,
    Column,
    list_of,
    never_null,
    struct_of,
)

LOG_PARTITION: Final = never_null(
    "log_partition", INT, "the partition of the coordinator's log"
)
LOG_OFFSET: Final = never_null(
    "log_offset", LONG, "the record's offset in its log partition"
)
APPEND_TS: Final = Column("append_ts", TIME, "the record's timestamp; null for none")
BASE_OFFSET: Final = never_null(
    "base_offset",
    LONG,
    "the first offset of the batch it came in",
)
SIZE_BYTES: Final = never_null("size_bytes", INT, "bytes of its key and value")
AT: Final = (LOG_PARTITION, LOG_OFFSET, APPEND_TS, BASE_OFFSET, SIZE_BYTES)
"""Where a record stands in the log; tables of records begin with it."""

GROUP_ID: Final = never_null("group_id", STRING, "the group")
TOPIC: Final = never_null("topic", STRING, "the topic's name")
PARTITION: Final = never_null("partition", INT, "the partition of the topic")
TOPIC_ID: Final = Column(
    "topic_id", STRING, "the topic's id, 32 hex digits; null when unknown"
)
MEMBER_ID: Final = never_null("member_id", STRING, "the member")
INSTANCE_ID: Final = Column(
    "instance_id", STRING, "of a static member (group.instance.id)"
)
CLIENT_ID: Final = Column("client_id", STRING, "the member's client.id")
CLIENT_HOST: Final = Column("client_host", STRING, "where it connects from")

PARTITIONS: Final = list_of(struct_of(topic_id=STRING, topic=STRING, partition=INT))
"""Partitions of topics. Records of consumer groups have ids, classic ones names; the
other is null."""
