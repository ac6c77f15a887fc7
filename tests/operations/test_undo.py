from coterie.client.admin.offset_values import CommittedOffset
from coterie.operations.apply import Verdict
from coterie.operations.plan import Action
from coterie.operations.planning import (
    Planned,
    items_of,
    plan_clone,
    plan_delete_groups,
    plan_remove_members,
)
from coterie.operations.reset import Note, ToEarliest
from coterie.operations.undo import plan_undo
from tests.operations.cluster_model import ClusterModel
from tests.operations.world import (
    A0,
    B0,
    MemoryKeeper,
    applied,
    reset_items,
    run,
    small_cluster,
)


def after_reset() -> tuple[ClusterModel, MemoryKeeper]:
    model, keeper = small_cluster(), MemoryKeeper()
    applied(model, reset_items(model, {"g": ToEarliest(), "h": ToEarliest()}), keeper)
    return model, keeper


def undone(model: ClusterModel, keeper: MemoryKeeper) -> tuple[Planned, ...]:
    return run(plan_undo(model, keeper.snapshot))


def test_offsets_come_back_with_metadata_and_epoch() -> None:
    model, keeper = after_reset()
    planned = undone(model, keeper)
    assert [(row.at, row.delta) for row in planned[0].rows] == [(A0, 3), (B0, 7)]
    results = applied(model, items_of(planned))
    assert {each.verdict for each in results} == {Verdict.DONE}
    assert model.groups["g"].offsets == small_cluster().groups["g"].offsets
    assert model.groups["h"].offsets == small_cluster().groups["h"].offsets


def test_a_deleted_group_comes_back_with_its_offsets() -> None:
    model, keeper = small_cluster(), MemoryKeeper()
    applied(model, items_of(run(plan_delete_groups(model, ["g"]))), keeper)
    assert "g" not in model.groups
    planned = undone(model, keeper)
    assert [row.notes for row in planned[0].rows] == [(Note.NO_COMMIT,)] * 2
    applied(model, items_of(planned))
    assert model.groups["g"].offsets == small_cluster().groups["g"].offsets


def test_a_group_that_was_made_is_deleted_again() -> None:
    model, keeper = small_cluster(), MemoryKeeper()
    applied(model, items_of([run(plan_clone(model, "g", "new"))]), keeper)
    (planned,) = undone(model, keeper)
    assert planned.item is not None
    assert planned.item.action is Action.DELETE_GROUP
    assert [row.notes for row in planned.rows] == [(Note.DELETED,)] * 2
    applied(model, [planned.item])
    assert "new" not in model.groups


def test_what_moved_on_is_left_alone_unless_forced() -> None:
    model, keeper = after_reset()
    model.groups["g"].offsets[A0] = CommittedOffset(4)
    first, second = undone(model, keeper)
    assert str(first.error).startswith("a-0 moved on since the write: --force")
    assert second.item is not None

    (forced, _) = run(plan_undo(model, keeper.snapshot, force=True))
    assert forced.item is not None
    applied(model, [forced.item])
    assert model.groups["g"].offsets[A0] == CommittedOffset(5, 1, "m")


def test_what_is_in_an_open_transaction_is_left_alone() -> None:
    model, keeper = after_reset()
    model.groups["g"].unstable.add(B0)
    (first, _) = undone(model, keeper)
    assert "b-0 moved on" in str(first.error)


def test_a_group_with_members_is_left_alone() -> None:
    model, keeper = after_reset()
    model.groups["g"].join("m")
    first, second = undone(model, keeper)
    assert "is inactive, but the current state is Stable" in str(first.error)
    assert second.error is None


def test_the_second_time_there_is_nothing_to_undo() -> None:
    model, keeper = after_reset()
    applied(model, items_of(undone(model, keeper)))
    assert items_of(undone(model, keeper)) == ()


def test_removed_members_are_nothing_to_undo() -> None:
    model, keeper = small_cluster(), MemoryKeeper()
    items = items_of([run(plan_remove_members(model, "live", None))])
    applied(model, items, keeper)
    assert keeper.groups == []
    assert model.groups["live"].members == ()
