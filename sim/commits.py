"""Check that acknowledged commits can be fetched and that a fenced member cannot
commit. Commits are ordered as the server handled them. An acknowledged offset is the
committed offset until a later commit. A commit without a response, because the server
was killed or the request timed out, may be durable or not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, NamedTuple

from coterie.broker.coordinator.consumer.group import ConsumerGroup
from coterie.broker.coordinator.consumer.member import Member
from coterie.broker.coordinator.state import State
from coterie.types import GroupId, TopicName
from coterie.wire.error_codes import ErrorCode
from coterie.wire.messages.offset_commit import OffsetCommitRequest
from sim.broken import Broken
from sim.topics import TopicIdPartition, Topics


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


_MAY_HAVE_HAPPENED: Final = ErrorCode.COORDINATOR_NOT_AVAILABLE


class Ledger:
    """All commits of a world."""

    def __init__(self, topics: Topics) -> None:
        self._topics = topics
        self._writes: dict[Place, list[_Write]] = {}

    def handled(
        self, state: State | None, request: OffsetCommitRequest
    ) -> Callable[[Any], None]:
        """Handle a commit; return the callback for its response. `state` is None when
        the state of the group is unknown."""
        written = [
            (place, self._append(place, offset), _verdict(state, request, part))
            for place, part, offset in self._named(request)
        ]

        def answered(response: Any) -> None:
            # The partitions of a response are not in the order of the request.
            codes = {
                (name, each.partition_index): each.error_code
                for topic in response.topics
                for each in topic.partitions
                for name in (topic.name, topic.topic_id)
            }
            asked = (
                (topic.name or topic.topic_id, each.partition_index)
                for topic in request.topics
                for each in topic.partitions
            )
            for key, (place, write, verdict) in zip(asked, written, strict=True):
                code = ErrorCode(codes[key])
                self._settle(place, write, code)
                _judge(request, place, verdict, code)

        return answered

    def forget(self, group_id: GroupId | None, topic: TopicName | None) -> None:
        """Record that the offsets of a group, or of a topic, are being deleted."""
        for place, writes in self._writes.items():
            if place.group_id == group_id or place.topic == topic:
                writes.append(_Write(None))

    def check(self, group_id: GroupId, state: State) -> None:
        """Raise Broken unless fetched offsets equal the acknowledged ones."""
        for place, writes in self._writes.items():
            if place.group_id == group_id:
                committed = state.offsets.stored.get(*place)
                offset = None if committed is None else committed.offset
                allowed = _readable(writes)
                if offset not in allowed:
                    raise Broken(
                        f"{place}: {offset} is committed, acknowledged was {allowed[0]}"
                        f", and what else may be is {allowed[1:]}"
                    )

    def _named(
        self, request: OffsetCommitRequest
    ) -> Iterator[tuple[Place, TopicIdPartition, int]]:
        topics = self._topics
        for topic in request.topics:
            name = topic.name or topics.names[topic.topic_id]
            topic_id = topics.topic_id(name) if topic.name else topic.topic_id
            for each in topic.partitions:
                partition = each.partition_index
                place = Place(request.group_id, name, partition)
                yield place, (topic_id or b"", partition), each.committed_offset

    def _append(self, place: Place, offset: int) -> _Write:
        write = _Write(offset)
        self._writes.setdefault(place, []).append(write)
        return write

    def _settle(self, place: Place, write: _Write, code: ErrorCode) -> None:
        writes = self._writes[place]
        if code is ErrorCode.NONE:
            write.fate = Fate.ACKNOWLEDGED
            if write in writes:
                del writes[: writes.index(write)]
        elif code is not _MAY_HAVE_HAPPENED:
            write.fate = Fate.REFUSED
            if write in writes:
                writes.remove(write)


def _readable(writes: list[_Write]) -> list[int | None]:
    """Return the last acknowledged commit and the uncertain ones after it."""
    allowed: list[int | None] = []
    for write in reversed(writes):
        allowed.insert(0, write.offset)
        if write.fate is Fate.ACKNOWLEDGED:
            return allowed
    return [None, *allowed]


class _Verdict(Enum):
    ALLOWED = "the member may commit"
    FENCED = "the member is fenced"
    UNKNOWN = "it depends"


def _verdict(
    state: State | None, request: OffsetCommitRequest, part: TopicIdPartition
) -> _Verdict:
    """Return whether the member may commit for the partition, by the assignments in the
    state.
    """
    epoch = request.generation_id_or_member_epoch
    group = None if state is None else state.group(request.group_id)
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


def _judge(
    request: OffsetCommitRequest, place: Place, verdict: _Verdict, code: ErrorCode
) -> None:
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
