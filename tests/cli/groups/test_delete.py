"""`coterie groups delete` and `coterie groups remove-members`."""

from __future__ import annotations

import pytest

from coterie.client.admin.results import Results
from coterie.errors import ApiError, ConnectionLost, CoterieError, UnsupportedByBroker
from coterie.wire.error_codes import ErrorCode

from .write_shell import WriteShell, shell

__all__ = ["shell"]


@pytest.mark.fact("D-40", "D-41")
def test_groups_are_deleted_and_each_failure_is_reported(shell: WriteShell) -> None:
    assert shell.write("delete g live nobody h") == (
        "GROUP  TOPIC  PARTITION  PRIOR  NEW  DELTA  LAG-AFTER  NOTE     RESULT\n"
        "g      a              0      5  -    -      -          deleted  done\n"
        "g      b              0      7  -    -      -          deleted  done\n"
        "h      a              0      9  -    -      -          deleted  done\n"
    )
    assert shell.code == 1
    assert "group live: NON_EMPTY_GROUP: the group has members" in shell.error
    assert "group nobody: GROUP_ID_NOT_FOUND" in shell.error
    assert list(shell.admin.known_groups) == ["live"]


def test_delete_is_a_dry_run_by_default(shell: WriteShell) -> None:
    shell("delete g")
    assert shell.code == 0
    assert "g" in shell.admin.known_groups


def test_a_group_without_offsets_can_be_deleted(shell: WriteShell) -> None:
    shell.admin.known_groups["g"].offsets.clear()
    (row,) = shell.write("delete g").splitlines()[1:]
    assert row.split() == ["g", *"-------", "done"]
    assert "g" not in shell.admin.known_groups


def test_members_are_removed(shell: WriteShell) -> None:
    assert shell.write("remove-members live --member m1") == (
        "GROUP  CONSUMER-ID  INSTANCE-ID  RESULT\n"
        "live   m1           -            done\n"
    )
    assert shell.error == "1 member of live is selected\n"
    assert shell.admin.known_groups["live"].members == ("m2",)
    assert shell("remove-members live --all").splitlines()[1].endswith("planned")
    shell("remove-members g --all")
    assert "there is nothing to do" in shell.error


@pytest.mark.parametrize("line", ["live", "live --all --member m1"])
def test_remove_members_requires_member_ids_or_all_members(
    shell: WriteShell, line: str
) -> None:
    shell(f"remove-members {line}")
    assert shell.code == 2
    assert "use either --all" in shell.error


@pytest.mark.parametrize(
    "error",
    [ApiError(ErrorCode.NON_EMPTY_GROUP), UnsupportedByBroker("no DeleteGroups")],
)
def test_a_delete_that_changed_nothing_has_no_undo(
    shell: WriteShell, monkeypatch: pytest.MonkeyPatch, error: CoterieError
) -> None:
    async def refuse(ids: list[str]) -> Results[str, None]:
        return Results({}, dict.fromkeys(ids, error))

    monkeypatch.setattr(shell.admin, "delete_groups", refuse)
    shell.write("delete g h")
    assert shell.code == 1
    assert "undo" not in shell.error
    assert shell.snapshot_ids == []
    assert shell.error.endswith("ok=0 failed=2 (groups)\n")


def test_a_delete_with_an_unknown_outcome_says_so(
    shell: WriteShell, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def lose(_: list[str]) -> Results[str, None]:
        raise ConnectionLost("hung up")

    monkeypatch.setattr(shell.admin, "delete_groups", lose)
    shell.write("delete g h")
    assert "no broker confirmed the write to g, h; if it happened: " in shell.error
    assert f"coterie groups undo {shell.snapshot_ids[0]} --execute" in shell.error
    assert "to undo" not in shell.error


def test_groups_that_fail_alike_share_a_line(
    shell: WriteShell, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(ids: list[str]) -> Results[str, None]:
        return Results({}, dict.fromkeys(ids, ApiError(ErrorCode.NON_EMPTY_GROUP)))

    monkeypatch.setattr(shell.admin, "delete_groups", refuse)
    shell.write("delete g h")
    assert "2 groups (g, h) failed: NON_EMPTY_GROUP\n" in shell.error


def test_a_delete_and_its_undo_say_that_topics_may_be_hidden(shell: WriteShell) -> None:
    warning = "warning: g, h: this principal may not describe all topics: offsets of"
    shell.admin.hides_topics = True
    shell("delete g h")
    assert warning in shell.error
    shell.write("delete g h")
    assert warning in shell.error
    assert shell.error.count("warning") == 1
    undo = f"undo {shell.snapshot_ids[0]}"
    shell(f"{undo} --snapshots HOME/snapshots")
    assert "are not in the snapshot and are not restored" in shell.error
    shell.write(undo)
    assert "are not in the snapshot and are not restored" in shell.error


def test_a_planned_delete_says_that_topics_may_be_hidden(shell: WriteShell) -> None:
    shell.admin.hides_topics = True
    shell("plan HOME/plan.json delete g")
    assert "cannot be restored by undo" in shell.error
    shell("apply HOME/plan.json")
    assert "cannot be restored by undo" in shell.error
    shell.write("apply HOME/plan.json")
    assert "cannot be restored by undo" in shell.error
