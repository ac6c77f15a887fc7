"""Whatever happens between a plan and its apply, on a model of a cluster.

A world is four groups with any offsets; a plan resets, sets, clones, deletes or
forgets; then anything may happen to any group; then the plan is applied.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from typing import TypeAlias

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from coterie.client.admin.offset_values import CommittedOffset
from coterie.operations.apply import Verdict
from coterie.operations.plan import Action, PlanItem
from coterie.operations.planning import (
    items_of,
    plan_clone,
    plan_delete_groups,
    plan_delete_offsets,
    plan_offsets,
)
from coterie.operations.reset import (
    Scenario,
    ShiftBy,
    ToCommits,
    ToCurrent,
    ToEarliest,
    ToLatest,
    ToOffset,
    ToTime,
)
from coterie.operations.scope import TopicSelector
from coterie.operations.undo import plan_undo
from coterie.types import GroupId, TopicPartition
from tests.operations.cluster_model import ClusterModel, ModelGroup, ModelLog
from tests.operations.world import MemoryKeeper, applied, run

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
        logs[each] = ModelLog(start, start + draw(st.integers(0, 15)))
    groups = {each: ModelGroup(draw(offsets)) for each in GROUPS if each != "new"}
    return ClusterModel(groups=groups, logs=logs)


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
    """One item a group at most, of any action that writes offsets."""
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
    """What happens to a group behind the operator's back."""

    kind: str
    group_id: GroupId
    at: TopicPartition
    committed: CommittedOffset

    def happen(self, model: ClusterModel) -> None:
        fresh = ModelGroup(is_simple=True)
        group = model.groups.setdefault(self.group_id, fresh)
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


def looks_changed(event: Event, item: PlanItem, before: Offsets) -> bool:
    """Whether the event is one that anybody who asks the cluster can see, and that
    concerns the item; a commit of what the plan wants itself is no harm."""
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
    return {each: dict(group.offsets) for each, group in model.groups.items()}


@pytest.mark.slow
@given(st.data())
def test_a_group_that_changed_since_the_plan_is_never_touched(
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
        elif looks_changed(event, item, planned_on.get(item.group_id, {})):
            assert results[item.group_id].verdict is Verdict.REFUSED
            assert model.groups[item.group_id].offsets == before[item.group_id]


@pytest.mark.slow
@given(st.data())
def test_applying_twice_is_applying_once(data: st.DataObject) -> None:
    model = data.draw(worlds())
    items = data.draw(plans(model))
    applied(model, items)
    once, keeper = deepcopy(model.groups), MemoryKeeper()
    again = applied(model, items, keeper)
    assert {each.verdict for each in again} <= {Verdict.ALREADY}
    assert model.groups == once
    assert keeper.groups == []


@pytest.mark.slow
@given(st.data())
def test_undo_after_apply_gives_the_offsets_seen(data: st.DataObject) -> None:
    model = data.draw(worlds())
    items = data.draw(plans(model))
    before, keeper = state(model), MemoryKeeper()
    applied(model, items, keeper)
    after, kept_by_undo = state(model), MemoryKeeper()
    undo = run(plan_undo(model, keeper.snapshot))
    assert [each.error for each in undo if each.error] == []
    applied(model, items_of(undo), kept_by_undo)
    assert without_empty(state(model)) == without_empty(before)

    redo = run(plan_undo(model, kept_by_undo.snapshot))
    applied(model, items_of(redo))
    assert without_empty(state(model)) == without_empty(after)


def without_empty(groups: dict[GroupId, Offsets]) -> dict[GroupId, Offsets]:
    """A deleted group that had no offsets has nothing to come back with."""
    return {each: found for each, found in groups.items() if found}


@pytest.mark.slow
@given(st.data())
def test_undo_never_takes_back_what_was_committed_since(data: st.DataObject) -> None:
    model = data.draw(worlds())
    keeper = MemoryKeeper()
    applied(model, data.draw(plans(model)), keeper)
    assume(keeper.groups)
    kept = data.draw(st.sampled_from(keeper.groups))
    assume(kept.written)
    at = data.draw(st.sampled_from(sorted(kept.written)))
    committed = data.draw(commits)
    assume(committed not in (kept.written[at], kept.before.get(at)))
    model.groups.setdefault(kept.group_id, ModelGroup()).offsets[at] = committed
    after = dict(model.groups[kept.group_id].offsets)
    applied(model, items_of(run(plan_undo(model, keeper.snapshot))))
    assert model.groups[kept.group_id].offsets == after
