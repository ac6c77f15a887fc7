"""Gold tables about committed offsets, lag, and log partitions."""

from __future__ import annotations

from typing import Final

from coterie.pipeline.tables.table import (
    BOOL,
    DATE,
    DOUBLE,
    GROUP_ID,
    INT,
    LOG_OFFSET,
    LOG_PARTITION,
    LONG,
    PARTITION,
    STRING,
    TIME,
    TOPIC,
    TOPIC_ID,
    Column,
    Layer,
    Table,
    required,
)

CURRENT_OFFSETS: Final = Table(
    "current_offsets",
    Layer.GOLD,
    "Which offset has each group committed on each partition?",
    key=("group_id", "topic", "partition"),
    columns=(
        GROUP_ID,
        TOPIC,
        PARTITION,
        TOPIC_ID,
        Column(
            "committed_offset",
            LONG,
            "offset of the next record to read; null for a commit of a negative offset",
        ),
        Column(
            "leader_epoch",
            INT,
            "leader epoch of the last consumed record; null when the client sent none",
        ),
        Column("metadata", STRING, "metadata string of the commit"),
        Column("commit_ts", TIME, "commit time by the coordinator's clock"),
        Column("expire_ts", TIME, "explicit expiration time of the commit"),
        Column("append_ts", TIME, "timestamp of the record"),
        LOG_PARTITION,
        LOG_OFFSET,
    ),
)

OFFSET_COMMIT_HISTORY: Final = Table(
    "offset_commit_history",
    Layer.GOLD,
    "Which offsets did each group commit, when, and by which actor?",
    key=("log_partition", "log_offset"),
    columns=(
        GROUP_ID,
        TOPIC,
        PARTITION,
        TOPIC_ID,
        LOG_PARTITION,
        LOG_OFFSET,
        Column(
            "committed_offset",
            LONG,
            "committed offset; null for a tombstone and a commit of a negative offset",
        ),
        Column(
            "prev_offset",
            LONG,
            "previously committed offset; null for the first commit and after a"
            " tombstone",
        ),
        Column("delta", LONG, "committed_offset minus prev_offset"),
        required(
            "direction",
            STRING,
            "first, forward, same, rewind, no_offset (a commit of a negative offset) or"
            " tombstone",
        ),
        Column(
            "commit_ts",
            TIME,
            "commit time (coordinator's clock); a tombstone's append_ts",
        ),
        Column("append_ts", TIME, "timestamp of the record"),
        Column("gap_ms", LONG, "time since the previous commit on this partition"),
        Column("leader_epoch", INT, "leader epoch of the last consumed record"),
        Column("metadata", STRING, "metadata string of the commit"),
        Column("expire_ts", TIME, "explicit expiration time of the commit"),
        required("is_transactional", BOOL, "true for a transactional commit"),
        Column(
            "actor",
            STRING,
            "most likely committer, because the log does not record it: owner (a member"
            " owned the partition), member (no member owned it, but the group had"
            " members), admin (the group was empty), simple (the group never had"
            " members); null for a tombstone",
        ),
        Column("owner_member_id", STRING, "member ID of the owner at this log offset"),
        Column("owner_client_id", STRING, "client.id of the owner"),
        Column("owner_host", STRING, "host of the owner's client"),
        Column(
            "tombstone_cause",
            STRING,
            "expired, offsets_deleted, group_deleted, topic_deleted, unknown; by the"
            " records up to the tombstone (deleted_offsets: by later ones too)",
        ),
        required(
            "is_lower_bound",
            BOOL,
            "true when a log gap lies between this record and the previous commit",
        ),
    ),
    day_of="append_ts",
)

DELETED_OFFSETS: Final = Table(
    "deleted_offsets",
    Layer.GOLD,
    "Why was each committed offset deleted?",
    key=("log_partition", "log_offset"),
    columns=(
        GROUP_ID,
        TOPIC,
        PARTITION,
        LOG_PARTITION,
        LOG_OFFSET,
        Column("deleted_ts", TIME, "timestamp of the tombstone"),
        Column(
            "last_offset", LONG, "the deleted offset; null when it is not in the log"
        ),
        required(
            "cause",
            STRING,
            "expired, offsets_deleted, group_deleted, topic_deleted or unknown, by what"
            " is known now",
        ),
        required("cause_in_log", STRING, "cause by the records up to the tombstone"),
    ),
)

