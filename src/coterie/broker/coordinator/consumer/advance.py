"""Advance a group after a heartbeat or a classic join (E7.6).

Members of both protocols use it, after heartbeat.py or classic_members.py has found the
member and applied the fields of its request. The order is that of Kafka's
`GroupMetadataManager.consumerGroupHeartbeat`: bump the group epoch if the subscription
or the topics changed, compute a target if the group epoch is ahead of it, then
reconcile the member.
"""

from __future__ import annotations

from typing import Final

from coterie.broker.coordinator.client_side.computation import (
    delegate_target,
    requests_assignment,
)
from coterie.broker.coordinator.consumer import timers
from coterie.broker.coordinator.consumer.draft import ConsumerDraft
from coterie.broker.coordinator.consumer.group import ConsumerGroup
from coterie.broker.coordinator.consumer.member import Member, MemberState
from coterie.broker.coordinator.consumer.reconcile import (
    Owned,
    ReconcileInput,
    reconcile,
)
from coterie.broker.coordinator.consumer.subscriptions import update_regex
from coterie.broker.coordinator.consumer.target import make_target_if_due
from coterie.types import TopicId

_UNREVOKED: Final = MemberState.UNREVOKED_PARTITIONS


def advance(
    draft: ConsumerDraft, known: Member | None, member: Member, owned: Owned | None
) -> Member:
    """Apply a member's new value and return the member after its reconciliation
    step.

    `known` is the member before the request; None for a new member.

    Raises:
        ApiError: INVALID_REGULAR_EXPRESSION; FENCED_MEMBER_EPOCH (E5-04);
            UNSUPPORTED_ASSIGNOR; UNKNOWN_SERVER_ERROR, when the assignor failed.
    """
    changed = update_member(draft, known, member)
    if draft.epoch > draft.assignment_epoch and not delegate_target(draft, member):
        make_target_if_due(draft)
    return reconcile_member(draft, member, owned, changed=changed)


def update_member(draft: ConsumerDraft, known: Member | None, member: Member) -> bool:
    """Apply a member's new value, and bump the group epoch if needed.

    Return whether its subscription changed.

    Raises:
        ApiError: INVALID_REGULAR_EXPRESSION.
    """
    before = known or Member(member_id=member.member_id)
    assert before.member_id == member.member_id
    if member != before or known is None:
        draft.put_metadata(member)
    update_regex(draft, before, member)
    requested = requests_assignment(draft, known, member)
    needs_target = requested or _needs_target(draft.group, before, member)
    _bump_if_needed(draft, needs_target=needs_target)
    return (before.topic_names, before.topic_regex) != (
        member.topic_names,
        member.topic_regex,
    )


def refresh_group(draft: ConsumerDraft) -> None:
    """Refresh the topics and compute the target if either is due.

    Raises:
        ApiError: UNKNOWN_SERVER_ERROR: the assignor failed.
    """
    assert not draft.is_touched, "a changed member needs advance()"
    _bump_if_needed(draft, needs_target=False)
    make_target_if_due(draft)


def _needs_target(group: ConsumerGroup, before: Member, after: Member) -> bool:
    """Return whether the member's subscription requires a new target (E6-01, E6-05).

    A new regular expression does so once it is resolved (E6-06).
    """
    if before.topic_names != after.topic_names:
        return True
    regex = after.topic_regex
    return before.topic_regex != regex and group.is_resolved(regex)


def _bump_if_needed(draft: ConsumerDraft, *, needs_target: bool) -> None:
    """Bump the group epoch at most once, whatever the reasons (E6-30, E7-37).

    The topics' metadata is refreshed only for a reason, not at every heartbeat (E6-32).
    """
    if needs_target or draft.group.is_refresh_due(draft.context.now_ms):
        other_topics = draft.refresh_topics()
        if needs_target or other_topics:
            draft.bump()
        draft.schedule_refresh()
    if draft.epoch == 0:
        draft.put_first_epoch()


def reconcile_member(
    draft: ConsumerDraft, member: Member, owned: Owned | None, *, changed: bool
) -> Member:
    """Reconcile the member and set its rebalance timer (E7-41, E8-03)."""
    if not changed and member.is_reconciled(draft.assignment_epoch):
        return member
    after = reconcile(
        member,
        ReconcileInput(
            target_epoch=draft.assignment_epoch,
            target=draft.target(member.member_id),
            owner_epoch=draft.group.owner_epoch,
            subscribed=_subscribed(draft, member),
            owned=owned,
            changed=changed,
        ),
    )
    if after is member:
        return member
    assert after.epoch <= draft.assignment_epoch, "no member is ahead of the target"
    draft.put_current(after)
    if after.state is _UNREVOKED and after.classic is not None:
        # Its timers are those of its next sync and join, as in Kafka.
        return after
    if after.state is _UNREVOKED:
        now_ms = draft.context.now_ms
        draft.set(timers.rebalance_timer(draft.group_id, after, now_ms))
    else:
        draft.set(timers.cancel_rebalance(draft.group_id, after.member_id))
    return after


def _subscribed(draft: ConsumerDraft, member: Member) -> set[TopicId]:
    """Return the existing topics that the member subscribes to.

    An expression that is not resolved matches nothing.
    """
    names = [*member.topic_names]
    resolved = draft.group.regexes.get(member.topic_regex or "")
    if resolved is not None:
        names += resolved.topics
    ids = (draft.context.environment.topics.topic_id(name) for name in names)
    return {topic_id for topic_id in ids if topic_id is not None}
