"""The plan of a group's newest target, which makes the next target cheap (E11).

A plan has the sizes that `assignors.incremental` needs, and the members that joined or
left since. It is not in the log: a `PlanSet` keeps it with the result that writes the
target, replay tracks the members, and a record that changes another input of the
assignor discards it. Without a plan, as after a load, the next target is computed from
all members, with the same result.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from coterie.broker.coordinator.assignors.incremental import IncrementalState
from coterie.broker.coordinator.consumer.member import Member, Target
from coterie.types import MemberId


@dataclass(slots=True)
class TargetPlan:
    """The sizes of the target of `epoch`, and the changes of members since.

    `joined` holds members without a target, `left` the targets of members that left. A
    member that left and joined again is in both.
    """

    epoch: int
    sizes: IncrementalState
    joined: dict[MemberId, None] = field(default_factory=dict)
    left: dict[MemberId, Target] = field(default_factory=dict)

    def __post_init__(self) -> None:
        assert self.epoch > 0, "a target has an epoch"

    def update(self, before: Member | None, after: Member) -> bool:
        """Track a member's new metadata; return False if the plan does not fit any
        more, because the member has another subscription."""
        if before is None:
            self.joined[after.member_id] = None
            return True
        return has_same_subscription(before, after)

    def remove_target(self, member_id: MemberId, target: Target) -> None:
        """Track the removal of the target of a member, which leaves."""
        assert member_id not in self.joined, f"{member_id} has a target since the plan"
        self.left[member_id] = target

    def remove(self, member_id: MemberId) -> None:
        """Track the removal of a member; one of the plan has lost its target before."""
        self.joined.pop(member_id, None)


def has_same_subscription(before: Member, after: Member) -> bool:
    """Return whether a member subscribes to the same topics as before."""
    return (
        before.topic_names == after.topic_names
        and before.topic_regex == after.topic_regex
    )
