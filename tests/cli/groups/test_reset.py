"""`coterie groups reset`, and what every command that writes has in common."""

from __future__ import annotations

import io
import sys

import pytest

from coterie.client.admin.offset_values import CommittedOffset
from coterie.errors import ApiError, ConnectionLost, CoterieError
from coterie.wire.error_codes import ErrorCode
from tests.operations.world import A0, B0

from .write_shell import WriteShell, shell

__all__ = ["shell"]

EARLIEST = """\
GROUP  TOPIC  PARTITION  PRIOR  NEW  DELTA  LAG-AFTER  NOTE  RESULT
g      a              0      5    2     -3          8  -     planned
g      b              0      7    0     -7          7  -     planned
"""


@pytest.mark.fact("C-60")
def test_nothing_is_written_without_execute(shell: WriteShell) -> None:
    assert shell("reset g --to-earliest") == EARLIEST
    assert shell.code == 0
    assert shell.error == (
        "1 group is selected: g\nnothing was written: say --execute to do it\n"
    )
    assert "alter_group_offsets" not in shell.admin.calls


def test_the_selection_is_told_before_it_is_done(shell: WriteShell) -> None:
    assert shell.write("reset g h --to-earliest") == (
        "GROUP  TOPIC  PARTITION  PRIOR  NEW  DELTA  LAG-AFTER  NOTE  RESULT\n"
        "g      a              0      5    2     -3          8  -     done\n"
        "g      b              0      7    0     -7          7  -     done\n"
        "h      a              0      9    2     -7          8  -     done\n"
    )
    first, last = shell.error.splitlines()
    assert first == "2 groups are selected: g, h"
    (kept,) = shell.snapshot_ids
    assert last == f"to take it back: coterie groups undo {kept} --execute"
    assert shell.admin.groups["g"].offsets[A0] == CommittedOffset(2, 1, "m")


@pytest.mark.parametrize(
    ("error", "may_be_undone"),
    [
        (ApiError(ErrorCode.GROUP_AUTHORIZATION_FAILED), False),
        (ConnectionLost("no answer"), True),
    ],
)
def test_what_was_not_written_is_not_offered_to_be_taken_back(
    shell: WriteShell,
    monkeypatch: pytest.MonkeyPatch,
    error: CoterieError,
    may_be_undone: bool,
) -> None:
    """Without an answer it may have been written."""

    async def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(shell.admin, "alter_group_offsets", fail)
    shell.write("reset g --to-earliest")
    assert shell.code == 1
    assert ("to take it back" in shell.error) is may_be_undone


@pytest.mark.fact("C-61")
def test_a_group_with_members_is_an_error_beside_the_others(shell: WriteShell) -> None:
    shell.write("reset g live --to-earliest")
    assert shell.code == 1
    assert (
        "error: group live: NON_EMPTY_GROUP: the group has members, its state is"
        " Stable: stop them, or remove them with `coterie groups remove-members`"
        in shell.error
    )
    assert shell.admin.groups["g"].offsets[B0] == CommittedOffset(0)


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
def test_every_scenario(shell: WriteShell, line: str, cells: str) -> None:
    table = shell(f"reset g {line} --partitions a:0")
    (row,) = table.splitlines()[1:]
    assert " ".join(row.split()) == f"g a 0 {cells}"


def test_what_does_not_change_is_not_written(shell: WriteShell) -> None:
    table = shell.write("reset g --to-current")
    assert "nothing to do" in table
    assert "there is nothing to do" in shell.error
    assert "alter_group_offsets" not in shell.admin.calls


@pytest.mark.fact("C-63")
def test_a_file_says_where_to(shell: WriteShell) -> None:
    (shell.home / "one.csv").write_text("a,0,3\n")
    assert "g      a              0      5    3" in shell(
        "reset g --from-file HOME/one.csv"
    )
    (shell.home / "many.csv").write_text("g,a,0,3\nh,a,0,4\n")
    assert len(shell("reset g h --from-file HOME/many.csv").splitlines()) == 3
    shell("reset g nobody --from-file HOME/many.csv")
    assert shell.code == 2
    assert shell.error.endswith("has no line for group nobody\n")


def test_metadata_can_be_dropped(shell: WriteShell) -> None:
    shell.write("reset g --to-offset 3 --partitions a --drop-metadata")
    assert shell.admin.groups["g"].offsets[A0] == CommittedOffset(3)


