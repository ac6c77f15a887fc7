"""Gold tables about groups: current state, history, verdicts and candidates for
deletion; and the internal tables from which they are built."""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa

from coterie.pipeline.tables.table import (
    BINARY,
    BOOL,
    CLIENT_HOST,
    CLIENT_ID,
    DOUBLE,
    GROUP_ID,
    INSTANCE_ID,
    INT,
    LOG_OFFSET,
    LOG_PARTITION,
    LONG,
    MEMBER_ID,
    PARTITION,
    PARTITIONS,
    STRING,
    TIME,
    TOPIC_ID,
    Column,
    Layer,
    Table,
    list_of,
    required,
    struct_of,
)

CURRENT_GROUPS: Final = Table(
    "current_groups",
    Layer.GOLD,
    "Which groups exist, and in which state?",
    key=("group_id",),
    columns=(
        GROUP_ID,
        required(
            "group_type", STRING, "classic, consumer, or simple (offsets only, K-07a)"
        ),
        Column("protocol_type", STRING, "classic: protocol type; consumer: consumer"),
        Column(
            "assignor",
            STRING,
            "classic: assignment strategy; consumer: server-side assignor that most"
            " members name",
        ),
        required(
            "state",
            STRING,
            "Empty, Stable, Assigning, Reconciling; the log does not record that a"
            " classic group is rebalancing",
        ),
        Column("epoch", INT, "generation or group epoch; null for simple groups"),
        Column("assignment_epoch", INT, "consumer: epoch of the target assignment"),
        Column("leader_member_id", STRING, "classic: member ID of the leader"),
        required("member_count", INT, "number of members"),
        required("static_member_count", INT, "number of static members"),
        required("topic_count", INT, "topics with a committed offset or an owner"),
        required("partition_count", INT, "partitions with an offset or an owner"),
        required("owned_partition_count", INT, "number of partitions with an owner"),
        LOG_PARTITION,
        Column("created_ts", TIME, "creation time; null when the log has none"),
        Column("first_seen_ts", TIME, "time of the group's first record in the log"),
        Column("last_state_change_ts", TIME, "time of its last record except offsets"),
        Column("empty_since_ts", TIME, "time the last member left; null with members"),
        Column("last_commit_ts", TIME, "time of its last commit, deleted or not"),
        required("last_log_offset", LONG, "log offset of its last record"),
    ),
)

CURRENT_MEMBERS: Final = Table(
    "current_members",
    Layer.GOLD,
    "Which members does each group have, and which partitions do they own?",
    key=("group_id", "member_id"),
    columns=(
        GROUP_ID,
        MEMBER_ID,
        INSTANCE_ID,
        CLIENT_ID,
        CLIENT_HOST,
        Column("rack_id", STRING, "rack of the member"),
        required("protocol", STRING, "protocol of the member: classic or consumer"),
        Column("member_epoch", INT, "consumer: member epoch; classic: generation"),
        Column(
            "member_state",
            STRING,
            "consumer: stable, unrevoked_partitions, unreleased_partitions, away"
            " (static), unknown",
        ),
        Column("subscribed_topics", list_of(STRING), "subscribed topic names"),
        Column("subscribed_regex", STRING, "subscribed regular expression"),
        Column("assigned", PARTITIONS, "assigned partitions"),
        Column("pending_revocation", PARTITIONS, "partitions it has yet to revoke"),
        Column("session_timeout_ms", INT, "session timeout; classic protocol only"),
        Column("rebalance_timeout_ms", INT, "time allowed to revoke partitions"),
        Column("since_ts", TIME, "time it joined"),
    ),
)

