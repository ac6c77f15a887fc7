from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from typing import Any

import pytest

from coterie.client.admin.group_calls import MemberToRemove
from coterie.client.admin.group_offsets import CommittedOffset
from coterie.client.admin.results import Results
from coterie.errors import (
    ApiError,
    AuthenticationFailed,
    ConnectionLost,
    CoterieError,
    OperationRefused,
    SettingError,
    UnsupportedByBroker,
)
from coterie.operations.apply import (
    apply_items,
    check_items,
)
from coterie.operations.plan_files import ItemResult, MemberEntry, PlanItem, Verdict
from coterie.operations.plans import (
    items_of,
    plan_clone,
    plan_delete_groups,
    plan_delete_offsets,
    plan_remove_members,
)
from coterie.operations.resets import ToEarliest, ToLatest
from coterie.operations.selection import TopicSelector
from coterie.operations.snapshots import SnapshotGroup
from coterie.types import TopicPartition
from coterie.wire.error_codes import ErrorCode
from tests.operations.cluster_model import ClusterModel, ModelGroup
from tests.operations.fake_admin import FakeLog
from tests.operations.small_cluster import (
    A0,
    A1,
    B0,
    MemorySnapshot,
    applied,
    reset_items,
    run,
    small_cluster,
)


def verdicts(results: tuple[ItemResult, ...]) -> list[Verdict]:
    return [each.verdict for each in results]


def delete_items(model: ClusterModel, *group_ids: str) -> tuple[PlanItem, ...]:
    return items_of(run(plan_delete_groups(model, group_ids)))


def test_a_plan_is_applied_after_its_old_offsets_are_saved() -> None:
    model, snapshot = small_cluster(), MemorySnapshot()
    items = reset_items(model, {"g": ToEarliest(), "h": ToEarliest()})
    assert verdicts(applied(model, items, snapshot)) == [Verdict.DONE, Verdict.DONE]
    assert model.known_groups["g"].offsets == {
        A0: CommittedOffset(2, 1, "m"),
        B0: CommittedOffset(0),
    }
    assert snapshot.groups[0].offsets_before == {
        A0: CommittedOffset(5, 1, "m"),
        B0: CommittedOffset(7),
    }
    assert [each.group_id for each in snapshot.groups] == ["g", "h"]


def test_a_check_of_a_plan_writes_nothing() -> None:
    model = small_cluster()
    items = reset_items(model, {"g": ToEarliest()})
    assert verdicts(run(check_items(model, items))) == [Verdict.READY]
    assert "alter_group_offsets" not in model.calls


def joined(model: ClusterModel) -> None:
    model.known_groups["g"].join("m")


def joined_and_left(model: ClusterModel) -> None:
    model.known_groups["g"].join("m")
    model.known_groups["g"].leave("m")


def committed(model: ClusterModel) -> None:
    model.known_groups["g"].offsets[A0] = CommittedOffset(6, 1, "m")


def committed_elsewhere(model: ClusterModel) -> None:
    model.known_groups["g"].offsets[A1] = CommittedOffset(0)


def committed_other_metadata(model: ClusterModel) -> None:
    model.known_groups["g"].offsets[A0] = CommittedOffset(5, 1, "other")


def began_a_transaction(model: ClusterModel) -> None:
    model.known_groups["g"].unstable.add(B0)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (joined, "state was Empty and is Stable"),
        (joined_and_left, "group epoch was 1 and is 3"),
        (committed, "a-0 was at 5 (epoch 1) and is at 6 (epoch 1)"),
        (committed_elsewhere, "a-1 was at no commit and is at 0"),
        (committed_other_metadata, "a-0 was committed again with other metadata"),
        (began_a_transaction, "b-0 cannot be read: UNSTABLE_OFFSET_COMMIT"),
    ],
)
@pytest.mark.parametrize("is_delete", [True, False])
def test_a_changed_group_is_refused(
    change: Callable[[ClusterModel], None], reason: str, is_delete: bool
) -> None:
    model, snapshot = small_cluster(), MemorySnapshot()
    items = (
        delete_items(model, "g")
        if is_delete
        else reset_items(model, {"g": ToEarliest()})
    )
    change(model)
    offsets = dict(model.known_groups["g"].offsets)
    (result,) = applied(model, items, snapshot)
    assert result.verdict is Verdict.REFUSED
    assert reason in result.reasons
    assert model.known_groups["g"].offsets == offsets
    assert snapshot.groups == []


def test_force_applies_a_stale_item_and_saves_the_old_offsets() -> None:
    model, snapshot = small_cluster(), MemorySnapshot()
    items = reset_items(model, {"g": ToEarliest()})
    committed(model)
    (result,) = applied(model, items, snapshot, force=True)
    assert result.verdict is Verdict.DONE
    assert snapshot.groups[0].offsets_before[A0] == CommittedOffset(6, 1, "m")


def test_force_does_not_override_members() -> None:
    model = small_cluster()
    items = reset_items(model, {"g": ToEarliest()})
    joined(model)
    (result,) = applied(model, items, force=True)
    assert result.verdict is Verdict.FAILED
    assert result.reasons[0] == "a-0: UNKNOWN_MEMBER_ID"


