"""Counts of rebalances, from the differences between polls.

A count is a lower bound: several rebalances between two polls are one where the group
has no number that counts them. KIP-848 groups have the group epoch, and classic groups
on Coterie the generation (KIP-181); other brokers do not return the generation of
classic groups, whose rebalances are seen as a state or as another assignment.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from coterie import client
from coterie.types import GroupId


class _Seen(NamedTuple):
    epoch: int | None
    is_rebalancing: bool
    assignment: int
    """A hash of the members with their partitions."""


class RebalanceCounts:
    """The rebalances of each group since the group was first polled."""

    def __init__(self) -> None:
        self.counts: Counter[GroupId] = Counter()
        self._seen: dict[GroupId, _Seen] = {}

    def add(self, description: client.GroupDescription) -> None:
        """Compare a group with its description of the poll before."""
        group_id = description.group_id
        now, before = _seen(description), self._seen.get(group_id)
        self._seen[group_id] = now
        self.counts[group_id] += 0 if before is None else _between(before, now)

    def keep(self, group_ids: Iterable[GroupId]) -> None:
        """Forget all other groups."""
        kept = set(group_ids)
        for each in self._seen.keys() - kept:
            del self._seen[each], self.counts[each]


def _seen(description: client.GroupDescription) -> _Seen:
    epoch = description.group_epoch
    return _Seen(
        description.generation_id if epoch is None else epoch,
        description.state.is_rebalancing,
        hash(tuple((each.member_id, each.assignment) for each in description.members)),
    )


def _between(before: _Seen, now: _Seen) -> int:
    """Return the least number of rebalances between two polls."""
    if before.epoch is not None and now.epoch is not None:
        # A smaller number is that of a group that was deleted and created again.
        is_same_group = now.epoch >= before.epoch
        return now.epoch - before.epoch if is_same_group else int(now.epoch > 0)
    if now.is_rebalancing:
        return int(not before.is_rebalancing)
    return int(not before.is_rebalancing and now.assignment != before.assignment)
