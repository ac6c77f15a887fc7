"""ConsumerGroupDescribe through the server: many groups, and who may what."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from coterie.auth.authorizer import Operation, ResourceType
from coterie.runtime.shards import Phase
from coterie.settings import Settings
from coterie.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from coterie.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
)
from tests.server.apis.in_process import Office

GROUP, TOPIC = ResourceType.GROUP, ResourceType.TOPIC
DESCRIBE = Operation.DESCRIBE


@pytest.fixture
def office() -> Iterator[Office]:
    with Office() as office:
        yield office


def heartbeat(group_id: str, *topics: str) -> ConsumerGroupHeartbeatRequest:
    """The first heartbeat of a member "m"."""
    return ConsumerGroupHeartbeatRequest(
        group_id=group_id,
        member_id="m",
        rebalance_timeout_ms=10_000,
        subscribed_topic_names=[*topics],
        topic_partitions=[],
    )


def join(office: Office, group_id: str = "g", *topics: str) -> None:
    answer = office.call(heartbeat(group_id, *(topics or ("t",))), 1)
    assert answer.error_code == 0


def describe(office: Office, *group_ids: str, **options: Any) -> Any:
    request = ConsumerGroupDescribeRequest(group_ids=[*group_ids], **options)
    return office.call(request, 1).groups


@pytest.mark.fact("E16-01", "E16-05", "E16-09", "F6-11", "H-113")
def test_each_group_is_described_on_its_own(office: Office) -> None:
    names = [office.group_in(shard) for shard in range(4)]
    for name in names:
        join(office, name)
    office.shards[0].phase = Phase.LOADING
    office.shards[1].phase = Phase.STOPPED
    asked = [names[2], "", names[0], names[3], names[1], names[2]]
    groups = describe(office, *asked)
    assert [group.group_id for group in groups] == asked
    assert [group.error_code for group in groups] == [0, 24, 14, 0, 16, 0]
    assert [len(group.members) for group in groups] == [1, 0, 0, 1, 0, 1]


@pytest.mark.fact("E16-04")
def test_a_group_nobody_knows_is_not_found(office: Office) -> None:
    [group] = describe(office, "gone")
    assert (group.error_code, group.error_message) == (69, "Group gone not found.")


def test_nothing_asked_is_nothing_told(office: Office) -> None:
    assert describe(office) == []


@pytest.mark.fact("E16-06")
def test_a_group_that_may_not_be_described_is_refused() -> None:
    with Office((DESCRIBE, GROUP, "secret")) as office:
        join(office, "secret")
        join(office, "g")
        groups = describe(office, "secret", "g")
        assert [group.error_code for group in groups] == [30, 0]
        assert groups[0].members == []


@pytest.mark.fact("E16-06", "F5-29")
def test_a_topic_that_may_not_be_described_hides_its_groups(office: Office) -> None:
    join(office, "g", "t")
    join(office, "h", "u")
    office.authorizer.denied.add((DESCRIBE, TOPIC, "t"))
    hidden, told = describe(office, "g", "h", include_authorized_operations=True)
    assert (hidden.error_code, hidden.members) == (29, [])
    assert (hidden.group_state, hidden.authorized_operations) == ("", -2_147_483_648)
    assert (told.error_code, told.group_state) == (0, "Stable")


@pytest.mark.fact("E16-02")
def test_operations_are_told_when_they_are_asked_for() -> None:
    with Office((Operation.DELETE, GROUP, "g")) as office:
        join(office)
        [silent] = describe(office, "g")
        [told] = describe(office, "g", include_authorized_operations=True)
    assert silent.authorized_operations == -2_147_483_648
    allowed = {Operation.READ, DESCRIBE, Operation.DESCRIBE_CONFIGS}
    allowed.add(Operation.ALTER_CONFIGS)
    assert told.authorized_operations == sum(1 << each for each in allowed)


@pytest.mark.fact("E16-07")
def test_a_protocol_that_is_off_describes_nothing() -> None:
    settings = Settings(group_coordinator_rebalance_protocols=("classic",))
    with Office((DESCRIBE, GROUP, "secret"), settings=settings) as office:
        groups = describe(office, "g", "", "secret")
        assert [group.error_code for group in groups] == [35, 35, 35]


@pytest.mark.fact("E16-08")
def test_a_description_waits_until_what_it_shows_is_durable(office: Office) -> None:
    joined = office.send(heartbeat("g", "t"), 1)
    described = office.send(ConsumerGroupDescribeRequest(group_ids=["g"]), 1)
    assert not joined.done()
    assert not described.done()
    answer = office.as_read(office.loop.run_until_complete(described), 1)
    assert joined.done()
    assert [member.member_id for member in answer.groups[0].members] == ["m"]