def test_a_failed_item_does_not_affect_the_others() -> None:
    model = small_cluster()
    items = reset_items(model, {"g": ToEarliest(), "h": ToEarliest()})
    model.broken["g"] = ConnectionLost("broker 1 hung up")
    first, second = applied(model, items)
    assert (first.verdict, first.reasons) == (Verdict.FAILED, ("broker 1 hung up",))
    assert second.verdict is Verdict.DONE


def test_a_second_application_writes_nothing() -> None:
    model, snapshot = small_cluster(), MemorySnapshot()
    items = reset_items(model, {"g": ToEarliest()}) + delete_items(model, "h")
    applied(model, items)
    model.calls.clear()
    assert verdicts(applied(model, items, snapshot)) == [Verdict.ALREADY] * 2
    assert {*model.calls} == {"describe_groups", "list_groups_offsets"}
    assert snapshot.groups == []


def test_an_interrupted_plan_is_resumed() -> None:
    model, snapshot = small_cluster(), MemorySnapshot()
    items = reset_items(model, {"g": ToEarliest()})
    model.known_groups["g"].offsets[B0] = CommittedOffset(0)  # done; A0 is not
    assert verdicts(applied(model, items, snapshot)) == [Verdict.DONE]
    assert [entry.at for entry in snapshot.groups[0].wrote] == [A0]


def test_a_group_created_by_the_plan_itself_is_not_a_change() -> None:
    model = small_cluster()
    items = items_of([run(plan_clone(model, "g", "new"))])
    model.known_groups["new"] = ModelGroup({B0: CommittedOffset(7)}, is_simple=True)
    assert verdicts(applied(model, items)) == [Verdict.DONE]
    assert model.known_groups["new"].offsets == model.known_groups["g"].offsets


def test_a_group_created_after_the_plan_is_a_concurrent_modification() -> None:
    model = small_cluster()
    items = items_of([run(plan_clone(model, "g", "new"))])
    model.known_groups["new"] = ModelGroup({B0: CommittedOffset(6)}, is_simple=True)
    (result,) = applied(model, items)
    assert result.reasons[0] == "the group is new"


def test_an_item_may_be_applied_partially() -> None:
    model = small_cluster()
    gone = TopicPartition("gone", 0)
    model.known_groups["g"].offsets[gone] = CommittedOffset(1)
    model.known_logs[gone] = FakeLog()
    items = items_of(run(plan_delete_offsets(model, ["g"], None)))
    del model.known_logs[gone]
    (result,) = applied(model, items)
    assert result.verdict is Verdict.PARTIAL
    (reason,) = result.reasons
    assert reason == "gone-0: UNKNOWN_TOPIC_OR_PARTITION"
    assert list(model.known_groups["g"].offsets) == [("gone", 0)]


def test_offsets_can_be_deleted_while_members_use_other_topics() -> None:
    model = small_cluster()
    model.known_groups["live"].offsets[B0] = CommittedOffset(3)
    scope = (TopicSelector("b"),)
    items = items_of(run(plan_delete_offsets(model, ["live"], scope)))
    model.known_groups["live"].offsets[A0] = CommittedOffset(2)
    assert verdicts(applied(model, items)) == [Verdict.DONE]
    assert list(model.known_groups["live"].offsets) == [A0]


def test_members_are_removed_while_the_group_commits() -> None:
    model = small_cluster()
    wanted = [MemberToRemove("m1")]
    items = items_of([run(plan_remove_members(model, "live", wanted))])
    model.known_groups["live"].offsets[A0] = CommittedOffset(2)
    assert verdicts(applied(model, items)) == [Verdict.DONE]
    assert model.known_groups["live"].members == ("m2",)
    assert verdicts(applied(model, items)) == [Verdict.ALREADY]


def test_members_are_not_removed_when_another_member_joined() -> None:
    model = small_cluster()
    items = items_of([run(plan_remove_members(model, "live", None))])
    model.known_groups["live"].join("m3")
    (result,) = applied(model, items)
    assert result.verdict is Verdict.REFUSED
    assert "joined: m3" in result.reasons


@pytest.mark.fact("D-40", "D-41")
def test_each_group_is_deleted_separately() -> None:
    model = small_cluster()
    items = delete_items(model, "g", "h")
    joined(model)
    assert verdicts(applied(model, items)) == [Verdict.REFUSED, Verdict.DONE]
    (forced,) = applied(model, items[:1], force=True)
    assert forced.reasons == ("NON_EMPTY_GROUP",)
    assert sorted(model.known_groups) == ["g", "live"]


def test_nothing_is_written_when_the_snapshot_fails() -> None:
    kept: list[int] = []

    class FullDisk(MemorySnapshot):
        def add(self, groups: Iterable[SnapshotGroup]) -> None:
            kept.append(len(list(groups)))
            if len(kept) > 1:
                raise SettingError("the disk is full")

    model = small_cluster()
    ids = [f"many-{number:03d}" for number in range(120)]
    model.known_groups |= {each: ModelGroup({A0: CommittedOffset(5)}) for each in ids}
    items = reset_items(model, dict.fromkeys(ids, ToLatest()))
    results = run(apply_items(model, items, FullDisk()))
    assert kept == [50, 50]
    assert verdicts(results) == [Verdict.DONE] * 50 + [Verdict.FAILED] * 70
    assert results[-1].reasons == ("the disk is full",)
    assert model.calls.count("alter_group_offsets") == 50