def test_a_lost_topic_has_a_row_of_its_own(shell: WriteShell) -> None:
    table = shell.write("reset g --to-earliest --partitions a:0 --partitions gone")
    assert table.splitlines()[-1].split() == [
        *("g", "gone", "-", "-", "-", "-", "-", "-"),
        *("failed", "UNKNOWN_TOPIC_OR_PARTITION"),
    ]
    assert shell.code == 1
    assert shell.admin.groups["g"].offsets[A0] == CommittedOffset(2, 1, "m")


def test_json_has_every_value(shell: WriteShell) -> None:
    document = shell.json("reset g --to-earliest --partitions a:0")
    assert document["schema"] == "coterie.groups.reset"
    assert document["summary"] == {
        "ok": 1,
        "failed": 0,
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
    ("line", "command"),
    [
        (
            "reset g h --to-earliest --partitions a:0,1",
            "--reset-offsets --group g --group h --topic a:0,1 --to-earliest --execute",
        ),
        (
            "reset g --shift-by=-1",
            "--reset-offsets --group g --all-topics --shift-by -1 --execute",
        ),
        ("delete g", "--delete --group g"),
        (
            "offsets delete g --partitions a",
            "--delete-offsets --group g --topic a",
        ),
        (
            "offsets set g a:0=3",
            "--reset-offsets --group g --topic a:0 --to-offset 3 --execute",
        ),
    ],
)
def test_how_to_do_it_with_kafkas_script(
    shell: WriteShell, line: str, command: str
) -> None:
    shell(f"{line} --print-kafka-command --bootstrap-server b:1")
    assert f"kafka-consumer-groups.sh --bootstrap-server b:1 {command}" in shell.error


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("reset --to-earliest", "no group was chosen"),
        ("reset g --to-datetime yesterday", "is not a date-time"),
        ("reset g --by-duration 1h", "is not a duration"),
        ("reset g --to-latest --partitions a:x", "names no partitions"),
        ("reset g --from-file HOME/nowhere", "cannot be read"),
    ],
)
def test_what_is_asked_for_wrongly_is_exit_code_2(
    shell: WriteShell, line: str, message: str
) -> None:
    shell(line)
    assert shell.code == 2
    assert message in shell.error


@pytest.mark.parametrize("line", ["reset g", "reset g --to-latest --to-earliest"])
def test_exactly_one_scenario_is_needed(shell: WriteShell, line: str) -> None:
    with pytest.raises(SystemExit) as left:
        shell(line)
    assert left.value.code == 2


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("answer", "is_done"), [("y\n", True), ("\n", False), ("", False)]
)
def test_somebody_at_a_terminal_is_asked(
    shell: WriteShell, monkeypatch: pytest.MonkeyPatch, answer: str, is_done: bool
) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal(answer))
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    shell.write("reset g --to-earliest")
    told = terminal.getvalue()
    assert EARLIEST in told
    assert "Write to 1 group? [y/N]" in told
    assert ("nothing was written" in told) is not is_done
    assert ("alter_group_offsets" in shell.admin.calls) is is_done


def test_yes_is_not_asked(shell: WriteShell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal(""))
    monkeypatch.setattr(sys, "stderr", Terminal())
    shell("reset g --to-earliest --yes --snapshots HOME/snapshots")
    assert "alter_group_offsets" in shell.admin.calls


def test_nothing_is_written_when_nothing_can_be_kept(shell: WriteShell) -> None:
    (shell.home / "file").write_text("")
    shell("reset g --to-earliest --execute --snapshots HOME/file")
    assert shell.code == 1
    assert "nothing is written to a group whose offsets cannot be kept" in shell.error
    assert "undo" not in shell.error
    assert "alter_group_offsets" not in shell.admin.calls


def test_snapshots_have_a_place_of_their_own(shell: WriteShell) -> None:
    shell("reset g --to-earliest --execute")
    (kept,) = (shell.home / "state" / "coterie" / "snapshots").iterdir()
    assert kept.suffix == ".jsonl"


def test_a_name_with_a_slip_in_it_is_no_success(shell: WriteShell) -> None:
    assert shell("reset nobody --to-earliest") == ""
    assert shell.code == 1
    assert "error: group nobody: GROUP_ID_NOT_FOUND: there is no" in shell.error
    assert "planned" in shell("reset nobody --to-earliest --partitions a:0")
    assert shell.code == 0
