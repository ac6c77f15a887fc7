"""A member that computes its group's assignment when it is asked to (KIP-848, Client
Side Mode), well or badly.

It asks for what it needs, takes its time, and hands its assignment in. When any of it
goes wrong it does nothing more: its next heartbeat tells it whether it is still to
compute.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum
from typing import TYPE_CHECKING, Final

from coterie.types import MemberId
from coterie.wire.error_codes import ErrorCode
from coterie.wire.messages.consumer_group_heartbeat import ClientAssignor
from coterie.wire.messages.consumer_group_install_assignment import (
    ConsumerGroupInstallAssignmentRequest,
    ConsumerGroupInstallAssignmentResponse,
    InstalledMember,
    InstalledPartitions,
)
from coterie.wire.messages.consumer_group_prepare_assignment import (
    ConsumerGroupPrepareAssignmentRequest,
    ConsumerGroupPrepareAssignmentResponse,
    PreparedMember,
)
from sim.broken import Broken
from sim.topics import Part

if TYPE_CHECKING:
    from sim.members.consumer import ConsumerMember

ASSIGNOR: Final = "sim"
_VERSION: Final = 0
_USUAL_MS: Final = 300
_SLOW_MS: Final = 12_000
_NOBODY: Final = "nobody"


class Flaw(Enum):
    """What is the matter with a computation."""

    SLOW = "slow"
    WRONG = "wrong"
    DEAD = "dead"
    FAILS = "fails"


class Computing:
    """What one member does to compute. `flaw` is what is wrong with its next
    computation; one that is dead stays so."""

    def __init__(self, member: ConsumerMember) -> None:
        self._member = member
        self._is_busy = False
        self.flaw: Flaw | None = None
        self.asks_anew = False
        """Whether the next full heartbeat gives a reason to compute anew."""

    def offers(self) -> list[ClientAssignor]:
        """What a full heartbeat says of it."""
        reason, self.asks_anew = int(self.asks_anew), False
        return [
            ClientAssignor(
                name=ASSIGNOR, minimum_version=0, maximum_version=1, reason=reason
            )
        ]

    def asked(self) -> None:
        """A heartbeat's answer says that this member computes."""
        if self._is_busy:
            return
        member = self._member
        if self.flaw is Flaw.DEAD:
            member.note("computes nothing")
            return
        self._is_busy = True
        request = ConsumerGroupPrepareAssignmentRequest(
            group_id=member.group_id,
            member_id=member.member_id,
            member_epoch=member.epoch,
        )
        member.call(request, _VERSION, self._prepared, self._done)

    def _done(self) -> None:
        self._is_busy = False

    def _prepared(self, answer: ConsumerGroupPrepareAssignmentResponse) -> None:
        if answer.error_code != ErrorCode.NONE:
            self._done()
            return
        flaw, self.flaw = self.flaw, None
        takes_ms = self._member.habitat.rng.randint(0, _USUAL_MS)
        if flaw is Flaw.SLOW:
            takes_ms = _SLOW_MS
        self._member.after(takes_ms, lambda: self._install(answer, flaw))

    def _install(
        self, given: ConsumerGroupPrepareAssignmentResponse, flaw: Flaw | None
    ) -> None:
        member = self._member
        request = ConsumerGroupInstallAssignmentRequest(
            group_id=member.group_id,
            member_id=member.member_id,
            member_epoch=member.epoch,
            group_epoch=given.group_epoch,
            members=_computed(given),
        )
        if flaw is Flaw.WRONG:
            request.members.append(InstalledMember(member_id=_NOBODY))
        if flaw is Flaw.FAILS:
            request.error, request.members = 1, []
        member.call(
            request, _VERSION, lambda answer: self._installed(answer, flaw), self._done
        )

    def _installed(
        self, answer: ConsumerGroupInstallAssignmentResponse, flaw: Flaw | None
    ) -> None:
        self._done()
        if flaw is Flaw.WRONG and answer.error_code == ErrorCode.NONE:
            raise Broken("an assignment for somebody unknown was taken")


def _computed(given: ConsumerGroupPrepareAssignmentResponse) -> list[InstalledMember]:
    """Whoever wants a topic gets as much of it as others, and what it had if it may."""
    chosen: dict[MemberId, set[Part]] = {m.member_id: set() for m in given.members}
    for topic in given.topics:
        able = [m for m in given.members if topic.topic_id in m.subscribed_topic_ids]
        for partition in range(topic.num_partitions):
            part = (topic.topic_id, partition)
            fewest = min((len(chosen[m.member_id]) for m in able), default=0)
            fits = [m for m in able if len(chosen[m.member_id]) == fewest]
            had = [m for m in fits if _had(m, part)]
            for member in (had or fits)[:1]:
                chosen[member.member_id].add(part)
    return [_installed_member(member_id, chosen[member_id]) for member_id in chosen]


def _had(member: PreparedMember, part: Part) -> bool:
    topic_id, partition = part
    return any(
        topic.topic_id == topic_id and partition in topic.partitions
        for topic in member.topic_partitions
    )


def _installed_member(member_id: MemberId, parts: Collection[Part]) -> InstalledMember:
    by_topic: dict[bytes, list[int]] = {}
    for topic_id, partition in sorted(parts):
        by_topic.setdefault(topic_id, []).append(partition)
    return InstalledMember(
        member_id=member_id,
        partitions=[
            InstalledPartitions(topic_id=topic_id, partitions=some)
            for topic_id, some in by_topic.items()
        ],
    )
