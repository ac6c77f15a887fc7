"""`coterie groups reset` and `clone`, and the flow of every command that writes."""

from __future__ import annotations

import asyncio
import io
import re
import signal
import sys

import pytest

from coterie.client.admin.group_offsets import CommittedOffset
from coterie.errors import ApiError, ConnectionLost, CoterieError
from coterie.wire.error_codes import ErrorCode
from tests.operations.small_cluster import A0, B0

from .write_shell import WriteShell, shell

__all__ = ["shell"]

EARLIEST = """\
GROUP  TOPIC  PARTITION  PRIOR  NEW  DELTA  LAG-AFTER  NOTE  RESULT
g      a              0      5    2     -3          8  -     planned
g      b              0      7    0     -7          7  -     planned
"""


@pytest.mark.fact("C-60c")
def test_nothing_is_written_without_execute(shell: WriteShell) -> None:
    assert shell("reset g --to-earliest") == EARLIEST
    assert shell.code == 0
    assert shell.error == (
        "1 group is selected: g\nnothing was written: use --execute to write\n"
    )
    assert "alter_group_offsets" not in shell.admin.calls


def test_the_groups_are_reported_before_they_are_written(shell: WriteShell) -> None:
    assert shell.write("reset g h --to-earliest") == (
        "GROUP  TOPIC  PARTITION  PRIOR  NEW  DELTA  LAG-AFTER  NOTE  RESULT\n"
        "g      a              0      5    2     -3          8  -     done\n"
        "g      b              0      7    0     -7          7  -     done\n"
        "h      a              0      9    2     -7          8  -     done\n"
    )
    first, last = shell.error.splitlines()
    assert first == "2 groups are selected: g, h"
    (snapshot_id,) = shell.snapshot_ids
    assert last == f"to undo: coterie groups undo {snapshot_id} --execute"
    assert shell.admin.known_groups["g"].offsets[A0] == CommittedOffset(2, 1, "m")


@pytest.mark.parametrize(
    ("error", "may_be_undone"),
    [
        (ApiError(ErrorCode.GROUP_AUTHORIZATION_FAILED), False),
        (ConnectionLost("no answer"), True),
    ],
)
def test_the_undo_command_is_printed_if_offsets_may_have_been_written(
    shell: WriteShell,
    monkeypatch: pytest.MonkeyPatch,
    error: CoterieError,
    may_be_undone: bool,
) -> None:
    """Check that a request without a response counts as possibly written."""

    async def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(shell.admin, "alter_group_offsets", fail)
    shell.write("reset g --to-earliest")
    assert shell.code == 1
    assert ("coterie groups undo" in shell.error) is may_be_undone


@pytest.mark.fact("C-61")
def test_a_group_with_members_fails_and_the_others_are_reset(shell: WriteShell) -> None:
    shell.write("reset g live --to-earliest")
    assert shell.code == 1
    assert (
        "error: group live: NON_EMPTY_GROUP: the group has members, its state is"
        " Stable: stop them, or remove them with `coterie groups remove-members`"
        in shell.error
    )
    assert shell.admin.known_groups["g"].offsets[B0] == CommittedOffset(0)


@pytest.mark.parametrize(
    ("line", "cells"),
    [
        ("--to-latest", "5 10 5 0 skips planned"),
        ("--to-offset 3", "5 3 -2 7 - planned"),
        ("--to-offset 99", "5 10 5 0 clamped,skips planned"),
        ("--shift-by=-1", "5 4 -1 6 - planned"),
        ("--to-current", "5 5 0 5 unchanged nothing to do"),
        ("--to-datetime 1970-01-01T00:00:00.004Z", "5 4 -1 6 - planned"),
        ("--by-duration PT1S", "5 10 5 0 no-later-record,skips planned"),
    ],
)
def test_each_scenario_resets_to_its_offset(
    shell: WriteShell, line: str, cells: str
) -> None:
    table = shell(f"reset g {line} --partitions a:0")
    (row,) = table.splitlines()[1:]
    assert " ".join(row.split()) == f"g a 0 {cells}"


def test_unchanged_offsets_are_not_written(shell: WriteShell) -> None:
    table = shell.write("reset g --to-current")
    assert "nothing to do" in table
    assert "there is nothing to do" in shell.error
    assert "alter_group_offsets" not in shell.admin.calls


@pytest.mark.fact("C-63")
def test_offsets_are_read_from_a_file(shell: WriteShell) -> None:
    (shell.home / "one.csv").write_text("a,0,3\n")
    assert "g      a              0      5    3" in shell(
        "reset g --from-file HOME/one.csv"
    )
    (shell.home / "many.csv").write_text("g,a,0,3\nh,a,0,4\n", "utf-8-sig")
    assert len(shell("reset g h --from-file HOME/many.csv").splitlines()) == 3
    shell("reset g nobody --from-file HOME/many.csv")
    assert shell.code == 2
    assert shell.error.endswith("has no line for group nobody\n")


