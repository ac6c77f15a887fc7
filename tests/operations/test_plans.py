from typing import Any

import pytest

from coterie.client.admin.group_calls import MemberToRemove
from coterie.client.admin.group_offsets import CommittedOffset
from coterie.client.admin.groups import MemberDescription
from coterie.errors import ApiError
from coterie.operations.plan_files import Action, MemberEntry, OffsetEntry
from coterie.operations.plans import (
    GroupPlan,
    plan_clone,
    plan_delete_groups,
    plan_delete_offsets,
    plan_offsets,
    plan_remove_members,
)
from coterie.operations.resets import Note, ToCommits, ToEarliest, ToLatest
from coterie.operations.selection import TopicSelector
from coterie.types import TopicPartition
from coterie.wire.error_codes import ErrorCode
from tests.operations.fake_admin import FakeAdmin, group, member
from tests.operations.small_cluster import A0, A1, B0, planned_reset, run, small_cluster


def code(planned: GroupPlan) -> ErrorCode:
    assert isinstance(planned.error, ApiError)
    return planned.error.code


def test_an_item_contains_the_expected_group() -> None:
    (planned,) = planned_reset(small_cluster(), {"g": ToEarliest()})
    assert planned.item is not None
    assert planned.item.item_id == "reset:g"
    seen = planned.item.seen
    assert (seen.exists, seen.state, seen.type, seen.group_epoch) == (
        *(True, "Empty", "consumer"),
        1,
    )
    assert seen.offsets == (
        OffsetEntry("a", 0, 5, 1, "m"),
        OffsetEntry("b", 0, 7),
    )
    assert planned.item.offsets == (
        OffsetEntry("a", 0, 2, 1, "m"),
        OffsetEntry("b", 0, 0),
    )


def test_an_item_contains_only_changed_offsets() -> None:
    (planned,) = planned_reset(small_cluster(), {"g": ToLatest()})
    assert planned.item is not None
    assert list(planned.item.wanted) == [A0]
    assert [row.at for row in planned.rows] == [A0, B0]


def test_a_group_without_changes_has_no_item() -> None:
    model = small_cluster()
    model.known_groups["g"].offsets = {B0: CommittedOffset(7)}
    (planned,) = planned_reset(model, {"g": ToLatest()})
    assert (planned.item, planned.error) == (None, None)
    assert planned.rows[0].notes == (Note.UNCHANGED,)


def test_metadata_can_be_dropped() -> None:
    (planned,) = run(
        plan_offsets(
            small_cluster(), Action.RESET, {"g": ToEarliest()}, keeps_metadata=False
        )
    )
    assert planned.item is not None
    assert planned.item.offsets[0] == OffsetEntry("a", 0, 2)


def test_exact_offsets_are_not_clamped() -> None:
    scenario = ToCommits({A0: CommittedOffset(99, 4, "x")})
    (planned,) = run(plan_offsets(small_cluster(), Action.SET, {"g": scenario}))
    assert planned.item is not None
    assert planned.item.offsets == (OffsetEntry("a", 0, 99, 4, "x"),)
    assert planned.rows[0].notes == (Note.OUT_OF_RANGE, Note.SKIPS)


def test_a_clone_has_metadata_and_epochs() -> None:
    planned = run(plan_clone(small_cluster(), "g", "new"))
    assert planned.item is not None
    assert (planned.item.group_id, planned.item.source) == ("new", "g")
    assert planned.item.offsets == (
        OffsetEntry("a", 0, 5, 1, "m"),
        OffsetEntry("b", 0, 7),
    )
    assert not planned.item.seen.exists

    planned = run(plan_clone(small_cluster(), "g", "h", ["b"]))
    assert [row.at for row in planned.rows] == [B0]


@pytest.mark.parametrize(
    ("source", "destination", "message"),
    [
        ("nobody", "new", "there is no group nobody"),
        ("g", "live", "stop them, or remove them"),
    ],
)
def test_a_clone_requires_offsets_and_an_inactive_group(
    source: str, destination: str, message: str
) -> None:
    planned = run(plan_clone(small_cluster(), source, destination))
    assert planned.item is None
    assert message in str(planned.error)


def test_a_clone_with_an_open_transaction_is_refused() -> None:
    model = small_cluster()
    model.known_groups["g"].unstable.add(A0)
    planned = run(plan_clone(model, "g", "new"))
    assert code(planned) is ErrorCode.UNSTABLE_OFFSET_COMMIT


@pytest.mark.fact("D-40")
def test_only_groups_without_members_are_deleted() -> None:
    model = small_cluster()
    model.known_groups["h"].unstable.add(A0)
    wanted = ["live", "nobody", "h", "g", "g"]
    live, nobody, h, g = run(plan_delete_groups(model, wanted))
    assert code(live) is ErrorCode.NON_EMPTY_GROUP
    assert "remove-members" in str(live.error)
    assert code(nobody) is ErrorCode.GROUP_ID_NOT_FOUND
    assert code(h) is ErrorCode.UNSTABLE_OFFSET_COMMIT
    assert g.item is not None
    assert g.item.action is Action.DELETE_GROUP
    assert [(row.at, row.notes) for row in g.rows] == [
        (A0, (Note.DELETED,)),
        (B0, (Note.DELETED,)),
    ]


