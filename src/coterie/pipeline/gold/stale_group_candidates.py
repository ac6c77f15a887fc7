"""Gold table stale_group_candidates: reasons for and against the deletion of each
group.

A blocker is a reason to keep the group. A group with any blocker has class `keep` and
score 0, and no plan deletes it. The score of any other group is the sum of these
points, at most 100. Deleted topics have the most points, because their groups have
nothing left to consume; a name is only a hint.

| points | reason |
|---|---|
| 30 | it has no members, and has been idle for longer than its longest pause |
| 10 | three times as long or more |
| 40 | all topics of its committed offsets were deleted (10: some were) |
| 20 | its name is probably a typo of another group's |
| 15 | its name is that of a test group |
| 10 | it has no committed offsets |
| 10 | no records are written to its topics |

| blocker | reason |
|---|---|
| members | it is in use |
| an open transaction | later records are not read yet and may be about this group |
| recent activity | within `guard_ms`; `simple_guard_ms` for simple groups |
| a pause like its longest one | it became active again after one as long, times `gap_factor` |
| a short history | the log covers less than twice its longest pause |
| its protocol type | Kafka Connect's groups and others have no offsets of their own |
| the list of groups to keep | the operator listed it |
"""  # noqa: E501

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from coterie.pipeline.gold.group_periods import longest_pauses
from coterie.pipeline.gold.settings import DAY_MS, GoldSettings
from coterie.pipeline.gold.stale_group_evidence import (
    last_expiration,
    last_members,
    offset_counts,
    similar_names,
)
from coterie.pipeline.gold.table_inputs import GoldTable, TableInputs
from coterie.pipeline.tables.gold_groups import STALE_GROUP_CANDIDATES

ITEM: Final = "delete-group:"
"""Prefix of the IDs of plan items that delete a group."""
INPUTS: Final = (
    "current_groups",
    "group_activity",
    "group_periods",
    "member_sessions",
    "expiry_forecast",
    "newest_partition_ends",
    "data_quality",
)


def stale_group_candidates(
    tables: Mapping[str, DataFrame], settings: GoldSettings
) -> DataFrame:
    """Return the rows from the tables of INPUTS, with further columns."""
    groups = _with_evidence(tables, settings).withColumn(
        "blockers", _not_null(_blockers(settings))
    )
    is_kept = F.size("blockers") > 0
    reasons = _reasons()
    score = sum(
        (F.when(condition, points).otherwise(0) for condition, points, _ in reasons),
        F.lit(0),
    )
    texts = [F.when(condition, text) for condition, _, text in reasons]
    return (
        groups.withColumn("reasons", _not_null(texts))
        .withColumn("class", F.when(is_kept, "keep").otherwise(_class(settings)))
        .withColumn("score", F.when(is_kept, 0).otherwise(F.least(score, F.lit(100))))
        .withColumn("plan_item_id", F.when(~is_kept, F.concat(F.lit(ITEM), "group_id")))
        .withColumn("idle_days", F.col("idle_ms") / DAY_MS)
        .withColumn("usual_gap_days", F.col("usual_gap_ms") / DAY_MS)
        .withColumn("last_hosts", _or_empty("last_hosts"))
        .withColumn("last_client_ids", _or_empty("last_client_ids"))
    )


def _with_evidence(
    tables: Mapping[str, DataFrame], settings: GoldSettings
) -> DataFrame:
    groups, sessions = tables["current_groups"], tables["member_sessions"]
    forecast = tables["expiry_forecast"]
    pauses = longest_pauses(tables["group_periods"], sessions)
    with_commits = groups.join(pauses, "group_id", "left").select(
        "group_id", "member_count", F.coalesce("commits", F.lit(0)).alias("commits")
    )
    rows = groups
    for evidence in (
        pauses,
        similar_names(with_commits),
        offset_counts(forecast, tables["newest_partition_ends"]),
        tables["group_activity"].select("group_id", "log_bytes"),
        last_members(sessions),
        last_expiration(forecast),
    ):
        rows = rows.join(evidence, "group_id", "left")
    coverage = tables["data_quality"].select(
        "log_partition",
        "history_from_ts",
        F.col("gap_end_offset").isNull().alias("is_whole"),
    )
    now_ms = F.unix_millis(F.lit(settings.as_of_ts).cast("timestamp"))
    last_ms = F.greatest(
        *(
            F.unix_millis(name)
            for name in ("last_commit_ts", "empty_since_ts", "last_state_change_ts")
        )
    )
    known_gap_ms = F.coalesce("usual_gap_ms", F.lit(0))
    # If the log begins after the group was created, earlier pauses may have been longer
    # than those in the log.
    assumed_gap_ms = F.when(~F.col("is_whole"), settings.assumed_gap_ms).otherwise(0)
    return (
        rows.join(coverage, "log_partition", "left")
        .withColumn(
            "idle_ms", now_ms - F.coalesce(last_ms, F.unix_millis("first_seen_ts"))
        )
        .withColumn("gap_ms", F.greatest(known_gap_ms, assumed_gap_ms))
        .withColumn("history_ms", now_ms - F.unix_millis("history_from_ts"))
        .withColumn("expires_in_ms", F.unix_millis("would_expire_ts") - now_ms)
        .withColumn("offsets_count", F.coalesce("offsets_count", F.lit(0)))
        .withColumn("log_bytes", F.coalesce("log_bytes", F.lit(0)))
        .withColumn("topics_missing", _or_empty("topics_missing"))
        .withColumn("topics_still_written", _or_empty("topics_still_written"))
        .withColumn("is_test", F.col("group_id").rlike(settings.test_names))
    )