def test_many_items_are_saved_and_applied_in_batches() -> None:
    model = small_cluster()
    ids = [f"many-{number:03d}" for number in range(120)]
    model.known_groups |= {each: ModelGroup({A0: CommittedOffset(5)}) for each in ids}
    items = reset_items(model, dict.fromkeys(ids, ToLatest()))
    heard: list[str] = []
    kept: list[int] = []

    class Counter(MemorySnapshot):
        def add(self, groups: Iterable[SnapshotGroup]) -> None:
            kept.append(len(list(groups)))

    run(
        apply_items(
            model,
            items,
            Counter(),
            on_result=lambda each: heard.append(each.item.group_id),
        )
    )
    assert heard == ids
    assert kept == [50, 50, 20]


class DisconnectedCluster(ClusterModel):
    """A cluster that fails every write with a lost connection."""

    async def delete_groups(self, *_: Any, **__: Any) -> Results[str, None]:
        raise ConnectionLost("hung up")

    async def delete_group_offsets(
        self, *_: Any, **__: Any
    ) -> Results[TopicPartition, None]:
        raise ConnectionLost("hung up")

    async def alter_group_offsets(
        self, *_: Any, **__: Any
    ) -> Results[TopicPartition, None]:
        raise ConnectionLost("hung up")

    async def remove_members(self, *_: Any, **__: Any) -> Results[MemberToRemove, None]:
        raise ConnectionLost("hung up")


def test_a_lost_connection_is_the_error_of_each_item() -> None:
    small = small_cluster()
    model = DisconnectedCluster(
        known_groups=small.known_groups, known_logs=small.known_logs
    )
    items = (
        *reset_items(model, {"g": ToEarliest()}),
        *delete_items(model, "h"),
        *items_of([run(plan_remove_members(model, "live", None))]),
    )
    results = applied(model, items)
    assert verdicts(results) == [Verdict.FAILED] * 3
    assert [each.is_answered for each in results] == [False] * 3
    assert [each.reasons for each in results] == [
        ("a-0: hung up", "b-0: hung up"),
        ("hung up",),
        ("hung up",),
    ]
    forget = items_of(run(plan_delete_offsets(model, ["g"], None)))
    assert applied(model, forget)[0].reasons == ("a-0: hung up", "b-0: hung up")


@pytest.mark.parametrize(
    "error",
    [
        ApiError(ErrorCode.GROUP_AUTHORIZATION_FAILED),
        AuthenticationFailed("wrong password"),
        OperationRefused("g is a share group"),
        UnsupportedByBroker("no DeleteGroups"),
    ],
)
def test_an_error_without_a_request_counts_as_answered(error: CoterieError) -> None:
    class Refuses(ClusterModel):
        async def delete_groups(self, *_: Any, **__: Any) -> Results[str, None]:
            raise error

    small = small_cluster()
    model = Refuses(known_groups=small.known_groups, known_logs=small.known_logs)
    (result,) = applied(model, delete_items(model, "g"))
    assert (result.verdict, result.is_answered) == (Verdict.FAILED, True)


def test_a_result_has_the_offsets_just_before_the_write() -> None:
    model = small_cluster()
    items = reset_items(model, {"g": ToEarliest(), "h": ToEarliest()})
    model.known_groups["g"].offsets[A0] = CommittedOffset(8)
    refused, done = applied(model, items)
    assert (refused.verdict, done.verdict) == (Verdict.REFUSED, Verdict.DONE)
    assert refused.prior is not None
    assert refused.prior[A0] == CommittedOffset(8)
    assert done.prior == {A0: CommittedOffset(9)}


def test_a_member_that_was_not_removed_is_reported() -> None:
    class Refuses(ClusterModel):
        async def remove_members(
            self,
            group_id: str,
            members: Collection[MemberToRemove] | None = None,
            *,
            reason: str = "",
        ) -> Results[MemberToRemove, None]:
            first, second = members or ()
            gone = ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
            stays = ApiError(ErrorCode.FENCED_INSTANCE_ID)
            return Results({}, {first: gone, second: stays})

    small = small_cluster()
    model = Refuses(known_groups=small.known_groups, known_logs=small.known_logs)
    items = items_of([run(plan_remove_members(model, "live", None))])
    (result,) = applied(model, items)
    assert result.verdict is Verdict.PARTIAL
    assert result.reasons == ("m2: FENCED_INSTANCE_ID",)
    assert list(result.errors) == [MemberEntry("m2")]


def test_an_unknown_generation_is_not_compared() -> None:
    model = small_cluster()
    [item] = delete_items(model, "h")
    seen = replace(item.seen, generation_id=4)
    assert verdicts(applied(model, [replace(item, seen=seen)])) == [Verdict.DONE]
