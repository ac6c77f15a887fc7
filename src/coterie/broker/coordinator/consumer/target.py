"""The target assignment of a group: its inputs, the assignor, and its records (E11).

`build_target` and `group_spec` are pure. `make_target_if_due` writes a record 7 for
each member whose target changed, and always a record 6 (E7-39, E7-40).

The `uniform` assignor visits all members. When only members joined or left since the
newest target, the same result is computed from the group's plan, at the cost of these
members.

A group that got a target within the last `group.consumer.assignment.interval.ms` waits
for the next one, so that members that join at the same time share one run of the
assignor (KIP-1263). Until then the group is Assigning and keeps its old target; the
first heartbeat of any member after the interval computes the new one.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

from coterie.broker.coordinator.assignors import uniform
from coterie.broker.coordinator.assignors.incremental import (
    Churn,
    IncrementalState,
    plan,
    replan,
)
from coterie.broker.coordinator.assignors.spec import (
    Assign,
    Assignment,
    GroupSpec,
    MemberSpec,
    TopicSpec,
)
from coterie.broker.coordinator.client_side.values import NO_DETAIL
from coterie.broker.coordinator.consumer.draft import ConsumerDraft, PlanSet
from coterie.broker.coordinator.consumer.member import Member, Target
from coterie.broker.coordinator.consumer.plan import TargetPlan, has_same_subscription
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
    returning static member has the target of the member that it replaces (E9-14).
    `resolved` holds the topics of each regular expression.
    """

    members: Mapping[MemberId, Member]
    previous: Mapping[MemberId, Target]
    topics: Mapping[TopicName, KnownTopic] = field(default_factory=dict)
    resolved: Mapping[str, Collection[TopicName]] = field(default_factory=dict)


class NewTarget(NamedTuple):
    """The targets of all members, and those that changed.

    A replanned target has only the changed ones. `sizes` are for the next plan.
    """

    targets: dict[MemberId, Target]
    changed: dict[MemberId, Target]
    sizes: IncrementalState | None = None


def build_target(inputs: TargetInput, assign: Assign) -> NewTarget:
    """Return the targets that the assignor computes.

    A member without a previous target counts as changed even if it gets no partition
    (H-32).

    Raises:
        ApiError: UNKNOWN_SERVER_ERROR: the assignor failed; nothing changes (E11-06).
    """
    try:
        assignment, sizes = _assigned(group_spec(inputs), assign)
    except Exception as error:
        # An assignor may be a plug-in: its errors fail the request, not the shard.
        raise ApiError(
            ErrorCode.UNKNOWN_SERVER_ERROR, f"The assignor failed: {error!r}"
        ) from error
    targets: dict[MemberId, Target] = {}
    changed: dict[MemberId, Target] = {}
    for member_id in inputs.members:
        before = inputs.previous.get(member_id)
        partitions = assignment.get(member_id, _NO_PARTITIONS)
        if partitions is before:  # the same object: not compared
            targets[member_id] = before
            continue
        target = {topic: frozenset(some) for topic, some in partitions.items() if some}
        targets[member_id] = target
        if target != before:
            changed[member_id] = target
    assert targets.keys() == inputs.members.keys()
    return NewTarget(targets, changed, sizes)


def _assigned(
    spec: GroupSpec, assign: Assign
) -> tuple[Assignment, IncrementalState | None]:
    if assign is uniform.assign:
        return plan(spec)
    return assign(spec), None


def group_spec(inputs: TargetInput) -> GroupSpec:
    """Return the input of the assignor; topics that do not exist are left out
    (E11-04).

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
        ApiError: UNKNOWN_SERVER_ERROR: the assignor failed (E11-06).
    """
    context, group = draft.context, draft.group
    interval_ms = context.environment.configs.assignment_interval_ms(group.group_id)
    due_ms = group.assigned_ms + interval_ms if group.assigned_ms else 0
    if draft.epoch > draft.assignment_epoch and context.now_ms >= due_ms:
        _make_target(draft)


def _make_target(draft: ConsumerDraft) -> None:
    """Compute the target of the group epoch with the preferred assignor."""
    group, context = draft.group, draft.context
    assert draft.epoch > draft.assignment_epoch, "an epoch has one target"
    assign = context.environment.assignors[draft.preferred_assignor()]
    new = _replanned(draft) if assign is uniform.assign else None
    if new is None:
        new = build_target(target_input(draft), assign)
    if new.sizes is not None:
        draft.make(PlanSet(group.group_id, TargetPlan(draft.epoch, new.sizes)))
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


def _replanned(draft: ConsumerDraft) -> NewTarget | None:
    """Return the target that the group's plan and the changes since give; None if it
    must be computed from all members."""
    group = draft.group
    churn = None
    if group.plan is not None and not group.target_details:
        churn = _churn(draft, group.plan)
    if churn is None or group.plan is None:
        return None
    made = replan(group.plan.sizes, churn)
    if made is None:
        return None
    changed: dict[MemberId, Target] = {
        member_id: {topic: frozenset(some) for topic, some in partitions.items()}
        for member_id, partitions in sorted(made.changed.items())
    }
    return NewTarget(changed, changed, made.state)


def _churn(draft: ConsumerDraft, since: TargetPlan) -> Churn | None:
    """Return the members that joined or left since the plan, including the changes of
    the draft; None if something else changed."""
    group = draft.group
    joined, left = {**since.joined}, {**since.left}
    for before, after in draft.changed_members():
        if before is None and after is not None:
            joined[after.member_id] = None
        elif before is not None and after is None:
            if before.member_id in joined:
                del joined[before.member_id]
            else:
                left[before.member_id] = group.target(before.member_id)
        elif before and after and not has_same_subscription(before, after):
            return None
    if any(draft.member(member_id) is not None for member_id in draft.new_targets):
        return None  # a static member has the target of the member that it replaces
    topics = {
        topic_id: count
        for _, topic_id, count, _ in existing_topics(
            draft.topic_names(), draft.context.environment.topics
        )
    }
    churn = Churn(topics, group.targets, joined, left)
    if churn.size(since.sizes) != draft.size or not _subscribe_to(
        draft, joined, topics.keys()
    ):
        return None
    return churn


def _subscribe_to(
    draft: ConsumerDraft, joined: Collection[MemberId], topics: Collection[TopicId]
) -> bool:
    """Return whether these members subscribe to all these topics; other topics do not
    exist."""
    view, regexes = draft.context.environment.topics, draft.group.regexes
    fitting: set[_Subscription] = set()
    for member_id in joined:
        member = draft.member(member_id)
        assert member is not None, f"{member_id} is not a member"
        subscription = member.topic_names, member.topic_regex
        if subscription in fitting:
            continue
        resolved = regexes.get(member.topic_regex or "")
        names = {*member.topic_names, *(() if resolved is None else resolved.topics)}
        wanted = {each.topic_id for each in existing_topics(names, view)}
        if wanted != topics:
            return False
        fitting.add(subscription)
    return True
