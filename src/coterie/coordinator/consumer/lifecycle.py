"""A consumer group when its shard starts."""

from __future__ import annotations

from coterie.coordinator.consumer import timers
from coterie.coordinator.consumer.group import ConsumerGroup
from coterie.coordinator.consumer.member import MemberState
from coterie.coordinator.result import Context, Result, Timer


def loaded(group: ConsumerGroup, context: Context) -> Result:
    """Every member has a whole session to be heard of, and one that has to revoke its
    whole rebalance timeout again (E8-06). That the group has to look at its topics is
    how it is made (E15-06)."""
    group_id = group.group_id
    set_now: list[Timer] = []
    for member in group.members.values():
        set_now.append(timers.session_timer(group_id, member, context))
        if member.state is MemberState.UNREVOKED_PARTITIONS:
            set_now.append(timers.rebalance_timer(group_id, member, context.now_ms))
    return Result(timers=tuple(set_now))
