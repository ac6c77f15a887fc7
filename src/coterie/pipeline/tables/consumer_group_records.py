"""Silver: record types 3 to 8 and 16 with a value, in one table: what the types do not
have is null."""

from __future__ import annotations

from typing import Final

from coterie.pipeline.tables.common import AT, GROUP_ID, PARTITIONS
from coterie.pipeline.tables.table import (
    BINARY,
    BYTE,
    INT,
    LONG,
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

CONSUMER_GROUP_RECORDS: Final = Table(
    "consumer_group_records",
    Layer.SILVER,
    "What did the coordinator write about groups of the consumer protocol (KIP-848)?",
    key=("log_partition", "log_offset"),
    columns=(
        *AT,
        never_null("record_type", SHORT, "3, 4, 5, 6, 7, 8 or 16 (E22.2)"),
        GROUP_ID,
        Column("member_id", STRING, "5, 7, 8: the member"),
        Column("group_epoch", INT, "3: the group epoch"),
        Column("metadata_hash", LONG, "3: the hash of what it subscribes to"),
        Column("created_ts", TIME, "3: when the group was made; null when not told"),
        Column(
            "topics_metadata",
            list_of(struct_of(topic_id=STRING, topic=STRING, partitions=INT)),
            "4: the topics it subscribes to; written before 4.1",
        ),
        Column("instance_id", STRING, "5: of a static member"),
        Column("rack_id", STRING, "5: its rack"),
        Column("client_id", STRING, "5: its client.id"),
        Column("client_host", STRING, "5: where it connects from"),
        Column("subscribed_topics", list_of(STRING), "5: topics by name"),
        Column("subscribed_regex", STRING, "5: topics by regular expression"),
        Column("rebalance_timeout_ms", INT, "5: how long it may take to give up"),
        Column("server_assignor", STRING, "5: the assignor it asks for"),
        Column("session_timeout_ms", INT, "5: of a member of the classic protocol"),
        Column(
            "classic_protocols",
            list_of(struct_of(name=STRING, metadata=BINARY)),
            "5: of a member of the classic protocol; null for the others",
        ),
        Column("assignment_epoch", INT, "6: the epoch of the target assignment"),
        Column("assignment_ts", TIME, "6: when it was computed; null when not told"),
        Column("assigned", PARTITIONS, "7: the target; 8: what it owns"),
        Column("pending_revocation", PARTITIONS, "8: what it has to give up first"),
        Column("member_epoch", INT, "8: the member epoch; -2: a static member away"),
        Column("previous_member_epoch", INT, "8: the one before"),
        Column(
            "member_state",
            BYTE,
            "8: 0 stable, 1 has to revoke, 2 waits for others (K-06), 127 unknown",
        ),
        Column("regex", STRING, "16: the regular expression"),
        Column("regex_topics", list_of(STRING), "16: what it matches"),
        Column("regex_version", LONG, "16: of the cluster's metadata"),
        Column("regex_ts", TIME, "16: when it was resolved"),
    ),
)
