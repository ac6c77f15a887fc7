"""Gold: Which committed offsets go away by themselves, and when?

The coordinator's rules (`coordinator/offsets/expire.py`, peer-tools c.8), for groups as
they are now; the first that fits:

| group | basis | its clock began with |
|---|---|---|
| no member ever (K-07) | simple_commit | the commit |
| consumer (KIP-848), topic not subscribed; an empty one subscribes to nothing | consumer_commit | the commit |
| classic, Empty | empty_since | the group's becoming empty; the commit where that is not known |
| classic, of consumers, Stable, topic not subscribed | commit_not_subscribed | the commit |
| any other | never | nothing |

A commit that says itself when it expires (value version 1) does so, wherever it could
expire at all: basis explicit. The coordinator sweeps at its interval, so an offset goes
at the first sweep after `expires_ts`, and later where a transaction about it is open.

The trap: a consumer group's offset on a quiet partition, older than the retention, goes
at the first sweep after the last member left. A classic group's would stay for the
whole retention from then on.
"""  # noqa: E501 - a table

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from coterie.pipeline.gold.look import Gold, Look, conform
from coterie.pipeline.gold.settings import GoldSettings
from coterie.pipeline.gold.subscriptions import subscriptions
from coterie.pipeline.tables.expiry_forecast import EXPIRY_FORECAST

_NOTES: Final = {
    "explicit": "the commit itself said when",
    "simple_commit": "nobody ever joined: the commit counts, even while a client lives",
    "consumer_commit": "not subscribed: the commit counts, not since when it is empty",
    "empty_since": "the group is empty; nothing else counts",
    "commit_not_subscribed": "no member subscribes to the topic",
    "never": "members may be reading the topic",
}
_TRAP: Final = (
    "older than the retention: it goes at the first sweep after the last member leaves"
)


def expiry_forecast(
    offsets: DataFrame,
    groups: DataFrame,
    subscribed: DataFrame,
    lag: DataFrame,
    settings: GoldSettings,
) -> DataFrame:
    """From `current_offsets`, `current_groups`, `subscriptions` and `lag_history`."""
    now_ms = F.unix_millis(F.lit(settings.as_of_ts).cast("timestamp"))
    retention = F.lit(settings.retention_ms).cast("bigint")
    is_explicit, basis = F.col("basis") == "explicit", F.col("basis")
    commit_expires_ms = F.unix_millis("commit_ts") + retention
    is_trap = (
        (F.col("group_type") == "consumer")
        & F.col("is_subscribed")
        & (commit_expires_ms <= now_ms)
    )
    return (
        _with_subscribed(offsets, groups, subscribed)
        .withColumn("basis", _basis())
        .withColumn("base_ts", _base_ts())
        .withColumn(
            "retention_ms", F.when(~is_explicit & (basis != "never"), retention)
        )
        .withColumn(
            "expires_ts",
            F.when(is_explicit, F.col("expire_ts")).otherwise(
                F.timestamp_millis(F.unix_millis("base_ts") + F.col("retention_ms"))
            ),
        )
        .withColumn("remaining_ms", F.unix_millis("expires_ts") - now_ms)
        .withColumn("is_trap", F.coalesce(is_trap, F.lit(False)))
        .withColumn("note", F.when(F.col("is_trap"), _TRAP).otherwise(_note()))
        .join(_last_lag(lag), ["group_id", "topic", "partition"], "left")
    )


def _with_subscribed(
    offsets: DataFrame, groups: DataFrame, subscribed: DataFrame
) -> DataFrame:
    """Offsets beside their groups. A group that only has offsets may have no row."""
    any_topic = subscribed.where(F.col("topic").isNull()).select(
        "group_id", F.lit(True).alias("any")
    )
    this_topic = subscribed.where(F.col("topic").isNotNull()).withColumn(
        "this", F.lit(True)
    )
    about = groups.select(
        "group_id", "group_type", "protocol_type", "state", "empty_since_ts"
    )
    may_be_any = F.when(F.col("group_type") == "classic", F.col("any"))
    return (
        offsets.join(about, "group_id", "left")
        .join(this_topic, ["group_id", "topic"], "left")
        .join(any_topic, "group_id", "left")
        .withColumn("is_subscribed", F.coalesce("this", may_be_any, F.lit(False)))
    )


def _basis() -> Column:
    """Whether it expires at all comes first: only then counts what the commit says."""
    kind, protocol = F.col("group_type"), F.col("protocol_type")
    is_simple = kind.isNull() | (kind == "simple") | protocol.isNull()
    is_empty = F.col("state") == "Empty"
    is_read = F.col("is_subscribed")
    rule = (
        F.when(is_simple, "simple_commit")
        .when(kind == "consumer", F.when(~is_read, "consumer_commit"))
        .when(is_empty, "empty_since")
        .when((protocol == "consumer") & ~is_read, "commit_not_subscribed")
    )
    says = F.when(F.col("expire_ts").isNotNull(), "explicit").otherwise(rule)
    return F.when(rule.isNull(), "never").otherwise(says)


def _base_ts() -> Column:
    since = F.coalesce("empty_since_ts", "commit_ts")
    return (
        F.when(F.col("basis") == "empty_since", since)
        .when(F.col("basis") != "never", F.col("commit_ts"))
        .otherwise(F.lit(None).cast("timestamp"))
    )


def _note() -> Column:
    notes = F.create_map(*(F.lit(word) for each in _NOTES.items() for word in each))
    return notes[F.col("basis")]


def _last_lag(lag: DataFrame) -> DataFrame:
    return lag.groupBy("group_id", "topic", "partition").agg(
        F.max_by("lag", "sample_ts").alias("at_risk_messages")
    )


def _build(look: Look) -> DataFrame:
    subscribed = subscriptions(
        look.all("current_members"),
        look.all("consumer_group_records"),
        look.all("tombstones"),
    )
    found = expiry_forecast(
        look.all("current_offsets"),
        look.all("current_groups"),
        subscribed,
        look.all("lag_history"),
        look.settings,
    )
    return conform(found, EXPIRY_FORECAST)


GOLD: Final = Gold(
    EXPIRY_FORECAST,
    (
        "current_offsets",
        "current_groups",
        "current_members",
        "consumer_group_records",
        "tombstones",
        "lag_history",
    ),
    _build,
)
