"""What follows once a member has said who it is and what it wants: the group's epoch,
its target, and one step of this member towards its own (E7.6).

Members of both protocols go this way, whether they come with a heartbeat of their own
(heartbeat.py) or with a classic join (classic_join.py).
"""

from __future__ import annotations

from typing import Final

from coterie.coordinator.consumer import timers
from coterie.coordinator.consumer.assign import make_target_if_due
from coterie.coordinator.consumer.client_side.choice import (
    delegate,
    end,
    is_client_side,
)
from coterie.coordinator.consumer.client_side.mode import (
    asks_for_assignment,
    check_offers,
)
from coterie.coordinator.consumer.draft import Draft
from coterie.coordinator.consumer.group import ConsumerGroup
from coterie.coordinator.consumer.member import Member, MemberState
from coterie.coordinator.consumer.reconcile import Owned, Step, reconcile
from coterie.coordinator.consumer.resolve import take_regex
from coterie.types import TopicId

_UNREVOKED: Final = MemberState.UNREVOKED_PARTITIONS


def advance(
    draft: Draft, known: Member | None, member: Member, owned: Owned | None
) -> Member:
    """Take in what the member says now, `known` being what it was before, None if it is
    new; the member after its step.

    Raises:
        ApiError: INVALID_REGULAR_EXPRESSION; FENCED_MEMBER_EPOCH (E5-04);
            UNSUPPORTED_ASSIGNOR; UNKNOWN_SERVER_ERROR, when the assignor failed.
    """
    before = known or Member(member_id=member.member_id)
    assert before.member_id == member.member_id
    if member != before or known is None:
        draft.put_metadata(member)
    changed = _has_other_subscription(draft.group, known, member)
    take_regex(draft, before, member)
    asked = asks_for_assignment(known, member)
    if asked:
        check_offers(member, draft.offers())
    _bump_if_needed(draft, changed=changed, asked=asked)
    _have_target(draft, member)
    return _reconcile(draft, member, owned, changed=changed)


def keep_up(draft: Draft) -> None:
    """What is due in a group whoever is heard of: a look at its topics, a target.

    Raises:
        ApiError: UNKNOWN_SERVER_ERROR: the assignor failed.
    """
    assert not draft.is_touched, "a member that changes goes the whole way"
    _bump_if_needed(draft, changed=False)
    make_target_if_due(draft)


def _has_other_subscription(
    group: ConsumerGroup, before: Member | None, after: Member
) -> bool:
    """Whether the group has to look for another target because of what a member wants:
    a new member always is such a change (E6-01, E6-05).

    What another regular expression is worth is known once it is resolved; until then
    the member keeps what it has (E6-06).
    """
    if before is None or before.topic_names != after.topic_names:
        return True
    regex = after.topic_regex
    return before.topic_regex != regex and group.is_resolved(regex)


def _bump_if_needed(draft: Draft, *, changed: bool, asked: bool = False) -> None:
    """Bump the group epoch at most once, whatever the reasons (E6-30, E7-37).

    The topics are looked at when there is a reason to, not at every heartbeat (E6-32).
    """
    other_assignor = asked or _has_other_assignor(draft)
    if changed or other_assignor or draft.group.is_refresh_due(draft.context.now_ms):
        other_topics = draft.look_at_topics()
        if changed or other_assignor or other_topics:
            draft.bump()
        draft.refreshed()


def _have_target(draft: Draft, sender: Member) -> None:
    """Make the target, or have a member compute it, if the group's epoch has none."""
    if draft.epoch <= draft.assignment_epoch:
        return
    if is_client_side(draft):
        draft.computes = delegate(draft, sender)
        return
    if draft.group.computation is not None:
        end(draft)  # not everybody can compute any more (E12-02)
    make_target_if_due(draft)


def _has_other_assignor(draft: Draft) -> bool:
    """Whether the group prefers another assignor from now on (F6-03)."""
    if not draft.is_touched:
        return False
    group = draft.group
    was = group.preferred_assignor(tuple(draft.context.assignors))
    return bool(group.members) and draft.preferred_assignor() != was


def _reconcile(
    draft: Draft, member: Member, owned: Owned | None, *, changed: bool
) -> Member:
    """One step of the member, and its rebalance timer (E7-41, E8-03)."""
    after = reconcile(
        member,
        Step(
            target_epoch=draft.assignment_epoch,
            target=draft.target(member.member_id),
            owner_epoch=draft.group.owner_epoch,
            owned=owned,
            subscribed=_subscribed(draft, member, changed=changed),
        ),
    )
    if after is member:
        return member
    assert after.epoch <= draft.assignment_epoch, "no member is ahead of the target"
    draft.put_current(after)
    if after.state is _UNREVOKED:
        now_ms = draft.context.now_ms
        draft.set(timers.rebalance_timer(draft.group_id, after, now_ms))
    else:
        draft.set(timers.cancel_rebalance(draft.group_id, after.member_id))
    return after


def _subscribed(draft: Draft, member: Member, *, changed: bool) -> set[TopicId] | None:
    """The topics a member wants, if the target may be older than its wish: it was said
    just now, or the group still waits for the target that knows of it (E5-15)."""
    assert draft.member(member.member_id) is member
    is_resolved = draft.group.is_resolved(member.topic_regex)
    if not changed and (draft.epoch == draft.assignment_epoch or not is_resolved):
        return None
    names = [*member.topic_names]
    resolved = draft.group.regexes.get(member.topic_regex or "")
    if resolved is not None:
        names += resolved.topics
    ids = (draft.context.topics.topic_id(name) for name in names)
    return {topic_id for topic_id in ids if topic_id is not None}