MEMBER_SESSIONS: Final = Table(
    "member_sessions",
    Layer.GOLD,
    "When did members join and leave, and how many rebalances did that cause?",
    key=("group_id", "member_id", "joined_ts"),
    columns=(
        GROUP_ID,
        MEMBER_ID,
        INSTANCE_ID,
        CLIENT_ID,
        CLIENT_HOST,
        required("protocol", STRING, "classic or consumer"),
        required("joined_ts", TIME, "time of the member's first record"),
        Column("left_ts", TIME, "time it left; null while it is a member"),
        Column("session_ms", LONG, "duration of the membership"),
        required(
            "end_reason",
            STRING,
            "left, replaced (by a member with the same instance ID), group_deleted,"
            " open; a crash looks like leaving (K-06c)",
        ),
        required("rebalances_caused", INT, "rebalances due to its joining or leaving"),
        required(
            "restarts_of_instance_24h",
            INT,
            "sessions of the same instance ID, or client ID and host, that began in the"
            " 24 hours before",
        ),
        required("is_lower_bound", BOOL, "the session may have begun earlier"),
    ),
)

PARTITION_OWNERSHIP_HISTORY: Final = Table(
    "partition_ownership_history",
    Layer.GOLD,
    "Which member owned each partition, from when until when?",
    key=("group_id", "topic_id", "topic", "partition", "from_log_offset"),
    columns=(
        GROUP_ID,
        Column("topic", STRING, "name of the topic; null when only its ID is known"),
        TOPIC_ID,
        PARTITION,
        MEMBER_ID,
        INSTANCE_ID,
        CLIENT_ID,
        CLIENT_HOST,
        Column("rack_id", STRING, "rack of the member"),
        required("epoch_from", INT, "generation or member epoch that assigned it"),
        Column("epoch_to", INT, "generation or epoch that revoked it; null while open"),
        required("valid_from", TIME, "start of the ownership"),
        Column("valid_to", TIME, "end of the ownership; null while open"),
        LOG_PARTITION,
        required("from_log_offset", LONG, "log offset of the record that assigned it"),
        Column(
            "to_log_offset",
            LONG,
            "offset of the record that revoked it; null while open",
        ),
        required(
            "end_reason", STRING, "moved, member_left, group_empty, group_deleted, open"
        ),
        Column("gap_before_ms", LONG, "time without an owner before; null at first"),
        required("source", STRING, "protocol of the assigning record"),
        required("is_lower_bound", BOOL, "the ownership may have begun earlier"),
    ),
)

REBALANCE_TIMELINE: Final = Table(
    "rebalance_timeline",
    Layer.GOLD,
    "When did each group rebalance, why, and which partitions moved?",
    key=("group_id", "log_partition", "log_offset"),
    columns=(
        GROUP_ID,
        LOG_PARTITION,
        LOG_OFFSET,
        required("protocol", STRING, "classic or consumer, after the rebalance"),
        required("epoch", INT, "generation or group epoch after the rebalance"),
        Column("prev_epoch", INT, "generation or group epoch before; null at first"),
        required(
            "cause",
            STRING,
            "first, joined, left, joined_and_left, restarted, subscription_changed,"
            " metadata_changed, assignor_or_leader_changed, follow_up (classic: assigns"
            " partitions that the previous rebalance revoked), became_empty, deleted,"
            " upgraded, downgraded, unknown",
        ),
        Column(
            "start_ts",
            TIME,
            "time of its first record; for classic, of its only record, at its end",
        ),
        Column(
            "end_ts",
            TIME,
            "time all members had reconciled the target assignment; null while it"
            " is in progress",
        ),
        Column(
            "duration_ms", LONG, "end minus start; classic: since the previous record"
        ),
        required(
            "is_duration_exact",
            BOOL,
            "consumer: true; classic: false, as duration_ms is an upper bound",
        ),
        required("members_before", INT, "number of members before"),
        required("members_after", INT, "number of members after"),
        required("joined", list_of(STRING), "members that joined"),
        required("left", list_of(STRING), "members that left"),
        required(
            "restarted",
            list_of(STRING),
            "joined members with the instance ID, or client ID and host, of a member"
            " that left in the ten minutes before",
        ),
        required("partitions_total", INT, "partitions with an owner after it"),
        required("partitions_moved", INT, "partitions that changed their owner"),
        required(
            "moves_needed_min",
            INT,
            "fewest moves that give the same number of partitions per member",
        ),
        required("excess_moves", INT, "moves beyond moves_needed_min"),
        required(
            "partitions_unowned_ms", LONG, "time without an owner, all partitions"
        ),
        Column("storm_id", STRING, "rebalance storm it belongs to; null for none"),
        Column("storm_size", INT, "number of rebalances in that storm"),
        required("epoch_gap", INT, "epochs before it that the log is missing"),
    ),
)

