"""Client-side assignors: a member computes the assignment of its group (E13).

    def all_to_one(members, topics):
        numbered = [(topic, n) for topic, count in topics.items() for n in range(count)]
        return {min(members): [TopicPartition(*each) for each in numbered]}

    GroupMember(..., assignors=[ClientAssignor("all-to-one", all_to_one)])

KIP-848 defines them and Apache Kafka never shipped them: they need a Coterie broker
with `group.consumer.client.assignors.enable`. The coordinator selects one member at a
time: it fetches the group (Prepare), computes, and sends the result (Install, E13.1).
On any failure the coordinator repeats the request, or selects another member after a
deadline (E13-08).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from coterie.client.cluster import COORDINATOR_ELSEWHERE, Cluster
from coterie.client.membership import Membership
from coterie.client.notifier import Notifier
from coterie.errors import ApiError, CoterieError
from coterie.types import MemberId, TopicId, TopicName, TopicPartition
from coterie.wire import messages as m
from coterie.wire.error_codes import ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignorMember:
    """A member as an argument of an assignor. `target` is its current target
    assignment; `metadata` is that of the member's `ClientAssignor`, in its `version`.
    """

    instance_id: str | None
    rack_id: str | None
    topics: frozenset[TopicName]
    target: frozenset[TopicPartition]
    version: int
    metadata: bytes


AssignmentOf: TypeAlias = Mapping[MemberId, Iterable[TopicPartition]]
"""The partitions of each member."""
AssignorFunction: TypeAlias = Callable[
    [Mapping[MemberId, AssignorMember], Mapping[TopicName, int]], AssignmentOf
]
"""A function of the members and the number of partitions of each topic."""
"""A function from members by id and partition counts by topic to partitions by member
id. A member that the result omits gets none. It runs in the event loop and must be
quick.
"""


@dataclass(frozen=True, slots=True)
class ClientAssignor:
    """An assignor that a member supports. A group uses it only when all members support
    one version of its metadata (E13-13)."""

    name: str
    assign: AssignorFunction
    metadata: bytes = b""
    minimum_version: int = 0
    maximum_version: int = 0
    version: int = 0


def assignor_declarations(
    assignors: Sequence[ClientAssignor],
) -> list[m.ClientAssignor]:
    """Return the assignors as structs of a heartbeat request."""
    return [
        m.ClientAssignor(
            name=each.name,
            minimum_version=each.minimum_version,
            maximum_version=each.maximum_version,
            metadata_version=each.version,
            metadata_bytes=each.metadata,
        )
        for each in assignors
    ]


def compute_assignment(
    assignor: ClientAssignor, prepared: m.ConsumerGroupPrepareAssignmentResponse
) -> list[m.InstalledMember]:
    """Return the result of an assignor for a group.

    Raises the exception of its function, and ValueError for a topic that the group does
    not subscribe to. The coordinator checks the partitions (E13-30 to E13-35).
    """
    names = {topic.topic_id: topic.topic_name for topic in prepared.topics}
    ids = {name: topic_id for topic_id, name in names.items()}
    members = {
        each.member_id: _assignor_member(each, names) for each in prepared.members
    }
    counts = {topic.topic_name: topic.num_partitions for topic in prepared.topics}
    return [
        m.InstalledMember(member_id=member_id, partitions=_by_id(partitions, ids))
        for member_id, partitions in assignor.assign(members, counts).items()
    ]


def _assignor_member(
    member: m.PreparedMember, names: Mapping[TopicId, TopicName]
) -> AssignorMember:
    return AssignorMember(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        topics=frozenset(
            names[topic_id]
            for topic_id in member.subscribed_topic_ids
            if topic_id in names
        ),
        target=frozenset(
            TopicPartition(names[topic.topic_id], number)
            for topic in member.topic_partitions
            if topic.topic_id in names
            for number in topic.partitions
        ),
        version=member.assignor.metadata_version,
        metadata=member.assignor.metadata_bytes,
    )


def _by_id(
    partitions: Iterable[TopicPartition], ids: Mapping[TopicName, TopicId]
) -> list[m.TopicPartitions]:
    topics: dict[TopicId, list[int]] = {}
    for name, number in sorted(partitions):
        if name not in ids:
            raise ValueError(
                f"the assignor returned topic {name!r}, which it did not get"
            )
        topics.setdefault(ids[name], []).append(number)
    return [
        m.TopicPartitions(topic_id=topic_id, partitions=numbers)
        for topic_id, numbers in topics.items()
    ]


_LOGGER = logging.getLogger(__name__)
_FAILED: Final = 1


class AssignmentComputer:
    """A task that runs the assignors of one member. `notifier` signals heartbeat
    responses."""

    def __init__(
        self,
        cluster: Cluster,
        membership: Membership,
        notifier: Notifier,
        assignors: Sequence[ClientAssignor],
    ) -> None:
        self._cluster = cluster
        self._membership = membership
        self._notifier = notifier
        self._assignors = {each.name: each for each in assignors}

    async def run(self) -> None:
        """Compute an assignment at each request of the coordinator until the membership
        ends."""
        while not self._membership.is_over:
            if not self._membership.take_computation():
                await self._notifier.wait()
                continue
            try:
                await self._compute()
            except CoterieError as error:
                group_id = self._membership.identity.group_id
                _LOGGER.warning(
                    "group %s: computing the assignment failed: %s", group_id, error
                )

    async def _compute(self) -> None:
        membership = self._membership
        group_id, epoch = membership.identity.group_id, membership.epoch
        prepare = m.ConsumerGroupPrepareAssignmentRequest(
            group_id=group_id, member_id=membership.member_id, member_epoch=epoch
        )
        prepared = await self._cluster.call_coordinator(
            group_id, prepare, m.ConsumerGroupPrepareAssignmentResponse
        )
        self._check(prepared.error_code, prepared.error_message)
        installed = await self._cluster.call_coordinator(
            group_id,
            self._install(prepared, epoch),
            m.ConsumerGroupInstallAssignmentResponse,
        )
        self._check(installed.error_code, installed.error_message)

    def _install(
        self, prepared: m.ConsumerGroupPrepareAssignmentResponse, epoch: int
    ) -> m.ConsumerGroupInstallAssignmentRequest:
        """Return the Install request with the result, or with an error (E13-11)."""
        install = m.ConsumerGroupInstallAssignmentRequest(
            group_id=self._membership.identity.group_id,
            member_id=self._membership.member_id,
            member_epoch=epoch,
            group_epoch=prepared.group_epoch,
        )
        name = prepared.assignor_name
        try:
            install.members = compute_assignment(self._assignors[name], prepared)
        except Exception:
            _LOGGER.exception("assignor %s failed", name)
            install.error = _FAILED
        return install

    def _check(self, number: int, message: str | None) -> None:
        if not number:
            return
        code = ErrorCode.read(number)
        if code in COORDINATOR_ELSEWHERE:
            self._cluster.forget_coordinator(self._membership.identity.group_id)
        raise ApiError(code, message or code.name)
