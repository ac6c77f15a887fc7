"""Replan a `uniform` assignment at a cost that depends on the moved partitions only.

`uniform.assign` iterates over all members. When all members subscribe to the same
topics and few joined or left since the last plan, a new plan needs only the two sizes
(partitions per member) and the members of each size. `IncrementalState` holds these:
`plan` returns it with a full assignment, and `replan` takes it with the changes since
and returns the next one.

The state may be lost: `replan` returns None when it does not fit (other topics, another
subscription, targets that it did not compute) or when so much changed that a full plan
is cheaper. Both give the same sizes and numbers of moves, but not always the same
assignment: among members of one size `replan` chooses the first in its stack.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from coterie.broker.coordinator.assignors import uniform
from coterie.broker.coordinator.assignors.spec import (
    Assignment,
    GroupSpec,
    MemberSpec,
    TopicSpec,
)
from coterie.broker.coordinator.assignors.survey import Partitions, size_of
from coterie.types import MemberId, TopicId

_FRESH_MAX: Final = 512
_STALE_MIN: Final = 64
_NOTHING: Final[Partitions] = {}


class Stack(NamedTuple):
    """An immutable stack: a long tuple with a cursor, and a short tuple on top of
    it.

    Removing or adding a few items does not copy the long tuple.
    """

    base: tuple[MemberId, ...] = ()
    height: int = 0
    fresh: tuple[MemberId, ...] = ()

    def __len__(self) -> int:
        return self.height + len(self.fresh)

    def downwards(self) -> Iterator[MemberId]:
        """Yield the items from the top to the bottom."""
        yield from reversed(self.fresh)
        for at in range(self.height - 1, -1, -1):
            yield self.base[at]

    def without(self, count: int) -> Stack:
        """Return the stack without `count` items at the top."""
        assert count <= len(self)
        of_fresh = min(count, len(self.fresh))
        fresh = self.fresh[: len(self.fresh) - of_fresh]
        return Stack(self.base, self.height - count + of_fresh, fresh)

    def with_more(self, more: Iterable[MemberId]) -> Stack:
        """Return the stack with these items on top."""
        fresh = (*self.fresh, *more)
        if len(fresh) <= _FRESH_MAX:
            return Stack(self.base, self.height, fresh)
        base = (*self.base[: self.height], *fresh)
        return Stack(base, len(base))


class IncrementalState(NamedTuple):
    """The state that `replan` needs. `least` is the smaller of the two sizes, and
    `extra` members have one partition more. The stack `rich` holds the members of the
    larger size, `poor` those of the smaller. Both may also contain members that have
    left or changed their size, so `replan` compares each entry with the member's
    current size."""

    topics: Mapping[TopicId, TopicSpec]
    wanted: frozenset[TopicId]
    members: int
    least: int
    extra: int
    rich: Stack
    poor: Stack


class Churn(NamedTuple):
    """The changes since the plan: members that joined, and members that left with their
    targets.

    `owned` holds the target of each member of the plan that remains.
    """

    topics: Mapping[TopicId, TopicSpec]
    owned: Mapping[MemberId, Partitions]
    joined: Sequence[MemberSpec] = ()
    left: Mapping[MemberId, Partitions] = {}


class Plan(NamedTuple):
    """The targets that changed, and the state for the next `replan`."""

    changed: Assignment
    kept: IncrementalState | None


def plan(spec: GroupSpec) -> Plan:
    """Assign all partitions as `uniform.assign` does; all targets count as changed.

    There is no state for a group whose members subscribe to different topics.
    """
    assignment = uniform.assign(spec)
    wanted = {member.subscribed_topic_ids for member in spec.members.values()}
    if len(wanted) != 1:
        return Plan(assignment, None)
    sizes = {member: size_of(some) for member, some in assignment.items()}
    least = min(sizes.values())
    rich = tuple(member for member, size in sizes.items() if size > least)
    poor = tuple(member for member, size in sizes.items() if size == least)
    kept = IncrementalState(
        topics=spec.topics,
        wanted=wanted.pop(),
        members=len(sizes),
        least=least,
        extra=len(rich),
        rich=Stack(rich, len(rich)),
        poor=Stack(poor, len(poor)),
    )
    return Plan(assignment, kept)


def replan(kept: IncrementalState, churn: Churn) -> Plan | None:
    """Assign partitions to joined members, and the partitions of members that left.

    Return None when a full plan is needed.
    """
    if not _fits(kept, churn):
        return None
    step = _Replan(kept, churn)
    if step.is_large or not step.run():
        return None
    now = step.owned_now()
    assert now.keys() >= {member.member_id for member in churn.joined}
    return Plan(now, step.kept())


def _fits(kept: IncrementalState, churn: Churn) -> bool:
    members = kept.members - len(churn.left)
    stale = len(kept.rich) + len(kept.poor) - kept.members
    return (
        members > 0
        and len(churn.owned) == members
        and (churn.topics is kept.topics or churn.topics == kept.topics)
        and stale <= kept.members + _STALE_MIN
        and all(
            member.subscribed_topic_ids == kept.wanted and not member.partitions
            for member in churn.joined
        )
    )


class _Replan:
    """One step from a state to the next.

    Every remaining member has `least` partitions or one more; `extra` members have one
    more. Partitions move one at a time.
    """

    def __init__(self, kept: IncrementalState, churn: Churn) -> None:
        self._before = kept
        self._churn = churn
        self._stay = kept.members - len(churn.left)
        self._members = self._stay + len(churn.joined)
        self._pool = [
            (topic, partition)
            for member in sorted(churn.left)
            for topic, some in sorted(churn.left[member].items())
            for partition in sorted(some)
        ]
        total = kept.members * kept.least + kept.extra
        self._quota, self._lucky = divmod(total, self._members)
        left_rich = len(self._pool) - kept.least * len(churn.left)
        self._least, self._extra = kept.least, kept.extra - left_rich
        self._rich, self._poor = kept.rich, kept.poor
        self._now: dict[MemberId, dict[TopicId, Collection[int]]] = {}
        self._sizes: dict[MemberId, int] = {}

    @property
    def is_large(self) -> bool:
        """True when a full plan is needed: it costs no more, or new members must get
        the larger size."""
        moves = len(self._pool) + self._quota * len(self._churn.joined)
        return self._lucky > self._stay or moves > self._members + _STALE_MIN

    def run(self) -> bool:
        """Move partitions; return False when the state does not match the members."""
        if not 0 <= self._extra <= self._stay:
            return False
        missing = self._quota * len(self._churn.joined) - len(self._pool)
        if missing > 0 and not self._take(missing):
            return False
        for member in self._churn.joined:
            mine: dict[TopicId, list[int]] = {}
            for _ in range(self._quota):
                topic, partition = self._pool.pop()
                mine.setdefault(topic, []).append(partition)
            self._now[member.member_id] = {**mine}
        if self._pool and not self._give():
            return False
        if self._extra == self._stay:
            self._turn(1)
        joined = [member.member_id for member in self._churn.joined]
        if (self._least, self._extra) == (self._quota, self._lucky):
            self._poor = self._poor.with_more(joined)
        elif (self._least, self._extra, self._lucky) == (
            self._quota + 1,
            0,
            self._stay,
        ):
            self._turn(-1)
            self._poor = self._poor.with_more(joined)
        else:
            return False
        return True

    def owned_now(self) -> Assignment:
        """Return the changed targets."""
        return self._now

    def kept(self) -> IncrementalState:
        """Return the state for the next step."""
        assert 0 <= self._extra < self._members, "one size at least is the smaller"
        return self._before._replace(
            members=self._members,
            least=self._least,
            extra=self._extra,
            rich=self._rich,
            poor=self._poor,
        )

    def _turn(self, by: int) -> None:
        """Relabel the smaller size as the larger one, or the reverse; requires that all
        remaining members have the same size."""
        assert self._extra == (self._stay if by > 0 else 0), "they are of one size"
        self._least += by
        if by > 0:
            self._rich, self._poor, self._extra = Stack(), self._rich, 0
        else:
            self._rich, self._poor, self._extra = self._poor, Stack(), self._stay

    def _take(self, count: int) -> bool:
        """Take partitions from members of the larger size into the pool."""
        while count:
            if not self._extra:
                self._turn(-1)
            givers = self._top(self._rich, self._least + 1, min(count, self._extra))
            if givers is None:
                return False
            self._rich, members = givers
            for member in members:
                self._pool.append(self._give_up_one(member))
            self._poor = self._poor.with_more(members)
            self._extra -= len(members)
            count -= len(members)
        return True

    def _give(self) -> bool:
        """Assign the pooled partitions to members with fewer partitions."""
        while self._pool:
            if self._extra == self._stay:
                self._turn(1)
            room = self._stay - self._extra
            takers = self._top(self._poor, self._least, min(len(self._pool), room))
            if takers is None:
                return False
            self._poor, members = takers
            for member in members:
                topic, partition = self._pool.pop()
                mine = self._mine(member)
                mine[topic] = (*mine.get(topic, ()), partition)
                self._sizes[member] += 1
            self._rich = self._rich.with_more(members)
            self._extra += len(members)
        return True

    def _top(
        self, stack: Stack, size: int, count: int
    ) -> tuple[Stack, list[MemberId]] | None:
        """Return the rest of the stack, and the topmost `count` members of a size; None
        if there are fewer."""
        assert size >= 0, "a size is not negative"
        found: dict[MemberId, None] = {}
        seen = 0
        for member in stack.downwards():
            if len(found) == count:
                break
            seen += 1
            if self._size(member) == size:
                found[member] = None
        return (stack.without(seen), [*found]) if len(found) == count else None

    def _size(self, member: MemberId) -> int:
        """Return the size of a remaining member, or -1 for one that left."""
        size = self._sizes.get(member)
        if size is None:
            partitions = self._churn.owned.get(member)
            size = -1 if partitions is None else size_of(partitions)
            self._sizes[member] = size
        return size

    def _mine(self, member: MemberId) -> dict[TopicId, Collection[int]]:
        mine = self._now.get(member)
        if mine is None:
            mine = self._now[member] = {**self._churn.owned.get(member, _NOTHING)}
        return mine

    def _give_up_one(self, member: MemberId) -> tuple[TopicId, int]:
        """Remove the member's last partition by topic and number, as a full plan
        does."""
        mine = self._mine(member)
        topic = max(mine)
        last = max(mine[topic])
        left = [partition for partition in mine[topic] if partition != last]
        if left:
            mine[topic] = left
        else:
            del mine[topic]
        self._sizes[member] -= 1
        assert self._sizes[member] >= 0, member
        return topic, last
