"""Silver: record type 2 with a value."""

from __future__ import annotations

from typing import Final

from coterie.pipeline.tables.common import AT, GROUP_ID, PARTITIONS
from coterie.pipeline.tables.table import (
    BINARY,
    INT,
    SHORT,
    STRING,
    TIME,
    Column,
    Layer,
    Table,
    list_of,
    never_null,
    struct_of,
)

CLASSIC_MEMBER: Final = struct_of(
    member_id=STRING,
    instance_id=STRING,
    client_id=STRING,
    client_host=STRING,
    rebalance_timeout_ms=INT,
    session_timeout_ms=INT,
    subscription=BINARY,
    subscribed_topics=list_of(STRING),
    assignment=BINARY,
    assigned=PARTITIONS,
)
"""A member of a classic group. Topics and partitions are of protocol type "consumer";
null for other types and for bytes that do not read."""

CLASSIC_GROUP_RECORDS: Final = Table(
    "classic_group_records",
    Layer.SILVER,
    "What did each generation of a classic group look like?",
    key=("log_partition", "log_offset"),
    columns=(
        *AT,
        GROUP_ID,
        never_null("protocol_type", STRING, "consumer, connect, ..."),
        never_null("generation", INT, "the generation"),
        Column("protocol", STRING, "the assignment strategy; null in an empty group"),
        Column("leader_id", STRING, "who assigned; null in an empty group"),
        Column("state_ts", TIME, "since when it is in this state"),
        never_null("members", list_of(CLASSIC_MEMBER), "its members"),
        never_null("value_version", SHORT, "the version of the value"),
    ),
)
