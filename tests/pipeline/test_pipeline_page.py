"""docs/pipeline.md: its columns are those that are declared, its examples run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from coterie.pipeline.jobs.sql import ask, make_views
from coterie.pipeline.lake.lake import Lake
from coterie.pipeline.tables.all_tables import TABLES
from tests.pipeline.lakes import make_lake
from tests.pipeline.story import story
from tools import pipeline_page
from tools.pipeline_page import PAGE, PageError, block, main, queries, tables, written

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_the_columns_on_the_page_are_those_that_are_declared() -> None:
    page = PAGE.read_text("utf-8")
    assert written(page) == page, "run python -m tools.pipeline_page"


def test_a_column_is_told_with_its_type_and_whether_it_has_gaps() -> None:
    text = block(TABLES["current_members"])
    assert "| `member_id` | string, never null | the member |" in text
    assert "array of struct of topic_id string, topic string, partition int" in text
    assert "One row for each `group_id`, `member_id`." in text


def test_a_page_that_lacks_a_table_or_its_example_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = PAGE.read_text("utf-8")
    with pytest.raises(PageError, match="quarantine, quarantines: no such section"):
        written(page.replace("columns of quarantine", "columns of quarantines"))
    with pytest.raises(PageError, match="lag_history needs one example that reads it"):
        written(page.replace("FROM lag_history", "FROM lags"))
    broken = tmp_path / "page.md"
    broken.write_text("# nothing")
    monkeypatch.setattr(pipeline_page, "PAGE", broken)
    assert main() == 1
    assert "no such section" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_every_example_answers(spark: SparkSession, tmp_path: Path) -> None:
    rows = story()
    lake = Lake.open(make_lake(tmp_path / "lake", rows))
    # One query, as each costs Spark half a second.
    counts = " UNION ALL ".join(
        f"SELECT '{name}' AS name, count(*) AS found FROM ({query})"
        for name, query in queries(PAGE.read_text("utf-8")).items()
    )
    make_views(spark, lake, counts)
    answer = {
        row["name"]: row["found"] for row in ask(spark, counts, None).rows.to_pylist()
    }
    assert answer.keys() == {each.name for each in tables()}
    assert {name for name, found in answer.items() if found} == rows.keys() - _EMPTY
    for name in answer:
        spark.catalog.dropTempView(name)


_EMPTY = {"offset_commit_history"}
"""Nobody went back in the story."""
