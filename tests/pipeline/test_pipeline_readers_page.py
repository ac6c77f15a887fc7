"""The code in docs/pipeline-readers.md runs, and counts each row of a lake once."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import duckdb
import polars as pl
import pyarrow.dataset as ds
import pytest
from deltalake import DeltaTable

from coterie.pipeline.lake.lake import Lake
from coterie.pipeline.tables.all_tables import TABLES
from tests.pipeline.lakes import commit_rows, make_lake
from tests.pipeline.story import story
from tools.pipeline_page import tables

PAGE = Path(__file__).parents[2] / "docs" / "pipeline-readers.md"
_SECTION = re.compile(r"^## (.+?)\n(.*?)(?=^## |\Z)", re.DOTALL | re.MULTILINE)
_CODE = re.compile(r"```python\n(.*?)```", re.DOTALL)
CODE = {
    title: _CODE.findall(text) for title, text in _SECTION.findall(PAGE.read_text())
}
REWRITTEN = ("current_groups", "current_offsets", "lag_history")
TOOLS = ["DuckDB", "Polars", "pandas", "pyarrow"]


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """Return a lake of four versions, each of which rewrote some tables."""
    lake = Lake.open_to_write(
        make_lake(tmp_path_factory.mktemp("readers") / "lake", story())
    )
    for _ in range(3):
        commit_rows(lake, {name: lake.read(name) for name in REWRITTEN})
    return lake


@pytest.fixture(autouse=True)
def _in_the_directory_of_the_lake(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(lake.storage.root).parent)


def run(code: str, capture: pytest.CaptureFixture[str]) -> str:
    """Run code of the page; return its output."""
    exec(code, {"__name__": "example"})
    return capture.readouterr().out.strip()


def test_the_files_of_a_folder_have_rows_of_earlier_versions() -> None:
    folder = ds.dataset("lake/gold/current_offsets", exclude_invalid_files=False)
    assert folder.count_rows() == 4 * len(story()["current_offsets"])


@pytest.mark.slow
@pytest.mark.parametrize("tool", TOOLS)
def test_the_code_of_each_tool_counts_each_row_once(
    tool: str, lake: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    [code] = CODE[tool]
    assert run(code, capsys) == str(len(story()["current_offsets"]))
    for table in tables():
        folder = f"{table.layer.value}/{table.name}"
        other = code.replace("gold/current_offsets", folder)
        assert run(other, capsys) == str(lake.rows(table.name)), table.name


@pytest.mark.slow
def test_the_newest_days_of_a_long_table_are_read(
    capsys: pytest.CaptureFixture[str],
) -> None:
    [code] = CODE["Long tables: give the day"]
    assert "billing" in run(code, capsys)
    text = dict(_SECTION.findall(PAGE.read_text()))["Long tables: give the day"]
    named = set(re.findall(r"`(\w+)`", text.partition(" are partitioned")[0]))
    assert named == {each.name for each in tables() if each.day_of}


def test_several_tables_are_read_as_of_one_commit(
    lake: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    with_coterie, by_manifest = CODE["Several tables as of one commit"]
    counts = [len(story()[name]) for name in ("current_groups", "current_offsets")]
    assert run(with_coterie, capsys) == f"{lake.version.number} {counts[0]} {counts[1]}"
    assert run(by_manifest, capsys) == str(counts[1])


@pytest.mark.slow
def test_rows_from_before_a_new_column_have_null(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = TABLES["coordinator_load"]
    older = replace(table, columns=table.columns[:-1])
    new_column = table.columns[-1].name
    with monkeypatch.context() as patch:
        patch.setitem(TABLES, table.name, older)
        make_lake(tmp_path / "lake", {table.name: [{"log_partition": 1}]})
    lake = Lake.open_to_write(tmp_path / "lake")
    folder = str(tmp_path / "lake" / "gold" / table.name)
    delta = DeltaTable(folder)
    coordinator_load = delta.to_pyarrow_dataset()
    query = f"SELECT {new_column} FROM coordinator_load"
    polars_rows = pl.scan_delta(folder).select(new_column).collect().rows()
    assert duckdb.execute(query).fetchall() == polars_rows == [(None,)]
    assert delta.to_pandas()[new_column].isna().all()
    assert lake.read(table.name).select([new_column]).to_pylist() == [
        {new_column: None}
    ]
    assert coordinator_load.schema.names == table.schema.names


def test_the_page_has_code_for_every_tool_of_its_table() -> None:
    rows = re.findall(r"^\| (\w+) \| .* \|$", PAGE.read_text(), re.MULTILINE)
    assert [row for row in rows if row != "tool"] == [*TOOLS, "Spark", "Trino"]