GROUP_STATUS: Final = Table(
    "group_status",
    Layer.GOLD,
    "Was the group in trouble at a given time, by Burrow's rules?",
    key=("group_id", "topic", "partition", "window_end_ts"),
    columns=(
        GROUP_ID,
        Column("topic", STRING, "name of the topic; null for the whole group"),
        Column("partition", INT, "partition of the topic; null for the whole group"),
        required("window_end_ts", TIME, "time of the evaluation"),
        required(
            "verdict",
            STRING,
            "OK, WARN, STALL, STOP, REWIND, NO_COMMIT, NO_OWNER, LOSING_DATA, RESET,"
            " TOO_NEW (lag, but few commits yet), UNKNOWN (a log gap may have held a"
            " commit); ERR for whole groups only",
        ),
        required(
            "burrow_code",
            INT,
            "Burrow's status code: 1 OK, 2 WARN, 3 ERR, 4 STOP, 5 STALL, 6 REWIND",
        ),
        required("rule", STRING, "explanation of the verdict"),
        required("window_commits", INT, "number of commits evaluated"),
        required("complete", DOUBLE, "filled share of the window, 0 to 1"),
        Column("lag", LONG, "lag at that time"),
        Column("committed_offset", LONG, "committed offset at that time"),
        Column("log_end_offset", LONG, "high watermark at that time"),
    ),
    day_of="window_end_ts",
)

STALE_GROUP_CANDIDATES: Final = Table(
    "stale_group_candidates",
    Layer.GOLD,
    "Which groups can be deleted, and what are the reasons against that?",
    key=("group_id",),
    columns=(
        GROUP_ID,
        required("class", STRING, "dead, abandoned, expired_soon, typo, test, keep"),
        required("score", INT, "0 (keep) to 100 (delete)"),
        required("reasons", list_of(STRING), "reasons to delete the group"),
        required(
            "blockers",
            list_of(STRING),
            "reasons to keep the group; a group with a blocker is never in a plan",
        ),
        Column("empty_since_ts", TIME, "time the last member left"),
        Column("last_commit_ts", TIME, "time of its last commit"),
        Column("idle_days", DOUBLE, "days since its last commit or member"),
        Column(
            "usual_gap_days",
            DOUBLE,
            "longest pause, in days, after which the group became active again",
        ),
        required(
            "topics_missing", list_of(STRING), "deleted topics that it has offsets for"
        ),
        required(
            "topics_still_written",
            list_of(STRING),
            "topics with its committed offsets that received records on the last two"
            " days with samples",
        ),
        Column("total_lag", LONG, "number of records that it has not read"),
        required("offsets_count", INT, "committed offsets that would be deleted"),
        required("log_bytes", LONG, "size of its records in the log"),
        Column("would_expire_ts", TIME, "expiration time of its last offset"),
        required("last_hosts", list_of(STRING), "hosts of its last members"),
        required("last_client_ids", list_of(STRING), "client IDs of its last members"),
        Column("looks_like", STRING, "typo: group with the similar name"),
        Column("plan_item_id", STRING, "ID in the plan file; null when blocked"),
    ),
)

# Internal tables.

_PARTITION: Final = ("group_id", "topic", "partition")

GROUP_ACTIVITY: Final = Table(
    "group_activity",
    Layer.INTERNAL,
    "When were the first and last records of each group written, and how many?",
    key=("log_partition", "group_id"),
    columns=(
        LOG_PARTITION,
        GROUP_ID,
        Column("first_seen_ts", TIME, "time of its first record of any type"),
        Column("last_commit_ts", TIME, "time of its newest commit"),
        required("last_log_offset", LONG, "log offset of its last record of any type"),
        required("commits", LONG, "number of its commits"),
        required("log_bytes", LONG, "size of its records' keys and values"),
    ),
)

