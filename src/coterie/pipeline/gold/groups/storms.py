"""Storms: rebalance upon rebalance, so that the group gets nothing done."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from coterie.pipeline.gold.groups.rebalances import Rebalance


class StormRule(NamedTuple):
    """When rebalances are a storm. Times in microseconds."""

    rebalances: int = 5
    within_us: int = 600_000_000
    quiet_us: int = 600_000_000
    """A storm is over when so long nothing began."""


def mark_storms(
    group_id: str, all_of_group: Sequence[Rebalance], rule: StormRule
) -> None:
    """Say of each rebalance which storm it is part of."""
    first = 0
    while first < len(all_of_group):
        if not _begins_storm(all_of_group, first, rule):
            first += 1
            continue
        end = _end_of_storm(all_of_group, first, rule)
        storm = all_of_group[first:end]
        for each in storm:
            each.storm_id = f"{group_id}@{storm[0].log_offset}"
            each.storm_size = len(storm)
        first = end


def _begins_storm(some: Sequence[Rebalance], first: int, rule: StormRule) -> bool:
    last = first + rule.rebalances - 1
    if last >= len(some):
        return False
    return some[last].start_us - some[first].start_us <= rule.within_us


def _end_of_storm(some: Sequence[Rebalance], first: int, rule: StormRule) -> int:
    end = first + 1
    while (
        end < len(some) and some[end].start_us - some[end - 1].start_us < rule.quiet_us
    ):
        end += 1
    return end
