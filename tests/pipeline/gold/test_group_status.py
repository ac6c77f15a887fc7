"""Verdicts through Spark, told by rows made by hand: a topic a case."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import pytest

from coterie.pipeline.gold.verdict import Rules
from tests.pipeline.gold.hand_made import at
from tests.pipeline.gold.lag_rows import Rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

Found: TypeAlias = dict[tuple[str, str | None, float], dict[str, Any]]
"""By group, topic and minute."""


def _made() -> Rows:
    rows = Rows()
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
def found(spark: SparkSession) -> Found:
    from coterie.pipeline.gold.group_status import group_status

    told = group_status(*_made().frames(spark), Rules()).toArrow().to_pylist()
    by_key = {
        (
            row["group_id"],
            row["topic"],
            (row["window_end_ts"] - at(0)).total_seconds() / 60,
        ): row
        for row in told
    }
    assert len(by_key) == len(told)
    return by_key


def _verdicts(found: Found, group: str, topic: str | None) -> dict[float, str]:
    return {
        minute: row["verdict"]
        for (of_group, of_topic, minute), row in sorted(
            found.items(), key=lambda each: each[0][2]
        )
        if (of_group, of_topic) == (group, topic)
    }


def test_each_minute_is_judged_as_of_its_end(found: Found) -> None:
    assert _verdicts(found, "g", "well") == dict.fromkeys([1, 2, 3, 4, 5, 6], "OK")
    assert _verdicts(found, "g", "stops") == {
        1: "OK",  # nothing was written since
        2: "STOP",  # its commits span 30 s, and it never was at the end
        3: "STOP",
        4: "STOP",
        5: "NO_OWNER",
        6: "NO_OWNER",
    }


def test_burrow_knows_no_owners(found: Found) -> None:
    row = found["g", "stops", 5]
    assert (row["burrow_code"], row["lag"], row["window_commits"]) == (4, 36, 2)
    assert (row["committed_offset"], row["log_end_offset"]) == (4, 40)
    assert row["complete"] == pytest.approx(0.2)


def test_a_group_that_never_has_members_is_not_blamed_for_it(found: Found) -> None:
    assert _verdicts(found, "s", "simple")[2] == "STOP"


def test_an_operator_may_set_a_group_back(found: Found) -> None:
    verdicts = _verdicts(found, "g", "set-back")
    assert verdicts[1] == "NO_OWNER"
    assert verdicts[2] == "RESET"
    assert found["g", "set-back", 2]["burrow_code"] == 6


def test_a_partition_is_judged_when_another_of_its_group_was_looked_at(
    found: Found,
) -> None:
    assert list(_verdicts(found, "s", "seldom")) == [1, 2, 3]
    assert set(_verdicts(found, "s", "seldom").values()) == {"OK"}
    assert found["s", "seldom", 1]["burrow_code"] == 4  # low volume: a false alarm


def test_a_group_is_judged_by_its_worst_partition(found: Found) -> None:
    assert _verdicts(found, "g", None)[4] == "ERR"
    assert _verdicts(found, "g", None)[1] == "WARN"
    row = found["g", None, 4]
    assert row["rule"] == "STOP on set-back-0; 2 of 3 are not OK"
    assert (row["partition"], row["burrow_code"]) == (None, 3)
