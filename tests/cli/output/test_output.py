"""One outcome in every output format, byte for byte."""

from __future__ import annotations

import argparse
import csv
import errno
import json
import os
import sys
from datetime import UTC, datetime
from io import BytesIO, StringIO, TextIOWrapper
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from coterie.cli.command import add_output_options
from coterie.cli.output.emit import CommandIO, confirm, emit, render
from coterie.cli.output.outcome import (
    Column,
    Exit,
    Failure,
    Item,
    Outcome,
    error_item,
    show_error,
)
from coterie.cli.output.structured import envelope, yaml_lines
from coterie.cli.output.tables import text_table
from coterie.errors import ApiError, ConnectionLost, OutputError, SettingError
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
    code = emit(outcome, options, CommandIO(out, err, lambda: NOW))
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


def test_a_markdown_table_is_printed() -> None:
    assert printed("-o", "md") == (
        "| GROUP | LAG | ERROR |\n"
        "| --- | ---: | --- |\n"
        "| orders | 1200 | - |\n"
        "| a\\|b | - | GROUP_AUTHORIZATION_FAILED |\n"
    )


def test_csv_has_every_key_and_an_empty_cell_for_null() -> None:
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


def test_json_has_one_line_per_key_and_item() -> None:
    lines = printed("-o", "json").splitlines()
    assert lines[1] == '  "schema": "coterie.group",'
    assert lines[6] == '  "items": ['
    assert json.loads(lines[7].rstrip(",")) == GOOD
    empty = Outcome(schema="s", columns=COLUMNS, items=())
    assert '  "items": [],' in run(empty, "-o", "json")[1].splitlines()


def test_json_lines_are_items_and_then_failures() -> None:
    lines = [json.loads(line) for line in printed("-o", "jsonl").splitlines()]
    assert lines == [GOOD, BAD, {"error": FAILURE.as_item()}]


def test_failures_are_counted_on_stderr_and_set_the_exit_code() -> None:
    code, _, error = run(OUTCOME, "-o", "json")
    assert code == Exit.FAILED
    assert error == (
        "a note\nerror: node 2: ConnectionLost: broker:9092 hung up\nok=1 failed=2\n"
    )


def error_lines(outcome: Outcome) -> list[str]:
    return run(outcome)[2].splitlines()


def test_the_counts_name_their_units() -> None:
    outcome = OUTCOME._replace(unit="groups", notes=())
    assert error_lines(outcome)[-1] == "ok=1 failed=2 (groups and nodes)"
    assert error_lines(outcome._replace(items=()))[-1] == "ok=0 failed=1 (nodes)"
    document = json.loads(run(outcome, "-o", "json")[1])
    assert document["summary"]["unit"] == "groups"


def test_a_unit_may_have_several_items() -> None:
    outcome = OUTCOME._replace(unit="groups", counts=(4, 3), failures=())
    assert error_lines(outcome)[-1] == "ok=4 failed=3 (groups)"
    summary = json.loads(run(outcome, "-o", "json")[1])["summary"]
    assert (summary["ok"], summary["failed"]) == (4, 3)


def test_failures_with_equal_messages_share_a_line() -> None:
    failures = (
        *(Failure("group", f"g{n}", "GONE", "there is no group") for n in range(200)),
        *(Failure("group", f"h-{n}", "LOADING", f"try h-{n} later") for n in range(2)),
        *(Failure("node", f"{n}", "LOADING", f"try {n} later") for n in range(2)),
    )
    assert error_lines(
        Outcome(schema="s", columns=(), items=(), failures=failures)
    ) == [
        "error: 200 groups (g0, g1, g2, g3, g4 and 195 more): GONE: there is no group",
        "error: 2 groups (h-0, h-1): LOADING: try ... later",
        "error: node 0: LOADING: try 0 later",
        "error: node 1: LOADING: try 1 later",
        "ok=0 failed=204 (groups and nodes)",
    ]


def test_success_prints_nothing_to_stderr() -> None:
    fine = Outcome(schema="s", columns=COLUMNS, items=(GOOD,))
    assert run(fine)[::2] == (0, "")


def test_the_exit_code_of_a_met_condition_overrides_that_of_failures() -> None:
    outcome = Outcome(schema="s", columns=COLUMNS, items=(BAD,), is_condition_true=True)
    assert run(outcome)[0] == Exit.CONDITION


@pytest.mark.parametrize(
    ("form", "text"),
    [("table", ""), ("jsonl", ""), ("csv", "group_id,lag,members,error\n")],
)
def test_an_outcome_without_items_has_no_table(form: str, text: str) -> None:
    nothing = Outcome(schema="s", columns=COLUMNS, items=())
    assert run(nothing, "-o", form)[:2] == (0, text)


def test_control_characters_of_a_client_id_are_escaped() -> None:
    column = Column("client_id", "CLIENT")
    evil = Outcome(schema="s", columns=(column,), items=({"client_id": "x\x1b[2J\ny"},))
    assert "x\\x1b[2J\\ny" in run(evil)[1]
    assert "x\\x1b[2J\\ny" in run(evil, stdout=Terminal())[1]


