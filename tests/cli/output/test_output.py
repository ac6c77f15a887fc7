"""One outcome in every form, letter by letter."""

from __future__ import annotations

import argparse
import csv
import json
import os
from datetime import UTC, datetime
from io import BytesIO, StringIO, TextIOWrapper

import pytest

from coterie.cli.output.emit import Surroundings, emit
from coterie.cli.output.options import add_output_options
from coterie.cli.output.text import text_table
from coterie.cli.output.values import (
    Column,
    Exit,
    Failure,
    Item,
    Outcome,
    error_item,
    show_error,
)
from coterie.errors import ApiError, ConnectionLost
from coterie.wire.error_codes import ErrorCode

COLUMNS = (
    Column("group_id", "GROUP"),
    Column("lag", "LAG"),
    Column("members", "MEMBERS", is_wide=True),
    Column("error", "ERROR", show=show_error),
)
GOOD: Item = {"group_id": "orders", "lag": 1200, "members": ["a", "b"], "error": None}
BAD: Item = {
    "group_id": "a|b",
    "lag": None,
    "members": [],
    "error": error_item(ApiError(ErrorCode.GROUP_AUTHORIZATION_FAILED, "not for you")),
}
FAILURE = Failure.of("node", 2, ConnectionLost("broker:9092 hung up"))
OUTCOME = Outcome(
    schema="coterie.group",
    columns=COLUMNS,
    items=(GOOD, BAD),
    failures=(FAILURE,),
    summary={"total_lag": 1200},
    cluster_id="c1",
    notes=("a note",),
)
NOW = datetime(2026, 1, 2, 3, 4, 5, 678_900, tzinfo=UTC)


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


def run(
    outcome: Outcome, *arguments: str, stdout: StringIO | None = None
) -> tuple[int, str, str]:
    parser = argparse.ArgumentParser()
    add_output_options(parser)
    options = parser.parse_args(arguments)
    options.command = "groups list"
    out, err = stdout or StringIO(), StringIO()
    code = emit(outcome, options, Surroundings(out, err, lambda: NOW))
    return code, out.getvalue(), err.getvalue()


def printed(*arguments: str) -> str:
    return run(OUTCOME, *arguments)[1]


def test_a_table_in_a_pipe_is_plain_text() -> None:
    assert printed() == (
        "GROUP    LAG  ERROR\n"
        "orders  1200  -\n"
        "a|b        -  GROUP_AUTHORIZATION_FAILED\n"
    )


@pytest.mark.parametrize("arguments", [["--wide"], ["-o", "wide"]])
def test_a_wide_table_has_every_column(arguments: list[str]) -> None:
    assert printed(*arguments) == (
        "GROUP    LAG  MEMBERS  ERROR\n"
        "orders  1200  a,b      -\n"
        "a|b        -  -        GROUP_AUTHORIZATION_FAILED\n"
    )


def test_markdown() -> None:
    assert printed("-o", "md") == (
        "| GROUP | LAG | ERROR |\n"
        "| --- | ---: | --- |\n"
        "| orders | 1200 | - |\n"
        "| a\\|b | - | GROUP_AUTHORIZATION_FAILED |\n"
    )


def test_csv_has_every_key_and_leaves_the_unknown_empty() -> None:
    text = printed("-o", "csv")
    assert text == (
        "group_id,lag,members,error\n"
        "orders,1200,a;b,\n"
        "a|b,,,GROUP_AUTHORIZATION_FAILED\n"
    )
    assert [row["lag"] for row in csv.DictReader(StringIO(text))] == ["1200", ""]


def test_json_is_one_document_with_an_envelope() -> None:
    assert json.loads(printed("-o", "json")) == {
        "schema": "coterie.group",
        "schema_version": 1,
        "command": "groups list",
        "cluster_id": "c1",
        "generated_at": "2026-01-02T03:04:05.678Z",
        "items": [GOOD, BAD],
        "errors": [
            {
                "kind": "node",
                "id": "2",
                "code": "ConnectionLost",
                "message": "broker:9092 hung up",
            }
        ],
        "summary": {"ok": 1, "failed": 2, "total_lag": 1200},
    }


def test_json_has_one_key_and_one_item_a_line() -> None:
    lines = printed("-o", "json").splitlines()
    assert lines[1] == '  "schema": "coterie.group",'
    assert lines[6] == '  "items": ['
    assert json.loads(lines[7].rstrip(",")) == GOOD
    empty = Outcome(schema="s", columns=COLUMNS, items=())
    assert '  "items": [],' in run(empty, "-o", "json")[1].splitlines()


