"""When a group's target is made, and the records it is made of (E7-39, E7-40).

A group that has had a target within the last `group.consumer.assignment.interval.ms`
waits for its next one, so that members that come at once share one run of the assignor
(KIP-1263). Until then the group is Assigning, and its members go by the old target.
"""

from __future__ import annotations

from coterie.coordinator.assignors.spec import TopicSpec
from coterie.coordinator.consumer import timers
from coterie.coordinator.consumer.client_side.values import NO_DETAIL
from coterie.coordinator.consumer.draft import Draft
from coterie.coordinator.consumer.metadata import seen_topics
from coterie.coordinator.consumer.target import KnownTopic, TargetInput, build_target


def make_target_if_due(draft: Draft) -> None:
    """Make the target, if the group has none of its epoch and has not to wait.

    Raises:
        ApiError: UNKNOWN_SERVER_ERROR: the assignor failed (E11-06).
    """
    if draft.epoch <= draft.assignment_epoch:
        return
    context, group = draft.context, draft.group
    interval_ms = context.configs.assignment_interval_ms(group.group_id)
    due_ms = group.assigned_ms + interval_ms if group.assigned_ms else 0
    if context.now_ms < due_ms:
        draft.set(timers.target_timer(group.group_id, due_ms))
    else:
        make_target(draft)


def make_target(draft: Draft) -> None:
    """Let the preferred assignor make the target of the group's epoch.

    Raises:
        ApiError: UNKNOWN_SERVER_ERROR: the assignor failed (E11-06).
    """
    group, context = draft.group, draft.context
    assert draft.epoch > draft.assignment_epoch, "an epoch has one target"
    given = target_input(draft)
    new = build_target(given, context.assignors[draft.preferred_assignor()])
    assert new.targets.keys() == given.members.keys()
    for member_id, target in new.targets.items():
        if member_id in new.changed or draft.detail(member_id) != NO_DETAIL:
            draft.put_target(member_id, target)
    draft.put_target_epoch()
    draft.set(timers.cancel_target(group.group_id))


def target_input(draft: Draft) -> TargetInput:
    """All that a target is made of, as it is after the draft."""
    group = draft.group
    regexes = group.regexes.items()
    return TargetInput(
        members=draft.members(),
        previous={**group.targets, **draft.new_targets},
        topics={
            name: KnownTopic(topic_id, TopicSpec(count, racks))
            for name, topic_id, count, racks in seen_topics(
                draft.topic_names(), draft.context.topics
            )
        },
        resolved={regex: resolved.topics for regex, resolved in regexes},
    )
