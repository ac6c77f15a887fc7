"""One member more or less, for the price of the partitions that move.

`uniform.assign` looks at every member. When all members want the same topics and few
came or went since the last plan, that is not needed: what has to be known are the two
sizes that members have, and who has which. `Kept` is just that, as a value. `plan`
makes it, `replan` takes it together with what changed since and gives the next one.

It may be lost: it is soft state, and `replan` answers None whenever it does not
fit what it is told (other topics, another subscription, targets that somebody else
made), or when so much changed that a full plan is cheaper: then ask `plan`. Results
are worth the same either way, sizes and number of moves, but not always the same: among
members of one size `replan` takes whom it finds first.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from coterie.coordinator.assignors import uniform
from coterie.coordinator.assignors.spec import (
    Assignment,
    GroupSpec,
    MemberSpec,
    TopicSpec,
)
from coterie.coordinator.assignors.survey import Partitions, size_of
from coterie.types import MemberId, TopicId

_FRESH_MAX: Final = 512
_STALE_MIN: Final = 64
_NOTHING: Final[Partitions] = {}


class Stack(NamedTuple):
    """A stack as a value: a long tuple with a cursor, and a short one on top of it, so
    that neither taking nor adding a few copies the many."""

    base: tuple[MemberId, ...] = ()
    height: int = 0
    fresh: tuple[MemberId, ...] = ()

    def __len__(self) -> int:
        return self.height + len(self.fresh)

    def downwards(self) -> Iterator[MemberId]:
        """From the top to the bottom."""
        yield from reversed(self.fresh)
        for at in range(self.height - 1, -1, -1):
            yield self.base[at]

    def without(self, count: int) -> Stack:
        """Without as many at the top."""
        assert count <= len(self)
        of_fresh = min(count, len(self.fresh))
        fresh = self.fresh[: len(self.fresh) - of_fresh]
        return Stack(self.base, self.height - count + of_fresh, fresh)

    def with_more(self, more: Iterable[MemberId]) -> Stack:
        """With these on top."""
        fresh = (*self.fresh, *more)
        if len(fresh) <= _FRESH_MAX:
            return Stack(self.base, self.height, fresh)
        base = (*self.base[: self.height], *fresh)
        return Stack(base, len(base))


class Kept(NamedTuple):
    """What is remembered of a plan: `least` is the smaller size of two, `extra` members
    have one more. The stacks hold those, and the others. They may also hold members
    that are gone or of the other size by now; only a member's size tells."""

    topics: Mapping[TopicId, TopicSpec]
    wanted: frozenset[TopicId]
    members: int
    least: int
    extra: int
    rich: Stack
    poor: Stack


class Churn(NamedTuple):
    """What happened since the plan: who joined, and who left with what.

    `owned` holds what each member of the plan who is still there has, as the plan gave
    it: a group's targets.
    """

    topics: Mapping[TopicId, TopicSpec]
    owned: Mapping[MemberId, Partitions]
    joined: Sequence[MemberSpec] = ()
    left: Mapping[MemberId, Partitions] = {}


class Plan(NamedTuple):
    """What members have from now on that had something else, and what to keep."""

    changed: Assignment
    kept: Kept | None


def plan(spec: GroupSpec) -> Plan:
    """Divide everything anew, as `uniform.assign` does; all members are told.

    There is nothing to keep of a group whose members want different topics.
    """
    assignment = uniform.assign(spec)
    wanted = {member.subscribed_topic_ids for member in spec.members.values()}
    if len(wanted) != 1:
        return Plan(assignment, None)
    sizes = {member: size_of(some) for member, some in assignment.items()}
    least = min(sizes.values())
    rich = tuple(member for member, size in sizes.items() if size > least)
    poor = tuple(member for member, size in sizes.items() if size == least)
    kept = Kept(
        topics=spec.topics,
        wanted=wanted.pop(),
        members=len(sizes),
        least=least,
        extra=len(rich),
        rich=Stack(rich, len(rich)),
        poor=Stack(poor, len(poor)),
    )
    return Plan(assignment, kept)


def replan(kept: Kept, churn: Churn) -> Plan | None:
    """Fit in who joined, and hand out what those had who left.

    Returns None when a full plan has to be made.
    """
    if not _fits(kept, churn):
        return None
    step = _Step(kept, churn)
    if step.is_large or not step.run():
        return None
    now = step.owned_now()
    assert now.keys() >= {member.member_id for member in churn.joined}
    return Plan(now, step.kept())


def _fits(kept: Kept, churn: Churn) -> bool:
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


class _Step:
    """One step from what was kept to what is to be kept.

    All members that stay are of two sizes at any time, `least` and one more, which
    `extra` of them have; giving and taking goes by one partition at a time.
    """

    def __init__(self, kept: Kept, churn: Churn) -> None:
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
        """Whether a full plan costs no more, or new members are to get one more."""
        moves = len(self._pool) + self._quota * len(self._churn.joined)
        return self._lucky > self._stay or moves > self._members + _STALE_MIN

    def run(self) -> bool:
        """Give and take; whether what was kept did fit."""
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
        """What those have that have something else."""
        return self._now

    def kept(self) -> Kept:
        """What to keep."""
        assert 0 <= self._extra < self._members, "one size at least is the smaller"
        return self._before._replace(
            members=self._members,
            least=self._least,
            extra=self._extra,
            rich=self._rich,
            poor=self._poor,
        )

    def _turn(self, by: int) -> None:
        """All members that stay are of one size: call it the smaller or the larger."""
        assert self._extra == (self._stay if by > 0 else 0), "they are of one size"
        self._least += by
        if by > 0:
            self._rich, self._poor, self._extra = Stack(), self._rich, 0
        else:
            self._rich, self._poor, self._extra = self._poor, Stack(), self._stay

    def _take(self, count: int) -> bool:
        """Take partitions, each from a member that has more than others."""
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
        """Give what is in the pool to members that have less than others."""
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
        """The first members of a size, and the stack without them and those above."""
        assert size >= 0, "nobody gives what it has not"
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
        """How many a member has that stays; one that is gone has none that count."""
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
        """The last by topic and number, as in a full plan."""
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