def test_json_lines_are_the_items_and_then_what_has_none() -> None:
    lines = [json.loads(line) for line in printed("-o", "jsonl").splitlines()]
    assert lines == [GOOD, BAD, {"error": FAILURE.as_item()}]


def test_what_failed_is_counted_on_stderr_and_in_the_exit_code() -> None:
    code, _, error = run(OUTCOME, "-o", "json")
    assert code == Exit.FAILED
    assert error == (
        "a note\nerror: node 2: ConnectionLost: broker:9092 hung up\nok=1 failed=2\n"
    )


def test_nothing_is_said_when_nothing_failed() -> None:
    fine = Outcome(schema="s", columns=COLUMNS, items=(GOOD,))
    assert run(fine)[::2] == (0, "")


def test_a_condition_that_is_true_wins_over_failures() -> None:
    found = Outcome(schema="s", columns=COLUMNS, items=(BAD,), is_condition_true=True)
    assert run(found)[0] == Exit.CONDITION


@pytest.mark.parametrize(
    ("form", "text"),
    [("table", ""), ("jsonl", ""), ("csv", "group_id,lag,members,error\n")],
)
def test_no_items_make_no_table(form: str, text: str) -> None:
    nothing = Outcome(schema="s", columns=COLUMNS, items=())
    assert run(nothing, "-o", form)[:2] == (0, text)


def test_a_terminal_is_not_at_the_mercy_of_a_client_id() -> None:
    column = Column("client_id", "CLIENT")
    evil = Outcome(schema="s", columns=(column,), items=({"client_id": "x\x1b[2J\ny"},))
    assert "x\\x1b[2J\\ny" in run(evil)[1]
    assert "x\\x1b[2J\\ny" in run(evil, stdout=Terminal())[1]


def test_colours_are_for_terminals_only() -> None:
    assert "\x1b" in run(OUTCOME, stdout=Terminal())[1]
    assert "\x1b" not in printed()


def test_values_of_every_kind_have_a_text() -> None:
    columns = tuple(Column(each, each) for each in ("yes", "no", "pairs", "none"))
    item: Item = {"yes": True, "no": False, "pairs": {"a": 1, "b": None}, "none": ""}
    outcome = Outcome(schema="s", columns=columns, items=(item,))
    _, text, _ = run(outcome)
    assert text.splitlines()[1] == "yes  no  a:1;b:-  -"
    assert run(outcome, "-o", "csv")[1].splitlines()[1] == "true,false,a:1;b:,"


def test_a_reader_that_went_away_has_what_it_wanted() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    options = argparse.Namespace(output="jsonl", wide=False, command="groups list")
    fine = Outcome(schema="s", columns=COLUMNS, items=(GOOD,))
    with os.fdopen(writer, "w") as gone:
        assert emit(fine, options, Surroundings(gone, StringIO(), lambda: NOW)) == 0


def test_what_an_encoding_cannot_say_is_escaped() -> None:
    options = argparse.Namespace(output="table", wide=False)
    item: Item = {"group_id": "größe", "lag": 1, "members": [], "error": None}
    outcome = Outcome(schema="s", columns=COLUMNS, items=(item,))
    ascii_only = TextIOWrapper(BytesIO(), "ascii")
    emit(outcome, options, Surroundings(ascii_only, StringIO(), lambda: NOW))
    assert b"gr\\xf6\\xdfe" in ascii_only.buffer.getvalue()


def test_a_failure_says_what_it_is_about_once_and_of_a_whole_run_only_why() -> None:
    code = ErrorCode.GROUP_ID_NOT_FOUND
    error = ApiError(code, "group g: GROUP_ID_NOT_FOUND: Group g not found.")
    said = "group g: GROUP_ID_NOT_FOUND: Group g not found."
    assert str(Failure.of("group", "g", error)) == said
    assert str(Failure.of("run", "", ConnectionLost("b:1 hung up"))) == "b:1 hung up"


def test_names_of_any_script_stand_in_columns() -> None:
    columns = (Column("group_id", "GROUP"), Column("state", "STATE"))
    ids = ("\u65e5\u672c", "u\u0308ber", "ascii")
    items = [{"group_id": each, "state": "Empty"} for each in ids]
    lines = text_table(columns, items).splitlines()
    assert lines == [
        "GROUP  STATE",
        "\u65e5\u672c   Empty",
        "u\u0308ber   Empty",
        "ascii  Empty",
    ]
