"""A group of the consumer protocol (KIP-848), in as few heartbeats as it takes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from coterie.coordinator.consumer.group import ConsumerGroup as State
from coterie.coordinator.consumer.group import ConsumerGroupState
from coterie.pipeline.generator.group import REBALANCE_MS, Group, Member
from coterie.pipeline.generator.truth import Part
from coterie.pipeline.generator.world import Script
from coterie.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)

_BEAT_MS: Final = (300, 1_500)
_ROUNDS_MAX: Final = 200


class ConsumerGroup(Group):
    """See the module's docstring."""

    protocol = "consumer"
    regex: str | None = None

    @property
    def epoch(self) -> int:
        """The group epoch."""
        state = self._state()
        return 0 if state is None else state.epoch

    def _state(self) -> State | None:
        shard = self.world.part_of(self.group_id).shard
        return shard.state.consumer_groups.get(self.group_id)

    def restart(self) -> Script:
        """The last static member leaves for a moment and comes back with another id,
        which takes its place over."""
        old = self.members[-1]
        with self.told("static_restart", old):
            self._say(old, epoch=-2)
            self._forget(old, "replaced")
            yield self.world.rng.randint(1_000, 20_000)
            new = Member("", old.instance_id, old.client_id, old.host, old.topics)
            yield from self._join([new])

    def _join(self, new: list[Member]) -> Script:
        for member in new:
            member.member_id = f"{self.world.rng.getrandbits(64):016x}"
            answer = self._say(member, epoch=0)
            assert answer.error_code == 0, answer
            self._has_joined(member)
            self._heard(member, answer)
            yield self.world.rng.randint(10, 200)
        yield from self._settle()

    def _leave(self, member: Member) -> None:
        self._say(member, epoch=-1)

    def _settle(self) -> Script:
        for _ in range(_ROUNDS_MAX):
            for member in list(self.members):
                self._turn(member)
            if self._has_settled():
                return
            yield self.world.rng.randint(*_BEAT_MS)
        raise AssertionError(f"{self.group_id} does not settle")

    def _turn(self, member: Member) -> None:
        self._heard(member, self._say(member, epoch=member.epoch))

    def _has_settled(self) -> bool:
        state = self._state()
        assert state is not None
        if any(m.revoking or m.epoch != state.epoch for m in self.members):
            return False
        return state.state in {ConsumerGroupState.STABLE, ConsumerGroupState.EMPTY}

    def _say(self, member: Member, *, epoch: int) -> Any:
        """A heartbeat; one that says what is owned says that the rest is given up."""
        tells = epoch == 0 or (member.has_news and epoch > 0)
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group_id,
            member_id=member.member_id,
            member_epoch=epoch,
            instance_id=member.instance_id,
            rebalance_timeout_ms=REBALANCE_MS if tells else -1,
            subscribed_topic_names=sorted(member.topics) if tells else None,
            subscribed_topic_regex=self.regex if tells else None,
            topic_partitions=_listed(member.owned) if epoch >= 0 else None,
        )
        if epoch > 0:
            self._gives_up(member)
        member.has_news = False
        return self._watched(request, member)

    def _watched(self, request: Any, member: Member) -> Any:
        log = self.world.part_of(self.group_id)
        end = log.end_offset
        answer = self.world.send(self.group_id, request, member.client).response
        if log.end_offset > end:
            self._changed_ms = self.world.now_ms
        return answer

    def _heard(self, member: Member, answer: Any) -> None:
        assert answer.error_code == 0, (self.group_id, answer)
        member.epoch = answer.member_epoch
        if answer.assignment is not None:
            self._owns(member, set(self._named(answer.assignment.topic_partitions)))

    def _named(self, listed: Iterable[TopicPartitions]) -> Iterable[Part]:
        for each in listed:
            name = self.world.topics.topic_name(each.topic_id)
            assert name is not None, "a topic that is gone is still assigned"
            for partition in each.partitions:
                yield Part(name, each.topic_id.hex(), partition)


def _listed(parts: Iterable[Part]) -> list[TopicPartitions]:
    by_topic: dict[str, list[int]] = {}
    for part in sorted(parts):
        by_topic.setdefault(part.topic_id, []).append(part.partition)
    return [
        TopicPartitions(topic_id=bytes.fromhex(topic_id), partitions=partitions)
        for topic_id, partitions in by_topic.items()
    ]
