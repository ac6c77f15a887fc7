"""`coterie pipeline sql`: its statements, its prompt, and values as JSON."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from coterie.cli.main import main
from coterie.cli.pipeline.sql import run_statements, split_statements
from coterie.cli.pipeline.tables import json_value
from coterie.errors import SettingError
from tests.cli.pipeline.conftest import LakeShell
from tests.pipeline.lakes import AS_OF, CLUSTER


def test_values_of_any_type_become_json() -> None:
    value = {"a": (1, b"\x01", float("nan")), "b": [AS_OF, AS_OF.date()]}
    assert json_value(value) == {
        "a": [1, "01", None],
        "b": ["2026-11-21T10:00:00.000Z", "2026-11-21"],
    }


@pytest.mark.parametrize(
    ("text", "statements"),
    [
        ("", []),
        ("SELECT 1", ["SELECT 1"]),
        ("SELECT 1;\nSELECT\n2;  \n", ["SELECT 1", "SELECT\n2"]),
        ("SELECT ';' AS it;\nSELECT 2", ["SELECT ';' AS it", "SELECT 2"]),
    ],
)
def test_statements_end_with_a_semicolon_at_the_end_of_a_line(
    text: str, statements: list[str]
) -> None:
    assert list(split_statements(io.StringIO(text))) == statements


class _Terminal(io.StringIO):
    """A stdin that is a terminal."""

    def isatty(self) -> bool:
        return True


def _run_prompt(typed: list[str], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    lines = iter(typed)

    def read_line(_: str) -> str:
        line = next(lines, None)
        if line is None:
            raise EOFError
        if line == "^C":
            raise KeyboardInterrupt
        return line

    statements: list[str] = []

    def run_statement(statement: str) -> int:
        statements.append(statement)
        if "wrong" in statement:
            raise SettingError("invalid query")
        return 0

    monkeypatch.setattr("builtins.input", read_line)
    monkeypatch.setattr("sys.stdin", _Terminal())
    assert run_statements(run_statement) == 0
    return statements


def test_the_prompt_continues_after_an_error_and_after_ctrl_c(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    typed = ["", "SELECT", "1;", "wrong;", "SELECT", "^C", "SELECT 2;", "quit", "3;"]
    assert _run_prompt(typed, monkeypatch) == ["SELECT\n1", "wrong", "SELECT 2"]
    assert "invalid query" in capsys.readouterr().err
    assert (tmp_path / "coterie" / "sql-history").exists()
    assert _run_prompt(["SELECT 3;"], monkeypatch) == ["SELECT 3"]


def test_a_query_is_printed_with_the_facts_of_the_lake(shell: LakeShell) -> None:
    query = "SELECT group_id, sum(lag) AS lag FROM lag_history GROUP BY 1 ORDER BY 1"
    document = json.loads(shell("sql -o json --limit 1", query))
    assert document["cluster_id"] == CLUSTER
    assert document["summary"]["is_all"] is False
    [item] = document["items"]
    assert isinstance(item["lag"], int), "DuckDB's sum of integers is a decimal"
    assert "the first 1 rows; --limit 0 shows all" in shell.error
    lines = shell("sql -o csv --limit 0", query).splitlines()
    assert lines[0] == "group_id,lag"
    assert len(lines) == 3


def test_doubles_have_all_their_digits(shell: LakeShell) -> None:
    out = shell("sql", "SELECT 1234567.25::DOUBLE AS a, 29.1e9 AS b, 0.1::DOUBLE AS c")
    assert out.split() == ["a", "b", "c", "1234567.25", "29100000000.0", "0.1"]


def test_a_value_is_shown_by_its_type_whatever_the_name(shell: LakeShell) -> None:
    out = shell("sql", "SELECT 1234.5::DOUBLE AS avg_ms, 'abc' AS assigned, 5 AS a_ts")
    assert out.split() == ["avg_ms", "assigned", "a_ts", "1234.5", "abc", "5"]


def test_the_lag_in_the_guide_is_that_of_the_newest_samples(shell: LakeShell) -> None:
    guide = Path("docs/guides/ask-the-log.md").read_text("utf-8")
    [query] = re.findall(r'pipeline sql --lake lake "(.*)"', guide)
    found = {
        (each["group_id"], each["topic"]): each["lag"]
        for each in shell.items("sql", query)
    }
    expected: Counter[tuple[str, str]] = Counter()
    for each in shell.items("show lag"):
        expected[each["group_id"], each["topic"]] += each["lag"] or 0
    assert found == expected


def test_statements_of_stdin_run_in_order(
    shell: LakeShell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("SELECT 1 AS a;\nSELECT\n2 AS b;"))
    assert shell("sql").split() == ["a", "1", "b", "2"]
    monkeypatch.setattr("sys.stdin", io.StringIO("SELECT 1 AS a;\nSELEC 2;\nSELECT 3;"))
    assert shell("sql").split() == ["a", "1"]
    assert shell.code == 2


@pytest.mark.parametrize("text", ["SELECT 'M\udcfcller';", "\udcff\udcfeS\0E\0"])
def test_statements_that_are_not_utf_8_are_refused(
    shell: LakeShell, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    # Python decodes other bytes of stdin and of arguments as lone surrogates.
    monkeypatch.setattr("sys.stdin", io.StringIO(text))
    shell("sql")
    assert (shell.code, shell.error) == (2, "coterie: the query must be UTF-8\n")


@pytest.mark.slow
def test_a_query_imports_neither_spark_nor_pandas(story_lake: Path) -> None:
    script = (
        "import sys\nfrom coterie.cli.main import main\n"
        "query = 'SELECT count(*) FROM lag_history'\n"
        f"main(['pipeline', 'sql', '--lake', {str(story_lake)!r}, query])\n"
        "print('loaded:', *sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True
    )
    loaded = set(done.stdout.rpartition("loaded:")[2].split())
    assert {"duckdb", "pyarrow"} <= loaded
    assert not loaded & {"pyspark", "py4j", "pandas", "polars", "asyncio"}
    assert done.stderr == ""


def test_no_engine_is_started_without_a_lake(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["pipeline", "sql", "SELECT 1", "--lake", str(tmp_path / "none")]
    assert main(words) == 2
    assert "there is no lake in" in capsys.readouterr().err