@pytest.mark.posix
def test_colours_are_used_at_terminals_only() -> None:
    assert "\x1b" in run(OUTCOME, stdout=Terminal())[1]
    assert "\x1b" not in printed()


def test_every_kind_of_value_is_formatted() -> None:
    columns = tuple(Column(each, each) for each in ("yes", "no", "pairs", "none"))
    item: Item = {"yes": True, "no": False, "pairs": {"a": 1, "b": None}, "none": ""}
    outcome = Outcome(schema="s", columns=columns, items=(item,))
    _, text, _ = run(outcome)
    assert text.splitlines()[1] == "yes  no  a:1;b:-  -"
    assert run(outcome, "-o", "csv")[1].splitlines()[1] == "true,false,a:1;b:,"


def test_a_closed_stdout_is_not_a_failure() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    options = argparse.Namespace(output="jsonl", wide=False, command="groups list")
    fine = Outcome(schema="s", columns=COLUMNS, items=(GOOD,))
    with os.fdopen(writer, "w") as gone:
        assert emit(fine, options, CommandIO(gone, StringIO(), lambda: NOW)) == 0


def test_characters_outside_the_encoding_are_escaped() -> None:
    options = argparse.Namespace(output="table", wide=False)
    item: Item = {"group_id": "größe", "lag": 1, "members": [], "error": None}
    outcome = Outcome(schema="s", columns=COLUMNS, items=(item,))
    ascii_only = TextIOWrapper(BytesIO(), "ascii")
    emit(outcome, options, CommandIO(ascii_only, StringIO(), lambda: NOW))
    assert b"gr\\xf6\\xdfe" in ascii_only.buffer.getvalue()


def test_the_subject_of_a_failure_is_printed_once() -> None:
    code = ErrorCode.GROUP_ID_NOT_FOUND
    error = ApiError(code, "group g: GROUP_ID_NOT_FOUND: Group g not found.")
    text = "group g: GROUP_ID_NOT_FOUND: Group g not found."
    assert str(Failure.of("group", "g", error)) == text
    assert str(Failure.of("run", "", ConnectionLost("b:1 hung up"))) == "b:1 hung up"


def test_wide_characters_are_aligned_in_columns() -> None:
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


def test_one_long_name_does_not_pad_the_other_rows() -> None:
    columns = (Column("group_id", "GROUP"), Column("state", "STATE"))
    ids = ("orders", "n" * 249, "payments")
    items = [{"group_id": each, "state": "Empty"} for each in ids]
    assert text_table(columns, items).splitlines() == [
        "GROUP     STATE",
        "orders    Empty",
        "n" * 249 + "  Empty",
        "payments  Empty",
    ]


STRANGE: Item = {
    "group_id": "gr\u00f6\u00dfe \U0001f680 \u2028\x85",
    "lag": 1200,
    "members": ["a: b", "no", [1, "- c"]],
    "error": {"code": "X", "message": "# no\n comment", "y": {}, "1": []},
}


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
@pytest.mark.parametrize("form", ["json", "yaml", "jsonl"])
def test_documents_are_valid_in_every_encoding(form: str, encoding: str) -> None:
    outcome = OUTCOME._replace(items=(STRANGE, GOOD), context={"null": None, "on": 1.5})
    stdout = TextIOWrapper(BytesIO(), encoding)
    options = argparse.Namespace(output=form, wide=False, command="groups list")
    emit(outcome, options, CommandIO(stdout, StringIO(), lambda: NOW))
    text = stdout.buffer.getvalue().decode(encoding)
    if form == "jsonl":
        assert json.loads(text.split("\n")[0]) == STRANGE
    else:
        document = json.loads(text) if form == "json" else yaml.safe_load(text)
        expected = envelope(outcome, "groups list", NOW)
        assert document == json.loads(json.dumps(expected))
        assert list(document) == list(expected)


YAML_KEYS = st.text(max_size=8) | st.sampled_from(["yes", "true", "null", "a_1", "123"])
YAML_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(YAML_KEYS, inner, max_size=3)
    ),
    max_leaves=10,
)


@pytest.mark.slow
@given(st.dictionaries(YAML_KEYS, YAML_VALUES))
def test_yaml_is_read_back_as_it_was(document: dict[str, Any]) -> None:
    assert (yaml.safe_load("".join(yaml_lines(document))) or {}) == document


def test_yaml_has_a_line_for_each_value() -> None:
    assert printed("-o", "yaml").splitlines()[5:13] == [
        "items:",
        '- group_id: "orders"',
        "  lag: 1200",
        "  members:",
        '  - "a"',
        '  - "b"',
        "  error: null",
        '- group_id: "a|b"',
    ]


