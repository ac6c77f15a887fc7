"""Invariants of apply and undo under arbitrary events after the plan.

Each example has four groups with any offsets. A plan resets, sets, clones, deletes
groups or deletes offsets; then arbitrary events change any of the groups; then the plan
is applied.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from typing import TypeAlias

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from coterie.client.admin.group_offsets import CommittedOffset
from coterie.operations.plan_files import Action, PlanItem, Verdict
from coterie.operations.plans import (
    items_of,
    plan_clone,
    plan_delete_groups,
    plan_delete_offsets,
    plan_offsets,
)
from coterie.operations.resets import (
    Scenario,
    ShiftBy,
    ToCommits,
    ToCurrent,
    ToEarliest,
    ToLatest,
    ToOffset,
    ToTime,
)
from coterie.operations.selection import TopicSelector
from coterie.operations.undo import plan_undo
from coterie.types import GroupId, TopicPartition
from tests.operations.cluster_model import ClusterModel, ModelGroup
from tests.operations.fake_admin import FakeLog
from tests.operations.small_cluster import MemorySnapshot, applied, run

Offsets: TypeAlias = dict[TopicPartition, CommittedOffset]

GROUPS = ("g1", "g2", "g3", "new")
PARTITIONS = tuple(TopicPartition(topic, each) for topic in "ab" for each in (0, 1))

commits = st.builds(
    CommittedOffset,
    st.integers(0, 30),
    st.one_of(st.none(), st.integers(0, 3)),
    st.sampled_from(["", "m", "n"]),
)
offsets = st.dictionaries(st.sampled_from(PARTITIONS), commits)


@st.composite
def worlds(draw: st.DrawFn) -> ClusterModel:
    logs = {}
    for each in PARTITIONS:
        start = draw(st.integers(0, 10))
        logs[each] = FakeLog.of(start, start + draw(st.integers(0, 15)), step_ms=1)
    groups = {each: ModelGroup(draw(offsets)) for each in GROUPS if each != "new"}
    return ClusterModel(known_groups=groups, known_logs=logs)


scenarios: st.SearchStrategy[Scenario] = st.one_of(
    st.sampled_from([ToEarliest(), ToLatest(), ToCurrent()]),
    st.builds(ToOffset, st.integers(0, 30)),
    st.builds(ShiftBy, st.integers(-10, 10)),
    st.builds(ToTime, st.integers(0, 30)),
    st.builds(ToCommits, offsets),
)
scopes = st.one_of(
    st.none(), st.sampled_from([(TopicSelector("a"),), (TopicSelector("b", (0, 1)),)])
)


@st.composite
def plans(draw: st.DrawFn, model: ClusterModel) -> tuple[PlanItem, ...]:
    """Draw at most one item for each group, of any action that writes offsets."""
    items: list[PlanItem] = []
    for group_id in GROUPS:
        action = draw(st.sampled_from([None, *Action]))
        match action:
            case Action.RESET | Action.SET:
                wanted = {group_id: draw(scenarios)}
                planned = run(plan_offsets(model, action, wanted, draw(scopes)))
            case Action.CLONE:
                source = draw(st.sampled_from(GROUPS))
                planned = (run(plan_clone(model, source, group_id)),)
            case Action.DELETE_GROUP:
                planned = run(plan_delete_groups(model, [group_id]))
            case Action.DELETE_OFFSETS:
                planned = run(plan_delete_offsets(model, [group_id], draw(scopes)))
            case _:
                continue
        items += items_of(planned)
    return tuple(items)


@dataclass(frozen=True)
class Event:
    """Draw an event of a group after the plan."""

    kind: str
    group_id: GroupId
    at: TopicPartition
    committed: CommittedOffset

    def happen(self, model: ClusterModel) -> None:
        fresh = ModelGroup(is_simple=True)
        group = model.known_groups.setdefault(self.group_id, fresh)
        match self.kind:
            case "join":
                group.join("stranger")
            case "join and leave":
                group.join("stranger")
                group.leave("stranger")
            case "commit":
                group.offsets[self.at] = self.committed
            case "transaction":
                group.unstable.add(self.at)


events = st.builds(
    Event,
    st.sampled_from(["join", "join and leave", "commit", "transaction"]),
    st.sampled_from(GROUPS),
    st.sampled_from(PARTITIONS),
    commits,
)


def is_changed(event: Event, item: PlanItem, before: Offsets) -> bool:
    """Return whether an event concerns the item and is visible to a client. A commit of
    the planned offset does not count."""
    was, wanted = before.get(event.at), item.wanted.get(event.at)
    is_named = event.at in item.wanted
    match event.kind:
        case "commit" if item.action is Action.DELETE_OFFSETS and not is_named:
            return False
        case "commit":
            return event.committed not in (was, wanted)
        case "transaction":
            return is_named or was is not None
        case _:
            return True


def state(model: ClusterModel) -> dict[GroupId, Offsets]:
    return {each: dict(group.offsets) for each, group in model.known_groups.items()}


@pytest.mark.slow
@given(st.data())
def test_a_group_that_changed_since_the_plan_is_never_written(
    data: st.DataObject,
) -> None:
    model = data.draw(worlds())
    items = data.draw(plans(model))
    assume(items)
    planned_on = state(model)
    event = data.draw(events)
    event.happen(model)
    before = state(model)
    results = {each.item.group_id: each for each in applied(model, items)}
    for item in items:
        if item.group_id != event.group_id:
            assert results[item.group_id].verdict in {Verdict.DONE, Verdict.ALREADY}
        elif is_changed(event, item, planned_on.get(item.group_id, {})):
            assert results[item.group_id].verdict is Verdict.REFUSED
            assert model.known_groups[item.group_id].offsets == before[item.group_id]


@pytest.mark.slow
@given(st.data())
def test_a_second_apply_changes_nothing(data: st.DataObject) -> None:
    model = data.draw(worlds())
    items = data.draw(plans(model))
    applied(model, items)
    once, snapshot = deepcopy(model.known_groups), MemorySnapshot()
    again = applied(model, items, snapshot)
    assert {each.verdict for each in again} <= {Verdict.ALREADY}
    assert model.known_groups == once
    assert snapshot.groups == []


@pytest.mark.slow
@given(st.data())
def test_undo_after_apply_restores_the_offsets(data: st.DataObject) -> None:
    model = data.draw(worlds())
    items = data.draw(plans(model))
    before, snapshot = state(model), MemorySnapshot()
    applied(model, items, snapshot)
    after, kept_by_undo = state(model), MemorySnapshot()
    undo = run(plan_undo(model, snapshot.content))
    assert [each.error for each in undo if each.error] == []
    applied(model, items_of(undo), kept_by_undo)
    assert without_empty(state(model)) == without_empty(before)

    redo = run(plan_undo(model, kept_by_undo.content))
    applied(model, items_of(redo))
    assert without_empty(state(model)) == without_empty(after)


def without_empty(groups: dict[GroupId, Offsets]) -> dict[GroupId, Offsets]:
    """Return the groups that have offsets; undo cannot restore the others."""
    return {each: found for each, found in groups.items() if found}


@pytest.mark.slow
@given(st.data())
def test_undo_never_overwrites_later_commits(data: st.DataObject) -> None:
    model = data.draw(worlds())
    snapshot = MemorySnapshot()
    applied(model, data.draw(plans(model)), snapshot)
    assume(snapshot.groups)
    kept = data.draw(st.sampled_from(snapshot.groups))
    assume(kept.offsets_written)
    at = data.draw(st.sampled_from(sorted(kept.offsets_written)))
    committed = data.draw(commits)
    assume(committed not in (kept.offsets_written[at], kept.offsets_before.get(at)))
    model.known_groups.setdefault(kept.group_id, ModelGroup()).offsets[at] = committed
    after = dict(model.known_groups[kept.group_id].offsets)
    applied(model, items_of(run(plan_undo(model, snapshot.content))))
    assert model.known_groups[kept.group_id].offsets == after
