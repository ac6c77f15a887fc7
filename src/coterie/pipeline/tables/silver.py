"""Silver tables: decoded records, records that could not be decoded, and log gaps."""

from __future__ import annotations

from typing import Final

from coterie.pipeline.tables.table import (
    BINARY,
    BOOL,
    BYTE,
    GROUP_ID,
    INT,
    LOG_PARTITION,
    LONG,
    PARTITION,
    PARTITIONS,
    RECORD_COLUMNS,
    SHORT,
    STRING,
    TIME,
    TOPIC,
    TOPIC_ID,
    Column,
    Layer,
    Table,
    list_of,
    required,
    struct_of,
)

OFFSET_COMMITS: Final = Table(
    "offset_commits",
    Layer.SILVER,
    "Which offsets were committed (record types 0 and 1, without aborted"
    " transactions)?",
    key=("log_partition", "log_offset"),
    columns=(
        *RECORD_COLUMNS,
        GROUP_ID,
        TOPIC,
        PARTITION,
        required(
            "committed_offset",
            LONG,
            "offset of the next record to read; a negative one is no committed offset",
        ),
        Column(
            "leader_epoch",
            INT,
            "leader epoch of the last consumed record; null when the client sent none",
        ),
        Column("metadata", STRING, "metadata string of the commit, often empty"),
        Column("commit_ts", TIME, "commit time by the coordinator's clock (K-09a)"),
        Column("expire_ts", TIME, "explicit expiration; value version 1 only (K-09b)"),
        TOPIC_ID,
        required("value_version", SHORT, "schema version of the value"),
        required("is_transactional", BOOL, "true for a transactional commit"),
        Column("producer_id", LONG, "producer ID of the transaction; null without one"),
    ),
    day_of="append_ts",
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
"""A member of a classic group. `subscribed_topics` and `assigned` are decoded for
protocol type "consumer"; they are null for other types and for malformed bytes."""

CLASSIC_GROUP_RECORDS: Final = Table(
    "classic_group_records",
    Layer.SILVER,
    "What was the state of a classic group after each generation (record type 2)?",
    key=("log_partition", "log_offset"),
    columns=(
        *RECORD_COLUMNS,
        GROUP_ID,
        required("protocol_type", STRING, "protocol type: consumer, connect, ..."),
        required("generation", INT, "generation of the group"),
        Column("protocol", STRING, "assignment strategy; null in an empty group"),
        Column("leader_id", STRING, "member ID of the leader; null in an empty group"),
        Column("state_ts", TIME, "time of the last state change"),
        required("members", list_of(CLASSIC_MEMBER), "members of the group"),
        required("value_version", SHORT, "schema version of the value"),
    ),
)

CONSUMER_GROUP_RECORDS: Final = Table(
    "consumer_group_records",
    Layer.SILVER,
    "What did the coordinator write about groups of the consumer protocol (KIP-848)?",
    key=("log_partition", "log_offset"),
    # One table for all record types: a column is null where the type has no such field.
    # Its description begins with the record types that have the field.
    columns=(
        *RECORD_COLUMNS,
        required("record_type", SHORT, "record type: 3 to 8, or 16"),
        GROUP_ID,
        Column("member_id", STRING, "5, 7, 8: member ID"),
        Column("group_epoch", INT, "3: group epoch"),
        Column("metadata_hash", LONG, "3: hash of the subscribed topics' metadata"),
        Column("created_ts", TIME, "3: creation time of the group; null when unknown"),
        Column(
            "topics_metadata",
            list_of(struct_of(topic_id=STRING, topic=STRING, partitions=INT)),
            "4: subscribed topics; Kafka before 4.1 only (K-10a)",
        ),
        Column("instance_id", STRING, "5: group.instance.id of a static member"),
        Column("rack_id", STRING, "5: rack of the member"),
        Column("client_id", STRING, "5: client.id of the member"),
        Column("client_host", STRING, "5: host of the member's client"),
        Column("subscribed_topics", list_of(STRING), "5: subscribed topic names"),
        Column("subscribed_regex", STRING, "5: subscribed regular expression"),
        Column("rebalance_timeout_ms", INT, "5: time allowed to revoke partitions"),
        Column("server_assignor", STRING, "5: server-side assignor of the member"),
        Column("session_timeout_ms", INT, "5: session timeout; classic protocol only"),
        Column(
            "classic_protocols",
            list_of(struct_of(name=STRING, metadata=BINARY)),
            "5: supported protocols; classic protocol only",
        ),
        Column("assignment_epoch", INT, "6: epoch of the target assignment"),
        Column("assignment_ts", TIME, "6: time it was computed; null when unknown"),
        Column(
            "assigned",
            PARTITIONS,
            "7: target assignment of the member; 8: its assigned partitions",
        ),
        Column("pending_revocation", PARTITIONS, "8: partitions it has yet to revoke"),
        Column(
            "member_epoch", INT, "8: member epoch; -2: a static member that is away"
        ),
        Column("previous_member_epoch", INT, "8: previous member epoch"),
        Column(
            "member_state",
            BYTE,
            "8: 0 stable, 1 has to revoke partitions, 2 waits for other members to"
            " revoke (K-06a), 127 unknown",
        ),
        Column("regex", STRING, "16: regular expression"),
        Column("regex_topics", list_of(STRING), "16: topics that match it"),
        Column("regex_version", LONG, "16: version of the cluster metadata"),
        Column("regex_ts", TIME, "16: time it was resolved"),
    ),
)

TOMBSTONES: Final = Table(
    "tombstones",
    Layer.SILVER,
    "What was deleted, and when?",
    key=("log_partition", "log_offset"),
    columns=(
        *RECORD_COLUMNS,
        required("record_type", SHORT, "record type of the key: 0 to 8, or 16"),
        GROUP_ID,
        Column("topic", STRING, "0, 1: topic of the deleted offset"),
        Column("partition", INT, "0, 1: partition of the deleted offset"),
        Column("member_id", STRING, "5, 7, 8: member ID"),
        Column("regex", STRING, "16: regular expression"),
    ),
)

# A record that cannot be decoded never fails a run (K-01b): it is counted and kept.
QUARANTINE: Final = Table(
    "quarantine",
    Layer.SILVER,
    "Which records could not be decoded, and why?",
    key=("log_partition", "log_offset", "source", "position"),
    columns=(
        LOG_PARTITION,
        Column("log_offset", LONG, "offset of the record; null for a malformed batch"),
        Column("append_ts", TIME, "timestamp of the record"),
        Column("source", STRING, "file or cluster with bytes that are no record batch"),
        Column("position", LONG, "byte in the file, or base offset in the cluster"),
        required(
            "reason",
            STRING,
            "unknown_type (K-01b: 9 to 15 are share groups, 17 and more streams"
            " groups), bad_key, bad_value, unknown_version, no_key, bad_batch",
        ),
        Column("message", STRING, "explanation of the reason"),
        Column("record_type", SHORT, "record type, when the key could be decoded"),
        Column("key", BINARY, "key bytes"),
        Column("value", BINARY, "value bytes"),
    ),
)

LOG_GAPS: Final = Table(
    "log_gaps",
    Layer.SILVER,
    "Which offsets of the log are missing?",
    key=("log_partition", "from_offset"),
    columns=(
        LOG_PARTITION,
        required("from_offset", LONG, "first missing offset"),
        required("until_offset", LONG, "next offset that exists"),
        required(
            "reason",
            STRING,
            "log_start (the log begins after offset 0), missing (removed by compaction,"
            " or a segment was not given), unreadable",
        ),
    ),
)
