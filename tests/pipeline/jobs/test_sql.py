"""Questions in SQL over a lake, by Spark."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from coterie.cli.main import main
from coterie.cli.pipeline import sql_prompt
from coterie.cli.pipeline.show.values import json_value
from coterie.errors import LogError, SettingError
from coterie.pipeline.jobs.sql import ask, make_views
from coterie.pipeline.lake.lake import Lake
from tests.pipeline.lakes import AS_OF, CLUSTER, HISTORY_FROM, make_lake
from tests.pipeline.story import story

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def asked(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SparkSession]:
    lake = Lake.open(make_lake(tmp_path_factory.mktemp("sql") / "lake", story()))
    make_views(spark, lake, "current_groups")
    yield spark
    spark.catalog.dropTempView("current_groups")


@pytest.mark.slow
def test_a_view_has_the_facts_of_its_lake(asked: SparkSession) -> None:
    facts = "SELECT cluster_id, as_of_ts, history_from_ts FROM current_groups LIMIT 1"
    [row] = ask(asked, facts, None).rows.to_pylist()
    assert tuple(row.values()) == (CLUSTER, AS_OF, HISTORY_FROM)


@pytest.mark.slow
def test_a_limit_is_told_and_equal_names_are_kept_apart(asked: SparkSession) -> None:
    found = ask(asked, "SELECT id, id * 2 AS id FROM range(3) ORDER BY 1", 2)
    assert found.rows.to_pylist() == [{"id": 0, "id_2": 0}, {"id": 1, "id_2": 2}]
    assert not found.is_all
    assert ask(asked, "SELECT 1 AS one", 1).is_all


@pytest.mark.slow
def test_what_spark_says_of_a_query_is_a_sentence(
    asked: SparkSession, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SettingError, match=r"^\[PARSE_SYNTAX_ERROR\] .* near 'x'"):
        ask(asked, "SELECT * FRM x", None)
    with pytest.raises(SettingError, match=r"`nope` cannot be resolved") as raised:
        ask(asked, "SELECT nope FROM current_groups", None)
    assert "\n" not in str(raised.value)
    with pytest.raises(LogError, match=r"^\[DIVIDE_BY_ZERO\]"):
        ask(asked, "SELECT id / 0 FROM range(3)", None)
    assert "QueryContextLogger" not in capfd.readouterr().err


def test_values_of_any_type_become_json() -> None:
    value = {"a": (1, b"\x01", float("nan")), "b": [AS_OF, AS_OF.date()]}
    assert json_value(value) == {
        "a": [1, "01", None],
        "b": ["2026-11-21T10:00:00.000Z", "2026-11-21"],
    }


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        ("", []),
        ("SELECT 1", ["SELECT 1"]),
        ("SELECT 1;\nSELECT\n2;  \n", ["SELECT 1", "SELECT\n2"]),
        ("SELECT ';' AS it;\nSELECT 2", ["SELECT ';' AS it", "SELECT 2"]),
    ],
)
def test_statements_end_with_a_semicolon_at_the_end_of_a_line(
    typed: str, found: list[str]
) -> None:
    assert list(sql_prompt.statements(io.StringIO(typed))) == found


class _Typist(io.StringIO):
    """A terminal at which these lines are typed."""

    def isatty(self) -> bool:
        return True


def _talk(typed: list[str], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    lines = iter(typed)

    def read_line(_: str) -> str:
        line = next(lines, None)
        if line is None:
            raise EOFError
        if line == "^C":
            raise KeyboardInterrupt
        return line

    heard: list[str] = []

    def answer(statement: str) -> int:
        heard.append(statement)
        if "wrong" in statement:
            raise SettingError("that makes no sense")
        return 0

    monkeypatch.setattr("builtins.input", read_line)
    monkeypatch.setattr("sys.stdin", _Typist())
    assert sql_prompt.answer_all(answer) == 0
    return heard


def test_at_a_prompt_one_may_be_wrong_change_one_s_mind_and_leave(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    typed = ["", "SELECT", "1;", "wrong;", "SELECT", "^C", "SELECT 2;", "quit", "3;"]
    assert _talk(typed, monkeypatch) == ["SELECT\n1", "wrong", "SELECT 2"]
    assert "that makes no sense" in capsys.readouterr().err
    assert (tmp_path / "coterie" / "sql-history").exists()
    assert _talk(["SELECT 3;"], monkeypatch) == ["SELECT 3"]


def test_without_a_lake_spark_is_not_started(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["pipeline", "sql", "SELECT 1", "--lake", str(tmp_path / "none")]
    assert main(words) == 2
    assert "there is no lake in" in capsys.readouterr().err


@pytest.mark.slow
def test_the_command_answers(
    asked: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("coterie.cli.pipeline.engine.start", lambda _: asked)
    lake = make_lake(tmp_path / "lake", story())
    query = "SELECT group_id, last_commit_ts FROM current_groups ORDER BY 1 DESC"
    words = ["pipeline", "sql", query, "--lake", str(lake), "--limit", "1", "-o", "csv"]
    assert main(words) == 0
    out, said = capsys.readouterr()
    assert out == "group_id,last_commit_ts\nnightly,2026-11-19T10:00:00.000Z\n"
    assert said == "the first 1 rows; --limit 0 gives all\n"