GROUP_PERIODS: Final = Table(
    "group_periods",
    Layer.INTERNAL,
    "When did each group commit without a pause of an hour?",
    key=("group_id", "from_ts"),
    columns=(
        GROUP_ID,
        required("from_ts", TIME, "time of the first commit"),
        required("to_ts", TIME, "time of the last commit"),
        required("commits", LONG, "number of commits"),
    ),
)

_COMMIT: Final = struct_of(
    log_offset=LONG,
    at_ts=TIME,
    commit_ts=TIME,
    committed_offset=LONG,
    topic_id=STRING,
    is_reset=BOOL,
)

GROUP_WINDOWS: Final = Table(
    "group_windows",
    Layer.INTERNAL,
    "What does the next build of lag_history and group_status begin with?",
    key=("kind", "cut_ts", "group_id", "topic", "partition", "window_end_ts"),
    columns=(
        required(
            "kind",
            STRING,
            "end: the samples of a partition before the cut; window: the commits"
            " and owners of a partition of a group before the cut, or, without a topic,"
            " that the group had members; status: a new row of group_status",
        ),
        Column("cut_ts", TIME, "time of the cut; null for status, and for all time"),
        Column("group_id", STRING, "ID of the group"),
        Column("topic", STRING, "name of the topic"),
        Column("partition", INT, "partition of the topic"),
        Column("topic_id", STRING, "end: this and the next are of the last sample"),
        Column("sample_ts", TIME, "time of the last sample before the cut"),
        Column("log_start_offset", LONG, "first offset that exists"),
        Column("high_watermark", LONG, "high watermark"),
        Column("life", INT, "number of times the topic was created again"),
        Column("previous_life_ts", TIME, "time of the last sample before that"),
        Column("first_ts", TIME, "time of the first sample after that"),
        Column("ends", list_of(LONG), "high watermarks of the last samples after that"),
        Column("state", BINARY, "window: the state in the evaluator (MessagePack)"),
        Column("last", _COMMIT, "window: last commit or tombstone before the cut"),
        Column("sampled", _COMMIT, "window: the same before the last sample"),
        Column(
            "owner",
            struct_of(
                at_ts=TIME,
                seq=LONG,
                topic_id=STRING,
                member_id=STRING,
                is_lower_bound=BOOL,
            ),
            "window: last change of owner before the cut",
        ),
        *(
            Column(each.name, each.type, each.meaning)
            for each in GROUP_STATUS.columns
            if each.name not in _PARTITION
        ),
    ),
)

_NOT_IN_STRUCTS: Final = {
    "group_id",
    "log_partition",
    "topic_count",
    "partition_count",
    "last_commit_ts",
}
"""Columns that every row of group_history has, and those computed from offsets."""


def _row_type(table: Table, *extra: Any) -> Any:
    """Return the Arrow struct of a table's row in the replay of a group."""
    fields = [(c.name, c.type) for c in table.columns if c.name not in _NOT_IN_STRUCTS]
    return pa.struct([*fields, *extra])


GROUP_HISTORY: Final = Table(
    "group_history",
    Layer.INTERNAL,
    "What does the replay of each group's records produce?",
    key=("log_partition", "group_id", "kind", "number"),
    columns=(
        LOG_PARTITION,
        GROUP_ID,
        required(
            "kind",
            STRING,
            "which of the following columns has a value: group (one row for each group,"
            " even a deleted one), member, ownership, session, rebalance",
        ),
        required("number", INT, "0, 1, ... within its kind and group"),
        Column(
            "group",
            _row_type(CURRENT_GROUPS, ("nameless_topic_ids", list_of(STRING))),
            "row of current_groups; group_type is null for a deleted group",
        ),
        Column("member", _row_type(CURRENT_MEMBERS), "row of current_members"),
        Column(
            "ownership",
            _row_type(PARTITION_OWNERSHIP_HISTORY),
            "row of partition_ownership_history",
        ),
        Column("session", _row_type(MEMBER_SESSIONS), "row of member_sessions"),
        Column("rebalance", _row_type(REBALANCE_TIMELINE), "row of rebalance_timeline"),
    ),
)
