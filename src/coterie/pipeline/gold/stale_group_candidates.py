"""Gold: Which groups may go, and what speaks against it?

A row for each group. What forbids it is a blocker, in words; a group with any is class
`keep`, has score 0 and is in no plan. Of the others, the score is the sum of what
speaks for it:

| points | reason |
|---|---|
| 30 | it has no members, and is idle for longer than it ever paused |
| 10 | three times as long and more |
| 40 | all topics of its offsets are gone (10: some are) |
| 20 | its name is a slip of another group's |
| 15 | its name is of a test |
| 10 | it has no offsets |
| 10 | none of its topics grows |

| blocker | why |
|---|---|
| members | it is alive |
| an open transaction | what came after it is not known; it may be about this group |
| it did something just now | `guard_ms`; `simple_guard_ms` of groups without members |
| a pause like its usual one | it came back from one as long, times `gap_factor` |
| a short history | less than twice its usual gap, or not from the log's beginning |
| its protocol type | it is no consumer group: Connect's and others keep no offsets |
| the list of those to keep | somebody said so |
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from coterie.pipeline.gold import group_traces
from coterie.pipeline.gold.likeness import looks_like
from coterie.pipeline.gold.look import Gold, Look, conform
from coterie.pipeline.gold.pauses import longest_pauses
from coterie.pipeline.gold.settings import DAY_MS, GoldSettings
from coterie.pipeline.tables.stale_group_candidates import STALE_GROUP_CANDIDATES

ITEM: Final = "delete-group:"
"""What ids of a plan's items that delete a group begin with."""
_RECORDS: Final = (
    "offset_commits",
    "tombstones",
    "classic_group_records",
    "consumer_group_records",
)


class Inputs(NamedTuple):
    """The tables that it is made of."""

    groups: DataFrame
    offsets: DataFrame
    history: DataFrame
    sessions: DataFrame
    forecast: DataFrame
    lag: DataFrame
    samples: DataFrame
    records: list[DataFrame]
    """The silver tables of records."""
    gaps: DataFrame


def stale_group_candidates(of: Inputs, settings: GoldSettings) -> DataFrame:
    """See the module's docstring."""
    judged = _known(of, settings).withColumn("blockers", _listed(_blockers(settings)))
    is_kept = F.size("blockers") > 0
    points = [(cond, points, text) for cond, points, text in _reasons()]
    score = sum((F.when(cond, n).otherwise(0) for cond, n, _ in points), F.lit(0))
    texts = [F.when(cond, text) for cond, _, text in points]
    return (
        judged.withColumn("reasons", _listed(texts))
        .withColumn("class", F.when(is_kept, "keep").otherwise(_class(settings)))
        .withColumn("score", F.when(is_kept, 0).otherwise(F.least(score, F.lit(100))))
        .withColumn("plan_item_id", F.when(~is_kept, F.concat(F.lit(ITEM), "group_id")))
        .withColumn("idle_days", F.col("idle_ms") / DAY_MS)
        .withColumn("usual_gap_days", F.col("usual_gap_ms") / DAY_MS)
        .withColumn("last_hosts", _or_empty("last_hosts"))
        .withColumn("last_client_ids", _or_empty("last_client_ids"))
    )


def _known(of: Inputs, settings: GoldSettings) -> DataFrame:
    """Each group beside all that is known of it."""
    pauses = longest_pauses(of.history, of.sessions)
    alike = looks_like(
        of.groups.join(pauses, "group_id", "left").select(
            "group_id", "member_count", F.coalesce("commits", F.lit(0)).alias("commits")
        )
    )
    rows = of.groups
    for more in (
        pauses,
        alike,
        group_traces.offsets_of(of.offsets, of.samples, of.lag),
        group_traces.sizes(of.records),
        group_traces.last_members(of.sessions),
        _expiry(of.forecast),
    ):
        rows = rows.join(more, "group_id", "left")
    history = group_traces.histories(of.records, of.gaps)
    now_ms = F.unix_millis(F.lit(settings.as_of_ts).cast("timestamp"))
    last_ms = F.greatest(
        *(
            F.unix_millis(name)
            for name in ("last_commit_ts", "empty_since_ts", "last_state_change_ts")
        )
    )
    seen_ms = F.coalesce("usual_gap_ms", F.lit(0))
    assumed_ms = F.when(~F.col("is_whole"), settings.assumed_gap_ms).otherwise(0)
    return (
        rows.join(F.broadcast(history), "log_partition", "left")
        .withColumn(
            "idle_ms", now_ms - F.coalesce(last_ms, F.unix_millis("first_seen_ts"))
        )
        .withColumn("gap_ms", F.greatest(seen_ms, assumed_ms))
        .withColumn("history_ms", now_ms - F.unix_millis("history_from_ts"))
        .withColumn("expires_in_ms", F.unix_millis("would_expire_ts") - now_ms)
        .withColumn("offsets_count", F.coalesce("offsets_count", F.lit(0)))
        .withColumn("log_bytes", F.coalesce("log_bytes", F.lit(0)))
        .withColumn("topics_missing", _or_empty("topics_missing"))
        .withColumn("topics_still_written", _or_empty("topics_still_written"))
        .withColumn("is_test", F.col("group_id").rlike(settings.test_names))
    )