def test_metadata_can_be_dropped(shell: WriteShell) -> None:
    shell.write("reset g --to-offset 3 --partitions a --drop-metadata")
    assert shell.admin.known_groups["g"].offsets[A0] == CommittedOffset(3)


def test_a_topic_restricts_the_partitions(shell: WriteShell) -> None:
    items = shell.json("reset g --to-earliest --topic b")["items"]
    assert [each["topic"] for each in items] == ["b"]
    shell.write("offsets delete g --topic b")
    assert list(shell.admin.known_groups["g"].offsets) == [A0]
    assert "a" not in shell("offsets list g --topic b").replace("PARTITION", "")


def test_an_unknown_topic_has_a_separate_row(shell: WriteShell) -> None:
    table = shell.write("reset g --to-earliest --partitions a:0 --partitions gone")
    assert table.splitlines()[-1].split() == [
        *("g", "gone", "-", "-", "-", "-", "-", "-"),
        *("failed", "UNKNOWN_TOPIC_OR_PARTITION"),
    ]
    assert shell.code == 1
    assert shell.admin.known_groups["g"].offsets[A0] == CommittedOffset(2, 1, "m")


def test_json_has_every_value(shell: WriteShell) -> None:
    document = shell.json("reset g --to-earliest --partitions a:0")
    assert document["schema"] == "coterie.groups.reset"
    assert document["summary"] == {
        "ok": 1,
        "failed": 0,
        "unit": "groups",
        "executed": False,
        "snapshot_id": None,
    }
    assert document["items"] == [
        {
            "item_id": "reset:g",
            "group_id": "g",
            "topic": "a",
            "partition": 0,
            "prior_offset": 5,
            "new_offset": 2,
            "delta": -3,
            "lag_after": 8,
            "notes": [],
            "result": "planned",
            "log_start_offset": 2,
            "log_end_offset": 10,
            "leader_epoch": 1,
            "metadata": "m",
            "error": None,
        }
    ]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("reset --to-earliest", "no group is selected"),
        ("reset g --to-datetime yesterday", "is not a date-time"),
        ("reset g --by-duration 1hour", "is not a duration"),
        ("reset g --to-latest --partitions a:x", "is not a topic or topic"),
        ("reset g --from-file HOME/nowhere", "cannot read"),
        ("reset g --from-file pyproject.toml", "pyproject.toml: line 1: 1 columns"),
        ("offsets import pyproject.toml", "pyproject.toml: line 1: 1 columns"),
    ],
)
def test_a_usage_error_returns_exit_code_2(
    shell: WriteShell, line: str, message: str
) -> None:
    shell(line)
    assert shell.code == 2
    assert message in shell.error


def test_a_named_group_that_options_exclude_is_a_failure(shell: WriteShell) -> None:
    shell("reset g --to-earliest --topic other --execute")
    assert shell.code == 1
    assert "no group is selected; the selection options exclude g\n" in shell.error
    assert "group g: EXCLUDED" in shell.error


def test_a_named_group_is_reported_when_only_others_are_selected(
    shell: WriteShell,
) -> None:
    shell("reset g h --to-earliest --topic b")
    assert shell.code == 0
    assert "1 group is selected: g; the selection options exclude h" in shell.error


@pytest.mark.parametrize(
    ("line", "form"),
    [
        ("reset g --to-earliest --topic a:0,1", "--partitions a:0,1"),
        ("offsets delete g --topic a:0", "--partitions a:0"),
        ("delete g --topic a:0", "write a\n"),
    ],
)
def test_partitions_in_topic_are_refused_with_the_form_to_write(
    shell: WriteShell, line: str, form: str
) -> None:
    shell(line)
    assert shell.code == 2
    assert "partitions of 'a': write" in shell.error
    assert form in shell.error


def test_a_named_group_that_does_not_exist_is_a_failure(shell: WriteShell) -> None:
    shell("reset missing --to-earliest --topic orders")
    assert shell.code == 1
    assert "the group does not exist" in shell.error


@pytest.mark.parametrize("line", ["reset g", "reset g --to-latest --to-earliest"])
def test_exactly_one_scenario_is_required(shell: WriteShell, line: str) -> None:
    with pytest.raises(SystemExit) as exited:
        shell(line)
    assert exited.value.code == 2


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("answer", "is_written"), [("y\n", True), ("\n", False), ("", False)]
)
def test_confirmation_is_requested_at_a_terminal(
    shell: WriteShell, monkeypatch: pytest.MonkeyPatch, answer: str, is_written: bool
) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal(answer))
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    shell.write("reset g --to-earliest")
    shown = re.sub(r"\x1b\[\dm", "", terminal.getvalue())
    assert EARLIEST in shown
    assert "Write to 1 group? [y/N]" in shown
    assert ("nothing was written" in shown) is not is_written
    assert ("alter_group_offsets" in shell.admin.calls) is is_written