def test_a_group_without_offsets_has_one_row() -> None:
    model = small_cluster()
    model.known_groups["g"].offsets.clear()
    (planned,) = run(plan_delete_groups(model, ["g"]))
    assert [(row.topic, row.partition) for row in planned.rows] == [("", -1)]


def test_offsets_are_deleted_by_topic_and_partition() -> None:
    scope = (TopicSelector("a", (0, 1)), TopicSelector("b"))
    (planned,) = run(plan_delete_offsets(small_cluster(), ["g"], scope))
    assert planned.item is not None
    assert planned.item.wanted == {A0: None, B0: None}
    assert [(row.at, row.notes) for row in planned.rows] == [
        (A0, (Note.DELETED,)),
        (B0, (Note.DELETED,)),
        (A1, (Note.NO_COMMIT,)),
    ]


def test_missing_offsets_are_not_deleted() -> None:
    nobody, h = run(
        plan_delete_offsets(small_cluster(), ["nobody", "h"], (TopicSelector("b"),))
    )
    assert code(nobody) is ErrorCode.GROUP_ID_NOT_FOUND
    assert (h.item, h.rows, h.error) == (None, (), None)


def test_the_offsets_of_a_missing_topic_or_partition_cannot_be_deleted() -> None:
    model = small_cluster()
    for at in (TopicPartition("gone", 0), TopicPartition("a", 7)):
        model.known_groups["g"].offsets[at] = CommittedOffset(1)
    (planned,) = run(plan_delete_offsets(model, ["g"], None))
    assert planned.item is not None
    assert list(planned.item.wanted) == [A0, B0]
    assert {row.at for row in planned.rows if row.error} == {("a", 7), ("gone", 0)}


def test_a_topic_that_no_group_has_and_that_does_not_exist_is_an_error() -> None:
    scope = (TopicSelector("a"), TopicSelector("misspelt"))
    (planned,) = run(plan_delete_offsets(small_cluster(), ["h"], scope))
    assert [row.topic for row in planned.rows if row.error] == ["misspelt"]
    assert planned.item is not None


@pytest.mark.parametrize(
    "about",
    [
        {"subscribed_topics": ("a",)},
        {"assignment": (A1,), "subscribed_topic_regex": "a.*"},
        {"target_assignment": (A1,), "subscribed_topic_regex": "a.*"},
    ],
)
def test_the_offsets_of_a_subscribed_topic_cannot_be_deleted(
    about: dict[str, Any],
) -> None:
    admin = FakeAdmin(known_logs=small_cluster().known_logs)
    admin.add(group("g", MemberDescription("m", "c", "/h", **about)), a=1, b=2)
    (planned,) = run(plan_delete_offsets(admin, ["g"], None))
    assert planned.item is not None
    assert list(planned.item.wanted) == [B0]
    [refused] = [row for row in planned.rows if row.error]
    assert "GROUP_SUBSCRIBED_TO_TOPIC" in repr(refused.error)
    assert refused.at == A0


def test_the_offsets_of_a_live_connect_group_cannot_be_deleted() -> None:
    admin = FakeAdmin(known_logs=small_cluster().known_logs)
    admin.add(group("g", member("m"), protocol_type="connect"), a=1)
    (planned,) = run(plan_delete_offsets(admin, ["g"], None))
    assert code(planned) is ErrorCode.NON_EMPTY_GROUP


def test_an_offset_in_an_open_transaction_is_not_deleted() -> None:
    model = small_cluster()
    model.known_groups["g"].unstable.add(B0)
    (planned,) = run(plan_delete_offsets(model, ["g"], None))
    assert planned.item is not None
    assert list(planned.item.wanted) == [A0]


@pytest.mark.parametrize("partition", [A1, TopicPartition("a", 9)])
def test_a_transaction_before_the_first_commit_is_detected(
    partition: TopicPartition,
) -> None:
    model = small_cluster()
    model.known_groups["h"].unstable.add(partition)
    scope = (TopicSelector("a", (partition.partition,)),)
    (planned,) = run(plan_delete_offsets(model, ["h"], scope))
    assert planned.rows[0].error is not None
    assert planned.item is None


def test_members_are_removed_by_id_or_all_at_once() -> None:
    model = small_cluster()
    every = run(plan_remove_members(model, "live", None))
    assert every.item is not None
    assert every.item.members == (MemberEntry("m1"), MemberEntry("m2"))
    one = run(plan_remove_members(model, "live", [MemberToRemove("m2")]))
    assert one.item is not None
    assert one.item.members == (MemberEntry("m2"),)
    none = run(plan_remove_members(model, "live", [MemberToRemove("m9")]))
    assert code(none) is ErrorCode.UNKNOWN_MEMBER_ID
    assert run(plan_remove_members(model, "g", None)).item is None
