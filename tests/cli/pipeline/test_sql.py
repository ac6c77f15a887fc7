"""`coterie pipeline sql`: its statements, its prompt, and values as JSON."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from coterie.cli.main import main
from coterie.cli.pipeline.sql import run_statements, split_statements
from coterie.cli.pipeline.tables import json_value
from coterie.errors import SettingError
from tests.pipeline.lakes import AS_OF


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


def test_spark_is_not_started_without_a_lake(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["pipeline", "sql", "SELECT 1", "--lake", str(tmp_path / "none")]
    assert main(words) == 2
    assert "there is no lake in" in capsys.readouterr().err
