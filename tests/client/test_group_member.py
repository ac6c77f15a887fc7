"""A group member with a scripted coordinator."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from coterie.client import GroupMember, MemberState
from coterie.client.group_member import fresh_member_id
from coterie.errors import ApiError, ClientError, ConnectionLost, UnsupportedByBroker
from coterie.wire import messages as m
from coterie.wire.api import ApiKey
from coterie.wire.error_codes import ErrorCode
from coterie.wire.schema import Versions
from tests.client.group_script import TOPIC, ScriptedGroup
from tests.client.recorded_callbacks import RecordedCallbacks, of
from tests.client.scripted_broker import (
    BRIEF,
    IMPATIENT,
    OPTIONS,
    SILENCE,
    WAIT_S,
    ScriptedBroker,
)

pytestmark = pytest.mark.asyncio


def member_of(
    broker: ScriptedBroker, recorded: RecordedCallbacks, **options: Any
) -> GroupMember:
    return recorded.member(
        broker.bootstrap, **{"topics": ["orders"], "client": OPTIONS, **options}
    )


@pytest.mark.fact("E7-78", "E25-08a", "E25-08b")
async def test_a_member_joins_acknowledges_revokes_commits_and_leaves() -> None:
    recorded = RecordedCallbacks()
    recorded.commits = dict.fromkeys(of("orders", 0), 42)
    async with ScriptedBroker() as broker:
        group = ScriptedGroup(broker)
        async with member_of(broker, recorded) as member:
            assert member.member_epoch == 1
            await group.acknowledged()
            assert member.assignment == of("orders", 0)
            assert member.group_id == "g"
        assert [type(request) for request in broker.asked] == [
            m.FindCoordinatorRequest,
            m.ConsumerGroupHeartbeatRequest,  # join
            m.MetadataRequest,
            m.ConsumerGroupHeartbeatRequest,  # acknowledge
            m.OffsetCommitRequest,
            m.ConsumerGroupHeartbeatRequest,  # leave
        ]
        assert group.epochs == [0, 1, -1]
        assert group.committed == [(1, 42)]
        assert [what for what, _ in recorded.entries] == ["assigned", "revoked"]
        assert member.state is MemberState.UNSUBSCRIBED
        assert member.assignment == of("orders")
        await member.ended()


@pytest.mark.fact("E9-13")
@pytest.mark.parametrize(
    ("instance_id", "for_good", "last"),
    [
        ("i", None, -2),
        ("i", False, -2),
        ("i", True, -1),
        (None, None, -1),
        (None, True, -1),
        (None, False, 1),
    ],
)
async def test_a_static_member_leaves_temporarily_by_default(
    instance_id: str | None, for_good: bool | None, last: int
) -> None:
    recorded = RecordedCallbacks()
    async with ScriptedBroker() as broker:
        group = ScriptedGroup(broker)
        member = member_of(broker, recorded, instance_id=instance_id)
        await member.start()
        await recorded.wait_for("assigned", of("orders", 0))
        await member.leave(for_good=for_good)
        assert group.epochs[-1] == last
        assert recorded.owned == of("orders")


@pytest.mark.fact("E7-72", "E10-06", "E25-07b")
async def test_a_fenced_member_loses_its_partitions_and_rejoins_with_its_id() -> None:
    recorded = RecordedCallbacks()
    async with ScriptedBroker() as broker:
        group = ScriptedGroup(broker)
        async with member_of(broker, recorded) as member:
            await group.acknowledged()
            group.heartbeats = [ErrorCode.FENCED_MEMBER_EPOCH]
            group.assigned = (3,)
            await member.subscribe(["orders", "more"])
            await recorded.wait_for("assigned", of("orders", 3))
            assert recorded.entries[1] == ("lost", of("orders", 0))
            assert group.committed == []
        asked = broker.asked_of(m.ConsumerGroupHeartbeatRequest)
        assert {request.member_id for request in asked} == {member.member_id}


@pytest.mark.fact("E7-70")
async def test_a_member_continues_with_its_new_coordinator() -> None:
    recorded = RecordedCallbacks()
    async with ScriptedBroker(1) as one, ScriptedBroker(2) as two:
        first, second = ScriptedGroup(one), ScriptedGroup(two)
        async with member_of(one, recorded) as member:
            await first.acknowledged()
            first.heartbeats = [ErrorCode.NOT_COORDINATOR]
            one.answers[ApiKey.FIND_COORDINATOR] = two.found
            second.epoch = 2
            await member.subscribe(["orders", "more"])
            assert member.member_epoch == 2
        assert first.epochs == [0, 1, 1]
        assert second.epochs == [1, -1]
        assert [what for what, _ in recorded.entries] == ["assigned", "revoked"]


async def test_a_lost_connection_loses_no_partition() -> None:
    recorded = RecordedCallbacks()
    async with ScriptedBroker() as broker:
        ScriptedGroup(broker)
        async with member_of(broker, recorded) as member:
            await recorded.wait_for("assigned", of("orders", 0))
            for writer in broker._writers:
                writer.close()
            await member.subscribe(["orders", "more"])
            assert recorded.owned == of("orders", 0)
        assert broker.connection_count == 2


@pytest.mark.fact("E10-02")
async def test_an_old_coordinator_assigns_the_member_id() -> None:
    async with ScriptedBroker() as broker:
        broker.versions[ApiKey.CONSUMER_GROUP_HEARTBEAT] = Versions(0, 0)
        ScriptedGroup(broker)
        async with member_of(broker, RecordedCallbacks()) as member:
            assert member.member_id == "given-id"
        asked = broker.asked_of(m.ConsumerGroupHeartbeatRequest)
        assert asked[0].member_id == ""


async def test_an_old_coordinator_supports_no_regex() -> None:
    async with ScriptedBroker() as broker:
        broker.versions[ApiKey.CONSUMER_GROUP_HEARTBEAT] = Versions(0, 0)
        ScriptedGroup(broker)
        with pytest.raises(UnsupportedByBroker, match="regular expressions"):
            await member_of(broker, RecordedCallbacks(), pattern="or.*").start()


@pytest.mark.fact("E7-82")
async def test_an_unresolved_topic_id_is_requested_again() -> None:
    recorded = RecordedCallbacks()
    async with ScriptedBroker() as broker:
        group = ScriptedGroup(broker)
        group.names = {}
        async with member_of(broker, recorded):
            await broker.until(lambda: len(broker.asked_of(m.MetadataRequest)) > 1)
            assert recorded.entries == []
            group.names = {TOPIC: "orders"}
            await recorded.wait_for("assigned", of("orders", 0))


async def test_a_failed_request_for_topic_names_is_retried() -> None:
    recorded = RecordedCallbacks()
    async with ScriptedBroker() as broker:
        ScriptedGroup(broker)
        answer = broker.answers[ApiKey.METADATA]
        refused = m.MetadataResponse(error_code=ErrorCode.REBOOTSTRAP_REQUIRED)
        broker.answers[ApiKey.METADATA] = lambda request: (
            answer(request) if len(broker.asked_of(m.MetadataRequest)) > 1 else refused
        )
        async with member_of(broker, recorded):
            await recorded.wait_for("assigned", of("orders", 0))


async def test_leaving_silently_requires_no_coordinator() -> None:
    recorded = RecordedCallbacks()
    async with ScriptedBroker() as broker:
        group = ScriptedGroup(broker)
        member = member_of(broker, recorded)
        await member.start()
        await group.acknowledged()
        nobody = broker.found(m.FindCoordinatorRequest(coordinator_keys=["g"]))
        nobody.coordinators[0].error_code = ErrorCode.COORDINATOR_NOT_AVAILABLE
        broker.answers[ApiKey.FIND_COORDINATOR] = lambda _: nobody
        group.heartbeats = [ErrorCode.NOT_COORDINATOR]
        asking = asyncio.create_task(member.subscribe(["more"]))
        await broker.until(lambda: len(broker.asked_of(m.FindCoordinatorRequest)) > 2)
        await member.leave(for_good=False)
        with pytest.raises(ClientError, match="is not in group g"):
            await asking
        assert recorded.owned == of("orders")


@pytest.mark.fact("E7-73")
async def test_a_rejected_member_does_not_start() -> None:
    async with ScriptedBroker() as broker:
        group = ScriptedGroup(broker)
        group.heartbeats = [ErrorCode.UNRELEASED_INSTANCE_ID]
        member = member_of(broker, RecordedCallbacks(), instance_id="i")
        with pytest.raises(ApiError) as caught:
            await member.start()
        assert caught.value.code is ErrorCode.UNRELEASED_INSTANCE_ID
        assert group.epochs == [0]


@pytest.mark.fact("E7-74")
async def test_a_member_without_describe_permission_on_topics_does_not_start() -> None:
    async with ScriptedBroker() as broker:
        group = ScriptedGroup(broker)
        group.heartbeats = [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
        with pytest.raises(ApiError) as caught:
            await member_of(broker, RecordedCallbacks()).start()
        assert caught.value.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
        assert group.epochs == [0, -1]


@pytest.mark.fact("E7-73")
async def test_a_member_rejected_after_joining_loses_its_partitions() -> None:
    recorded = RecordedCallbacks()
    async with ScriptedBroker() as broker:
        group = ScriptedGroup(broker)

        async def live() -> None:
            async with member_of(broker, recorded) as member:
                await group.acknowledged()
                group.heartbeats = [ErrorCode.GROUP_AUTHORIZATION_FAILED]
                with pytest.raises(ApiError):
                    await member.subscribe(["orders", "more"])

        with pytest.raises(ApiError) as caught:
            await live()
        assert caught.value.code is ErrorCode.GROUP_AUTHORIZATION_FAILED
        assert recorded.entries[-1] == ("lost", of("orders", 0))
        assert group.epochs == [0, 1, 1]


async def test_an_authorization_error_ends_the_membership() -> None:
    recorded = RecordedCallbacks()
    async with ScriptedBroker() as broker:
        group = ScriptedGroup(broker)
        member = member_of(broker, recorded)
        await member.start()
        await group.acknowledged()
        group.heartbeats = [ErrorCode.NOT_COORDINATOR]
        refused = broker.found(m.FindCoordinatorRequest(coordinator_keys=["g"]))
        refused.coordinators[0].error_code = ErrorCode.GROUP_AUTHORIZATION_FAILED
        broker.answers[ApiKey.FIND_COORDINATOR] = lambda _: refused
        with pytest.raises(ApiError):
            await member.subscribe(["orders", "more"])
        with pytest.raises(ApiError):
            await member.leave()


async def test_an_invalid_regex_raises_in_subscribe_and_the_member_continues() -> None:
    recorded = RecordedCallbacks()
    async with ScriptedBroker() as broker:
        group = ScriptedGroup(broker)
        async with member_of(broker, recorded) as member:
            await group.acknowledged()
            group.heartbeats = [ErrorCode.INVALID_REGULAR_EXPRESSION]
            with pytest.raises(ApiError) as caught:
                await member.subscribe(pattern="(")
            assert caught.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION
            await member.subscribe(["orders", "more"])
            assert recorded.owned == of("orders", 0)


async def test_a_callback_that_raises_makes_the_member_leave_the_group() -> None:
    recorded = RecordedCallbacks()
    bug = ZeroDivisionError("a bug of the application")

    async def fail(_: object) -> None:
        raise bug

    async with ScriptedBroker() as broker:
        group = ScriptedGroup(broker)
        recorded._assigned = fail  # type: ignore[assignment, method-assign]
        member = member_of(broker, recorded)
        await member.start()
        with pytest.raises(ZeroDivisionError):
            await asyncio.wait_for(member.ended(), WAIT_S)
        with pytest.raises(ZeroDivisionError):
            await member.leave()
        assert recorded.entries == [("revoked", of("orders", 0))]
        assert group.epochs[-1] == -1


async def test_a_callback_cannot_wait_for_its_own_member_to_leave() -> None:
    recorded = RecordedCallbacks()
    async with ScriptedBroker() as broker:
        ScriptedGroup(broker)
        member = GroupMember(
            broker.bootstrap,
            group_id="g",
            topics=["orders"],
            client=OPTIONS,
            on_assigned=lambda _: member.leave(),
            on_revoked=recorded._revoked,
        )
        await member.start()
        with pytest.raises(ClientError, match="a callback cannot wait"):
            await asyncio.wait_for(member.ended(), WAIT_S)
        with pytest.raises(ClientError):
            await member.leave()
        assert recorded.entries == [("revoked", of("orders", 0))]


async def test_an_exception_in_the_async_with_block_is_raised_after_leaving() -> None:
    recorded = RecordedCallbacks()
    async with ScriptedBroker() as broker:
        group = ScriptedGroup(broker)

        async def live() -> None:
            async with member_of(broker, recorded):
                await recorded.wait_for("assigned", of("orders", 0))
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await live()
        assert group.epochs[-1] == -1


async def test_a_member_cancelled_while_joining_leaves() -> None:
    async with ScriptedBroker() as broker:
        group = ScriptedGroup(broker)
        group.heartbeats = [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS] * 1_000
        starting = asyncio.create_task(member_of(broker, RecordedCallbacks()).start())
        await broker.until(lambda: bool(group.epochs))
        group.heartbeats = []
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
        assert group.epochs[-1] == -1


async def test_a_leave_without_a_response_times_out() -> None:
    recorded = RecordedCallbacks()
    async with ScriptedBroker() as broker:
        group = ScriptedGroup(broker)
        member = member_of(broker, recorded)
        await member.start()
        await group.acknowledged()
        group.hold = lambda _: SILENCE
        member._cluster.options = IMPATIENT
        async with asyncio.timeout(WAIT_S):
            await member.leave()
        assert recorded.owned == of("orders")


async def test_an_unreachable_broker_is_reported_after_the_retries() -> None:
    async with ScriptedBroker() as broker:
        pass
    with pytest.raises(ConnectionLost, match="cannot be reached"):
        await member_of(broker, RecordedCallbacks(), client=BRIEF).start()


async def test_subscribe_after_leaving_raises() -> None:
    async with ScriptedBroker() as broker:
        ScriptedGroup(broker)
        async with member_of(broker, RecordedCallbacks()) as member:
            pass
        with pytest.raises(ClientError, match="is not in group g"):
            await member.subscribe(["more"])


async def test_an_internal_error_ends_the_membership_and_is_raised(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with ScriptedBroker() as broker:
        ScriptedGroup(broker)
        member = member_of(broker, RecordedCallbacks())
        monkeypatch.setattr(
            member._membership, "answered", lambda *_: (_ for _ in ()).throw(KeyError())
        )
        with pytest.raises(KeyError):
            async with asyncio.timeout(WAIT_S):
                await member.start()
        with pytest.raises(KeyError):
            await member.ended()


async def test_a_member_id_has_kafkas_format() -> None:
    ids = {fresh_member_id() for _ in range(200)}
    assert len(ids) == 200
    assert {len(each) for each in ids} == {22}
    assert not any(each.startswith("-") or "=" in each for each in ids)
