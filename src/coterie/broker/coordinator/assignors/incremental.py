"""Compute a `uniform` assignment from the previous one, at the cost of its changes.

`uniform.assign` visits all members. When all members subscribe to the same topics and
few joined or left, the next assignment needs only the two sizes (partitions per
member), and the members of each size in the order of their ids. `IncrementalState`
holds these: `plan` returns it with a full assignment, `replan` takes it with the
changes since, and returns the next one with the targets that changed.

Both return the same assignment. The state may be lost: `replan` returns None when it
does not fit (other topics, targets that it did not compute), or when so many members
change that a full plan is cheaper.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Final, NamedTuple, TypeAlias

from coterie.broker.coordinator.assignors import uniform
from coterie.broker.coordinator.assignors.spec import Assignment, GroupSpec
from coterie.broker.coordinator.assignors.survey import Partitions
from coterie.types import MemberId, TopicId

_CHANGES_MIN: Final = 64
_INSERTIONS_MAX: Final = 64
_NOTHING: Final[Partitions] = {}
_Pair: TypeAlias = tuple[TopicId, int]


class IncrementalState(NamedTuple):
    """The sizes of an assignment: the `poor` members have `least` partitions, the
    `rich` ones one more. Both are sorted, and never modified. `topics` holds the
    partition count of each subscribed topic."""

    topics: Mapping[TopicId, int]
    least: int
    rich: Sequence[MemberId]
    poor: Sequence[MemberId]

    @property
    def size(self) -> int:
        """The number of members."""
        return len(self.rich) + len(self.poor)


class Churn(NamedTuple):
    """The changes since the plan: members that joined, and members that left with their
    targets.

    `owned` holds the target of each member of the plan that remains. A member that left
    and joined again is in both. All members subscribe to all of `topics`, and only to
    these.
    """

    topics: Mapping[TopicId, int]
    owned: Mapping[MemberId, Partitions]
    joined: Collection[MemberId] = ()
    left: Mapping[MemberId, Partitions] = {}

    def size(self, state: IncrementalState) -> int:
        """Return the number of members after these changes."""
        return state.size - len(self.left) + len(self.joined)


class Plan(NamedTuple):
    """The targets that changed, and the state for the next `replan`."""

    changed: Assignment
    state: IncrementalState | None


class _Share(NamedTuple):
    """Members with the same number of partitions before, and the same after."""

    before: int
    after: int
    members: Sequence[MemberId]


def plan(spec: GroupSpec) -> Plan:
    """Assign all partitions as `uniform.assign` does; all targets count as changed.

    There is no state for a group whose members subscribe to different topics.
    """
    assignment, sizes = uniform.assign_with_sizes(spec)
    if not sizes:
        return Plan(assignment, None)
    wanted = next(iter(spec.members.values())).subscribed_topic_ids
    topics = {topic: spec.topics[topic].partition_count for topic in wanted}
    least = sum(topics.values()) // len(sizes)
    rich = [member for member, size in sizes.items() if size > least]
    poor = [member for member, size in sizes.items() if size == least]
    assert len(rich) + len(poor) == len(sizes), "there are two sizes"
    return Plan(assignment, IncrementalState(topics, least, rich, poor))


def replan(state: IncrementalState, churn: Churn) -> Plan | None:
    """Assign the partitions of members that left, and partitions to those that joined.

    Return None when a full plan is needed.
    """
    size = churn.size(state)
    if size <= 0 or churn.topics != state.topics:
        return None
    remaining = _remaining(state, churn.left)
    if remaining is None:
        return None
    rich, poor = remaining
    counted = [
        (state.least + 1, rich),
        (state.least, poor),
        (0, sorted(churn.joined)),
    ]
    least, extra = divmod(sum(state.topics.values()), size)
    shares = _shares(counted, least, extra)
    moving = [share for share in shares if share.before != share.after]
    if sum(len(share.members) for share in moving) > size // 2 + _CHANGES_MIN:
        return None
    changed = _moved(moving, churn)
    if changed is None:
        return None
    for member in churn.joined:
        changed.setdefault(member, {})
    rich = _merged(share.members for share in shares if share.after > least)
    poor = _merged(share.members for share in shares if share.after == least)
    assert (len(rich), len(poor)) == (extra, size - extra), "the sizes fit the total"
    return Plan(changed, IncrementalState(state.topics, least, rich, poor))


def _remaining(
    state: IncrementalState, left: Collection[MemberId]
) -> tuple[Sequence[MemberId], Sequence[MemberId]] | None:
    """Return the members of both sizes without those that left; None if one of these
    was not in the plan."""
    if not left:
        return state.rich, state.poor
    rich, poor = [*state.rich], [*state.poor]
    for member in left:
        for members in (rich, poor):
            at = bisect_left(members, member)
            if at < len(members) and members[at] == member:
                del members[at]
                break
        else:
            return None
    return rich, poor


def _shares(
    counted: Sequence[tuple[int, Sequence[MemberId]]], least: int, extra: int
) -> list[_Share]:
    """Return the new sizes: `extra` members get one partition more than `least`.

    As in `uniform.assign`, those that have more than `least` come first, each in the
    order of the ids.
    """
    over = [each for each in counted if each[0] > least]
    under = [each for each in counted if each[0] <= least]
    extra_over = min(extra, sum(len(members) for _, members in over))
    shares: list[_Share] = []
    for group, count in ((over, extra_over), (under, extra - extra_over)):
        cuts = _cuts([members for _, members in group], count)
        for (before, members), cut in zip(group, cuts, strict=True):
            shares.append(_Share(before, least + 1, members[:cut]))
            shares.append(_Share(before, least, members[cut:]))
    return [share for share in shares if share.members]


def _cuts(lists: Sequence[Sequence[MemberId]], count: int) -> list[int]:
    """Return how many members of each sorted list are among the first `count` of
    all."""
    if not count:
        return [0 for _ in lists]
    everyone = _merged(lists)
    if count >= len(everyone):
        return [*map(len, lists)]
    return [bisect_left(members, everyone[count]) for members in lists]


def _merged(lists: Iterable[Sequence[MemberId]]) -> Sequence[MemberId]:
    """Return the sorted union of sorted lists without a common member."""
    longest_first = sorted(filter(None, lists), key=len, reverse=True)
    if not longest_first:
        return []
    if len(longest_first) == 1:
        return longest_first[0]
    merged = [*longest_first[0]]
    others = longest_first[1:]
    if sum(map(len, others)) <= _INSERTIONS_MAX:
        for member in chain.from_iterable(others):
            insort(merged, member)
        return merged
    return sorted(chain(merged, *others))


def _moved(
    moving: Sequence[_Share], churn: Churn
) -> dict[MemberId, Mapping[TopicId, Collection[int]]] | None:
    """Return the targets after the moves; None if a target does not have the size of
    the plan."""
    changed: dict[MemberId, Mapping[TopicId, Collection[int]]] = {}
    sizes = sorted(
        (member, share.before, share.after)
        for share in moving
        for member in share.members
    )
    joined = frozenset(churn.joined)
    owned = {
        member: [] if member in joined else _pairs([churn.owned.get(member, _NOTHING)])
        for member, _, _ in sizes
    }
    if any(len(owned[member]) != before for member, before, _ in sizes):
        return None
    pool = _pairs(churn.left.values())
    for member, _, after in sizes:
        pool += owned[member][after:]
    free: Iterator[_Pair] = iter(pool)
    for member, before, after in sizes:
        mine = [*owned[member][:after], *islice(free, max(after - before, 0))]
        if len(mine) != after:
            return None
        target: dict[TopicId, list[int]] = {}
        for topic, partition in mine:
            target.setdefault(topic, []).append(partition)
        changed[member] = target
    return changed if next(free, None) is None else None


def _pairs(several: Iterable[Partitions]) -> list[_Pair]:
    return sorted(
        (topic, partition)
        for partitions in several
        for topic, some in partitions.items()
        for partition in some
    )
