"""Commands about share groups and streams groups."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from coterie.client.admin.groups import (
    GroupState,
    GroupType,
    MemberDescription,
    Task,
    Tasks,
    Topology,
)
from coterie.client.admin.share_groups import ShareOffset
from coterie.errors import UnsupportedGroupType
from coterie.types import TopicPartition
from tests.operations.fake_admin import FakeLog, group, member
from tests.operations.share_cluster import ShareCluster

from .cli_cluster import CliAdmin, Shell, make_shell

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


@dataclass
class CliShareAdmin(ShareCluster, CliAdmin):
    """A fake admin client of a cluster with share groups."""


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    admin = CliShareAdmin(known_logs={T0: FakeLog.of(0, 100), T1: FakeLog.of(0, 50)})
    admin.add(group("orders", member("m", ("t", 0)), type=GroupType.CONSUMER), t=90)
    admin.add_share_group("shared", {T0: ShareOffset(40, 1, 55), T1: None})
    streaming = MemberDescription(
        "m1",
        "app",
        "/10.0.0.1",
        (T0,),
        epoch=3,
        tasks=Tasks((Task("0", 0),), (Task("0", 1),)),
        target_tasks=Tasks((Task("0", 0), Task("0", 1))),
        topology_epoch=2,
        process_id="p-1",
        is_classic=False,
    )
    described = group(
        "streamed",
        streaming,
        state=GroupState.NOT_READY,
        type=GroupType.STREAMS,
        protocol_type="streams",
    )
    topology = Topology(2)
    admin.add(replace(described, topology=topology, group_epoch=3, assignor=""), t=10)
    return make_shell(admin, monkeypatch, capsys)


def test_a_table_of_share_groups_alone_is_that_of_kafkas_tool(shell: Shell) -> None:
    assert shell("groups describe shared") == (
        "GROUP   TOPIC  PARTITION  START-OFFSET  LOG-END-OFFSET  LAG\n"
        "shared  t              0            40             100   55\n"
        "shared  t              1             -              50    -\n"
    )
    assert (shell.code, shell.error) == (0, "no active members in shared\n")


def test_a_table_of_several_types_has_both_offsets(shell: Shell) -> None:
    lines = shell("groups describe --all --columns group,current-offset,start-offset")
    assert lines == (
        "GROUP     CURRENT-OFFSET  START-OFFSET\n"
        "orders                90             -\n"
        "shared                 -            40\n"
        "shared                 -             -\n"
        "streamed              10             -\n"
    )
    assert shell.code == 0
    assert "topics are missing or wrongly partitioned for streamed" in shell.error


def test_json_has_the_start_offset_of_a_share_group_alone(shell: Shell) -> None:
    rows = shell.json("groups describe orders shared")["items"]
    offsets = [(each["committed_offset"], each["start_offset"]) for each in rows]
    assert offsets == [(90, None), (None, 40), (None, None)]
    assert [each["leader_epoch"] for each in rows] == [None, 1, None]
    assert [each["lag"] for each in rows] == [10, 55, None]


def test_the_members_of_a_streams_group_have_tasks(shell: Shell) -> None:
    assert shell("groups members streamed") == (
        "GROUP     CONSUMER-ID  INSTANCE-ID  HOST       CLIENT-ID  #PARTITIONS  TASKS\n"
        "streamed  m1           -            /10.0.0.1  app                  1  "
        "0_0 standby:0_1\n"
    )
    (item,) = shell.json("groups members streamed")["items"]
    assert (item["protocol"], item["process_id"]) == ("streams", "p-1")
    assert item["target_tasks"]["active"] == ["0_0", "0_1"]
    assert item["topology_epoch"] == 2


def test_the_lag_of_all_groups_is_summed(shell: Shell) -> None:
    rows = shell.json("groups lag")["items"]
    assert [(each["group_id"], each["lag"]) for each in rows] == [
        ("orders", 10),
        ("shared", 55),
        ("streamed", 90),
    ]
    assert shell.code == 0


def test_a_group_that_no_broker_can_describe_is_left_out(shell: Shell) -> None:
    too_old = UnsupportedGroupType("this broker cannot describe shared")
    shell.admin.group_errors["shared"] = too_old
    for line in ("describe", "lag", "members", "offsets list --all", "reset --all"):
        shell(f"groups {line}" + " --to-earliest" * line.startswith("reset"))
        note = "1 group is left out, of a type without this operation: shared"
        assert note in shell.error, line
        # The group orders has members, so that it cannot be reset.
        assert shell.code == (1 if line.startswith("reset") else 0), line
    shell("groups describe orders shared")
    assert shell.code == 1
    assert "this broker cannot describe shared" in shell.error


def test_offsets_of_one_partition_are_not_deleted_from_share_groups(
    shell: Shell,
) -> None:
    admin = shell.admin
    assert isinstance(admin, CliShareAdmin)
    admin.starts["shared"][T1] = ShareOffset(1)
    shell("groups offsets delete --glob shar* --partitions t:0")
    assert shell.code == 0
    assert "1 group is left out, of a type without this operation" in shell.error
    shell("groups offsets delete shared --partitions t:0")
    assert shell.code == 1
    assert "deleted by topic" in shell.error


def test_start_offsets_are_exported_as_offsets(shell: Shell) -> None:
    out = shell("groups offsets export shared --format csv")
    assert out == "t,0,40\n"
