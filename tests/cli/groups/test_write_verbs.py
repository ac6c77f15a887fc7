"""Delete, clone, remove-members, and offsets list, set, delete, export and import."""

from __future__ import annotations

import json

import pytest

from coterie.client.admin.offset_values import CommittedOffset
from tests.operations.world import A0, A1, B0

from .write_shell import WriteShell, shell

__all__ = ["shell"]


@pytest.mark.fact("D-40", "D-41")
def test_groups_are_deleted_and_each_failure_is_told(shell: WriteShell) -> None:
    assert shell.write("delete g live nobody h") == (
        "GROUP  TOPIC  PARTITION  PRIOR  NEW  DELTA  LAG-AFTER  NOTE     RESULT\n"
        "g      a              0      5  -    -      -          deleted  done\n"
        "g      b              0      7  -    -      -          deleted  done\n"
        "h      a              0      9  -    -      -          deleted  done\n"
    )
    assert shell.code == 1
    assert "group live: NON_EMPTY_GROUP: the group has members" in shell.error
    assert "group nobody: GROUP_ID_NOT_FOUND" in shell.error
    assert list(shell.admin.groups) == ["live"]


def test_delete_is_a_dry_run_by_default(shell: WriteShell) -> None:
    shell("delete g")
    assert shell.code == 0
    assert "g" in shell.admin.groups


def test_a_group_without_offsets_can_be_deleted(shell: WriteShell) -> None:
    shell.admin.groups["g"].offsets.clear()
    (row,) = shell.write("delete g").splitlines()[1:]
    assert row.split() == ["g", *"-------", "done"]
    assert "g" not in shell.admin.groups


def test_a_group_is_cloned(shell: WriteShell) -> None:
    shell.write("clone g new")
    assert shell.code == 0
    assert shell.error.startswith("new gets the offsets of g\n")
    assert shell.admin.groups["new"].offsets == shell.admin.groups["g"].offsets


def test_some_topics_are_cloned(shell: WriteShell) -> None:
    shell.write("clone g h --topic b")
    assert shell.admin.groups["h"].offsets == {
        A0: CommittedOffset(9),
        B0: CommittedOffset(7),
    }


def test_a_group_is_no_clone_of_itself(shell: WriteShell) -> None:
    shell("clone g g")
    assert (shell.code, shell.error) == (
        2,
        "coterie: a group is no clone of itself; name two\n",
    )


def test_members_are_removed(shell: WriteShell) -> None:
    assert shell.write("remove-members live --member m1") == (
        "GROUP  CONSUMER-ID  INSTANCE-ID  RESULT\n"
        "live   m1           -            done\n"
    )
    assert shell.error == "1 member of live is selected\n"
    assert shell.admin.groups["live"].members == ("m2",)
    assert shell("remove-members live --all").splitlines()[1].endswith("planned")
    shell("remove-members g --all")
    assert "there is nothing to do" in shell.error


@pytest.mark.parametrize("line", ["live", "live --all --member m1"])
def test_which_members_has_to_be_said(shell: WriteShell, line: str) -> None:
    shell(f"remove-members {line}")
    assert shell.code == 2
    assert "say either --all" in shell.error


def test_offsets_are_listed(shell: WriteShell) -> None:
    assert shell("offsets list g h nobody") == (
        "GROUP  TOPIC  PARTITION  OFFSET  LEADER-EPOCH  METADATA\n"
        "g      a              0       5             1  m\n"
        "g      b              0       7             -  -\n"
        "h      a              0       9             -  -\n"
    )
    assert shell.code == 1
    assert "group nobody: GROUP_ID_NOT_FOUND" in shell.error
    assert len(shell("offsets list g --partitions a").splitlines()) == 2


def test_an_offset_in_an_open_transaction_is_an_error(shell: WriteShell) -> None:
    shell.admin.groups["g"].unstable.add(B0)
    last = shell("offsets list g").splitlines()[-1]
    assert last.split() == ["g", "b", "0", *"---", "UNSTABLE_OFFSET_COMMIT"]
    assert shell.code == 1


