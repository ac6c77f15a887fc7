"""ConsumerGroupPrepareAssignment and ConsumerGroupInstallAssignment, as they come off
the wire: who may, where they are on, and a group that computes for itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from coterie.auth.authorizer import Operation, ResourceType
from coterie.settings import Settings
from coterie.wire.error_codes import ErrorCode
from coterie.wire.messages.consumer_group_heartbeat import (
    ClientAssignor,
    ConsumerGroupHeartbeatRequest,
)
from coterie.wire.messages.consumer_group_install_assignment import (
    ConsumerGroupInstallAssignmentRequest,
    InstalledMember,
    InstalledPartitions,
)
from coterie.wire.messages.consumer_group_prepare_assignment import (
    ConsumerGroupPrepareAssignmentRequest,
)
from coterie.wire.schema import Message
from tests.server.apis.in_process import Office

ON = Settings(group_consumer_client_assignors_enable=True)
OFF = replace(ON, group_consumer_client_assignors_enable=False)
READ = Operation.READ, ResourceType.GROUP


@pytest.fixture
def office() -> Iterator[Office]:
    with Office(settings=ON) as office:
        yield office


def requests(group_id: str = "g", epoch: int = 1) -> list[Message]:
    """The two requests of a member "m" that computes."""
    said: dict[str, Any] = {
        "group_id": group_id,
        "member_id": "m",
        "member_epoch": epoch,
    }
    return [
        ConsumerGroupPrepareAssignmentRequest(**said),
        ConsumerGroupInstallAssignmentRequest(group_epoch=epoch, **said),
    ]


def beat(office: Office, epoch: int, version: int = 1, **said: Any) -> Any:
    request = ConsumerGroupHeartbeatRequest(
        group_id="g", member_id="m", member_epoch=epoch, **said
    )
    answer = office.call(request, version)
    assert not answer.error_code
    return answer


def join(office: Office, version: int = 1, *, offers: bool = True) -> Any:
    offer = ClientAssignor(name="mine", metadata_bytes=b"load")
    return beat(
        office,
        0,
        version,
        rebalance_timeout_ms=10_000,
        subscribed_topic_names=["t"],
        topic_partitions=[],
        client_assignors=[offer] if offers else None,
    )


def installed(office: Office, group_epoch: int, partitions: list[int]) -> Any:
    """The answer to an assignment that gives "m" partitions of t."""
    given = InstalledPartitions(topic_id=office.topic_id("t"), partitions=partitions)
    member = InstalledMember(
        member_id="m", partitions=[given], metadata_version=4, metadata_bytes=b"hello"
    )
    _, request = requests()
    assert isinstance(request, ConsumerGroupInstallAssignmentRequest)
    request.group_epoch, request.members = group_epoch, [member]
    return office.call(request, 0)


@pytest.mark.fact("E13-02", "E13-03", "E13-05", "E13-06")
@pytest.mark.parametrize("version", [0, 1])
def test_a_group_computes_for_itself(office: Office, version: int) -> None:
    joined = join(office, version)
    assert joined.should_compute_assignment
    prepared = office.call(requests(epoch=joined.member_epoch)[0], 0)
    assert prepared.error_code == 0
    (member,), (topic,) = prepared.members, prepared.topics
    assert member.assignor.metadata_bytes == b"load"
    assert (topic.topic_name, topic.num_partitions) == ("t", 4)
    assert installed(office, prepared.group_epoch, [0, 3]).error_code == 0
    answer = beat(office, joined.member_epoch, version)
    assert answer.member_epoch == prepared.group_epoch
    (owned,) = answer.assignment.topic_partitions
    assert (owned.topic_id, owned.partitions) == (office.topic_id("t"), [0, 3])
    assert answer.assignment.metadata_bytes == b"hello"


@pytest.mark.fact("E13-40")
def test_an_assignment_that_cannot_be_has_our_own_error(office: Office) -> None:
    join(office)
    prepared = office.call(requests()[0], 0)
    refused = installed(office, prepared.group_epoch, [4])
    assert refused.error_code == ErrorCode.INVALID_ASSIGNMENT
    assert "has no partition 4" in refused.error_message


def test_who_computes_needs_read_on_the_group() -> None:
    with Office((*READ, "no"), settings=ON) as office:
        for no, yes in zip(requests("no"), requests("yes"), strict=True):
            assert office.call(no, 0).error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
            assert office.call(yes, 0).error_code == ErrorCode.GROUP_ID_NOT_FOUND
        assert office.authorizer.asked[-1] == (*READ, "yes")


@pytest.mark.fact("E13-40", "I-07")
def test_where_it_is_off_both_are_unsupported() -> None:
    with Office(settings=OFF) as office:
        joined = join(office)
        assert not joined.should_compute_assignment
        assert joined.assignment.topic_partitions
        for request in requests():
            refused = office.call(request, 0)
            assert refused.error_code == ErrorCode.UNSUPPORTED_VERSION


@pytest.mark.fact("I-07")
def test_where_it_is_on_who_does_not_ask_is_not_asked(office: Office) -> None:
    joined = join(office, offers=False)
    assert not joined.should_compute_assignment
    (owned,) = joined.assignment.topic_partitions
    assert owned.partitions == [0, 1, 2, 3]
    for request in requests():
        assert office.call(request, 0).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_only_the_groups_own_node_answers() -> None:
    with Office(node_count=2, settings=ON) as office:
        elsewhere = next(
            name
            for name in map(office.group_in, range(len(office.shards)))
            if office.broker.shard_node(office.broker.shard_of(name))
            is not office.broker.nodes[0]
        )
        for request in requests(elsewhere):
            refused = office.call(request, 0)
            assert refused.error_code == ErrorCode.NOT_COORDINATOR


@pytest.mark.parametrize(
    "wrong", [{"group_id": ""}, {"member_id": ""}, {"member_epoch": -1}]
)
def test_what_makes_no_sense_is_invalid(office: Office, wrong: dict[str, Any]) -> None:
    for request in requests():
        for name, value in wrong.items():
            setattr(request, name, value)
        refused = office.call(request, 0)
        assert refused.error_code == ErrorCode.INVALID_REQUEST
