from coterie.client.admin.group_offsets import CommittedOffset
from coterie.operations.plan_files import Action, Verdict
from coterie.operations.plans import (
    GroupPlan,
    items_of,
    plan_clone,
    plan_delete_groups,
    plan_offsets,
    plan_remove_members,
)
from coterie.operations.resets import Note, ToEarliest, ToExact
from coterie.operations.undo import plan_undo
from tests.operations.cluster_model import ClusterModel
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


def after_reset() -> tuple[ClusterModel, MemorySnapshot]:
    model, snapshot = small_cluster(), MemorySnapshot()
    applied(model, reset_items(model, {"g": ToEarliest(), "h": ToEarliest()}), snapshot)
    return model, snapshot


def undone(model: ClusterModel, snapshot: MemorySnapshot) -> tuple[GroupPlan, ...]:
    return run(plan_undo(model, snapshot.content))


def test_undo_restores_metadata_and_epoch() -> None:
    model, snapshot = after_reset()
    planned = undone(model, snapshot)
    assert [(row.at, row.delta) for row in planned[0].rows] == [(A0, 3), (B0, 7)]
    results = applied(model, items_of(planned))
    assert {each.verdict for each in results} == {Verdict.DONE}
    assert model.known_groups["g"].offsets == small_cluster().known_groups["g"].offsets
    assert model.known_groups["h"].offsets == small_cluster().known_groups["h"].offsets


def test_undo_restores_the_offsets_of_a_deleted_group() -> None:
    model, snapshot = small_cluster(), MemorySnapshot()
    applied(model, items_of(run(plan_delete_groups(model, ["g"]))), snapshot)
    assert "g" not in model.known_groups
    planned = undone(model, snapshot)
    assert [row.notes for row in planned[0].rows] == [(Note.NO_COMMIT,)] * 2
    applied(model, items_of(planned))
    assert model.known_groups["g"].offsets == small_cluster().known_groups["g"].offsets


def test_undo_deletes_a_group_that_the_write_created() -> None:
    model, snapshot = small_cluster(), MemorySnapshot()
    applied(model, items_of([run(plan_clone(model, "g", "new"))]), snapshot)
    (planned,) = undone(model, snapshot)
    assert planned.item is not None
    assert planned.item.action is Action.DELETE_GROUP
    assert [row.notes for row in planned.rows] == [(Note.DELETED,)] * 2
    applied(model, [planned.item])
    assert "new" not in model.known_groups


def test_undo_keeps_a_group_that_has_commits_of_others() -> None:
    model, snapshot = small_cluster(), MemorySnapshot()
    applied(model, items_of([run(plan_clone(model, "g", "new"))]), snapshot)
    model.known_groups["new"].offsets[A1] = CommittedOffset(3)
    (planned,) = undone(model, snapshot)
    assert planned.item is not None
    assert planned.item.action is Action.RESTORE
    applied(model, [planned.item])
    assert model.known_groups["new"].offsets == {A1: CommittedOffset(3)}


def test_undo_of_moved_offsets_needs_force() -> None:
    model, snapshot = after_reset()
    model.known_groups["g"].offsets[A0] = CommittedOffset(4)
    first, second = undone(model, snapshot)
    assert str(first.error).startswith("a-0 moved on since the write: --force")
    assert second.item is not None

    (forced, _) = run(plan_undo(model, snapshot.content, force=True))
    assert forced.item is not None
    applied(model, [forced.item])
    assert model.known_groups["g"].offsets[A0] == CommittedOffset(5, 1, "m")


def test_a_partition_in_an_open_transaction_is_not_written() -> None:
    model, snapshot = after_reset()
    model.known_groups["g"].unstable.add(B0)
    (first, _) = undone(model, snapshot)
    assert "b-0 moved on" in str(first.error)


def test_undo_refuses_a_group_with_members() -> None:
    model, snapshot = after_reset()
    model.known_groups["g"].join("m")
    first, second = undone(model, snapshot)
    assert "is inactive, but the current state is Stable" in str(first.error)
    assert second.error is None


def test_a_second_undo_changes_nothing() -> None:
    model, snapshot = after_reset()
    applied(model, items_of(undone(model, snapshot)))
    assert items_of(undone(model, snapshot)) == ()


def test_undo_does_not_restore_removed_members() -> None:
    model, snapshot = small_cluster(), MemorySnapshot()
    items = items_of([run(plan_remove_members(model, "live", None))])
    applied(model, items, snapshot)
    assert snapshot.groups == []
    assert model.known_groups["live"].members == ()