PARTITION_END_SAMPLES: Final = Table(
    "partition_end_samples",
    Layer.GOLD,
    "What were the log start offset and the end offset of each partition over time?",
    key=("topic", "partition", "sample_ts"),
    columns=(
        TOPIC,
        TOPIC_ID,
        PARTITION,
        required("sample_ts", TIME, "time of the sample"),
        required("log_start_offset", LONG, "first offset that exists"),
        required("high_watermark", LONG, "high watermark"),
        Column("last_stable_offset", LONG, "end offset for read_committed readers"),
        Column("leader_id", INT, "broker ID of the partition's leader"),
        Column("leader_epoch", INT, "leader epoch"),
        Column("partition_count", INT, "number of partitions of the topic"),
        Column("round_trip_ms", LONG, "time that the broker took to respond"),
    ),
    day_of="sample_ts",
)

LAG_HISTORY: Final = Table(
    "lag_history",
    Layer.GOLD,
    "How far behind was each group, in records and in time?",
    key=("group_id", "topic", "partition", "sample_ts"),
    columns=(
        GROUP_ID,
        TOPIC,
        PARTITION,
        TOPIC_ID,
        required("sample_ts", TIME, "time of the sample of the partition's end"),
        Column("committed_offset", LONG, "committed offset then; null without one"),
        Column("committed_ts", TIME, "time of that commit"),
        required("log_start_offset", LONG, "log start offset of the partition"),
        required("log_end_offset", LONG, "high watermark of the partition"),
        Column("lag", LONG, "records left to read; null without a committed offset"),
        Column("lag_raw", LONG, "end offset minus committed offset; may be negative"),
        required(
            "lag_status",
            STRING,
            "normal, no_commit, below_start, beyond_end; unknown: a log gap may have"
            " held a commit",
        ),
        required("messages_lost", LONG, "records deleted before they were read"),
        Column("time_lag_ms", LONG, "age of the next record to read, if known"),
        Column(
            "time_lag_method",
            STRING,
            "head (no lag), interpolated, extrapolated (a lower bound); null when"
            " unknown",
        ),
        Column("time_lag_error_ms", LONG, "largest possible error of time_lag_ms"),
        Column("commit_time_lag_ms", LONG, "the same at the time of the commit"),
        Column("produce_rate", DOUBLE, "records produced per s since the last sample"),
        Column("consume_rate", DOUBLE, "records consumed per s since the last sample"),
        Column(
            "eta_s", DOUBLE, "seconds until the lag is 0; null if it does not shrink"
        ),
        Column(
            "retention_margin_offsets",
            LONG,
            "committed offset minus log start offset: records that may be deleted"
            " before the group loses any",
        ),
        Column("owner_member_id", STRING, "member ID of the owner at that time"),
    ),
    day_of="sample_ts",
)

EXPIRY_FORECAST: Final = Table(
    "expiry_forecast",
    Layer.GOLD,
    "Which committed offsets will expire, and when?",
    key=("group_id", "topic", "partition"),
    columns=(
        GROUP_ID,
        TOPIC,
        PARTITION,
        required(
            "basis",
            STRING,
            "explicit, empty_since, commit_not_subscribed, simple_commit,"
            " consumer_commit, never",
        ),
        Column("base_ts", TIME, "start of the retention time; null for never"),
        Column("retention_ms", LONG, "retention time; null for explicit and never"),
        Column("expires_ts", TIME, "expiration time; null for never"),
        Column(
            "remaining_ms",
            LONG,
            "time from as_of_ts to expires_ts; below 0 the offset expires at the next"
            " check",
        ),
        Column(
            "at_risk_messages",
            LONG,
            "lag: records that would be skipped, or read again, after the expiration",
        ),
        required(
            "is_trap",
            BOOL,
            "true when a consumer group's offset would expire as soon as the last"
            " member leaves; a classic group's would stay for the retention time",
        ),
        Column("note", STRING, "explanation of the basis"),
    ),
)

