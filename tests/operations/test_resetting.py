import asyncio

import pytest

from coterie.client.admin.group_values import GroupState
from coterie.client.admin.offset_values import CommittedOffset
from coterie.errors import ConnectionLost, OperationRefused
from coterie.operations.reset import ShiftBy, ToEarliest, ToLatest, ToRows, ToTime
from coterie.operations.resetting import GroupReset, plan_resets, write_offsets
from coterie.operations.scope import TopicSelector
from coterie.types import TopicPartition
from tests.operations.cluster_model import ClusterModel, ModelGroup, ModelLog

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


def cluster() -> ClusterModel:
    return ClusterModel(
        groups={
            "g": ModelGroup({A0: CommittedOffset(5, 1, "m"), B0: CommittedOffset(7)}),
            "h": ModelGroup({A0: CommittedOffset(9)}),
            "live": ModelGroup({A0: CommittedOffset(1)}, members=("m1",)),
        },
        logs={A0: ModelLog(2, 10), A1: ModelLog(0, 4), B0: ModelLog(0, 7)},
    )


def rows(reset: GroupReset) -> list[tuple[str, int, int | None]]:
    return [
        (row.topic, row.partition, None if row.new is None else row.new.offset)
        for row in reset.rows
    ]


@pytest.mark.fact("C-61", "E29-07")
def test_only_groups_without_members_are_reset_each_for_itself() -> None:
    model = cluster()
    wanted = dict.fromkeys(("live", "g", "nobody"), ToLatest())
    live, g, nobody = asyncio.run(plan_resets(model, wanted))
    assert isinstance(live.error, OperationRefused)
    assert "is inactive, but the current state is Stable" in str(live.error)
    assert live.rows == ()
    assert rows(g) == [("a", 0, 10), ("b", 0, 7)]
    assert nobody.seen is not None
    assert (nobody.seen.state, nobody.rows) == (GroupState.DEAD, ())


def test_a_scope_of_topics_makes_commits_and_tells_of_missing_topics() -> None:
    scope = (TopicSelector("a"), TopicSelector("gone"))
    (reset,) = asyncio.run(plan_resets(cluster(), {"new": ToEarliest()}, scope))
    assert rows(reset) == [("a", 0, 2), ("a", 1, 0), ("gone", -1, None)]
    assert list(reset.writes) == [A0, A1]


def test_rows_of_a_file_are_their_own_scope() -> None:
    scope = (TopicSelector("gone"),)
    scenario = ToRows({A1: 3, TopicPartition("gone", 0): 1})
    (reset,) = asyncio.run(plan_resets(cluster(), {"g": scenario}, scope))
    assert rows(reset) == [("a", 1, 3), ("gone", 0, None)]


def test_times_are_asked_for_once_each() -> None:
    model = cluster()
    wanted = {"g": ToTime(3), "h": ToTime(3), "new": ToTime(8)}
    resets = asyncio.run(plan_resets(model, wanted, (TopicSelector("a", (0,)),)))
    assert [rows(each) for each in resets] == [
        [("a", 0, 3)],
        [("a", 0, 3)],
        [("a", 0, 8)],
    ]
    assert model.calls.count("list_offsets") == 4
    ends_after_commits = model.calls.index("list_offsets")
    assert model.calls.index("list_groups_offsets") < ends_after_commits


def test_one_broken_coordinator_hides_nothing_else() -> None:
    model = cluster()
    model.broken["h"] = ConnectionLost("broker 2 hung up")
    h, g = asyncio.run(plan_resets(model, {"h": ShiftBy(1), "g": ShiftBy(-1)}))
    assert h.error is model.broken["h"]
    assert rows(g) == [("a", 0, 4), ("b", 0, 6)]


def test_what_is_in_an_open_transaction_is_left_alone() -> None:
    model = cluster()
    model.groups["g"].unstable.add(A0)
    (reset,) = asyncio.run(plan_resets(model, {"g": ToEarliest()}))
    assert rows(reset) == [("a", 0, None), ("b", 0, 0)]
    assert list(reset.writes) == [B0]


def test_only_what_changes_is_written() -> None:
    model = cluster()
    (reset,) = asyncio.run(plan_resets(model, {"g": ToLatest()}))
    written = asyncio.run(write_offsets(model, "g", reset.writes))
    assert list(written.values) == [A0]
    assert model.groups["g"].offsets == {
        A0: CommittedOffset(10, None, "m"),
        B0: CommittedOffset(7),
    }


def test_a_member_that_came_meanwhile_keeps_its_offsets() -> None:
    model = cluster()
    (reset,) = asyncio.run(plan_resets(model, {"g": ToLatest()}))
    model.groups["g"].join("m1")
    written = asyncio.run(write_offsets(model, "g", reset.writes))
    assert [str(error) for error in written.errors.values()] == ["UNKNOWN_MEMBER_ID"]


def test_an_error_of_the_whole_write_is_every_partitions() -> None:
    model = cluster()
    (reset,) = asyncio.run(plan_resets(model, {"g": ToEarliest()}))
    model.broken["g"] = ConnectionLost("gone")
    written = asyncio.run(write_offsets(model, "g", reset.writes))
    assert dict(written.errors) == dict.fromkeys((A0, B0), model.broken["g"])


def test_nothing_to_do_asks_nothing() -> None:
    model = cluster()
    assert asyncio.run(plan_resets(model, {})) == ()
    assert model.calls == []
