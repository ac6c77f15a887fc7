"""Comparison of plan items with groups that have changed."""

from __future__ import annotations

from coterie.client.admin.group_offsets import CommittedOffset
from coterie.operations.current_groups import read_current_groups
from coterie.operations.plan_comparison import changes_since
from coterie.operations.resets import ToEarliest
from tests.operations.small_cluster import A0, B0, planned_reset, run, small_cluster


def test_an_offset_that_cannot_be_read_is_one_change() -> None:
    model = small_cluster()
    (planned,) = planned_reset(model, {"g": ToEarliest()})
    assert planned.item is not None
    model.known_groups["g"].unstable.add(A0)
    model.known_groups["g"].offsets[B0] = CommittedOffset(6)
    groups = run(read_current_groups(model, ["g"], {"g": [A0, B0]}))
    first, second = changes_since(planned.item, groups.one("g"), {})
    assert first.startswith("a-0 cannot be read: ")
    assert second == "b-0 was at 7 and is at 6"
