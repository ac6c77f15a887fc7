"""Old offsets expire, and groups that have nothing left are removed.

Kafka's rules (E17-18), by what the group is:

| group | its offsets are as old as |
| --- | --- |
| any, the commit asked for a retention of its own | it said |
| simple: nobody ever joined | their commit |
| consumer group (KIP-848), topic not subscribed | their commit |
| classic, Empty | the group has been empty; their commit if that is not known |
| classic, Stable, of consumers, topic not subscribed | their commit |
| anything else | they never expire |

A pending offset keeps the stored one of its partition, and its group (E17-19). A sweep
goes through all groups in slices, so that no other request waits long for it.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from coterie.coordinator.classic.group import GroupState
from coterie.coordinator.consumer.group import ConsumerGroup
from coterie.coordinator.offsets.tombstones import (
    group_tombstones,
    is_subscribed,
    tombstone,
)
from coterie.coordinator.offsets.values import CommittedOffset
from coterie.coordinator.result import Context, Record, Result, Timer, TimerKey
from coterie.coordinator.state import Group, State
from coterie.settings import Settings
from coterie.types import GroupId, TopicPartition

SLICE_OFFSETS: Final = 2_000
"""How many offsets a slice looks at; a larger group still is looked at whole. Takes
about a millisecond."""
SLICE_GROUPS: Final = 500
TIMER_KEY: Final[TimerKey] = ("expire-offsets",)
MINUTE_MS: Final = 60_000


class ExpireOffsets(NamedTuple):
    """Go on with a sweep: these groups are yet to be looked at; None begins anew."""

    group_ids: tuple[GroupId, ...] | None = None


def next_sweep(settings: Settings, now_ms: int) -> Timer:
    """The timer that begins the next sweep."""
    at_ms = now_ms + settings.offsets_retention_check_interval_ms
    return Timer(TIMER_KEY, at_ms, ExpireOffsets())


def handle(state: State, request: ExpireOffsets, context: Context) -> Result:
    """Write tombstones for what is too old in one slice; nobody waits for an answer."""
    todo = request.group_ids
    if todo is None:
        todo = (*state.classic_groups, *state.consumer_groups)
    expired: list[Record] = []
    removed: list[Record] = []
    done = seen = 0
    for group_id in todo[:SLICE_GROUPS]:
        if seen >= SLICE_OFFSETS:
            break
        done += 1
        group = state.group(group_id)
        if group is None:
            continue
        looked_at, kept = _expire_group(state, group, context, expired)
        seen += looked_at
        if not kept and _may_go(state, group):
            removed += group_tombstones(group)
    timer = next_sweep(context.settings, context.now_ms)
    if done < len(todo):
        timer = Timer(TIMER_KEY, context.now_ms, ExpireOffsets(todo[done:]))
    return Result(records=(*expired, *removed), timers=(timer,))


def _expire_group(
    state: State, group: Group, context: Context, expired: list[Record]
) -> tuple[int, int]:
    """Collect a group's tombstones; how many offsets were looked at, and how many of
    them stay."""
    kept = seen = 0
    for name, committed in state.offsets.stored.items(group.group_id):
        seen += 1
        if _has_expired(group, committed, context) and not _is_needed(
            state, group, name
        ):
            expired.append(tombstone(group.group_id, *name))
        else:
            kept += 1
    return seen, kept


def _is_needed(state: State, group: Group, name: TopicPartition) -> bool:
    if is_subscribed(state, group, name.topic):
        return True
    return state.offsets.pending.contains(group.group_id, *name)


def _may_go(state: State, group: Group) -> bool:
    """An empty group without offsets goes (E17-20), unless a transaction is open or
    someone is about to join."""
    if isinstance(group, ConsumerGroup):
        is_empty = not group.members
    else:
        is_empty = group.state is GroupState.EMPTY and not group.pending_members
    return is_empty and not state.offsets.pending.has_group(group.group_id)


def _has_expired(
    group: Group,
    committed: CommittedOffset,
    context: Context,
) -> bool:
    since_ms = _since_ms(group, committed)
    if since_ms is None:
        return False
    if committed.expire_timestamp_ms != -1:
        return context.now_ms >= committed.expire_timestamp_ms
    retention_ms = context.settings.offsets_retention_minutes * MINUTE_MS
    return context.now_ms - since_ms >= retention_ms


def _since_ms(group: Group, committed: CommittedOffset) -> int | None:
    """From when on the retention counts; None when the offset does not expire."""
    if isinstance(group, ConsumerGroup) or group.protocol_type is None:
        return committed.commit_timestamp_ms
    if group.state is GroupState.EMPTY:
        if group.state_timestamp_ms == -1:
            return committed.commit_timestamp_ms
        return group.state_timestamp_ms
    if group.state is GroupState.STABLE and group.uses_consumer_protocol:
        return committed.commit_timestamp_ms
    return None
