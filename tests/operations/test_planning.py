import pytest

from coterie.client.admin.offset_values import CommittedOffset
from coterie.client.admin.remove_members import MemberToRemove
from coterie.errors import ApiError
from coterie.operations.plan import Action, MemberEntry, OffsetEntry
from coterie.operations.planning import (
    Planned,
    plan_clone,
    plan_delete_groups,
    plan_delete_offsets,
    plan_offsets,
    plan_remove_members,
)
from coterie.operations.reset import Note, ToCommits, ToEarliest, ToLatest
from coterie.operations.scope import TopicSelector
from coterie.types import TopicPartition
from coterie.wire.error_codes import ErrorCode
from tests.operations.world import A0, A1, B0, planned_reset, run, small_cluster


def code(planned: Planned) -> ErrorCode:
    assert isinstance(planned.error, ApiError)
    return planned.error.code


def test_an_item_tells_what_was_seen() -> None:
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


def test_only_what_changes_is_in_an_item() -> None:
    (planned,) = planned_reset(small_cluster(), {"g": ToLatest()})
    assert planned.item is not None
    assert list(planned.item.wanted) == [A0]
    assert [row.at for row in planned.rows] == [A0, B0]


def test_nothing_to_do_is_no_item() -> None:
    model = small_cluster()
    model.groups["g"].offsets = {B0: CommittedOffset(7)}
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
        ("nobody", "new", "no offsets to clone"),
        ("g", "live", "stop them, or remove them"),
    ],
)
def test_a_clone_needs_offsets_and_an_inactive_group(
    source: str, destination: str, message: str
) -> None:
    planned = run(plan_clone(small_cluster(), source, destination))
    assert planned.item is None
    assert message in str(planned.error)


def test_a_clone_of_an_open_transaction_waits_for_it() -> None:
    model = small_cluster()
    model.groups["g"].unstable.add(A0)
    planned = run(plan_clone(model, "g", "new"))
    assert code(planned) is ErrorCode.UNSTABLE_OFFSET_COMMIT


@pytest.mark.fact("D-40")
def test_only_groups_without_members_are_deleted() -> None:
    model = small_cluster()
    model.groups["h"].unstable.add(A0)
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


def test_a_group_without_offsets_has_a_row_of_its_own() -> None:
    model = small_cluster()
    model.groups["g"].offsets.clear()
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


def test_offsets_that_are_not_there_are_nothing_to_do() -> None:
    nobody, h = run(
        plan_delete_offsets(small_cluster(), ["nobody", "h"], (TopicSelector("b"),))
    )
    assert code(nobody) is ErrorCode.GROUP_ID_NOT_FOUND
    assert (h.item, h.rows, h.error) == (None, (), None)


def test_an_offset_in_an_open_transaction_is_not_deleted() -> None:
    model = small_cluster()
    model.groups["g"].unstable.add(B0)
    (planned,) = run(plan_delete_offsets(model, ["g"], None))
    assert planned.item is not None
    assert list(planned.item.wanted) == [A0]


@pytest.mark.parametrize("partition", [A1, TopicPartition("a", 9)])
def test_a_transaction_about_to_commit_first_is_seen(partition: TopicPartition) -> None:
    model = small_cluster()
    model.groups["h"].unstable.add(partition)
    scope = (TopicSelector("a", (partition.partition,)),)
    (planned,) = run(plan_delete_offsets(model, ["h"], scope))
    assert planned.rows[0].error is not None
    assert planned.item is None


def test_members_are_removed_by_name_or_all() -> None:
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
