"""`coterie groups offsets`: list, set, delete, export and import."""

from __future__ import annotations

import json

import pytest

from coterie.client.admin.group_offsets import CommittedOffset
from coterie.types import TopicPartition
from tests.operations.small_cluster import A0, A1, B0

from .write_shell import WriteShell, shell

__all__ = ["shell"]


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
    shell.admin.known_groups["g"].unstable.add(B0)
    last = shell("offsets list g").splitlines()[-1]
    assert last.split() == ["g", "b", "0", *"---", "UNSTABLE_OFFSET_COMMIT"]
    assert shell.code == 1


def test_offsets_are_set_to_the_given_values(shell: WriteShell) -> None:
    table = shell.write("offsets set g a:0=99 a:1=0 --metadata mine")
    assert "out-of-range,skips" in table
    assert shell.admin.known_groups["g"].offsets == {
        A0: CommittedOffset(99, None, "mine"),
        A1: CommittedOffset(0, None, "mine"),
        B0: CommittedOffset(7),
    }


def test_metadata_is_kept_by_default(shell: WriteShell) -> None:
    shell.write("offsets set g a:0=4")
    assert shell.admin.known_groups["g"].offsets[A0] == CommittedOffset(4, 1, "m")


def test_the_preview_reports_an_unknown_partition(shell: WriteShell) -> None:
    table = shell("offsets set g gone:0=4 a:0=4")
    assert "UNKNOWN_TOPIC_OR_PARTITION" in table
    assert shell.code == 1


@pytest.mark.parametrize(
    "text", ["a", "a:0", "a=1", "a:0=", "a:0=x", "a:0,1=5", "=1", "a:0=1 a:0=2"]
)
def test_a_malformed_offset_is_a_usage_error(shell: WriteShell, text: str) -> None:
    shell(f"offsets set g {text}")
    assert shell.code == 2
    assert "is not TOPIC:P=OFFSET" in shell.error or "twice" in shell.error


def test_offsets_are_deleted(shell: WriteShell) -> None:
    table = shell.write("offsets delete g --partitions a:0,1")
    assert [row.split()[-2:] for row in table.splitlines()[1:]] == [
        ["deleted", "done"],
        ["to", "do"],
    ]
    assert list(shell.admin.known_groups["g"].offsets) == [B0]
    shell("offsets delete g")
    assert shell.code == 2
    assert "no partitions are selected" in shell.error


def test_exported_offsets_can_be_imported(shell: WriteShell) -> None:
    before = dict(shell.admin.known_groups["g"].offsets)
    shell("offsets export g h --to HOME/offsets.json")
    assert shell.error == "exported 3 offsets of 2 groups\n"
    shell.write("delete g")
    shell.write("offsets import HOME/offsets.json")
    assert shell.code == 0
    assert shell.admin.known_groups["g"].offsets == before
    shell.write("offsets import HOME/offsets.json --group g --as new")
    assert shell.admin.known_groups["new"].offsets == before


def test_an_export_is_printed_to_stdout_by_default(shell: WriteShell) -> None:
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
def test_csv_has_the_format_of_kafka_consumer_groups_sh(shell: WriteShell) -> None:
    assert shell("offsets export g --format csv") == "a,0,5\nb,0,7\n"
    assert shell("offsets export h g --format csv") == "g,a,0,5\ng,b,0,7\nh,a,0,9\n"
    shell("offsets export g --format csv --to HOME/g.csv")
    shell.write("offsets import HOME/g.csv --group new")
    assert shell.admin.known_groups["new"].offsets == {
        A0: CommittedOffset(5),
        B0: CommittedOffset(7),
    }


def test_the_counts_of_an_incomplete_export_are_those_of_its_offsets(
    shell: WriteShell,
) -> None:
    shell.admin.known_groups["g"].unstable.add(B0)
    shell("offsets export g nobody --to HOME/offsets.json")
    assert shell.code == 1
    assert "exported 1 offset of 1 group\n" in shell.error
    assert "ok=1 failed=2 (offsets and groups)\n" in shell.error


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_csv_with_a_byte_order_mark_is_imported_into_its_group(
    shell: WriteShell, encoding: str
) -> None:
    (shell.home / "g.csv").write_bytes("new,a,0,3\r\n".encode(encoding))
    shell.write("offsets import HOME/g.csv")
    assert shell.admin.known_groups["new"].offsets == {A0: CommittedOffset(3)}
    assert not [each for each in shell.admin.known_groups if "\ufeff" in each]


def test_offsets_of_a_group_with_a_line_feed_are_imported_into_it(
    shell: WriteShell,
) -> None:
    shell.admin.known_groups["g\nh"] = shell.admin.known_groups.pop("g")
    shell("offsets export --all --format csv --to HOME/all.csv")
    shell.admin.known_groups["h"].offsets.clear()
    shell.admin.known_groups["g\nh"].offsets.clear()
    shell.write("offsets import HOME/all.csv")
    assert shell.admin.known_groups["g\nh"].offsets == {
        A0: CommittedOffset(5),
        B0: CommittedOffset(7),
    }
    assert shell.admin.known_groups["h"].offsets == {A0: CommittedOffset(9)}


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("a,0,1\n", "", "needs exactly one selected group"),
        ("", "", "has no offsets"),
        ("g,a,0,1\n", "--group h", "has no offsets of 'h'"),
        ("g,a,0,1\nh,a,0,1\n", "--as new", "--as needs one group"),
        ("{}", "", "not a 'coterie.offsets'"),
    ],
)
def test_an_invalid_file_returns_exit_code_2(
    shell: WriteShell, text: str, line: str, message: str
) -> None:
    (shell.home / "file").write_text(text)
    shell(f"offsets import HOME/file {line}")
    assert shell.code == 2
    assert message in shell.error


def test_an_existing_file_is_not_overwritten(shell: WriteShell) -> None:
    (shell.home / "file").write_text("precious")
    shell("offsets export g --to HOME/file")
    assert shell.code == 2
    assert (shell.home / "file").read_text() == "precious"


def test_a_preview_refuses_what_the_coordinator_refuses(shell: WriteShell) -> None:
    shell.admin.known_groups["g"].offsets[TopicPartition("gone", 0)] = CommittedOffset(
        1
    )
    shell("offsets delete g --partitions gone")
    assert shell.code == 1
    assert "there is nothing to do" not in shell.error
    shell("offsets delete g --partitions misspelt")
    assert shell.code == 1
    table = shell("offsets delete g --partitions a:0,99")
    assert shell.code == 1
    assert "UNKNOWN_TOPIC_OR_PARTITION" in table.splitlines()[-1]
    shell("offsets delete h --partitions b")  # the topic exists
    assert shell.code == 0
    assert "there is nothing to do" in shell.error


def test_an_import_says_that_a_topic_was_created_again(shell: WriteShell) -> None:
    shell.admin.topic_ids = {"a": b"first id of 16 b", "b": b"other id of 16 b"}
    shell("offsets export g --to HOME/g.json")
    items = shell.json("offsets import HOME/g.json --as new")["items"]
    assert not any("recreated" in each["notes"] for each in items)
    shell.admin.topic_ids["a"] = b"second id of 16b"
    items = shell.json("offsets import HOME/g.json --as new")["items"]
    assert ["recreated" in each["notes"] for each in items] == [True, False]
    shell.admin.cluster_id = "another"
    items = shell.json("offsets import HOME/g.json --as new")["items"]
    assert not any("recreated" in each["notes"] for each in items)
