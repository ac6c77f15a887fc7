"""A group of the classic protocol: all members join, the leader assigns, all sync."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from coterie.testing.log_generator.group import REBALANCE_MS, SESSION_MS, Group, Member
from coterie.testing.log_generator.truth import PartitionRef
from coterie.testing.log_generator.world import PendingRequest, Script
from coterie.wire import messages as m
from coterie.wire.codec import decode, encode
from coterie.wire.error_codes import ErrorCode

_EAGER: Final = "range"
_COOPERATIVE: Final = "cooperative-sticky"
_PROTOCOL_TYPE: Final = "consumer"
_VERSION: Final = 1
"""Of the embedded consumer protocol."""
_POLL_MS: Final = 200


class ClassicGroup(Group):
    """A group of the classic protocol."""

    protocol = "classic"
    is_cooperative = False
    """Whether members keep their partitions while they rebalance (KIP-429)."""

    @property
    def strategy(self) -> str:
        return _COOPERATIVE if self.is_cooperative else _EAGER

    @property
    def epoch(self) -> int:
        shard = self.world.log_of(self.group_id).shard
        group = shard.state.classic_groups.get(self.group_id)
        return 0 if group is None else group.generation

    def restart(self) -> Script:
        """Stop the newest member, which is static, and start it without a member id.
        The group does not rebalance (KIP-345)."""
        old = self.members[-1]
        with self.record_rebalance("static_restart", old):
            self._remove_member(old, "replaced")
            yield self.world.rng.randint(1_000, 20_000)
            new = Member("", old.instance_id, old.client_id, old.host, old.topics)
            sent = self._send_join(new)
            while sent.response is None:
                yield _POLL_MS
            new.member_id = sent.response.member_id
            self._add_member(new)
            yield from self._sync([(new, sent.response)])

    def _join(self, new: list[Member]) -> Script:
        for member in new:
            if member.instance_id is None:
                response = self._send_join(member).response
                assert response.error_code == ErrorCode.MEMBER_ID_REQUIRED
                member.member_id = response.member_id
        yield from self._rebalance(new)

    def _leave(self, member: Member) -> None:
        identity = m.MemberIdentity(member_id=member.member_id)
        request = m.LeaveGroupRequest(group_id=self.group_id, members=[identity])
        self.world.send(self.group_id, request, member.client)

    def settle(self) -> Script:
        """Make all members join again."""
        if self.members:
            yield self.world.rng.randint(100, 3_000)
            yield from self._rebalance([])

    def _rebalance(self, new: list[Member]) -> Script:
        joins = [(each, self._send_join(each)) for each in (*new, *self.members)]
        while any(sent.response is None for _, sent in joins):
            yield _POLL_MS
        for member, sent in joins:
            member.member_id = sent.response.member_id
            if member in new:
                self._add_member(member)
        yield from self._sync([(member, sent.response) for member, sent in joins])

    def _send_join(self, member: Member) -> PendingRequest:
        return self.world.send(self.group_id, self.join_request(member), member.client)

    def join_request(self, member: Member) -> m.JoinGroupRequest:
        subscription = m.ConsumerProtocolSubscription(topics=sorted(member.topics))
        if self.is_cooperative:
            subscription.owned_partitions = _by_topic(member.owned)
        metadata = _VERSION.to_bytes(2) + encode(subscription, _VERSION)
        return m.JoinGroupRequest(
            group_id=self.group_id,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            protocol_type=_PROTOCOL_TYPE,
            protocols=[
                m.JoinGroupRequestProtocol(name=self.strategy, metadata=metadata)
            ],
        )

    def sync_request(
        self, member: Member, assignments: list[m.SyncGroupRequestAssignment]
    ) -> m.SyncGroupRequest:
        """Return a member's SyncGroup request, with assignments if the member is the
        leader.
        """
        return m.SyncGroupRequest(
            group_id=self.group_id,
            generation_id=member.epoch,
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            protocol_type=_PROTOCOL_TYPE,
            protocol_name=self.strategy,
            assignments=assignments,
        )

    def _sync(self, joined: list[tuple[Member, Any]]) -> Script:
        # The leader syncs first, so that the responses to the others are sent at once.
        joined.sort(key=lambda each: each[1].leader != each[1].member_id)
        syncs = []
        for member, response in joined:
            assert response.error_code == 0, (self.group_id, response)
            member.epoch = response.generation_id
            is_leader = response.leader == member.member_id
            assigns = is_leader and not response.skip_assignment
            assignments = self._assign(response.members) if assigns else []
            request = self.sync_request(member, assignments)
            sent = self.world.send(self.group_id, request, member.client)
            syncs.append((member, sent))
        while any(sent.response is None for _, sent in syncs):
            yield _POLL_MS
        self._changed_ms = self.world.now_ms
        has_revoked = self._apply_assignments(syncs)
        if self.is_cooperative and has_revoked:
            # A second rebalance assigns the revoked partitions (KIP-429).
            yield self.world.rng.randint(50, 500)
            yield from self._rebalance([])

    def _apply_assignments(self, syncs: list[tuple[Member, PendingRequest]]) -> bool:
        """Apply all assignments; return whether a partition was revoked."""
        has_revoked = False
        # All revocations before any assignment: a partition has one owner at a time.
        for member, sent in syncs:
            assert sent.response.error_code == 0, (self.group_id, sent.response)
            assigned = self.decode_assignment(sent.response.assignment)
            member.revoking = member.owned - assigned
            has_revoked |= bool(member.revoking)
            self._end_revoked(member, member.revoking)
        for member, sent in syncs:
            assigned = self.decode_assignment(sent.response.assignment)
            self._apply_assignment(member, assigned)
            member.revoking = set()
        return has_revoked

    def _assign(self, members: Iterable[Any]) -> list[m.SyncGroupRequestAssignment]:
        """Return the leader's assignment: ranges of each topic in order of member id.
        A cooperative leader leaves out partitions that other members own."""
        owners = {
            (each.topic, each.partition): member.member_id
            for member in self.members
            for each in member.owned
            if self.is_cooperative
        }
        ids = sorted(each.member_id for each in members)
        assigned: dict[str, list[m.ConsumerProtocolTopicPartitions]] = {
            each: [] for each in ids
        }
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
                    topic = m.ConsumerProtocolTopicPartitions(
                        topic=name, partitions=free
                    )
                    assigned[member_id].append(topic)
        version = _VERSION.to_bytes(2)
        return [
            m.SyncGroupRequestAssignment(
                member_id=member_id,
                assignment=version
                + encode(
                    m.ConsumerProtocolAssignment(assigned_partitions=topics), _VERSION
                ),
            )
            for member_id, topics in assigned.items()
        ]

    def decode_assignment(self, data: bytes) -> set[PartitionRef]:
        if not data:
            return set()
        value, _ = decode(m.ConsumerProtocolAssignment, _VERSION, data, 2)
        topics = self.world.topics.by_name
        return {
            topics[each.topic].partition(partition)
            for each in value.assigned_partitions
            for partition in each.partitions
            if each.topic in topics
        }


def _by_topic(
    partitions: Iterable[PartitionRef],
) -> list[m.ConsumerProtocolTopicPartitions]:
    by_topic: dict[str, list[int]] = {}
    for each in sorted(partitions):
        by_topic.setdefault(each.topic, []).append(each.partition)
    return [
        m.ConsumerProtocolTopicPartitions(topic=topic, partitions=numbers)
        for topic, numbers in by_topic.items()
    ]