def create_again(model: ClusterModel, topic: str, end: int = 0) -> None:
    """Delete a topic, with the committed offsets, and create it again."""
    for group in model.known_groups.values():
        group.offsets = {
            at: each for at, each in group.offsets.items() if at.topic != topic
        }
    for at in model.known_logs:
        if at.topic == topic:
            model.known_logs[at] = FakeLog.of(0, end)
    model.topic_ids[topic] = b"second id of 16b"


def model_with_ids() -> ClusterModel:
    model = small_cluster()
    model.topic_ids = {"a": b"first id of 16 b", "b": b"other id of 16 b"}
    return model


def test_the_offsets_of_a_topic_that_was_created_again_are_not_restored() -> None:
    model, snapshot = model_with_ids(), MemorySnapshot()
    applied(model, items_of(run(plan_delete_groups(model, ["g"]))), snapshot)
    create_again(model, "a")
    (planned,) = undone(model, snapshot)
    refused, restored = planned.rows
    assert "topic a was deleted and created again since the write" in str(refused.error)
    assert (refused.at, restored.at, restored.error) == (A0, B0, None)
    applied(model, items_of([planned]))
    assert model.known_groups["g"].offsets == {B0: CommittedOffset(7)}


def test_with_force_a_topic_that_was_created_again_is_named() -> None:
    model, snapshot = after_reset_with_ids()
    create_again(model, "a", end=3)
    (forced,) = run(plan_undo(model, snapshot.content, force=True))
    assert [row.notes for row in forced.rows] == [
        (Note.NO_COMMIT, Note.OUT_OF_RANGE, Note.RECREATED),
        (),
    ]
    applied(model, items_of([forced]))
    assert model.known_groups["g"].offsets[A0] == CommittedOffset(5, 1, "m")


def after_reset_with_ids() -> tuple[ClusterModel, MemorySnapshot]:
    model, snapshot = model_with_ids(), MemorySnapshot()
    applied(model, reset_items(model, {"g": ToEarliest()}), snapshot)
    return model, snapshot


def test_commits_for_a_topic_that_was_created_again_are_kept() -> None:
    model, snapshot = after_reset_with_ids()
    create_again(model, "a", end=3)
    model.known_groups["g"].offsets[A0] = CommittedOffset(3)
    (planned,) = undone(model, snapshot)
    assert [row.error is None for row in planned.rows] == [False, True]
    applied(model, items_of([planned]))
    assert model.known_groups["g"].offsets[A0] == CommittedOffset(3)


def test_offsets_of_a_topic_that_was_missing_belong_to_no_later_topic() -> None:
    model, snapshot = model_with_ids(), MemorySnapshot()
    log = model.known_logs.pop(B0)
    applied(model, items_of(run(plan_delete_groups(model, ["g"]))), snapshot)
    model.known_logs[B0] = log
    (planned,) = undone(model, snapshot)
    assert [row.error is None for row in planned.rows] == [True, False]


def test_an_offset_of_a_missing_topic_is_refused_before_the_write() -> None:
    model, snapshot = model_with_ids(), MemorySnapshot()
    applied(model, items_of(run(plan_delete_groups(model, ["g"]))), snapshot)
    del model.known_logs[B0]
    (planned,) = undone(model, snapshot)
    assert planned.item is not None
    assert [*planned.item.wanted] == [A0]
    assert "no such topic" in str(planned.rows[1].error)


def test_an_offset_beyond_the_log_is_said_without_ids_too() -> None:
    model, snapshot = small_cluster(), MemorySnapshot()
    applied(model, items_of(run(plan_delete_groups(model, ["g"]))), snapshot)
    model.known_logs[A0] = FakeLog.of(0, 3)
    (planned,) = undone(model, snapshot)
    assert Note.OUT_OF_RANGE in planned.rows[0].notes
    assert Note.OUT_OF_RANGE not in planned.rows[1].notes


def test_a_plan_is_refused_when_its_topic_was_created_again() -> None:
    model = model_with_ids()
    plans = run(plan_offsets(model, Action.SET, {"new": ToExact({A0: 5})}))
    create_again(model, "a")
    (result,) = applied(model, items_of(plans))
    assert result.verdict is Verdict.REFUSED
    assert result.reasons == ("topic a was deleted and created again",)
    (forced,) = applied(model, items_of(plans), force=True)
    assert forced.verdict is Verdict.DONE
