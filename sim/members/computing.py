"""A member with a client-side assignor (KIP-848), which may be defective. It fetches
the group's state and installs its assignment after a delay. After a failure it waits
for the next heartbeat response that requests a computation.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum
from typing import Final

from coterie.types import MemberId
from coterie.wire import messages as m
from coterie.wire.error_codes import ErrorCode
from sim.broken import Broken
from sim.members.member import Member
from sim.topics import TopicIdPartition

ASSIGNOR: Final = "sim"
_VERSION: Final = 0
_USUAL_MS: Final = 300
_SLOW_MS: Final = 12_000
_NOBODY: Final = "nobody"


class Flaw(Enum):
    """A defect of an assignment computation."""

    SLOW = "slow"
    WRONG = "wrong"
    DEAD = "dead"
    FAILS = "fails"


class Computing:
    """The client-side assignor of a member. `flaw` is the defect of its next
    computation; a `DEAD` assignor never computes again.
    """

    def __init__(self, member: Member) -> None:
        self._member = member
        self._is_busy = False
        self.flaw: Flaw | None = None
        self.requests_assignment = False
        """Whether the next full heartbeat requests an assignment."""

    def offers(self) -> list[m.ClientAssignor]:
        """Return the assignors for a full heartbeat."""
        reason, self.requests_assignment = int(self.requests_assignment), False
        return [
            m.ClientAssignor(
                name=ASSIGNOR, minimum_version=0, maximum_version=1, reason=reason
            )
        ]

    def asked(self) -> None:
        """Handle a response with ShouldComputeAssignment set."""
        if self._is_busy:
            return
        member = self._member
        if self.flaw is Flaw.DEAD:
            member.note("computes nothing")
            return
        self._is_busy = True
        request = m.ConsumerGroupPrepareAssignmentRequest(
            group_id=member.group_id,
            member_id=member.member_id,
            member_epoch=member.epoch_or_generation,
        )
        member.call(request, _VERSION, self._prepared, self._done)

    def _done(self) -> None:
        self._is_busy = False

    def _prepared(self, answer: m.ConsumerGroupPrepareAssignmentResponse) -> None:
        if answer.error_code != ErrorCode.NONE:
            self._done()
            return
        flaw, self.flaw = self.flaw, None
        takes_ms = self._member.environment.rng.randint(0, _USUAL_MS)
        if flaw is Flaw.SLOW:
            takes_ms = _SLOW_MS
        self._member.after(takes_ms, lambda: self._install(answer, flaw))

    def _install(
        self, given: m.ConsumerGroupPrepareAssignmentResponse, flaw: Flaw | None
    ) -> None:
        member = self._member
        request = m.ConsumerGroupInstallAssignmentRequest(
            group_id=member.group_id,
            member_id=member.member_id,
            member_epoch=member.epoch_or_generation,
            group_epoch=given.group_epoch,
            members=_computed(given),
        )
        if flaw is Flaw.WRONG:
            request.members.append(m.InstalledMember(member_id=_NOBODY))
        if flaw is Flaw.FAILS:
            request.error, request.members = 1, []
        member.call(
            request, _VERSION, lambda answer: self._installed(answer, flaw), self._done
        )

    def _installed(
        self, answer: m.ConsumerGroupInstallAssignmentResponse, flaw: Flaw | None
    ) -> None:
        self._done()
        if flaw is Flaw.WRONG and answer.error_code == ErrorCode.NONE:
            raise Broken("an assignment for an unknown member was installed")


def _computed(
    given: m.ConsumerGroupPrepareAssignmentResponse,
) -> list[m.InstalledMember]:
    """Return a balanced and sticky assignment."""
    chosen: dict[MemberId, set[TopicIdPartition]] = {
        member.member_id: set() for member in given.members
    }
    for topic in given.topics:
        able = [
            member
            for member in given.members
            if topic.topic_id in member.subscribed_topic_ids
        ]
        for partition in range(topic.num_partitions):
            part = (topic.topic_id, partition)
            fewest = min((len(chosen[member.member_id]) for member in able), default=0)
            fits = [each for each in able if len(chosen[each.member_id]) == fewest]
            had = [member for member in fits if _had(member, part)]
            for member in (had or fits)[:1]:
                chosen[member.member_id].add(part)
    return [_installed_member(member_id, chosen[member_id]) for member_id in chosen]


def _had(member: m.PreparedMember, part: TopicIdPartition) -> bool:
    topic_id, partition = part
    return any(
        topic.topic_id == topic_id and partition in topic.partitions
        for topic in member.topic_partitions
    )


def _installed_member(
    member_id: MemberId, parts: Collection[TopicIdPartition]
) -> m.InstalledMember:
    by_topic: dict[bytes, list[int]] = {}
    for topic_id, partition in sorted(parts):
        by_topic.setdefault(topic_id, []).append(partition)
    return m.InstalledMember(
        member_id=member_id,
        partitions=[
            m.TopicPartitions(topic_id=topic_id, partitions=some)
            for topic_id, some in by_topic.items()
        ],
    )
