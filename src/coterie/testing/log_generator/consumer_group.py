"""A group of the consumer protocol (KIP-848), and a group that is migrated online from
the classic protocol. Members send only the heartbeats that a rebalance needs.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from coterie.broker.coordinator.consumer.group import ConsumerGroup as State
from coterie.broker.coordinator.consumer.group import ConsumerGroupState
from coterie.testing.log_generator.classic_group import ClassicGroup
from coterie.testing.log_generator.group import REBALANCE_MS, Group, Member
from coterie.testing.log_generator.truth import PartitionRef
from coterie.testing.log_generator.world import Script
from coterie.wire import messages as m
from coterie.wire.error_codes import ErrorCode

_HEARTBEAT_MS: Final = (300, 1_500)
_ROUNDS_MAX: Final = 200
_SETTLED: Final = (ConsumerGroupState.STABLE, ConsumerGroupState.EMPTY)


class ConsumerGroup(Group):
    """A group of the consumer protocol."""

    protocol = "consumer"
    regex: str | None = None

    @property
    def epoch(self) -> int:
        state = self._state()
        return 0 if state is None else state.epoch

    def _state(self) -> State | None:
        shard = self.world.log_of(self.group_id).shard
        return shard.state.consumer_groups.get(self.group_id)

    def restart(self) -> Script:
        """Stop the newest member, which is static, and start it with a new member id.
        The new member replaces the old one.
        """
        old = self.members[-1]
        with self.record_rebalance("static_restart", old):
            self._heartbeat(old, epoch=-2)
            self._remove_member(old, "replaced")
            yield self.world.rng.randint(1_000, 20_000)
            new = Member("", old.instance_id, old.client_id, old.host, old.topics)
            yield from self._join([new])

    def _join(self, new: list[Member]) -> Script:
        for member in new:
            member.member_id = f"{self.world.rng.getrandbits(64):016x}"
            response = self._heartbeat(member, epoch=0)
            assert response.error_code == 0, response
            self._add_member(member)
            self._apply_response(member, response)
            yield self.world.rng.randint(10, 200)
        yield from self.settle()

    def _leave(self, member: Member) -> None:
        self._heartbeat(member, epoch=-1)

    def settle(self) -> Script:
        for _ in range(_ROUNDS_MAX):
            for member in list(self.members):
                self._heartbeat_once(member)
            state = self._state()
            assert state is not None
            is_reconciled = all(
                not each.revoking and each.epoch == state.epoch for each in self.members
            )
            if is_reconciled and state.state in _SETTLED:
                return
            yield self.world.rng.randint(*_HEARTBEAT_MS)
        raise AssertionError(f"{self.group_id} does not become stable")

    def _heartbeat_once(self, member: Member) -> None:
        acknowledged = set(member.revoking)
        response = self._heartbeat(member, epoch=member.epoch)
        self._apply_response(member, response)
        # A revoked partition may come back in the response that it is acknowledged by.
        self._end_revoked(member, acknowledged & member.revoking)

    def _heartbeat(self, member: Member, *, epoch: int) -> Any:
        """Send a heartbeat. Its owned partitions acknowledge the revocation of all
        other partitions.
        """
        is_full = epoch == 0 or (member.resends_subscription and epoch > 0)
        request = m.ConsumerGroupHeartbeatRequest(
            group_id=self.group_id,
            member_id=member.member_id,
            member_epoch=epoch,
            instance_id=member.instance_id,
            rebalance_timeout_ms=REBALANCE_MS if is_full else -1,
            subscribed_topic_names=sorted(member.topics) if is_full else None,
            subscribed_topic_regex=self.regex if is_full else None,
            topic_partitions=_by_topic_id(member.owned) if epoch >= 0 else None,
        )
        member.resends_subscription = False
        return self._send(request, member)

    def _send(self, request: Any, member: Member) -> Any:
        """Send a request; note the time when it made the coordinator write records."""
        log = self.world.log_of(self.group_id)
        end = log.end_offset
        response = self.world.send(self.group_id, request, member.client).response
        if log.end_offset > end:
            self._changed_ms = self.world.now_ms
        return response

    def _apply_response(self, member: Member, response: Any) -> None:
        assert response.error_code == 0, (self.group_id, response)
        member.epoch = response.member_epoch
        if response.assignment is not None:
            assigned = set(self._partitions(response.assignment.topic_partitions))
            self._apply_assignment(member, assigned)

    def _partitions(
        self, topics: Iterable[m.TopicPartitions]
    ) -> Iterable[PartitionRef]:
        for each in topics:
            name = self.world.topics.topic_name(each.topic_id)
            assert name is not None, "a deleted topic is still assigned"
            for partition in each.partitions:
                yield PartitionRef(name, each.topic_id.hex(), partition)


class MixedGroup(ConsumerGroup):
    """A group during its online migration (KIP-848), with members of both protocols.
    The first member of the consumer protocol upgrades the group; when the last one
    leaves, the group is downgraded.
    """

    def __init__(self, classic: ClassicGroup) -> None:
        super().__init__(classic.world, classic.group_id, classic.topics)
        self.members = classic.members[:]
        self._classic = classic
        self._classic_ids = {member.member_id for member in classic.members}
        self.members_made = classic.members_made

    def _heartbeat_once(self, member: Member) -> None:
        if member.member_id in self._classic_ids:
            self._classic_heartbeat(member)
        else:
            super()._heartbeat_once(member)

    def _classic_heartbeat(self, member: Member) -> None:
        """Send a classic heartbeat; join and sync when the response requests it. The
        member revokes all its partitions first; most of them are assigned to it again.
        """
        request = m.HeartbeatRequest(
            group_id=self.group_id,
            generation_id=member.epoch,
            member_id=member.member_id,
            group_instance_id=member.instance_id,
        )
        if self._send(request, member).error_code != _REJOIN:
            return
        joined = self._send(self._classic.join_request(member), member)
        assert joined.error_code == 0, joined
        member.epoch = joined.generation_id
        synced = self._send(self._classic.sync_request(member, []), member)
        if synced.error_code == _REJOIN:
            return
        assert synced.error_code == 0, synced
        assigned = self._classic.decode_assignment(synced.assignment)
        self._apply_assignment(member, assigned)
        self._end_revoked(member, member.revoking)

    def go_back(self) -> Script:
        """Remove the members of the consumer protocol, which downgrades the group."""
        new = [each for each in self.members if each.member_id not in self._classic_ids]
        if len(new) > 1:
            yield from self.leave(len(new) - 1)
        last = self.members[-1]
        with self._classic.record_rebalance("leave", last):
            self._heartbeat(last, epoch=-1)
            self._remove_member(last, "left")
            yield from self._classic.settle()


_REJOIN: Final = ErrorCode.REBALANCE_IN_PROGRESS


def _by_topic_id(partitions: Iterable[PartitionRef]) -> list[m.TopicPartitions]:
    by_topic: dict[str, list[int]] = {}
    for each in sorted(partitions):
        by_topic.setdefault(each.topic_id, []).append(each.partition)
    return [
        m.TopicPartitions(topic_id=bytes.fromhex(topic_id), partitions=numbers)
        for topic_id, numbers in by_topic.items()
    ]
