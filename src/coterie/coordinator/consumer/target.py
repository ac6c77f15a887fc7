"""The target assignment of a group, from its members and an assignor (E11).

Pure, and knows nothing of records: it says which members' targets changed; whoever
calls writes a record 7 for each of those, and always a record 6 (E7-40).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

from coterie.coordinator.assignors.spec import (
    Assign,
    Assignment,
    GroupSpec,
    MemberSpec,
    TopicSpec,
)
from coterie.coordinator.consumer.member import Member, Target
from coterie.errors import ApiError
from coterie.types import MemberId, TopicId, TopicName
from coterie.wire.error_codes import ErrorCode

_Subscription: TypeAlias = tuple[tuple[TopicName, ...], str | None]
_NO_PARTITIONS: Final[Target] = {}


class KnownTopic(NamedTuple):
    """A topic that exists."""

    topic_id: TopicId
    spec: TopicSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetInput:
    """What a target is made of.

    `members` and their `previous` targets are as they will be once this step is done; a
    static member that came back has the target of the one whose place it took (E9-14).
    `resolved` holds the topics that each regular expression matched.
    """

    members: Mapping[MemberId, Member]
    previous: Mapping[MemberId, Target]
    topics: Mapping[TopicName, KnownTopic] = field(default_factory=dict)
    resolved: Mapping[str, Collection[TopicName]] = field(default_factory=dict)


class NewTarget(NamedTuple):
    """The targets of all members, and those of them that changed."""

    targets: dict[MemberId, Target]
    changed: dict[MemberId, Target]


def build_target(given: TargetInput, assign: Assign) -> NewTarget:
    """Let the assignor decide.

    A member without a target before counts as changed even if it gets nothing (H-32).

    Raises:
        ApiError: UNKNOWN_SERVER_ERROR: the assignor failed; nothing changes (E11-06).
    """
    assignment = _ask(assign, group_spec(given))
    targets: dict[MemberId, Target] = {}
    changed: dict[MemberId, Target] = {}
    for member_id in given.members:
        before = given.previous.get(member_id)
        partitions = assignment.get(member_id, _NO_PARTITIONS)
        if partitions is before:  # what an assignor leaves alone costs nothing
            targets[member_id] = before
            continue
        target = targets[member_id] = _normal(partitions)
        if target != before:
            changed[member_id] = target
    assert targets.keys() == given.members.keys()
    return NewTarget(targets, changed)


def group_spec(given: TargetInput) -> GroupSpec:
    """What the assignor sees: names that no topic has are gone (E11-04).

    Members that subscribe alike share one set of topics: what is wanted is looked up
    once, and an assignor sees at a glance that they are alike.
    """
    members: dict[MemberId, MemberSpec] = {}
    topics: dict[TopicId, TopicSpec] = {}
    wanted: dict[_Subscription, frozenset[TopicId]] = {}
    for member_id, member in sorted(given.members.items()):
        subscription = member.topic_names, member.topic_regex
        topic_ids = wanted.get(subscription)
        if topic_ids is None:
            known = _known_topics(subscription, given)
            topics.update(known)
            topic_ids = wanted[subscription] = frozenset(known)
        members[member_id] = MemberSpec(
            member_id,
            member.instance_id,
            member.rack_id,
            topic_ids,
            given.previous.get(member_id, _NO_PARTITIONS),
        )
    return GroupSpec(members, topics)


def _known_topics(
    subscription: _Subscription, given: TargetInput
) -> Mapping[TopicId, TopicSpec]:
    names = {*subscription[0], *given.resolved.get(subscription[1] or "", ())}
    return dict(given.topics[name] for name in sorted(names) if name in given.topics)


def _ask(assign: Assign, spec: GroupSpec) -> Assignment:
    """An assignor may be anybody's, and its failure is not ours to die of."""
    try:
        return assign(spec)
    except Exception as error:
        raise ApiError(
            ErrorCode.UNKNOWN_SERVER_ERROR, f"The assignor failed: {error!r}"
        ) from error


def _normal(partitions: Mapping[TopicId, Collection[int]]) -> Target:
    return {topic: frozenset(some) for topic, some in partitions.items() if some}
