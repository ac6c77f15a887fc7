"""A group of the classic protocol: everybody joins, the leader assigns, all sync."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from coterie.pipeline.generator.group import REBALANCE_MS, SESSION_MS, Group, Member
from coterie.pipeline.generator.truth import Part
from coterie.pipeline.generator.world import Script, Sent
from coterie.wire.codec import decode, encode
from coterie.wire.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartitions,
)
from coterie.wire.error_codes import ErrorCode
from coterie.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from coterie.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from coterie.wire.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)

_EAGER: Final = "range"
_COOPERATIVE: Final = "cooperative-sticky"
_TYPE: Final = "consumer"
_VERSION: Final = 1
_WAIT_MS: Final = 200


class ClassicGroup(Group):
    """See the module's docstring."""

    protocol = "classic"
    is_cooperative = False
    """Whether members keep what they have until they are told to give it up."""

    @property
    def strategy(self) -> str:
        """The name of how the leader assigns."""
        return _COOPERATIVE if self.is_cooperative else _EAGER

    @property
    def epoch(self) -> int:
        """The generation."""
        shard = self.world.part_of(self.group_id).shard
        group = shard.state.classic_groups.get(self.group_id)
        return 0 if group is None else group.generation

    def restart(self) -> Script:
        """The last static member comes back without its id; the group does not
        rebalance for that."""
        old = self.members[-1]
        with self.told("static_restart", old):
            self._forget(old, "replaced")
            yield self.world.rng.randint(1_000, 20_000)
            new = Member("", old.instance_id, old.client_id, old.host, old.topics)
            sent = self._ask_to_join(new)
            while sent.response is None:
                yield _WAIT_MS
            new.member_id = sent.response.member_id
            self._has_joined(new)
            yield from self._sync([(new, sent.response)])

    def _join(self, new: list[Member]) -> Script:
        for member in new:
            if member.instance_id is None:
                answer = self._ask_to_join(member).response
                assert answer.error_code == ErrorCode.MEMBER_ID_REQUIRED
                member.member_id = answer.member_id
        yield from self._rebalance(new)

    def _leave(self, member: Member) -> None:
        identity = MemberIdentity(member_id=member.member_id)
        request = LeaveGroupRequest(group_id=self.group_id, members=[identity])
        self.world.send(self.group_id, request, member.client)

    def settle(self) -> Script:
        """Who is left joins again."""
        yield from self._settle()

    def _settle(self) -> Script:
        if self.members:
            yield self.world.rng.randint(100, 3_000)
            yield from self._rebalance([])

    def _rebalance(self, new: list[Member]) -> Script:
        joins = [(each, self._ask_to_join(each)) for each in (*new, *self.members)]
        while any(sent.response is None for _, sent in joins):
            yield _WAIT_MS
        for member, sent in joins:
            member.member_id = sent.response.member_id
            if member in new:
                self._has_joined(member)
        yield from self._sync([(member, sent.response) for member, sent in joins])

    def _ask_to_join(self, member: Member) -> Sent:
        return self.world.send(self.group_id, self.join_request(member), member.client)

    def join_request(self, member: Member) -> JoinGroupRequest:
        """What a member says to come, or to come back."""
        subscription = ConsumerProtocolSubscription(topics=sorted(member.topics))
        if self.is_cooperative:
            subscription.owned_partitions = _listed(member.owned)
        metadata = _VERSION.to_bytes(2) + encode(subscription, _VERSION)
        return JoinGroupRequest(
            group_id=self.group_id,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            protocol_type=_TYPE,
            protocols=[JoinGroupRequestProtocol(name=self.strategy, metadata=metadata)],
        )

    def sync_request(
        self, member: Member, assignments: list[SyncGroupRequestAssignment]
    ) -> SyncGroupRequest:
        """What a member says to get its partitions; only a leader has assignments."""
        return SyncGroupRequest(
            group_id=self.group_id,
            generation_id=member.epoch,
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            protocol_type=_TYPE,
            protocol_name=self.strategy,
            assignments=assignments,
        )

    def _sync(self, joined: list[tuple[Member, Any]]) -> Script:
        """The leader first, so that the others are answered at once."""
        joined.sort(key=lambda each: each[1].leader != each[1].member_id)
        syncs = []
        for member, answer in joined:
            assert answer.error_code == 0, (self.group_id, answer)
            member.epoch = answer.generation_id
            leads = answer.leader == member.member_id and not answer.skip_assignment
            assignments = self._assign(answer.members) if leads else []
            request = self.sync_request(member, assignments)
            sent = self.world.send(self.group_id, request, member.client)
            syncs.append((member, sent))
        while any(sent.response is None for _, sent in syncs):
            yield _WAIT_MS
        self._changed_ms = self.world.now_ms
        has_revoked = self._take_over(syncs)
        if self.is_cooperative and has_revoked:
            yield self.world.rng.randint(50, 500)
            yield from self._rebalance([])

    def _take_over(self, syncs: list[tuple[Member, Sent]]) -> bool:
        """All get what they were given; whether anybody gave anything up."""
        has_revoked = False
        for member, sent in syncs:
            assert sent.response.error_code == 0, (self.group_id, sent.response)
            member.revoking = member.owned - self.named(sent.response.assignment)
            has_revoked |= bool(member.revoking)
            self._gives_up(member)
        for member, sent in syncs:
            self._owns(member, self.named(sent.response.assignment))
            member.revoking = set()
        return has_revoked

    def _assign(self, members: Iterable[Any]) -> list[SyncGroupRequestAssignment]:
        """Ranges of each topic, by member id; in a cooperative group without what
        another one still has."""
        owners = {
            (part.topic, part.partition): member.member_id
            for member in self.members
            for part in member.owned
            if self.is_cooperative
        }
        ids = sorted(each.member_id for each in members)
        given: dict[str, list[TopicPartitions]] = {each: [] for each in ids}
        for name in sorted(self.topics):
            count = self.world.topics.partition_count(name) or 0
            for index, member_id in enumerate(ids):
                low = count * index // len(ids)
                high = count * (index + 1) // len(ids)
                free = [
                    each
                    for each in range(low, high)
                    if owners.get((name, each), member_id) == member_id
                ]
                if free:
                    mine = TopicPartitions(topic=name, partitions=free)
                    given[member_id].append(mine)
        return [
            SyncGroupRequestAssignment(
                member_id=member_id,
                assignment=_VERSION.to_bytes(2)
                + encode(
                    ConsumerProtocolAssignment(assigned_partitions=some), _VERSION
                ),
            )
            for member_id, some in given.items()
        ]

    def named(self, data: bytes) -> set[Part]:
        """The partitions of an assignment."""
        if not data:
            return set()
        value, _ = decode(ConsumerProtocolAssignment, _VERSION, data, 2)
        known = self.world.topics.known
        return {
            known[each.topic].part(partition)
            for each in value.assigned_partitions
            for partition in each.partitions
            if each.topic in known
        }


def _listed(parts: Iterable[Part]) -> list[TopicPartitions]:
    by_topic: dict[str, list[int]] = {}
    for part in sorted(parts):
        by_topic.setdefault(part.topic, []).append(part.partition)
    return [
        TopicPartitions(topic=topic, partitions=partitions)
        for topic, partitions in by_topic.items()
    ]