GROUP_USAGE_DAILY: Final = Table(
    "group_usage_daily",
    Layer.GOLD,
    "How much did each group consume and commit each day?",
    key=("day", "group_id", "topic"),
    columns=(
        required("day", DATE, "day in UTC"),
        GROUP_ID,
        TOPIC,
        required(
            "offsets_consumed",
            LONG,
            "sum of forward commits; not a count of records on compacted or"
            " transactional topics",
        ),
        required("offsets_rewound", LONG, "sum of backward commits"),
        required("commits", LONG, "number of commits"),
        required("tombstones", LONG, "number of deleted offsets"),
        required("commits_per_s_max", DOUBLE, "commits per second in the peak minute"),
        required("log_bytes_written", LONG, "size of its commits' keys and values"),
        required("active_minutes", INT, "minutes with a commit"),
        Column("members_max", INT, "most members at one time; null without members"),
        required("cost_share", DOUBLE, "share of the day's commit bytes, 0 to 1"),
    ),
)

COORDINATOR_LOAD: Final = Table(
    "coordinator_load",
    Layer.GOLD,
    "How is the coordinators' load spread over log partitions and brokers?",
    key=("log_partition",),
    columns=(
        LOG_PARTITION,
        Column("broker_id", INT, "broker ID of its leader; null without samples"),
        required("groups", INT, "number of current groups"),
        required("members", INT, "number of their members"),
        required("records", LONG, "number of records read"),
        required("commits", LONG, "number of commits among them"),
        required("bytes", LONG, "size of the records' keys and values"),
        required("commits_per_s", DOUBLE, "commits per second of the log's time"),
        Column("top_group_id", STRING, "group with the most commits"),
        Column("top_group_share", DOUBLE, "its share of the commits, 0 to 1"),
    ),
)

DATA_QUALITY: Final = Table(
    "data_quality",
    Layer.GOLD,
    "How complete is the data of each log partition?",
    key=("log_partition",),
    columns=(
        LOG_PARTITION,
        Column("from_offset", LONG, "first offset that was read"),
        Column("next_offset", LONG, "next offset to read"),
        Column("end_offset", LONG, "end offset of the log at the last run"),
        required("records", LONG, "number of records read"),
        required("bytes", LONG, "size of the records' keys and values"),
        required("commits", LONG, "number of commits"),
        required("group_records", LONG, "number of group records"),
        required("tombstones", LONG, "number of tombstones"),
        required("control", LONG, "number of transaction markers"),
        required("aborted", LONG, "number of records of aborted transactions"),
        required("quarantined", LONG, "number of rows in quarantine"),
        required("gaps", LONG, "number of log gaps"),
        required("missing_offsets", LONG, "number of offsets in the log gaps"),
        required("held_back", LONG, "offsets not read yet: an open transaction"),
        required(
            "off_clock",
            LONG,
            "number of records whose timestamp is more than a day from those around"
            " them, or ahead of the machine that read them: a clock was wrong",
        ),
        Column("first_ts", TIME, "oldest record timestamp"),
        Column("last_ts", TIME, "newest record timestamp"),
        Column("gap_end_offset", LONG, "end of the last log gap; null without gaps"),
        Column("history_from_ts", TIME, "first record timestamp since that gap"),
    ),
)

NEWEST_PARTITION_ENDS: Final = Table(
    "newest_partition_ends",
    Layer.INTERNAL,
    "What was the end offset of each partition on the last two days with samples?",
    key=("topic", "topic_id", "partition", "day_number"),
    columns=(
        TOPIC,
        TOPIC_ID,
        PARTITION,
        required("day_number", INT, "days since 1970 in UTC"),
        required("sample_ts", TIME, "time of the newest sample of the day"),
        required("log_start_offset", LONG, "its log start offset"),
        required("high_watermark", LONG, "its high watermark"),
        Column("leader_id", INT, "broker ID of the leader"),
        required("lowest_end", LONG, "lowest high watermark of the day"),
        required("highest_end", LONG, "highest high watermark of the day"),
        Column("queried_ts", TIME, "time of the newest sample taken from a broker"),
        required("first_ts", TIME, "time of the first sample with this topic ID"),
    ),
)

TOPIC_NAMES: Final = Table(
    "topic_names",
    Layer.INTERNAL,
    "What is the name of each topic ID?",
    key=("topic_id",),
    columns=(
        required("topic_id", STRING, "ID of the topic as 32 hex digits"),
        TOPIC,
    ),
)