def test_offsets_are_set_exactly(shell: WriteShell) -> None:
    table = shell.write("offsets set g a:0=99 a:1=0 --metadata mine")
    assert "out-of-range,skips" in table
    assert shell.admin.groups["g"].offsets == {
        A0: CommittedOffset(99, None, "mine"),
        A1: CommittedOffset(0, None, "mine"),
        B0: CommittedOffset(7),
    }


def test_metadata_that_is_not_given_stays(shell: WriteShell) -> None:
    shell.write("offsets set g a:0=4")
    assert shell.admin.groups["g"].offsets[A0] == CommittedOffset(4, 1, "m")


def test_a_partition_that_is_not_there_is_an_error_before(shell: WriteShell) -> None:
    table = shell("offsets set g gone:0=4 a:0=4")
    assert "UNKNOWN_TOPIC_OR_PARTITION" in table
    assert shell.code == 1


@pytest.mark.parametrize(
    "text", ["a", "a:0", "a=1", "a:0=", "a:0=x", "a:0,1=5", "=1", "a:0=1 a:0=2"]
)
def test_nonsense_sets_nothing(shell: WriteShell, text: str) -> None:
    shell(f"offsets set g {text}")
    assert shell.code == 2
    assert "sets no offset" in shell.error or "twice" in shell.error


def test_offsets_are_deleted(shell: WriteShell) -> None:
    table = shell.write("offsets delete g --partitions a:0,1")
    assert [row.split()[-2:] for row in table.splitlines()[1:]] == [
        ["deleted", "done"],
        ["to", "do"],
    ]
    assert list(shell.admin.groups["g"].offsets) == [B0]
    shell("offsets delete g")
    assert shell.code == 2
    assert "no partitions were chosen" in shell.error


def test_what_is_exported_can_be_imported(shell: WriteShell) -> None:
    before = dict(shell.admin.groups["g"].offsets)
    shell("offsets export g h --to HOME/offsets.json")
    assert shell.error == "offsets of 2 groups that were exported: 3\n"
    shell.write("delete g")
    shell.write("offsets import HOME/offsets.json")
    assert shell.code == 0
    assert shell.admin.groups["g"].offsets == before
    shell.write("offsets import HOME/offsets.json --group g --as new")
    assert shell.admin.groups["new"].offsets == before


def test_an_export_goes_to_stdout_unless_told_otherwise(shell: WriteShell) -> None:
    document = json.loads(shell("offsets export h"))
    assert list(document)[:2] == ["schema", "schema_version"]
    assert document["groups"] == [
        {
            "group_id": "h",
            "offsets": [
                {
                    "topic": "a",
                    "partition": 0,
                    "offset": 9,
                    "leader_epoch": None,
                    "metadata": "",
                }
            ],
        }
    ]


@pytest.mark.fact("C-63")
def test_csv_is_that_of_kafkas_script(shell: WriteShell) -> None:
    assert shell("offsets export g --format csv") == "a,0,5\nb,0,7\n"
    assert shell("offsets export h g --format csv") == "g,a,0,5\ng,b,0,7\nh,a,0,9\n"
    shell("offsets export g --format csv --to HOME/g.csv")
    shell.write("offsets import HOME/g.csv --group new")
    assert shell.admin.groups["new"].offsets == {
        A0: CommittedOffset(5),
        B0: CommittedOffset(7),
    }


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("a,0,1\n", "", "needs exactly one group"),
        ("", "", "there are no offsets"),
        ("g,a,0,1\n", "--group h", "has no offsets of 'h'"),
        ("g,a,0,1\nh,a,0,1\n", "--as new", "--as is for one group"),
        ("{}", "", "not a 'coterie.offsets'"),
    ],
)
def test_a_file_that_does_not_fit_is_exit_code_2(
    shell: WriteShell, text: str, line: str, message: str
) -> None:
    (shell.home / "file").write_text(text)
    shell(f"offsets import HOME/file {line}")
    assert shell.code == 2
    assert message in shell.error


def test_a_file_that_is_there_is_not_overwritten(shell: WriteShell) -> None:
    (shell.home / "file").write_text("precious")
    shell("offsets export g --to HOME/file")
    assert shell.code == 2
    assert (shell.home / "file").read_text() == "precious"