def _blockers(settings: GoldSettings) -> list[Column]:
    """Return a text for each blocker, null where it does not apply."""
    idle, gap = F.col("idle_ms"), F.col("gap_ms")
    kind, protocol = F.col("group_type"), F.col("protocol_type")
    held_back = [
        head.log_partition
        for head in settings.heads
        if head.stable_offset < head.end_offset
    ]
    return [
        F.when(
            F.col("member_count") > 0, F.format_string("members: %s", "member_count")
        ),
        F.when(
            F.col("log_partition").isin(held_back),
            F.format_string(
                "an open transaction holds back log partition %s", "log_partition"
            ),
        ),
        F.when(idle < settings.guard_ms, _days("active %s days ago", idle)),
        F.when(
            (kind == "simple") & (idle < settings.simple_guard_ms),
            _days("a simple group that committed %s days ago", idle),
        ),
        F.when(
            (gap > 0) & (idle < gap * settings.gap_factor),
            _days("its longest known or assumed pause is %s days", gap),
        ),
        # A history shorter than two such pauses does not show that the pause is the
        # longest one. Without a record after the last gap there is no history.
        F.when(
            F.coalesce(F.col("history_ms") < 2 * gap, F.lit(True)),
            _days("the log covers only %s days", F.col("history_ms")),
        ),
        F.when(
            (kind == "classic") & (protocol != "consumer"),
            F.format_string("its protocol type is %s", "protocol_type"),
        ),
        F.when(_is_listed_to_keep(settings), "it is on the list of groups to keep"),
    ]


def _reasons() -> list[tuple[Column, int, Column]]:
    """Return each reason to delete a group: its condition, points and text."""
    idle, gap = F.col("idle_ms"), F.col("gap_ms")
    missing, topics = F.size("topics_missing"), F.coalesce("topics", F.lit(0))
    is_empty = F.col("member_count") == 0
    are_all_deleted = (missing > 0) & (missing == topics)
    is_quiet = (F.size("topics_still_written") == 0) & (topics > 0) & ~are_all_deleted
    deleted = F.concat(F.lit("deleted topics: "), F.array_join("topics_missing", ", "))
    similar = F.concat(F.lit("its name is similar to "), "looks_like")
    return [
        (is_empty & (idle > gap), 30, _days("no members, and idle for %s days", idle)),
        (
            is_empty & (gap > 0) & (idle >= gap * 3),
            10,
            _days("its longest pause was %s days", gap),
        ),
        (are_all_deleted, 40, F.lit("all its topics were deleted")),
        ((missing > 0) & ~are_all_deleted, 10, deleted),
        (F.col("looks_like").isNotNull(), 20, similar),
        (F.col("is_test"), 15, F.lit("its name is that of a test group")),
        (F.col("offsets_count") == 0, 10, F.lit("it has no committed offsets")),
        (is_quiet, 10, F.lit("no records are written to its topics")),
    ]


def _class(settings: GoldSettings) -> Column:
    # The class is that of the first matching reason, the most certain one.
    missing = F.size("topics_missing")
    return (
        F.when((missing > 0) & (missing == F.col("topics")), "dead")
        .when(F.col("looks_like").isNotNull(), "typo")
        .when(F.col("is_test"), "test")
        .when(F.col("expires_in_ms") <= settings.soon_ms, "expired_soon")
        .otherwise("abandoned")
    )


def _is_listed_to_keep(settings: GoldSettings) -> Column:
    if not settings.keep:
        return F.lit(False)
    wildcards = {"*": ".*", "?": "."}
    patterns = (
        "".join(wildcards.get(character) or re.escape(character) for character in name)
        for name in settings.keep
    )
    alternatives = "|".join(f"({pattern})" for pattern in patterns)
    return F.col("group_id").rlike(f"^({alternatives})$")


def _days(text: str, ms: Column) -> Column:
    return F.format_string(text, F.format_number(ms / DAY_MS, 1))


def _not_null(texts: Iterable[Column]) -> Column:
    return F.array_compact(F.array(*texts))


def _or_empty(name: str) -> Column:
    return F.coalesce(name, F.array().cast("array<string>"))


def _build(inputs: TableInputs) -> DataFrame:
    tables = {name: inputs.all(name) for name in INPUTS}
    return stale_group_candidates(tables, inputs.settings)


GOLD: Final = GoldTable(STALE_GROUP_CANDIDATES, INPUTS, _build)
