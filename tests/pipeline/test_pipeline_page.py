"""docs/pipeline.md matches the table declarations, and its examples run."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from coterie.pipeline.lake import sql
from coterie.pipeline.lake.lake import Lake
from coterie.pipeline.tables.all_tables import TABLES
from tests.pipeline.lakes import make_lake
from tests.pipeline.story import story
from tools import pipeline_page
from tools.pipeline_page import (
    PAGE,
    PageError,
    block,
    main,
    queries,
    tables,
    with_columns,
)


def test_column_tables_match_the_declarations() -> None:
    page = PAGE.read_text("utf-8")
    assert with_columns(page) == page, "run python -m tools.pipeline_page"


def test_a_column_row_contains_the_type_and_the_nullability() -> None:
    text = block(TABLES["current_members"])
    assert "| `member_id` | string, never null | ID of the member |" in text
    assert "array of struct of topic_id string, topic string, partition int" in text
    assert "One row for each `group_id`, `member_id`." in text


def test_the_list_of_tables_links_to_their_sections() -> None:
    page = PAGE.read_text("utf-8")
    for table in tables():
        link = f"[`{table.name}`](#{table.name})"
        assert f"| {table.layer.value} | {link} | {table.question} |" in page


def test_a_page_without_a_table_or_its_example_is_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = PAGE.read_text("utf-8")
    with pytest.raises(PageError, match="tables: quarantine, quarantines"):
        with_columns(page.replace("columns of quarantine", "columns of quarantines"))
    with pytest.raises(PageError, match="lag_history needs exactly one example"):
        with_columns(page.replace("FROM lag_history", "FROM lags"))
    broken = tmp_path / "page.md"
    broken.write_text("# nothing")
    monkeypatch.setattr(pipeline_page, "PAGE", broken)
    assert main() == 1
    assert "sections differ" in capsys.readouterr().err


def _all_examples() -> str:
    """Return one query for all examples, with the number of rows of each."""
    return " UNION ALL ".join(
        f"SELECT '{name}' AS name, count(*) AS found FROM ({query})"
        for name, query in queries(PAGE.read_text("utf-8")).items()
    )


def _check(rows: Any, stored: Iterable[str]) -> None:
    found = {row["name"]: row["found"] for row in rows.to_pylist()}
    assert found.keys() == {each.name for each in tables()}
    assert {name for name, count in found.items() if count} == set(stored) - _EMPTY


@pytest.mark.slow
def test_every_example_runs_in_duckdb(tmp_path: Path) -> None:
    rows, query = story(), _all_examples()
    lake = Lake.open(make_lake(tmp_path / "lake", rows))
    with sql.connect("1g") as connection:
        sql.make_views(connection, lake, query)
        _check(sql.run_sql(connection, query, None).rows, rows)


_EMPTY = {"offset_commit_history"}
"""Tables whose example finds no row: no group commits backwards in the story."""
