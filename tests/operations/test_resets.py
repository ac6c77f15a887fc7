import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from coterie.client.admin.group_offsets import CommittedOffset
from coterie.client.admin.groups import GroupState
from coterie.client.admin.log_offsets import EARLIEST, LATEST, OffsetSpec
from coterie.errors import ConnectionLost, OperationRefused
from coterie.operations.resets import (
    GroupReset,
    ShiftBy,
    ToEarliest,
    ToLatest,
    ToRows,
    ToTime,
    plan_resets,
    write_offsets,
)
from coterie.operations.selection import TopicSelector
from coterie.types import TopicPartition
from tests.operations.cluster_model import ClusterModel, ModelGroup
from tests.operations.fake_admin import FakeLog

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


def cluster() -> ClusterModel:
    return ClusterModel(
        known_groups={
            "g": ModelGroup({A0: CommittedOffset(5, 1, "m"), B0: CommittedOffset(7)}),
            "h": ModelGroup({A0: CommittedOffset(9)}),
            "live": ModelGroup({A0: CommittedOffset(1)}, members=("m1",)),
        },
        known_logs={
            A0: FakeLog.of(2, 10, step_ms=1),
            A1: FakeLog.of(0, 4, step_ms=1),
            B0: FakeLog.of(0, 7, step_ms=1),
        },
    )


def rows(reset: GroupReset) -> list[tuple[str, int, int | None]]:
    return [
        (row.topic, row.partition, None if row.new is None else row.new.offset)
        for row in reset.rows
    ]


@pytest.mark.fact("C-61", "E29-07")
def test_only_groups_without_members_are_reset() -> None:
    model = cluster()
    wanted = dict.fromkeys(("live", "g", "nobody"), ToLatest())
    live, g, nobody = asyncio.run(plan_resets(model, wanted))
    assert isinstance(live.error, OperationRefused)
    assert "is inactive, but the current state is Stable" in str(live.error)
    assert live.rows == ()
    assert rows(g) == [("a", 0, 10), ("b", 0, 7)]
    assert nobody.current is not None
    assert (nobody.current.state, nobody.rows) == (GroupState.DEAD, ())


def test_a_scope_of_topics_creates_commits_and_reports_missing_topics() -> None:
    scope = (TopicSelector("a"), TopicSelector("gone"))
    (reset,) = asyncio.run(plan_resets(cluster(), {"new": ToEarliest()}, scope))
    assert rows(reset) == [("a", 0, 2), ("a", 1, 0), ("gone", -1, None)]
    assert list(reset.writes) == [A0, A1]


def test_the_rows_of_a_file_are_the_scope_of_the_reset() -> None:
    scope = (TopicSelector("gone"),)
    scenario = ToRows({A1: 3, TopicPartition("gone", 0): 1})
    (reset,) = asyncio.run(plan_resets(cluster(), {"g": scenario}, scope))
    assert rows(reset) == [("a", 1, 3), ("gone", 0, None)]


def test_log_offsets_of_each_time_are_fetched_once() -> None:
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


def test_one_unavailable_coordinator_fails_its_own_groups_only() -> None:
    model = cluster()
    model.broken["h"] = ConnectionLost("broker 2 hung up")
    h, g = asyncio.run(plan_resets(model, {"h": ShiftBy(1), "g": ShiftBy(-1)}))
    assert h.error is model.broken["h"]
    assert rows(g) == [("a", 0, 4), ("b", 0, 6)]


def test_a_partition_in_an_open_transaction_is_not_written() -> None:
    model = cluster()
    model.known_groups["g"].unstable.add(A0)
    (reset,) = asyncio.run(plan_resets(model, {"g": ToEarliest()}))
    assert rows(reset) == [("a", 0, None), ("b", 0, 0)]
    assert list(reset.writes) == [B0]


@pytest.mark.parametrize("spec", [EARLIEST, LATEST])
def test_an_error_of_either_end_of_the_log_is_the_error_of_the_partition(
    spec: OffsetSpec,
) -> None:
    model = cluster()
    lists = model.list_offsets

    async def fail(wanted: Mapping[TopicPartition, OffsetSpec]) -> Any:
        model.log_errors = {A0: lost} if spec in wanted.values() else {}
        return await lists(wanted)

    lost = ConnectionLost("broker 2 hung up")
    model.list_offsets = fail  # type: ignore[method-assign, assignment]
    scenario = ToEarliest() if spec is EARLIEST else ToLatest()
    (reset,) = asyncio.run(plan_resets(model, {"g": scenario}))
    by_partition = {(row.topic, row.partition): row for row in reset.rows}
    assert by_partition["a", 0].new is None
    assert "hung up" in str(by_partition["a", 0])
    assert A0 not in reset.writes


def test_only_changed_offsets_are_written() -> None:
    model = cluster()
    (reset,) = asyncio.run(plan_resets(model, {"g": ToLatest()}))
    written = asyncio.run(write_offsets(model, "g", reset.writes))
    assert list(written.values) == [A0]
    assert model.known_groups["g"].offsets == {
        A0: CommittedOffset(10, None, "m"),
        B0: CommittedOffset(7),
    }


def test_without_offsets_nothing_is_written() -> None:
    model = cluster()
    assert not asyncio.run(write_offsets(model, "g", {})).values
    assert model.calls == []


def test_offsets_are_kept_when_a_member_joins_before_the_write() -> None:
    model = cluster()
    (reset,) = asyncio.run(plan_resets(model, {"g": ToLatest()}))
    model.known_groups["g"].join("m1")
    written = asyncio.run(write_offsets(model, "g", reset.writes))
    assert [str(error) for error in written.errors.values()] == ["UNKNOWN_MEMBER_ID"]


def test_an_error_of_the_whole_write_is_the_error_of_each_partition() -> None:
    model = cluster()
    (reset,) = asyncio.run(plan_resets(model, {"g": ToEarliest()}))
    model.broken["g"] = ConnectionLost("gone")
    written = asyncio.run(write_offsets(model, "g", reset.writes))
    assert dict(written.errors) == dict.fromkeys((A0, B0), model.broken["g"])


def test_no_request_is_sent_without_groups() -> None:
    model = cluster()
    assert asyncio.run(plan_resets(model, {})) == ()
    assert model.calls == []
