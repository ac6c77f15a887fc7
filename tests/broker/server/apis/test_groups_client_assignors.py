"""ConsumerGroupPrepareAssignment and ConsumerGroupInstallAssignment: authorization, the
setting that enables them, and a member that computes an assignment."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from coterie.auth.acl import Operation, ResourceType
from coterie.settings import Settings
from coterie.wire import messages as m
from coterie.wire.error_codes import ErrorCode
from coterie.wire.schema import Message
from tests.broker.server.apis.in_process_server import InProcessServer

ON = Settings(group_consumer_client_assignors_enable=True)
OFF = replace(ON, group_consumer_client_assignors_enable=False)
READ = Operation.READ, ResourceType.GROUP


@pytest.fixture
def server() -> Iterator[InProcessServer]:
    with InProcessServer(settings=ON) as server:
        yield server


def requests(group_id: str = "g", epoch: int = 1) -> list[Message]:
    """Return the prepare and install requests of member "m"."""
    fields: dict[str, Any] = {
        "group_id": group_id,
        "member_id": "m",
        "member_epoch": epoch,
    }
    return [
        m.ConsumerGroupPrepareAssignmentRequest(**fields),
        m.ConsumerGroupInstallAssignmentRequest(group_epoch=epoch, **fields),
    ]


def beat(server: InProcessServer, epoch: int, version: int = 1, **fields: Any) -> Any:
    request = m.ConsumerGroupHeartbeatRequest(
        group_id="g", member_id="m", member_epoch=epoch, **fields
    )
    answer = server.call(request, version)
    assert not answer.error_code
    return answer


def join(server: InProcessServer, version: int = 1, *, offers: bool = True) -> Any:
    offer = m.ClientAssignor(name="mine", metadata_bytes=b"load")
    return beat(
        server,
        0,
        version,
        rebalance_timeout_ms=10_000,
        subscribed_topic_names=["t"],
        topic_partitions=[],
        client_assignors=[offer] if offers else None,
    )


def installed(server: InProcessServer, group_epoch: int, partitions: list[int]) -> Any:
    """Install an assignment that gives "m" partitions of t; return the response."""
    given = m.TopicPartitions(topic_id=server.topic_id("t"), partitions=partitions)
    member = m.InstalledMember(
        member_id="m", partitions=[given], metadata_version=4, metadata_bytes=b"hello"
    )
    _, request = requests()
    assert isinstance(request, m.ConsumerGroupInstallAssignmentRequest)
    request.group_epoch, request.members = group_epoch, [member]
    return server.call(request, 0)


@pytest.mark.fact("E13-02", "E13-03", "E13-05", "E13-06")
@pytest.mark.parametrize("version", [0, 1])
def test_a_member_computes_the_assignment_of_its_group(
    server: InProcessServer, version: int
) -> None:
    joined = join(server, version)
    assert joined.should_compute_assignment
    prepared = server.call(requests(epoch=joined.member_epoch)[0], 0)
    assert prepared.error_code == 0
    (member,), (topic,) = prepared.members, prepared.topics
    assert member.assignor.metadata_bytes == b"load"
    assert (topic.topic_name, topic.num_partitions) == ("t", 4)
    assert installed(server, prepared.group_epoch, [0, 3]).error_code == 0
    answer = beat(server, joined.member_epoch, version)
    assert answer.member_epoch == prepared.group_epoch
    (owned,) = answer.assignment.topic_partitions
    assert (owned.topic_id, owned.partitions) == (server.topic_id("t"), [0, 3])
    assert answer.assignment.metadata_bytes == b"hello"


@pytest.mark.fact("E13-40b")
def test_an_invalid_assignment_has_a_private_error_code(
    server: InProcessServer,
) -> None:
    join(server)
    prepared = server.call(requests()[0], 0)
    refused = installed(server, prepared.group_epoch, [4])
    assert refused.error_code == ErrorCode.INVALID_ASSIGNMENT
    assert "has no partition 4" in refused.error_message


def test_client_side_assignment_needs_read_on_the_group() -> None:
    with InProcessServer((*READ, "no"), settings=ON) as server:
        for no, yes in zip(requests("no"), requests("yes"), strict=True):
            assert server.call(no, 0).error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
            assert server.call(yes, 0).error_code == ErrorCode.GROUP_ID_NOT_FOUND
        assert server.authorizer.checks[-1] == (*READ, "yes")


@pytest.mark.fact("I-07", "E13-40a")
def test_disabled_client_side_assignment_is_unsupported() -> None:
    with InProcessServer(settings=OFF) as server:
        joined = join(server)
        assert not joined.should_compute_assignment
        assert joined.assignment.topic_partitions
        for request in requests():
            refused = server.call(request, 0)
            assert refused.error_code == ErrorCode.UNSUPPORTED_VERSION


@pytest.mark.fact("I-07")
def test_a_member_without_client_assignors_gets_no_request_to_compute(
    server: InProcessServer,
) -> None:
    joined = join(server, offers=False)
    assert not joined.should_compute_assignment
    (owned,) = joined.assignment.topic_partitions
    assert owned.partitions == [0, 1, 2, 3]
    for request in requests():
        assert server.call(request, 0).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_only_the_groups_coordinator_serves_client_side_assignment() -> None:
    with InProcessServer(node_count=2, settings=ON) as server:
        elsewhere = next(
            name
            for name in map(server.group_in, range(len(server.shards)))
            if server.broker.shard_node(server.broker.shard_of(name))
            is not server.broker.nodes[0]
        )
        for request in requests(elsewhere):
            refused = server.call(request, 0)
            assert refused.error_code == ErrorCode.NOT_COORDINATOR


@pytest.mark.parametrize(
    "wrong", [{"group_id": ""}, {"member_id": ""}, {"member_epoch": -1}]
)
def test_an_invalid_request_is_refused(
    server: InProcessServer, wrong: dict[str, Any]
) -> None:
    for request in requests():
        for name, value in wrong.items():
            setattr(request, name, value)
        refused = server.call(request, 0)
        assert refused.error_code == ErrorCode.INVALID_REQUEST