def test_columns_are_chosen_and_ordered_by_title_or_key() -> None:
    assert printed("--columns", "lag,GROUP").splitlines()[0] == " LAG  GROUP"
    assert printed("--columns", "members", "-o", "csv") == 'members\na;b\n""\n'
    assert printed("--columns", "Lag", "-o", "md").startswith("| LAG |\n")


def test_unknown_columns_are_refused_with_the_known_ones() -> None:
    with pytest.raises(SettingError, match="'lags'; columns are GROUP, LAG, MEMBERS,"):
        printed("--columns", "GROUP,lags")


def test_columns_of_a_document_are_refused() -> None:
    with pytest.raises(SettingError, match="yaml always has every key"):
        printed("--columns", "GROUP", "-o", "yaml")


@pytest.mark.parametrize(
    ("text", "cell"),
    [
        ("=1+1", "'=1+1"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("-cmd", "'-cmd"),
        ("\tx", "'\tx"),
        ("-1", "-1"),
        ("+1.5", "+1.5"),
        ("orders", "orders"),
        ("", ""),
    ],
)
def test_formulas_are_quoted_in_safe_csv(text: str, cell: str) -> None:
    outcome = OUTCOME._replace(items=({"group_id": text},))
    _, out, _ = run(outcome, "-o", "csv", "--csv-safe")
    assert list(csv.reader(StringIO(out)))[1:] == [[cell]]
    _, out, _ = run(outcome, "-o", "csv")
    assert list(csv.reader(StringIO(out)))[1:] == [[text]]


def test_csv_on_a_terminal_has_no_control_characters() -> None:
    evil = OUTCOME._replace(items=({"group_id": "x\x1b[2J\ny"},))
    shown = run(evil, "-o", "csv", stdout=Terminal())[1]
    assert shown == "group_id\nx\\x1b[2J\\ny\n"
    assert "\x1b" in run(evil, "-o", "csv")[1]


class Broken(StringIO):
    """A stream that cannot be written to."""

    def __init__(self, error: OSError) -> None:
        super().__init__()
        self.error = error

    def flush(self) -> None:
        raise self.error

    def fileno(self) -> int:
        return os.dup(1)


def emit_to(stream: Broken) -> int:
    options = argparse.Namespace(output="table", wide=False)
    return emit(OUTCOME, options, CommandIO(stream, StringIO(), lambda: NOW))


def test_a_full_disk_is_an_error_of_one_sentence() -> None:
    with pytest.raises(OutputError, match="cannot write the output: No space left"):
        emit_to(Broken(OSError(errno.ENOSPC, "No space left on device")))


@pytest.mark.parametrize(
    ("platform", "error"),
    [("linux", BrokenPipeError()), ("win32", OSError(errno.EINVAL, "Invalid"))],
)
def test_a_reader_that_ends_early_is_no_error(
    monkeypatch: pytest.MonkeyPatch, platform: str, error: OSError
) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    assert emit_to(Broken(error)) == 1, "as before: the outcome has a failure"


@pytest.mark.posix
def test_an_invalid_write_is_an_error_elsewhere() -> None:
    with pytest.raises(OutputError, match="cannot write the output: Invalid"):
        emit_to(Broken(OSError(errno.EINVAL, "Invalid")))


@pytest.mark.parametrize("form", ["json", "jsonl", "yaml"])
def test_documents_have_no_characters_that_act_on_a_terminal(form: str) -> None:
    name = "a\x1b[2J\x9b2J\x7f\u202eb"
    text = run(OUTCOME._replace(items=({"group_id": name},)), "-o", form)[1]
    assert all(each.isprintable() for each in text.split("\n"))
    document = yaml.safe_load(text.split("\n")[0] if form == "jsonl" else text)
    item = document if form == "jsonl" else document["items"][0]
    assert item == {"group_id": name}


@pytest.mark.parametrize("form", ["table", "wide", "csv", "md"])
def test_rows_that_follow_others_have_no_header(form: str) -> None:
    options = argparse.Namespace(output=form, wide=False)
    io = CommandIO(StringIO(), StringIO(), lambda: NOW)
    first = "".join(render(OUTCOME, options, io))
    rows = "".join(render(OUTCOME, options, io, is_continued=True))
    assert first.endswith(rows)
    assert rows.splitlines()[0].startswith(("orders", "| orders"))
    terminal = CommandIO(Terminal(), StringIO(), lambda: NOW)
    assert "LAG" not in "".join(render(OUTCOME, options, terminal, is_continued=True))


@pytest.mark.posix
def test_a_preview_fits_the_terminal_of_the_question(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    options = argparse.Namespace(output="table", wide=False, columns=None)
    stderr = Terminal()
    monkeypatch.setattr("sys.stdin", StringIO("y\n"))
    assert confirm(CommandIO(StringIO(), stderr), OUTCOME, options, "Write?")
    assert "\x1b[1mGROUP" in stderr.getvalue()
    assert stderr.getvalue().endswith("Write? [y/N] ")
