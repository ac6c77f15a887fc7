"""Changes to a consumer group that the log does not hold (`result.Change`)."""

from __future__ import annotations

from dataclasses import dataclass

from coterie.coordinator.consumer.client_side.values import Computation
from coterie.coordinator.consumer.group import ConsumerGroup, Refresh, RegexRun
from coterie.coordinator.state import State
from coterie.types import GroupId


@dataclass(frozen=True, slots=True)
class RefreshSet:
    """A group looks at its topics again when this says so (E15-05)."""

    group_id: GroupId
    refresh: Refresh

    def apply(self, state: State) -> None:
        """Set it, if the group is there: a new one looks at its next heartbeat."""
        assert self.refresh.deadline_ms >= 0
        group = state.consumer_groups.get(self.group_id)
        if group is not None:
            group.refresh = self.refresh


@dataclass(frozen=True, slots=True)
class RegexRunSet:
    """A group's regular expressions are resolved when this says so (E14-06)."""

    group_id: GroupId
    run: RegexRun

    def apply(self, state: State) -> None:
        """Set it, if the group is there: a new one has its first run at once."""
        assert self.run.earliest_ms >= 0
        group = state.consumer_groups.get(self.group_id)
        if group is not None:
            group.regex_run = self.run


@dataclass(frozen=True, slots=True)
class ComputationSet:
    """Somebody computes, knows more, or nobody does any more (E13-01)."""

    group_id: GroupId
    computation: Computation | None

    def apply(self, state: State) -> None:
        """Set it. Who joins may be the first: of a group that is being made, also in a
        classic one's place, the first record finds it there."""
        group = state.consumer_groups.get(self.group_id)
        if group is None:
            if self.computation is None or not self.computation.member_id:
                return
            group = state.consumer_groups[self.group_id] = ConsumerGroup(self.group_id)
        group.computation = self.computation
