"""Groups whose names look like a slip of another's: orders-loadr, of orders-loader.

Two names are alike when each becomes the same by leaving out one character at most:
so a character more, one less, another one, or two that changed places. Groups are
joined by what is left of their names, not each with each. Names that differ in their
numbers only are siblings and no slips.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

_SHORTEST: Final = 6
"""Shorter names are alike by chance."""


def looks_like(groups: DataFrame) -> DataFrame:
    """Of each group that has a slip in its name: `group_id`, `looks_like`; from groups
    with `group_id`, `member_count` and `commits`. The other group has members while
    this one has none, or commits more."""
    some = groups.where(F.length("group_id") >= _SHORTEST)
    left = some.select(
        "group_id", "member_count", "commits", F.explode(_left_out()).alias("rest")
    )
    right = left.select(
        F.col("group_id").alias("other"),
        F.col("member_count").alias("other_members"),
        F.col("commits").alias("other_commits"),
        "rest",
    )
    is_lesser = (F.col("member_count") == 0) & (
        (F.col("other_members") > 0) | (F.col("commits") < F.col("other_commits"))
    )
    distance = F.levenshtein("group_id", "other")
    nearest = F.min(F.struct(distance, -F.col("other_commits"), F.col("other")))
    return (
        left.join(right, "rest")
        .where((_letters("group_id") != _letters("other")) & is_lesser)
        .groupBy("group_id")
        .agg(nearest.alias("nearest"))
        .select("group_id", F.col("nearest.other").alias("looks_like"))
    )


def _left_out() -> Column:
    """The name, and the name without each of its characters."""
    name = F.col("group_id")
    places = F.sequence(F.lit(1), F.length(name))
    without = F.transform(
        places,
        lambda at: F.concat(
            F.substring(name, F.lit(1), at - 1),
            F.substring(name, at + 1, F.length(name)),
        ),
    )
    return F.array_distinct(F.concat(F.array(name), without))


def _letters(name: str) -> Column:
    return F.regexp_replace(name, "[0-9]+", "0")