def _expiry(forecast: DataFrame) -> DataFrame:
    """When the last offset goes, if all do: `would_expire_ts`."""
    stays = F.max(F.col("expires_ts").isNull())
    last = F.max("expires_ts")
    return forecast.groupBy("group_id").agg(
        F.when(~stays, last).alias("would_expire_ts")
    )


def _blockers(settings: GoldSettings) -> list[Column]:
    idle, gap = F.col("idle_ms"), F.col("gap_ms")
    kind, protocol = F.col("group_type"), F.col("protocol_type")
    return [
        F.when(
            F.col("member_count") > 0,
            F.format_string("members: %s", "member_count"),
        ),
        F.when(
            F.col("log_partition").isin(_held_back(settings)),
            F.format_string(
                "an open transaction holds partition %s of the log back",
                "log_partition",
            ),
        ),
        F.when(idle < settings.guard_ms, _days("it did something %s days ago", idle)),
        F.when(
            (kind == "simple") & (idle < settings.simple_guard_ms),
            _days("it committed %s days ago, and its client is not seen", idle),
        ),
        F.when(
            (gap > 0) & (idle < gap * settings.gap_factor),
            _days("it paused for %s days before, or may have, and came back", gap),
        ),
        F.when(
            F.coalesce(F.col("history_ms") < 2 * gap, F.lit(True)),
            _days("the log tells of %s days only", F.col("history_ms")),
        ),
        F.when(
            (kind == "classic") & (protocol != "consumer"),
            F.format_string("its protocol type is %s", "protocol_type"),
        ),
        F.when(_is_to_be_kept(settings), "it is on the list of those to keep"),
    ]


def _reasons() -> list[tuple[Column, int, Column]]:
    """When, how many points, and why in words."""
    idle, gap = F.col("idle_ms"), F.col("gap_ms")
    missing, topics = F.size("topics_missing"), F.coalesce("topics", F.lit(0))
    is_empty = F.col("member_count") == 0
    are_all_gone = (missing > 0) & (missing == topics)
    is_quiet = (F.size("topics_still_written") == 0) & (topics > 0) & ~are_all_gone
    return [
        (
            is_empty & (idle > gap),
            30,
            _days("no members, and idle for %s days", idle),
        ),
        (
            is_empty & (gap > 0) & (idle >= gap * 3),
            10,
            _days("its longest pause was %s days", gap),
        ),
        (are_all_gone, 40, F.lit("all its topics are gone")),
        (
            (missing > 0) & ~are_all_gone,
            10,
            F.concat(F.lit("gone: "), F.array_join("topics_missing", ", ")),
        ),
        (
            F.col("looks_like").isNotNull(),
            20,
            F.concat(F.lit("its name is like that of "), "looks_like"),
        ),
        (F.col("is_test"), 15, F.lit("its name is that of a test")),
        (F.col("offsets_count") == 0, 10, F.lit("it has no offsets")),
        (is_quiet, 10, F.lit("none of its topics is known to grow")),
    ]


def _class(settings: GoldSettings) -> Column:
    missing = F.size("topics_missing")
    return (
        F.when((missing > 0) & (missing == F.col("topics")), "dead")
        .when(F.col("looks_like").isNotNull(), "typo")
        .when(F.col("is_test"), "test")
        .when(F.col("expires_in_ms") <= settings.soon_ms, "expired_soon")
        .otherwise("abandoned")
    )


def _held_back(settings: GoldSettings) -> list[int]:
    return [
        head.log_partition
        for head in settings.heads
        if head.stable_offset < head.end_offset
    ]


def _is_to_be_kept(settings: GoldSettings) -> Column:
    patterns = [f"({_as_regex(each)})" for each in settings.keep]
    return (
        F.col("group_id").rlike(f"^({'|'.join(patterns)})$")
        if patterns
        else F.lit(False)
    )


def _as_regex(pattern: str) -> str:
    """A name in which * and ? stand for others, as Java reads it."""
    stands_for = {"*": ".*", "?": "."}
    return "".join(stands_for.get(each) or re.escape(each) for each in pattern)


def _days(text: str, ms: Column) -> Column:
    return F.format_string(text, F.format_number(ms / DAY_MS, 1))


def _listed(texts: Iterable[Column]) -> Column:
    """Those that are not null."""
    return F.array_compact(F.array(*texts))


def _or_empty(name: str) -> Column:
    return F.coalesce(name, F.array().cast("array<string>"))


def _build(look: Look) -> DataFrame:
    of = Inputs(
        groups=look.all("current_groups"),
        offsets=look.all("current_offsets"),
        history=look.all("offset_commit_history"),
        sessions=look.all("member_sessions"),
        forecast=look.all("expiry_forecast"),
        lag=look.all("lag_history"),
        samples=look.all("partition_end_samples"),
        records=[look.all(name) for name in _RECORDS],
        gaps=look.all("log_gaps"),
    )
    return conform(stale_group_candidates(of, look.settings), STALE_GROUP_CANDIDATES)


GOLD: Final = Gold(
    STALE_GROUP_CANDIDATES,
    (
        "current_groups",
        "current_offsets",
        "offset_commit_history",
        "member_sessions",
        "expiry_forecast",
        "lag_history",
        "partition_end_samples",
        *_RECORDS,
        "log_gaps",
    ),
    _build,
)
