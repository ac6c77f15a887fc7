"""The computation of assignments by a member (E13)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from coterie.client import AssignorMember, ClientAssignor
from coterie.client.client_assignors import assignor_declarations
from coterie.types import TopicPartition
from coterie.wire import messages as m
from coterie.wire.api import ApiKey
from coterie.wire.error_codes import ErrorCode
from coterie.wire.schema import Versions
from tests.broker.server.harness import ThreadServer
from tests.client.group_script import FOREVER_MS, TOPIC, ScriptedGroup
from tests.client.membership_script import MembershipScript, owned
from tests.client.recorded_callbacks import RecordedCallbacks, of
from tests.client.scripted_broker import OPTIONS, ScriptedBroker, in_turn

KEYS = (
    ApiKey.CONSUMER_GROUP_PREPARE_ASSIGNMENT,
    ApiKey.CONSUMER_GROUP_INSTALL_ASSIGNMENT,
)
PREPARED = m.ConsumerGroupPrepareAssignmentResponse(
    group_epoch=7,
    assignor_name="mine",
    members=[
        m.PreparedMember(
            member_id="m1",
            rack_id="r",
            subscribed_topic_ids=[TOPIC, b"?" * 16],
            assignor=m.MemberAssignor(metadata_version=3, metadata_bytes=b"load"),
            topic_partitions=[m.TopicPartitions(topic_id=TOPIC, partitions=[1])],
        ),
        m.PreparedMember(member_id="m2", subscribed_topic_ids=[TOPIC]),
    ],
    topics=[m.PreparedTopic(topic_id=TOPIC, topic_name="orders", num_partitions=2)],
)

Members = Mapping[str, AssignorMember]
Assignment = dict[str, list[TopicPartition]]


def one_each(members: Members, topics: Mapping[str, int]) -> Assignment:
    return {
        member_id: [TopicPartition("orders", number)]
        for number, member_id in enumerate(sorted(members))
    }


async def installed(
    function: Any, prepared: m.ConsumerGroupPrepareAssignmentResponse = PREPARED
) -> tuple[list[Any], int]:
    """Return the requests of a member that computes one assignment, and its last
    epoch."""
    async with ScriptedBroker() as broker:
        group = ScriptedGroup(broker)
        broker.versions |= dict.fromkeys(KEYS, Versions(0, 0))
        broker.answers[KEYS[0]] = in_turn(prepared)
        broker.answers[KEYS[1]] = in_turn(m.ConsumerGroupInstallAssignmentResponse())
        group.hold = lambda request: (
            m.ConsumerGroupHeartbeatResponse(
                member_id=request.member_id,
                member_epoch=1,
                heartbeat_interval_ms=FOREVER_MS,
                should_compute_assignment=True,
            )
            if len(group.epochs) == 1
            else None
        )
        member = RecordedCallbacks().member(
            broker.bootstrap,
            topics=["orders"],
            client=OPTIONS,
            assignors=[ClientAssignor("mine", function)],
        )
        wanted = 1 if prepared.error_code else 2
        kinds = (
            m.ConsumerGroupPrepareAssignmentRequest,
            m.ConsumerGroupInstallAssignmentRequest,
        )
        async with member:
            await broker.until(
                lambda: sum(isinstance(each, kinds) for each in broker.asked) == wanted
            )
        return [each for each in broker.asked if isinstance(each, kinds)], (
            group.epochs[-1]
        )


def test_assignors_are_declared_in_full_heartbeats_only() -> None:
    assignor = ClientAssignor("mine", one_each, b"load", 1, 3, 2)
    script = MembershipScript(client_assignors=assignor_declarations([assignor]))
    script.member.join()
    assert script.sent().client_assignors == [
        m.ClientAssignor(
            name="mine",
            minimum_version=1,
            maximum_version=3,
            metadata_version=2,
            metadata_bytes=b"load",
        )
    ]
    script.yes(1, owned())
    assert script.sent().client_assignors is None


def test_the_heartbeat_of_a_member_without_assignors_declares_none() -> None:
    script = MembershipScript()
    script.member.join()
    assert script.sent() == m.ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="own-id",
        rebalance_timeout_ms=300_000,
        subscribed_topic_names=["orders"],
        topic_partitions=[],
    )


@pytest.mark.asyncio
async def test_a_selected_member_computes_and_installs_the_assignment() -> None:
    seen: list[tuple[Members, Mapping[str, int]]] = []

    def watched(members: Members, topics: Mapping[str, int]) -> Assignment:
        seen.append((members, topics))
        return one_each(members, topics)

    (prepare, install), _ = await installed(watched)
    assert (prepare.group_id, prepare.member_epoch) == ("g", 1)
    assert (install.group_epoch, install.member_epoch, install.error) == (7, 1, 0)
    assert install.members == [
        m.InstalledMember(
            member_id=member_id,
            partitions=[m.TopicPartitions(topic_id=TOPIC, partitions=[number])],
        )
        for number, member_id in enumerate(["m1", "m2"])
    ]
    ((members, topics),) = seen
    assert topics == {"orders": 2}
    assert members["m1"] == AssignorMember(
        instance_id=None,
        rack_id="r",
        topics=frozenset({"orders"}),
        target=of("orders", 1),
        version=3,
        metadata=b"load",
    )


def failing(members: Members, topics: Mapping[str, int]) -> Assignment:
    raise ZeroDivisionError


def inventive(members: Members, topics: Mapping[str, int]) -> Assignment:
    return {"m1": [TopicPartition("nothing-like-it", 0)]}


@pytest.mark.asyncio
@pytest.mark.parametrize("function", [failing, inventive])
async def test_a_failed_assignor_is_reported_to_the_coordinator(
    function: Any,
) -> None:
    (_, install), last_epoch = await installed(function)
    assert (install.error, install.members) == (1, [])
    assert last_epoch == -1


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "code", [ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.NOT_COORDINATOR]
)
async def test_a_rejected_prepare_ends_the_computation(code: ErrorCode) -> None:
    refused = m.ConsumerGroupPrepareAssignmentResponse(error_code=code)
    (prepare,), last_epoch = await installed(one_each, refused)
    assert prepare.member_epoch == 1
    assert last_epoch == -1


def lopsided(members: Members, topics: Mapping[str, int]) -> Assignment:
    """Assign partition 0 to the first member and the rest to the last."""
    first, last = min(members), max(members)
    given: Assignment = {first: [TopicPartition("orders", 0)]}
    given.setdefault(last, []).extend(TopicPartition("orders", n) for n in (1, 2, 3))
    return given


@pytest.mark.asyncio
@pytest.mark.fact("E13-02", "E13-03", "E13-04", "E13-05")
async def test_members_compute_the_assignment_on_a_coterie_server() -> None:
    topic = m.CreatableTopic(name="orders", num_partitions=4, replication_factor=1)
    first, second = RecordedCallbacks(), RecordedCallbacks()
    with ThreadServer(
        group_consumer_heartbeat_interval_ms=20,
        group_consumer_assignment_interval_ms=0,
        group_consumer_client_assignors_enable=True,
    ) as server:
        with server.client() as client:
            client.call(m.CreateTopicsRequest(topics=[topic], timeout_ms=10_000))
        options: dict[str, Any] = {
            "topics": ["orders"],
            "client": OPTIONS,
            "assignors": [ClientAssignor("lopsided", lopsided)],
        }
        bootstrap = "{}:{}".format(*server.addresses[0])
        async with first.member(bootstrap, **options):
            await first.wait_for_count(4)
            async with second.member(bootstrap, **options):
                await second.until(lambda: len(second.owned) in {1, 3})
                assert len(first.owned) + len(second.owned) == 4
