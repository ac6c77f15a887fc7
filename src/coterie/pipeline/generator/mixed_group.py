"""A group on its way from the classic protocol to that of KIP-848, while its members go
on: the first new one upgrades it, and when the last new one leaves it is as it was."""

from __future__ import annotations

from typing import Any, Final

from coterie.pipeline.generator.classic_group import ClassicGroup
from coterie.pipeline.generator.consumer_group import ConsumerGroup
from coterie.pipeline.generator.group import Member
from coterie.pipeline.generator.world import Script
from coterie.wire.error_codes import ErrorCode
from coterie.wire.messages.heartbeat import HeartbeatRequest

_REJOIN: Final = ErrorCode.REBALANCE_IN_PROGRESS


class MixedGroup(ConsumerGroup):
    """Members of a classic group, and who joins them with the consumer protocol."""

    def __init__(self, classic: ClassicGroup) -> None:
        super().__init__(classic.world, classic.group_id, classic.topics)
        self.members = classic.members[:]
        self._classic = classic
        self._old = {member.member_id for member in classic.members}
        self.made = classic.made

    def _turn(self, member: Member) -> None:
        if member.member_id in self._old:
            self._classic_turn(member)
        else:
            super()._turn(member)

    def _classic_turn(self, member: Member) -> None:
        """A classic member asks whether it is to join again; it gives up all it has,
        and gets most of it back."""
        beat = HeartbeatRequest(
            group_id=self.group_id,
            generation_id=member.epoch,
            member_id=member.member_id,
            group_instance_id=member.instance_id,
        )
        if self._ask(member, beat).error_code != _REJOIN:
            return
        joined = self._ask(member, self._classic.join_request(member))
        assert joined.error_code == 0, joined
        member.epoch = joined.generation_id
        synced = self._ask(member, self._classic.sync_request(member, []))
        if synced.error_code == _REJOIN:
            return
        assert synced.error_code == 0, synced
        self._owns(member, self._classic.named(synced.assignment))
        self._gives_up(member)

    def go_back(self) -> Script:
        """The new members leave, and the group is a classic one again."""
        new = [each for each in self.members if each.member_id not in self._old]
        if len(new) > 1:
            yield from self.leave(len(new) - 1)
        last = self.members[-1]
        with self._classic.told("leave", last):
            self._say(last, epoch=-1)
            self._forget(last, "left")
            yield from self._classic.settle()

    def _ask(self, member: Member, request: Any) -> Any:
        response = self._watched(request, member)
        assert response is not None, "nobody has to wait in such a group"
        return response
