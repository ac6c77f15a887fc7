"""The steps of a heartbeat and of a classic join, in their order.

heartbeat.py and classic_members.py call them one after the other, after they have found
the sender: update the member, bump the group epoch if the subscription or the topics
changed, compute a target if the group epoch is ahead of it, and reconcile the member.
The order is that of Kafka's `GroupMetadataManager.consumerGroupHeartbeat`. Each step
writes to the draft, and no step calls another.
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
from coterie.broker.coordinator.consumer.members import Sender
from coterie.broker.coordinator.consumer.reconcile import (
    Owned,
    ReconcileInput,
    reconcile,
)
from coterie.broker.coordinator.consumer.subscriptions import update_regex
from coterie.broker.coordinator.consumer.target import make_target_if_due
from coterie.types import TopicId

_UNREVOKED: Final = MemberState.UNREVOKED_PARTITIONS


def update_member(draft: ConsumerDraft, sender: Sender, member: Member) -> None:
    """Write the sender's new value if it changed, or is that of a new member.

    Raises:
        ApiError: INVALID_REGULAR_EXPRESSION.
    """
    before = sender.before
    assert before.member_id == member.member_id
    if sender.replaced is not None:
        draft.replace_static_member(sender.replaced, before)
    if before.classic is not None and member.classic is None:
        for cancel in timers.cancel_classic(draft.group_id, member.member_id):
            draft.set(cancel)
    if member != before or draft.member(member.member_id) is None:
        draft.put_metadata(member)
    update_regex(draft, before, member)


def bump_epoch(draft: ConsumerDraft, before: Member, member: Member) -> None:
    """Bump the group epoch at most once, whatever the reasons.

    Raises:
        ApiError: UNSUPPORTED_ASSIGNOR, INVALID_REQUEST, for client-side assignors.
    """
    requested = requests_assignment(draft, before, member)
    needs_target = (
        requested
        or _has_other_topics(draft.group, before, member)
        or _has_other_assignor(draft, before, member)
    )
    bump_if_needed(draft, needs_target=needs_target)


def _has_other_assignor(draft: ConsumerDraft, before: Member, after: Member) -> bool:
    """Return whether the member's choice changes the group's assignor (KAFKA-20434)."""
    if before.server_assignor == after.server_assignor:
        return False
    assignors = tuple(draft.context.environment.assignors)
    return draft.group.preferred_assignor(assignors) != draft.preferred_assignor()


def _has_other_topics(group: ConsumerGroup, before: Member, after: Member) -> bool:
    """Return whether the member's subscription requires a new target.

    A new regular expression does so once it is resolved.
    """
    if before.topic_names != after.topic_names:
        return True
    regex = after.topic_regex
    return before.topic_regex != regex and group.is_resolved(regex)


def bump_if_needed(draft: ConsumerDraft, *, needs_target: bool = False) -> None:
    """Bump the group epoch if a target is needed, or is due as the topics changed.

    The topics' metadata is refreshed only for a reason, not at every heartbeat.
    """
    if needs_target or draft.group.is_refresh_due(draft.context.now_ms):
        other_topics = draft.refresh_topics()
        if needs_target or other_topics:
            draft.bump()
        draft.schedule_refresh()
    if draft.epoch == 0:
        draft.put_first_epoch()


def compute_target(draft: ConsumerDraft, sender: Member) -> None:
    """Compute the target of the group epoch, or delegate it to a member, if it is due.

    Raises:
        ApiError: UNKNOWN_SERVER_ERROR: the assignor failed.
    """
    if draft.epoch > draft.assignment_epoch and not delegate_target(draft, sender):
        make_target_if_due(draft)


def reconcile_member(
    draft: ConsumerDraft, before: Member, member: Member, owned: Owned | None
) -> Member:
    """Return the member after one step towards its target, and set its rebalance timer.

    Raises:
        ApiError: FENCED_MEMBER_EPOCH.
    """
    changed = (before.topic_names, before.topic_regex) != (
        member.topic_names,
        member.topic_regex,
    )
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
