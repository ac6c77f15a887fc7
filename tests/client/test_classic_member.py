"""A classic member with a scripted coordinator."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from coterie.client import ClassicMember
from coterie.errors import ApiError, RequestTimedOut, UnsupportedByBroker
from coterie.wire import messages as m
from coterie.wire.api import ApiKey
from coterie.wire.error_codes import ErrorCode
from coterie.wire.schema import Versions
from tests.client.scripted_broker import (
    HANG_UP,
    OPTIONS,
    SILENCE,
    WAIT_S,
    ScriptedBroker,
)

pytestmark = pytest.mark.asyncio

SESSION_MS = 10_000
KEPT_S = 9.0
"""The session without its margin; test_classic_session.py has its end."""


class ScriptedClassicGroup:
    """A coordinator that gives a follower "work" in generation 1, 2, ...

    `joins`, `syncs` and `heartbeats` are the next responses, each an error code or
    what a ScriptedBroker may say.
    """

    def __init__(self, broker: ScriptedBroker) -> None:
        self.broker = broker
        self.generation = 0
        self.joins: list[Any] = []
        self.syncs: list[Any] = []
        self.heartbeats: list[Any] = []
        self.then: Any = ErrorCode.NONE
        """The response to further heartbeats."""
        answers: dict[int, Callable[[Any], Any]] = {
            ApiKey.JOIN_GROUP: self._join,
            ApiKey.SYNC_GROUP: self._sync,
            ApiKey.HEARTBEAT: self._heartbeat,
            ApiKey.LEAVE_GROUP: lambda _: m.LeaveGroupResponse(),
        }
        broker.answers.update(answers)

    def _join(self, request: m.JoinGroupRequest) -> Any:
        said = self.joins.pop(0) if self.joins else ErrorCode.NONE
        if not isinstance(said, ErrorCode):
            return said
        if said:
            return m.JoinGroupResponse(error_code=said, member_id="given", leader="")
        self.generation += 1
        return m.JoinGroupResponse(
            generation_id=self.generation,
            protocol_name="even",
            leader="other",
            member_id=request.member_id or "given",
        )

    def _sync(self, request: m.SyncGroupRequest) -> Any:
        said = self.syncs.pop(0) if self.syncs else ErrorCode.NONE
        if not isinstance(said, ErrorCode):
            return said
        return m.SyncGroupResponse(error_code=said, assignment=b"work")

    def _heartbeat(self, request: m.HeartbeatRequest) -> Any:
        said = self.heartbeats.pop(0) if self.heartbeats else self.then
        if not isinstance(said, ErrorCode):
            return said
        return m.HeartbeatResponse(error_code=said)


class Story:
    """A member, and its callbacks with their times."""

    def __init__(self, broker: ScriptedBroker, **options: Any) -> None:
        self.clock = asyncio.get_running_loop().time
        self.entries: list[str] = []
        self.sent_s: list[float] = []
        self.lost_s = 0.0
        self._changed = asyncio.Condition()
        self.on_revoked: Callable[[], Awaitable[None]] = lambda: self._add("revoked")
        given: dict[str, Any] = {"client": OPTIONS, "cooperative": True, **options}
        self.member = ClassicMember(
            broker.bootstrap,
            group_id="g",
            protocol_type="jobs",
            protocols={"even": b"m"},
            assign=self._assign,
            on_assigned=self._assigned,
            on_revoked=self._revoked,
            on_lost=self._lost,
            on_heartbeat=self.sent_s.append,
            session_timeout_ms=SESSION_MS,
            clock=self.clock,
            **given,
        )

    async def until(self, *entries: str) -> None:
        async with asyncio.timeout(WAIT_S * 10), self._changed:
            await self._changed.wait_for(lambda: tuple(self.entries) == entries)

    async def _assign(self, *_: Any) -> Any:
        raise AssertionError("the member is not the leader")

    async def _assigned(self, assignment: bytes, generation: int) -> None:
        await self._add(f"{assignment.decode()} {generation}")

    async def _revoked(self) -> None:
        await self.on_revoked()

    async def _lost(self) -> None:
        self.lost_s = self.clock()
        await self._add("lost")

    async def _add(self, entry: str) -> None:
        self.entries.append(entry)
        async with self._changed:
            self._changed.notify_all()


async def test_a_member_without_answers_loses_its_assignment() -> None:
    async with ScriptedBroker() as broker:
        group, story = ScriptedClassicGroup(broker), Story(broker)
        async with story.member:
            group.then = SILENCE
            await story.until("work 1", "lost", "work 2")
            last_s = max(each for each in story.sent_s if each < story.lost_s)
            assert story.lost_s >= last_s + KEPT_S, "the last answer counts"


@pytest.mark.slow
async def test_a_session_ends_while_joining_again_gets_no_answer() -> None:
    async with ScriptedBroker() as broker:
        group, story = ScriptedClassicGroup(broker), Story(broker, instance_id="i")
        async with story.member:
            group.joins = [SILENCE] * 1_000
            group.heartbeats = [ErrorCode.REBALANCE_IN_PROGRESS]
            group.then = HANG_UP
            await story.until("work 1", "lost")
            last_s = max(each for each in story.sent_s if each < story.lost_s)
            assert story.lost_s >= last_s + KEPT_S, "the last answer counts"
            group.joins, group.then = [], ErrorCode.NONE
            await story.until("work 1", "lost", "work 2")


async def test_a_member_moves_to_a_new_coordinator_in_its_generation() -> None:
    async with ScriptedBroker(1) as one, ScriptedBroker(2) as two:
        first, second = ScriptedClassicGroup(one), ScriptedClassicGroup(two)
        story = Story(one)
        async with story.member:
            one.answers[ApiKey.FIND_COORDINATOR] = two.found
            first.then = ErrorCode.NOT_COORDINATOR
            await two.until(lambda: len(two.asked_of(m.HeartbeatRequest)) > 1)
            assert second.generation == 0
            assert {x.generation_id for x in two.asked_of(m.HeartbeatRequest)} == {1}
        assert story.entries == ["work 1", "revoked"]
        assert len(two.asked_of(m.LeaveGroupRequest)) == 1


async def test_a_lost_coordinator_fails_a_join_that_waits_there() -> None:
    async with ScriptedBroker(1) as one, ScriptedBroker(2) as two:
        first, second = ScriptedClassicGroup(one), ScriptedClassicGroup(two)
        second.generation = 1
        story = Story(one)
        async with story.member:
            one.answers[ApiKey.FIND_COORDINATOR] = two.found
            first.joins = [SILENCE]
            first.heartbeats = [ErrorCode.REBALANCE_IN_PROGRESS]
            first.then = HANG_UP
            await story.until("work 1", "work 2")


@pytest.mark.parametrize(
    "refusals",
    [
        [ErrorCode.MEMBER_ID_REQUIRED],
        [ErrorCode.UNKNOWN_MEMBER_ID],
        [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR],
        [HANG_UP, ErrorCode.REBALANCE_IN_PROGRESS],
    ],
)
async def test_a_join_is_repeated_after_a_refusal(refusals: list[Any]) -> None:
    async with ScriptedBroker() as broker:
        group, story = ScriptedClassicGroup(broker), Story(broker)
        group.joins = list(refusals)
        async with story.member:
            assert story.entries == ["work 1"]
        joins = broker.asked_of(m.JoinGroupRequest)
        assert len(joins) == 1 + len(refusals)
        is_named = refusals == [ErrorCode.MEMBER_ID_REQUIRED]
        assert joins[-1].member_id == ("given" if is_named else "")


@pytest.mark.parametrize(
    "code", [ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION, HANG_UP]
)
async def test_a_refused_sync_joins_again(code: Any) -> None:
    async with ScriptedBroker() as broker:
        group, story = ScriptedClassicGroup(broker), Story(broker)
        group.syncs = [code]
        async with story.member:
            assert story.entries == ["work 2"]
        assert broker.asked_of(m.JoinGroupRequest)[-1].member_id == "given"


async def test_a_group_that_never_completes_a_rebalance_ends_the_start() -> None:
    async with ScriptedBroker() as broker:
        group = ScriptedClassicGroup(broker)
        group.syncs = [ErrorCode.REBALANCE_IN_PROGRESS] * 1_000_000
        story = Story(broker, rebalance_timeout_ms=1_000)
        story.member._cluster.options = OPTIONS.__class__(api_timeout_ms=100)
        with pytest.raises(RequestTimedOut, match="completed no rebalance within 1 s"):
            await story.member.start()
        assert story.entries == []


@pytest.mark.parametrize("is_static", [False, True])
async def test_a_static_member_leaves_only_for_good(*, is_static: bool) -> None:
    async with ScriptedBroker() as broker:
        ScriptedClassicGroup(broker)
        for for_good in (None, False, True):
            story = Story(broker, instance_id="i" if is_static else None)
            await story.member.start()
            await story.member.leave(for_good=for_good, reason="the end")
            assert story.entries == ["work 1", "revoked"] or for_good is not None
        asked = broker.asked_of(m.LeaveGroupRequest)
        assert len(asked) == (1 if is_static else 2)
        [member] = asked[-1].members
        assert (member.reason, member.group_instance_id) == (
            "the end",
            "i" if is_static else None,
        )


OLD = {
    ApiKey.JOIN_GROUP: Versions(0, 2),
    ApiKey.SYNC_GROUP: Versions(0, 1),
    ApiKey.HEARTBEAT: Versions(0, 1),
    ApiKey.LEAVE_GROUP: Versions(0, 1),
}
"""The versions of Kafka 0.11."""


async def test_a_dynamic_member_works_with_the_oldest_versions() -> None:
    async with ScriptedBroker() as broker:
        broker.versions.update(OLD)
        ScriptedClassicGroup(broker)
        async with Story(broker).member as member:
            assert member.assignment_data == b"work"
        assert broker.asked_of(m.LeaveGroupRequest)[0].member_id == "given"


async def test_a_static_member_needs_a_coordinator_that_knows_them() -> None:
    async with ScriptedBroker() as broker:
        broker.versions.update(OLD)
        ScriptedClassicGroup(broker)
        with pytest.raises(UnsupportedByBroker, match=r"JoinGroup .* 5 to"):
            await Story(broker, instance_id="i").member.start()


async def test_a_rejected_member_leaves_and_ends() -> None:
    async with ScriptedBroker() as broker:
        group, story = ScriptedClassicGroup(broker), Story(broker)
        await story.member.start()
        group.then = ErrorCode.GROUP_AUTHORIZATION_FAILED
        with pytest.raises(ApiError, match="GROUP_AUTHORIZATION_FAILED"):
            await story.member.ended()
        assert story.entries == ["work 1", "revoked"]
        with pytest.raises(ApiError):
            await story.member.leave()


async def test_a_cancelled_leave_goes_on() -> None:
    async with ScriptedBroker() as broker:
        ScriptedClassicGroup(broker)
        story = Story(broker)
        may_revoke = asyncio.Event()

        async def revoked() -> None:
            await story._add("revoking")
            await may_revoke.wait()
            await story._add("revoked")

        story.on_revoked = revoked
        await story.member.start()
        leaving = asyncio.create_task(story.member.leave())
        await story.until("work 1", "revoking")
        leaving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leaving
        may_revoke.set()
        await story.member.leave()
        assert story.entries == ["work 1", "revoking", "revoked"]
        assert len(broker.asked_of(m.LeaveGroupRequest)) == 1
