"""What must hold in a world after every step, and who looks when.

After each step: the state contradicts nothing (coordinator/invariants.py), so that no
partition has two owners there; no epoch goes back; no member is taken out early; the
server logs no bug. By the way: what members are handed (ownership.py) and what they
commit (commits.py), and what is answered from memory (memo.py). Now and then, and at
the end: the log, and legal thinnings of it, give the live state again (durability.py),
and acknowledged commits are readable.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from random import Random
from traceback import extract_tb
from typing import Any

from coterie.coordinator import invariants
from coterie.coordinator.describe.delete_groups import DeleteGroup
from coterie.coordinator.state import State
from coterie.runtime.deferred import Answer
from coterie.runtime.shards import DrivenShard, Phase
from coterie.types import GroupId, TopicName
from coterie.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
)
from coterie.wire.messages.offset_commit import OffsetCommitRequest
from sim.broken import Broken, Ears
from sim.commits import Ledger
from sim.durability import check_same, read_log, replayed, thinned
from sim.epochs import Seen, check_order, seen
from sim.members.member import Member
from sim.memo import Memos
from sim.network import Call
from sim.ownership import Ownership, is_sign_of_life
from sim.server import Server, Surroundings


def _ignore(response: object) -> None:
    """Nobody watches for this answer."""


class _Shard:
    """What is known of one shard: as it was last looked at, and as it was when all of
    it was durable."""

    def __init__(self) -> None:
        self.shard: object = None
        self.version = -1
        self.live: dict[GroupId, Seen] = {}
        self.durable: dict[GroupId, Seen] = {}

    def forget(self, group_id: GroupId) -> None:
        """The group may be deleted now: should the server die before that is looked
        at, it may find another group in its place."""
        kept = self.durable.items()
        self.durable = {each: epochs for each, epochs in kept if each != group_id}


class Checker:
    """Looks after a world; raises Broken."""

    def __init__(
        self, around: Surroundings, ears: Ears, ended: Callable[[Member], None]
    ) -> None:
        self._around = around
        self._ears = ears
        self._ended = ended
        self.ledger = Ledger(around.topics)
        self._ownership = Ownership(around.clock, around.topics, around.configs)
        self._shards: dict[int, _Shard] = {}
        self._memos: Memos | None = None
        self.replays = 0

    # What members tell.

    def adopted(self, member: Member, parts: Collection[Any]) -> None:
        """A member begins to read partitions."""
        self._ownership.adopted(member, parts)

    def ended(self, member: Member) -> None:
        """A member's process is gone."""
        self._ownership.ended(member)
        self._ended(member)

    # What the server does.

    def serve(self, server: Server, call: Call, answer: Answer) -> None:
        """Hand a request to the server, and watch."""
        request = call.request
        driven = server.runtime.shards[server.runtime.shard_of(call.group_id)]
        state = driven.shard.state if driven.phase is Phase.ACTIVE else None
        watched: Callable[[Any], object] = _ignore
        if state is not None:
            self._ownership.heard(request)
        if isinstance(request, OffsetCommitRequest):
            watched = self.ledger.handled(state, request)
        elif isinstance(request, DeleteGroup) and driven.index in self._shards:
            self.ledger.forget(request.group_id, None)
            self._shards[driven.index].forget(request.group_id)
        elif is_sign_of_life(request):
            watched = self._heartbeat_watcher(request)

        at_once: list[Any] = []

        def answered(response: Any) -> None:
            at_once.append(response)
            watched(response)
            answer(response)

        compare = self._memos_of(server).watch(call, driven)
        server.runtime.submit(driven.index, request, call.caller, answered)
        compare(at_once[0] if at_once else None)
        self.look(server, request)

    def _memos_of(self, server: Server) -> Memos:
        if self._memos is None or self._memos.server is not server:
            self._memos = Memos(server)
        return self._memos

    def _heartbeat_watcher(
        self, request: ConsumerGroupHeartbeatRequest
    ) -> Callable[[Any], None]:
        accepted = self._ownership.beaten(request)

        def answered(response: Any) -> None:
            if response.error_code == 0:
                accepted()

        return answered

    def look(self, server: Server, cause: Any = None) -> None:
        """Check what has changed since the last look."""
        self._ears.check()
        for driven in server.runtime.shards:
            if driven.phase is Phase.ACTIVE:
                self._look_at(server, driven, cause)

    def _look_at(self, server: Server, driven: DrivenShard, cause: Any) -> None:
        known = self._shards.setdefault(driven.index, _Shard())
        state = driven.shard.state
        if known.shard is not driven.shard:
            known.shard, known.version = driven.shard, -1
            groups = {**state.classic_groups, **state.consumer_groups, **known.live}
            known.live = known.durable
            self._ownership.reloaded(groups, self._around.clock.now_ms)
        if known.version != driven.version:
            known.version = driven.version
            self._check(known, state, cause)
        if server.is_quiet(driven):
            known.durable = known.live

    def _check(self, known: _Shard, state: State, cause: Any) -> None:
        try:
            invariants.check(state)
        except AssertionError as error:
            *_, where = extract_tb(error.__traceback__)
            what = f"{error}" or where.line
            raise Broken(f"the state contradicts itself: {what}") from error
        now = seen(state)
        check_order(known.live, now)
        known.live = now
        self._ownership.look(state, cause, self._around.clock.now_ms)

    def forget_offsets(
        self, *, group_id: GroupId | None = None, topic: TopicName | None = None
    ) -> None:
        """Offsets are being deleted, with their group or their topic."""
        self.ledger.forget(group_id, topic)

    # Now and then.

    def compare(self, server: Server, rng: Random) -> None:
        """The log and the live state say the same, and so do commits and readers."""
        for driven in server.runtime.shards:
            if driven.phase is not Phase.ACTIVE or not server.is_quiet(driven):
                continue
            self.replays += 1
            live = driven.shard.state
            entries = read_log(server.disk, driven.where)
            settings = server.settings
            check_same(live, replayed(entries, settings), "the log")
            less = thinned(entries, rng)
            check_same(live, replayed(less, settings), "the thinned log")
            for group_id in {**live.classic_groups, **live.consumer_groups}:
                self.ledger.check(group_id, live)
