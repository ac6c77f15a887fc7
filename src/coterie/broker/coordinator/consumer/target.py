"""The target assignment of a group: its inputs, the assignor, and its records.

`build_target` and `group_spec` are pure. `make_target_if_due` writes a record 7 for
each member whose target changed, and always a record 6.

A group that got a target within the last `group.consumer.assignment.interval.ms` waits
for the next one, so that members that join at the same time share one run of the
assignor (KIP-1263). Until then the group is Assigning and keeps its old target; the
first heartbeat of any member after the interval computes the new one.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

from coterie.broker.coordinator.assignors.spec import (
    Assign,
    GroupSpec,
    MemberSpec,
    TopicSpec,
)
from coterie.broker.coordinator.client_side.values import NO_DETAIL
from coterie.broker.coordinator.consumer.draft import ConsumerDraft
from coterie.broker.coordinator.consumer.member import Member, Target
from coterie.broker.coordinator.consumer.topics import existing_topics
from coterie.errors import ApiError
from coterie.types import MemberId, TopicId, TopicName
from coterie.wire.error_codes import ErrorCode

_Subscription: TypeAlias = tuple[tuple[TopicName, ...], str | None]
_NO_PARTITIONS: Final[Target] = {}


class KnownTopic(NamedTuple):
    """The id, name and partition count of an existing topic."""

    topic_id: TopicId
    spec: TopicSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetInput:
    """The inputs of a target assignment.

    `members` and their `previous` targets include the changes of the current request; a
    returning static member has the target of the member that it replaces.
    `resolved` holds the topics of each regular expression.
    """

    members: Mapping[MemberId, Member]
    previous: Mapping[MemberId, Target]
    topics: Mapping[TopicName, KnownTopic] = field(default_factory=dict)
    resolved: Mapping[str, Collection[TopicName]] = field(default_factory=dict)


class NewTarget(NamedTuple):
    """The targets of all members, and those that changed."""

    targets: dict[MemberId, Target]
    changed: dict[MemberId, Target]


def build_target(
    spec: GroupSpec, previous: Mapping[MemberId, Target], assign: Assign
) -> NewTarget:
    """Return the targets that the assignor computes.

    A member without a `previous` target counts as changed even if it gets no partition.

    Raises:
        ApiError: UNKNOWN_SERVER_ERROR: the assignor failed; nothing changes.
    """
    try:
        assignment = assign(spec)
    except Exception as error:
        # An assignor may be a plug-in: its errors fail the request, not the shard.
        raise ApiError(
            ErrorCode.UNKNOWN_SERVER_ERROR, f"The assignor failed: {error!r}"
        ) from error
    targets: dict[MemberId, Target] = {}
    changed: dict[MemberId, Target] = {}
    for member_id in spec.members:
        before = previous.get(member_id)
        partitions = assignment.get(member_id, _NO_PARTITIONS)
        if partitions is before:  # the same object: not compared
            targets[member_id] = before
            continue
        target = {topic: frozenset(some) for topic, some in partitions.items() if some}
        targets[member_id] = target
        if target != before:
            changed[member_id] = target
    assert targets.keys() == spec.members.keys()
    return NewTarget(targets, changed)


def group_spec(inputs: TargetInput) -> GroupSpec:
    """Return the input of the assignor; topics that do not exist are left out.

    Members with equal subscriptions share one set of topics: it is resolved once, and
    an assignor can detect them by identity.
    """
    members: dict[MemberId, MemberSpec] = {}
    topics: dict[TopicId, TopicSpec] = {}
    wanted: dict[_Subscription, frozenset[TopicId]] = {}
    for member_id, member in sorted(inputs.members.items()):
        subscription = member.topic_names, member.topic_regex
        topic_ids = wanted.get(subscription)
        if topic_ids is None:
            regex = member.topic_regex or ""
            names = {*member.topic_names, *inputs.resolved.get(regex, ())}
            known = dict(
                inputs.topics[name] for name in sorted(names) if name in inputs.topics
            )
            topics.update(known)
            topic_ids = wanted[subscription] = frozenset(known)
        members[member_id] = MemberSpec(
            member_id,
            member.instance_id,
            member.rack_id,
            topic_ids,
            inputs.previous.get(member_id, _NO_PARTITIONS),
        )
    return GroupSpec(members, topics)


def make_target_if_due(draft: ConsumerDraft) -> None:
    """Compute the target of the group epoch if it is missing and the interval has
    passed.

    Raises:
        ApiError: UNKNOWN_SERVER_ERROR: the assignor failed.
    """
    context, group = draft.context, draft.group
    interval_ms = context.environment.configs.assignment_interval_ms(group.group_id)
    due_ms = group.assigned_ms + interval_ms if group.assigned_ms else 0
    if draft.epoch > draft.assignment_epoch and context.now_ms >= due_ms:
        _make_target(draft)


def _make_target(draft: ConsumerDraft) -> None:
    """Compute the target of the group epoch with the preferred assignor."""
    assert draft.epoch > draft.assignment_epoch, "an epoch has one target"
    assign = draft.context.environment.assignors[draft.preferred_assignor()]
    inputs = target_input(draft)
    new = build_target(group_spec(inputs), inputs.previous, assign)
    for member_id, target in new.targets.items():
        if member_id in new.changed or draft.detail(member_id) != NO_DETAIL:
            draft.put_target(member_id, target)
    draft.put_target_epoch()


def target_input(draft: ConsumerDraft) -> TargetInput:
    """Return the inputs of the target, including the changes of the draft."""
    group = draft.group
    regexes = group.regexes.items()
    return TargetInput(
        members=draft.members(),
        previous={**group.targets, **draft.new_targets},
        topics={
            name: KnownTopic(topic_id, TopicSpec(count, racks))
            for name, topic_id, count, racks in existing_topics(
                draft.topic_names(), draft.context.environment.topics
            )
        },
        resolved={regex: resolved.topics for regex, resolved in regexes},
    )
