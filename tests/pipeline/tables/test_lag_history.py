"""Lag in records and time, from hand-written rows: one topic for each case."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import pytest

from tests.pipeline.gold.lag_rows import LagRows
from tests.pipeline.gold.rows import at

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

Lag: TypeAlias = dict[tuple[str, float], dict[str, Any]]
"""By topic and minute."""


def _input_rows() -> LagRows:
    rows = LagRows()
    _add_basic_cases(rows)
    _add_topic_lives(rows)
    _add_edge_cases(rows)
    return rows


def _add_basic_cases(rows: LagRows) -> None:
    rows.ends("between", 0, 10, 10, 30, 50, of="1")
    rows.commit("between", 1.5, 5)
    rows.commit("between", 3.5, 40)
    rows.ends("head", 10, 10, 10, of="2")
    rows.commit("head", -3, 10)
    rows.ends("before", 10, 20, of="3")
    rows.commit("before", -1, 5)
    rows.ends("lost", 20, 22, start=8, of="4")
    rows.commit("lost", -1, 5)
    rows.ends("beyond", 10, 12, of="5")
    rows.commit("beyond", -1, 20)
    rows.ends("gone", 10, 20, 30, of="6")
    rows.commit("gone", 0.5, 10)
    rows.commit("gone", 1.5, None)


def _add_topic_lives(rows: LagRows) -> None:
    rows.ends("again", 80, 90, 100, of="7")
    rows.ends("again", 4, 8, 9, first=4, of="8")
    rows.commit("again", 0.5, 80)
    rows.commit("again", 4.5, 6)
    rows.ends("again-built", 90, of="9")
    rows.ends("again-built", 95, 99, first=1, of="10")
    rows.commit("again-built", 0.5, 90, topic_id="9")
    rows.ends("again-unknown", 90, of=None)
    rows.ends("again-unknown", 10, 20, first=1, of=None)
    rows.commit("again-unknown", -1, 80)
    rows.commit("again-unknown", 1.5, 15)


def _add_edge_cases(rows: LagRows) -> None:
    rows.ends("two", 10, 20, of="11")
    rows.commit("two", -1, 10)
    rows.commit("two", -1, 20, group_id="other")
    rows.ends("clock", 10, 20, of="12")
    rows.commit("clock", 0.5, 10)
    rows.commit("clock", -2, 20)
    rows.ends("same-moment", 10, 20, of="13")
    rows.commit("same-moment", 1, 15)
    rows.ends("twice", 10, 20, of="14")
    rows.ends("twice", 10, 20, of="14")
    rows.commit("twice", -1, 10)
    rows.ends("one-minute", 10, 20, of="15")
    rows.ends("one-minute", 12, first=0.5, of="15")
    rows.commit("one-minute", -1, 10)
    rows.ends("owned", 10, 20, 30, 40, of="16")
    rows.owned("owned", 0.5, 2, "m1", topic_id="16")
    rows.owned(None, 2, None, "m3", topic_id="16")
    rows.owned("owned", 2, 2.5, "m2")
    rows.ends("gap", 10, 20, 30, 40, 50, of="18")
    rows.owned("gap", 0.5, 3.5, "m1", is_lower_bound=True)
    rows.commit("gap", 1.5, 15)
    rows.commit("gap", 2.5, None)
    rows.owned("gap", 3.5, None, "m1")
    rows.commit("only-one", -1, 5)
    rows.ends("only-one", 10, of="17")
    rows.commit("never-sampled", 1, 1)


@pytest.fixture(scope="module")
def lag(spark: SparkSession) -> Lag:
    built = _input_rows().built(spark, "lag_history")
    by_key = {
        (
            row["topic"] + (":other" if row["group_id"] == "other" else ""),
            (row["sample_ts"] - at(0)).total_seconds() / 60,
        ): row
        for row in built
    }
    assert len(by_key) == len(built)
    return by_key


def _minutes(lag: Lag, topic: str) -> list[float]:
    return sorted(minute for name, minute in lag if name == topic)


def _time_lag(lag: Lag, topic: str, minute: float) -> tuple[Any, ...]:
    row = lag[topic, minute]
    return row["time_lag_method"], row["time_lag_ms"], row["time_lag_error_ms"]


def test_time_lag_is_interpolated_between_two_samples(lag: Lag) -> None:
    assert _time_lag(lag, "between", 2) == ("interpolated", 90_000, 30_000)
    assert _time_lag(lag, "between", 3) == ("interpolated", 150_000, 30_000)
    assert _time_lag(lag, "between", 4) == ("interpolated", 30_000, 30_000)


def test_commit_time_lag_is_measured_at_the_commit(lag: Lag) -> None:
    assert lag["between", 3]["commit_time_lag_ms"] == 60_000
    assert lag["between", 4]["commit_time_lag_ms"] == 0


def test_rates_cover_the_time_since_the_previous_sample(lag: Lag) -> None:
    row = lag["between", 4]
    assert row["produce_rate"] == pytest.approx(20 / 60)
    assert row["consume_rate"] == pytest.approx(35 / 60)
    assert row["eta_s"] == pytest.approx(10 / (15 / 60))
    assert lag["between", 3]["eta_s"] is None
    assert lag["between", 2]["consume_rate"] is None


def test_the_time_lag_at_the_head_is_zero(lag: Lag) -> None:
    assert _time_lag(lag, "head", 2) == ("head", 0, 0)
    assert lag["head", 2]["eta_s"] == 0
    assert lag["head", 2]["commit_time_lag_ms"] == 0


def test_time_lag_before_the_first_sample_is_a_lower_bound(lag: Lag) -> None:
    assert _time_lag(lag, "before", 1) == ("extrapolated", 60_000, None)
    assert lag["before", 1]["commit_time_lag_ms"] is None


def test_time_lag_is_unknown_with_a_single_sample(lag: Lag) -> None:
    assert _time_lag(lag, "before", 0) == (None, None, None)
    assert _time_lag(lag, "only-one", 0) == (None, None, None)
    assert lag["only-one", 0]["lag"] == 5


def test_a_partition_without_samples_has_no_row(lag: Lag) -> None:
    assert _minutes(lag, "never-sampled") == []


def test_deleted_records_count_as_lost_and_not_as_lag(lag: Lag) -> None:
    row = lag["lost", 1]
    assert (row["lag_status"], row["lag"], row["lag_raw"]) == ("below_start", 14, 17)
    assert (row["messages_lost"], row["retention_margin_offsets"]) == (3, -3)


def test_a_commit_beyond_the_end_has_lag_0(lag: Lag) -> None:
    row = lag["beyond", 1]
    assert (row["lag_status"], row["lag"], row["lag_raw"]) == ("beyond_end", 0, -8)
    assert row["messages_lost"] == 0


def test_rows_begin_with_the_first_offset_and_end_with_a_tombstone(lag: Lag) -> None:
    assert _minutes(lag, "gone") == [1]
    assert lag["gone", 1]["committed_ts"] == at(30)


def test_a_topic_created_again_is_a_different_topic(lag: Lag) -> None:
    assert _minutes(lag, "again") == [1, 2, 5, 6]
    assert lag["again", 5]["lag"] == 2
    assert lag["again", 5]["topic_id"] == "8"
    assert _time_lag(lag, "again", 5) == ("interpolated", 30_000, 30_000)
    assert lag["again", 5]["consume_rate"] is None


def test_a_commit_with_another_topic_id_is_ignored(lag: Lag) -> None:
    assert _minutes(lag, "again-built") == []


def test_a_lower_end_offset_means_a_recreated_topic(lag: Lag) -> None:
    assert lag["again-unknown", 0]["lag"] == 10
    assert _minutes(lag, "again-unknown") == [0, 2]
    assert lag["again-unknown", 2]["lag"] == 5


def test_groups_on_one_partition_are_independent(lag: Lag) -> None:
    assert lag["two", 1]["lag"] == 10
    assert lag["two:other", 1]["lag"] == 0


def test_the_last_commit_in_log_order_applies_regardless_of_its_time(lag: Lag) -> None:
    assert _minutes(lag, "clock") == [1]
    assert lag["clock", 1]["committed_offset"] == 20


def test_a_commit_at_the_time_of_a_sample_is_included(lag: Lag) -> None:
    assert lag["same-moment", 1]["lag"] == 5


def test_duplicate_samples_count_once(lag: Lag) -> None:
    assert _minutes(lag, "twice") == [0, 1]


def test_the_last_sample_of_a_minute_is_used(lag: Lag) -> None:
    assert _minutes(lag, "one-minute") == [0.5, 1]
    assert lag["one-minute", 0.5]["lag"] == 2


def test_the_owner_is_found_by_the_name_of_the_topic(lag: Lag) -> None:
    owners = {m: lag["owned", m]["owner_member_id"] for m in _minutes(lag, "owned")}
    assert owners == {1: "m1", 2: "m2"}
    assert lag["owned", 1]["lag_status"] == "no_commit"
    assert lag["owned", 1]["lag"] is None
    assert lag["owned", 1]["messages_lost"] == 0


def test_a_commit_may_be_missing_after_a_log_gap(lag: Lag) -> None:
    statuses = {m: lag["gap", m]["lag_status"] for m in _minutes(lag, "gap")}
    assert statuses == {1: "unknown", 2: "normal", 3: "no_commit", 4: "no_commit"}
