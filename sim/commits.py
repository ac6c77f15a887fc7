"""Check that acknowledged commits can be fetched and that a fenced member cannot
commit. Commits are ordered as the server handled them. An acknowledged offset is the
committed offset until a later commit. A commit without a response, because the server
was killed or the request timed out, may be durable or not. The offsets of a transaction
are pending until it ends: a fetch never returns them, and one of stable offsets returns
an error in place of the committed offset.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, NamedTuple

from coterie.broker.coordinator.consumer.group import ConsumerGroup
from coterie.broker.coordinator.consumer.member import Member
from coterie.broker.coordinator.offsets.fetch import FetchOffsets
from coterie.broker.coordinator.state import State
from coterie.types import GroupId, TopicName
from coterie.wire import messages as m
from coterie.wire.error_codes import ErrorCode
from sim.broken import Broken
from sim.topics import TopicIdPartition, Topics
from sim.transactions import Transaction


class Place(NamedTuple):
    """The key of a committed offset: a group and a partition."""

    group_id: GroupId
    topic: TopicName
    partition: int


class Fate(Enum):
    """The outcome of a commit."""

    UNDECIDED = "nobody knows"
    ACKNOWLEDGED = "acknowledged"
    REFUSED = "refused"


@dataclass(eq=False, slots=True)
class _Write:
    offset: int | None
    fate: Fate = Fate.UNDECIDED
    transaction: Transaction | None = None
    may_be_deleted: bool = False

    @property
    def is_hidden(self) -> bool:
        """Whether no fetch may return it: its transaction has not committed."""
        return self.transaction is not None and not self.transaction.commits

    @property
    def is_certain(self) -> bool:
        """Whether it has replaced all earlier commits."""
        is_over = self.transaction is None or (
            self.transaction.is_over and not self.may_be_deleted
        )
        return self.fate is Fate.ACKNOWLEDGED and is_over

    @property
    def may_be_pending(self) -> bool:
        """Whether it may be part of a transaction that has not ended."""
        return self.transaction is not None and not self.transaction.is_over

    @property
    def is_pending(self) -> bool:
        """Whether it must be part of an open transaction."""
        return (
            self.transaction is not None
            and self.transaction.is_open
            and self.fate is Fate.ACKNOWLEDGED
            and not self.may_be_deleted
        )


_Commit = m.OffsetCommitRequest | m.TxnOffsetCommitRequest
_UNCERTAIN: Final = frozenset({ErrorCode.COORDINATOR_NOT_AVAILABLE})


class Ledger:
    """All commits of a world."""

    def __init__(self, topics: Topics) -> None:
        self._topics = topics
        self._writes: dict[Place, list[_Write]] = {}
        self.uncertain = _UNCERTAIN
        """The errors of a commit that may be in the log or not."""
        self.transactions_are_upstream = False
        """Whether a commit in a transaction is written later than it is handled, and
        may be in the log whatever its error is."""

    def group_ids(self) -> set[GroupId]:
        """Return the ids of all groups with commits."""
        return {place.group_id for place in self._writes}

    def handled(
        self,
        state: State | None,
        request: _Commit,
        transaction: Transaction | None = None,
    ) -> Callable[[Any], None]:
        """Handle a commit; return the callback for its response. `state` is None when
        the state of the group is unknown."""
        written = [
            (
                place,
                self._append(place, _Write(offset, transaction=transaction)),
                _verdict(state, request, part),
            )
            for place, part, offset in self._named(request)
        ]

        # The partitions of a response are not in the order of the request, from which
        # a handler may remove some.
        asked = [
            (topic.name or topic.topic_id, each.partition_index)
            for topic in request.topics
            for each in topic.partitions
        ]

        def answered(response: Any) -> None:
            codes = {
                (name, each.partition_index): each.error_code
                for topic in response.topics
                for each in topic.partitions
                for name in (topic.name, topic.topic_id)
            }
            for key, (place, write, verdict) in zip(asked, written, strict=True):
                code = ErrorCode(codes[key])
                self._settle(place, write, code)
                _judge(request, place, verdict, code)

        return answered

    def forget(self, group_id: GroupId | None, topic: TopicName | None) -> None:
        """Record that the offsets of a group, or of a topic, are being deleted."""
        for place, writes in self._writes.items():
            if place.group_id == group_id or place.topic == topic:
                for write in writes:
                    write.may_be_deleted = True
                writes.append(_Write(None))

    def deleted(self, request: m.OffsetDeleteRequest) -> Callable[[Any], None]:
        """Handle an OffsetDelete; return the callback for its response."""
        written: dict[Place, _Write] = {}
        for topic in request.topics:
            for each in topic.partitions:
                place = Place(request.group_id, topic.name, each.partition_index)
                for write in self._writes.get(place, ()):
                    write.may_be_deleted = True
                written[place] = self._append(place, _Write(None))

        def answered(response: Any) -> None:
            codes = {
                (topic.name, each.partition_index): ErrorCode(each.error_code)
                for topic in response.topics
                for each in topic.partitions
            }
            for place, write in written.items():
                whole = ErrorCode(response.error_code)
                code = whole or codes[place.topic, place.partition]
                self._settle(place, write, ErrorCode(code))

        return answered

    def fetched(
        self, request: FetchOffsets
    ) -> Callable[[m.OffsetFetchResponseGroup], None]:
        """Handle a fetch; return the callback that checks its response."""
        expected = {
            place: _Expected.of(writes, stable=request.require_stable)
            for place, writes in self._writes.items()
            if place.group_id == request.group.group_id
        }

        def answered(group: m.OffsetFetchResponseGroup) -> None:
            if group.error_code:
                return
            found = {
                Place(group.group_id, topic.name, each.partition_index): each
                for topic in group.topics
                for each in topic.partitions
            }
            for place, each in found.items():
                offset = None if each.committed_offset < 0 else each.committed_offset
                want = expected.get(place, _Expected([None]))
                want.check(place, offset, ErrorCode(each.error_code))
            if request.group.topics is None:
                for place in expected.keys() - found.keys():
                    _check_readable(place, None, expected[place].offsets)

        return answered

    def check(self, group_id: GroupId, state: State) -> None:
        """Raise Broken unless fetched offsets equal the acknowledged ones."""
        for place, writes in self._writes.items():
            if place.group_id == group_id:
                committed = state.offsets.stored.get(*place)
                offset = None if committed is None else committed.offset
                _check_readable(place, offset, _readable(writes))

    def _named(self, request: _Commit) -> Iterator[tuple[Place, TopicIdPartition, int]]:
        topics = self._topics
        for topic in request.topics:
            name = topic.name or topics.names[topic.topic_id]
            topic_id = topics.topic_id(name) if topic.name else topic.topic_id
            for each in topic.partitions:
                partition = each.partition_index
                place = Place(request.group_id, name, partition)
                yield place, (topic_id or b"", partition), each.committed_offset

    def _append(self, place: Place, write: _Write) -> _Write:
        self._writes.setdefault(place, []).append(write)
        return write

    def _settle(self, place: Place, write: _Write, code: ErrorCode) -> None:
        writes = self._writes[place]
        if code is ErrorCode.NONE:
            write.fate = Fate.ACKNOWLEDGED
            if write in writes and write.transaction is None:
                at = writes.index(write)
                pending = [each for each in writes[:at] if each.may_be_pending]
                writes[:at] = pending
            elif write in writes[:-1] and self.transactions_are_upstream:
                # It was written before or after what was handled since.
                later = _Write(write.offset, transaction=write.transaction)
                later.may_be_deleted = write.may_be_deleted
                writes.append(later)
        elif write.transaction is not None and self.transactions_are_upstream:
            return
        elif code not in self.uncertain:
            write.fate = Fate.REFUSED
            if write in writes:
                writes.remove(write)


def _readable(writes: list[_Write]) -> list[int | None]:
    """Return the last acknowledged commit and the uncertain ones after it."""
    allowed: list[int | None] = []
    for write in reversed(writes):
        if write.is_hidden:
            continue
        allowed.insert(0, write.offset)
        if write.is_certain:
            return allowed
    return [None, *allowed]


def _check_readable(
    place: Place, offset: int | None, allowed: list[int | None]
) -> None:
    if offset not in allowed:
        raise Broken(
            f"{place}: {offset} is committed, acknowledged was {allowed[0]}"
            f", and what else may be is {allowed[1:]}"
        )


class _Expected(NamedTuple):
    """What a fetch may return for a place."""

    offsets: list[int | None]
    may_be_unstable: bool = False
    is_unstable: bool = False

    @classmethod
    def of(cls, writes: list[_Write], *, stable: bool) -> _Expected:
        """Return what a fetch that is handled now may return."""
        return cls(
            _readable(writes),
            stable and any(write.may_be_pending for write in writes),
            stable and any(write.is_pending for write in writes),
        )

    def check(self, place: Place, offset: int | None, code: ErrorCode) -> None:
        """Raise Broken unless the fetched offset or error is correct."""
        if code is ErrorCode.UNSTABLE_OFFSET_COMMIT:
            if not self.may_be_unstable:
                raise Broken(f"{place} is reported as unstable and is stable")
            return
        if self.is_unstable:
            raise Broken(f"{place}: {offset} is reported as stable; one is pending")
        _check_readable(place, offset, self.offsets)


class _Verdict(Enum):
    ALLOWED = "the member may commit"
    FENCED = "the member is fenced"
    UNKNOWN = "it depends"


def _verdict(state: State | None, request: _Commit, part: TopicIdPartition) -> _Verdict:
    """Return whether the member may commit for the partition, by the assignments in the
    state.
    """
    epoch = request.generation_id_or_member_epoch
    group = None if state is None else state.offset_group(request.group_id)
    if state is None or epoch < 0:
        return _Verdict.UNKNOWN
    if group is None or request.member_id not in group.members:
        return _Verdict.FENCED
    if isinstance(group, ConsumerGroup):
        return _by_epoch(group.members[request.member_id], epoch, part)
    return _Verdict.UNKNOWN if epoch == group.generation else _Verdict.FENCED


def _by_epoch(member: Member, epoch: int, part: TopicIdPartition) -> _Verdict:
    """Return whether the member's epoch allows the commit (E17-02, E17-05)."""
    if epoch == member.epoch:
        return _Verdict.ALLOWED
    topic_id, partition = part
    since = (
        held[topic_id][partition]
        for held in (member.assigned, member.pending_revocation)
        if partition in held.get(topic_id, ())
    )
    had_it = any(each <= epoch for each in since)
    return _Verdict.UNKNOWN if epoch < member.epoch and had_it else _Verdict.FENCED


def _judge(request: _Commit, place: Place, verdict: _Verdict, code: ErrorCode) -> None:
    who = f"{request.member_id} at {request.generation_id_or_member_epoch}"
    if code is ErrorCode.NONE and verdict is _Verdict.FENCED:
        raise Broken(f"{place}: {who} is fenced and has committed")
    is_epochs_fault = code in (
        ErrorCode.STALE_MEMBER_EPOCH,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.ILLEGAL_GENERATION,
    )
    if is_epochs_fault and verdict is _Verdict.ALLOWED:
        raise Broken(f"{place}: {who} may commit and was refused: {code.name}")