class Interrupted(Terminal):
    def readline(self, *_: object) -> str:  # type: ignore[override]
        signal.raise_signal(signal.SIGINT)
        return "y\n"


def test_ctrl_c_at_the_confirmation_ends_the_command(
    shell: WriteShell, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = signal.getsignal(signal.SIGINT)
    monkeypatch.setattr(sys, "stdin", Interrupted())
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    shell.write("reset g --to-earliest")
    assert shell.code == 130
    assert terminal.getvalue().endswith(
        "Write to 1 group? [y/N] \nnothing was written\n"
    )
    assert "alter_group_offsets" not in shell.admin.calls
    assert shell.snapshot_ids == []
    assert signal.getsignal(signal.SIGINT) is before


def test_an_interrupted_write_shows_how_to_undo_it(
    shell: WriteShell, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def interrupt(*_: object) -> None:
        signal.raise_signal(signal.SIGINT)
        await asyncio.Event().wait()

    monkeypatch.setattr(shell.admin, "alter_group_offsets", interrupt)
    shell.write("reset g h --to-earliest")
    assert shell.code == 130
    (snapshot_id,) = shell.snapshot_ids
    assert shell.error.endswith(
        "interrupted after 0 of 2 groups; to undo: coterie groups undo "
        f"{snapshot_id} --execute\n"
    )


def test_yes_writes_without_confirmation(
    shell: WriteShell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal(""))
    monkeypatch.setattr(sys, "stderr", Terminal())
    shell("reset g --to-earliest --yes --snapshots HOME/snapshots")
    assert "alter_group_offsets" in shell.admin.calls


def test_nothing_is_written_when_the_snapshot_cannot_be_saved(
    shell: WriteShell,
) -> None:
    (shell.home / "file").write_text("")
    shell("reset g --to-earliest --execute --snapshots HOME/file")
    assert shell.code == 1
    assert "no group is changed without a snapshot" in shell.error
    assert "undo" not in shell.error
    assert "alter_group_offsets" not in shell.admin.calls


def test_snapshots_are_saved_below_the_state_directory(shell: WriteShell) -> None:
    shell("reset g --to-earliest --execute")
    (snapshot,) = (shell.home / "state" / "coterie" / "snapshots").iterdir()
    assert snapshot.suffix == ".jsonl"


@pytest.mark.parametrize("columns", ["GROUP,OLD", "GROUP --output json"])
def test_columns_are_checked_before_anything_is_written(
    shell: WriteShell, columns: str
) -> None:
    shell.write(f"reset g --to-earliest --columns {columns}")
    assert shell.code == 2
    assert "--columns: " in shell.error
    assert "alter_group_offsets" not in shell.admin.calls


def test_an_unknown_group_fails_and_has_no_partition_rows(shell: WriteShell) -> None:
    assert shell("reset nobody --to-earliest") == ""
    assert shell.code == 1
    assert "error: group nobody: GROUP_ID_NOT_FOUND: there is no" in shell.error
    assert "planned" in shell("reset nobody --to-earliest --partitions a:0")
    assert shell.code == 0


def test_a_group_is_cloned(shell: WriteShell) -> None:
    shell.write("clone g new")
    assert shell.code == 0
    assert shell.error.startswith("new gets the offsets of g\n")
    assert (
        shell.admin.known_groups["new"].offsets == shell.admin.known_groups["g"].offsets
    )


def test_only_selected_topics_are_cloned(shell: WriteShell) -> None:
    shell.write("clone g h --topic b")
    assert shell.admin.known_groups["h"].offsets == {
        A0: CommittedOffset(9),
        B0: CommittedOffset(7),
    }


def test_a_topic_without_offsets_cannot_be_cloned(shell: WriteShell) -> None:
    shell("clone g h --topic b --topic typo")
    assert shell.code == 1
    assert "group g has no offsets of topic typo to clone" in shell.error
    shell("clone g h --topic b:0")
    assert shell.code == 2


def test_a_missing_group_cannot_be_cloned(shell: WriteShell) -> None:
    shell("clone nobody new")
    assert "group nobody: GROUP_ID_NOT_FOUND: there is no group nobody\n" in shell.error
    assert "there is no group 'nobody': `coterie groups list`" in shell.error
    assert "'new'" not in shell.error


def test_a_group_cannot_be_cloned_to_itself(shell: WriteShell) -> None:
    shell("clone g g")
    assert (shell.code, shell.error) == (
        2,
        "coterie: SOURCE and DESTINATION must be two different groups\n",
    )
