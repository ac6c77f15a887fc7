"""Verdicts built by Spark from hand-written rows: one topic for each case."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import pytest

from tests.pipeline.gold.lag_rows import LagRows
from tests.pipeline.gold.rows import at

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

Statuses: TypeAlias = dict[tuple[str, str | None, float], dict[str, Any]]
"""By group, topic and minute."""


def _input_rows() -> LagRows:
    rows = LagRows()
    for minute in range(6):
        rows.ends("well", 10 * minute, first=minute, of="1")
        rows.commit("well", minute + 0.5, 10 * minute)
    rows.owned("well", -1, None, "m")
    rows.ends("stops", 5, 10, 20, 30, 40, 50, of="2")
    rows.commit("stops", 0.1, 2)
    rows.commit("stops", 0.6, 4)
    rows.owned("stops", -1, 4.5, "m")
    rows.ends("simple", 5, 10, 20, of="3")
    rows.commit("simple", 0.1, 2, group_id="s")
    rows.commit("simple", 0.5, 4, group_id="s")
    rows.commit("simple", 0.1, 2, group_id="young")
    rows.ends("set-back", 50, 52, 54, of="4")
    rows.owned("set-back", -1, 0.2, "m")
    rows.commit("set-back", 0.1, 50, group_id="g")
    rows.commit("set-back", 0.5, 10, actor="admin")
    rows.owned("set-back", 1.1, None, "m")
    rows.commit("set-back", 1.5, 20, actor="owner")
    rows.ends("seldom", 5, of="5")
    rows.commit("seldom", 0.1, 3, group_id="s")
    return rows


@pytest.fixture(scope="module")
def statuses(spark: SparkSession) -> Statuses:
    built = _input_rows().built(spark, "group_status")
    by_key = {
        (
            row["group_id"],
            row["topic"],
            (row["window_end_ts"] - at(0)).total_seconds() / 60,
        ): row
        for row in built
    }
    assert len(by_key) == len(built)
    return by_key


def _verdicts(statuses: Statuses, group: str, topic: str | None) -> dict[float, str]:
    return {
        minute: row["verdict"]
        for (of_group, of_topic, minute), row in sorted(
            statuses.items(), key=lambda each: each[0][2]
        )
        if (of_group, of_topic) == (group, topic)
    }


def test_each_minute_is_evaluated_at_its_end(statuses: Statuses) -> None:
    assert _verdicts(statuses, "g", "well") == dict.fromkeys([1, 2, 3, 4, 5, 6], "OK")
    assert _verdicts(statuses, "g", "stops") == {
        1: "OK",  # no record was written since its last commit
        2: "STOP",  # its commits span 30 s, and its lag was never 0
        3: "STOP",
        4: "STOP",
        5: "NO_OWNER",
        6: "NO_OWNER",
    }


def test_verdicts_of_burrow_ignore_owners(statuses: Statuses) -> None:
    row = statuses["g", "stops", 5]
    assert (row["burrow_code"], row["lag"], row["window_commits"]) == (4, 36, 2)
    assert (row["committed_offset"], row["log_end_offset"]) == (4, 40)
    assert row["complete"] == pytest.approx(0.2)


def test_a_simple_group_has_no_owner_verdict(statuses: Statuses) -> None:
    assert _verdicts(statuses, "s", "simple")[2] == "STOP"


def test_a_single_commit_is_too_new_for_a_verdict(statuses: Statuses) -> None:
    assert _verdicts(statuses, "young", "simple") == {
        1: "OK",  # no record was written since
        2: "TOO_NEW",
        3: "TOO_NEW",
    }
    assert _verdicts(statuses, "young", None)[3] == "OK"


def test_a_rewind_by_an_operator_is_a_reset(statuses: Statuses) -> None:
    verdicts = _verdicts(statuses, "g", "set-back")
    assert verdicts[1] == "NO_OWNER"
    assert verdicts[2] == "RESET"
    assert statuses["g", "set-back", 2]["burrow_code"] == 6


def test_a_partition_is_evaluated_at_samples_of_the_groups_other_partitions(
    statuses: Statuses,
) -> None:
    assert list(_verdicts(statuses, "s", "seldom")) == [1, 2, 3]
    assert set(_verdicts(statuses, "s", "seldom").values()) == {"OK"}
    # Burrow reports STOP on idle topics.
    assert statuses["s", "seldom", 1]["burrow_code"] == 4


def test_a_group_row_has_the_verdict_of_its_worst_partition(statuses: Statuses) -> None:
    assert _verdicts(statuses, "g", None)[4] == "ERR"
    assert _verdicts(statuses, "g", None)[1] == "WARN"
    row = statuses["g", None, 4]
    assert row["rule"] == "STOP on set-back-0; 2 of 3 partitions are not OK"
    assert (row["partition"], row["burrow_code"]) == (None, 3)
