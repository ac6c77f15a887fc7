from __future__ import annotations

from typing import Any

import pytest

from coterie.broker.coordinator.classic.group import GroupState
from coterie.broker.coordinator.records import GroupMetadataValue
from coterie.settings import Settings
from coterie.wire import messages as m
from coterie.wire.error_codes import ErrorCode
from tests.broker.coordinator.classic.members import (
    SESSION_MS,
    heartbeat,
    join,
    join_request,
    joining_group,
    leave,
    protocols,
    stable_group,
)
from tests.broker.coordinator.driver import Driver


@pytest.fixture
def driver() -> Driver:
    return Driver()


@pytest.mark.parametrize("version", [3, 4, 9])
@pytest.mark.parametrize("instance_id", [None, "i" * 32_767])
def test_a_join_is_refused_when_the_id_of_the_new_member_would_be_too_long(
    driver: Driver, version: int, instance_id: str | None
) -> None:
    request = join_request(group_instance_id=instance_id)
    sent = driver.send(request, version=version, client_id="c" * 32_767)
    assert sent.error == ErrorCode.UNKNOWN_SERVER_ERROR
    assert driver.groups == {}


@pytest.mark.fact("E19-02b")
@pytest.mark.parametrize("fields", [{"protocol_type": ""}, {"protocols": []}])
def test_a_member_without_protocols_is_refused(
    driver: Driver, fields: dict[str, Any]
) -> None:
    assert join(driver, **fields).error == 23


@pytest.mark.parametrize("fields", [{"protocol_type": ""}, {"protocols": []}])
def test_a_first_join_without_protocol_leaves_an_empty_group(
    driver: Driver, fields: dict[str, Any]
) -> None:
    sent = join(driver, **fields)
    assert (sent.error, sent.response.member_id) == (23, "")
    assert driver.groups["g"].state is GroupState.EMPTY
    assert len(driver.log) == 1


def test_a_refused_first_join_with_a_member_id_creates_no_group(
    driver: Driver,
) -> None:
    sent = join(driver, "m", protocol_type="")
    assert (sent.error, sent.response.member_id) == (25, "m")
    assert driver.groups == {}
    assert driver.log == []


@pytest.mark.parametrize("fields", [{"protocol_type": "x"}, {"protocols": []}])
def test_the_error_of_a_classic_group_has_the_member_id(
    driver: Driver, fields: dict[str, Any]
) -> None:
    (member_id,) = stable_group(driver, 1)
    sent = join(driver, member_id, **fields)
    assert (sent.error, sent.response.member_id) == (23, member_id)


@pytest.mark.fact("E19-02b")
def test_a_protocol_type_other_than_the_groups_is_refused(driver: Driver) -> None:
    joining_group(driver, 1)
    assert join(driver, protocol_type="connect").error == 23


@pytest.mark.fact("E19-02b")
def test_a_member_without_a_protocol_common_to_all_members_is_refused(
    driver: Driver,
) -> None:
    joining_group(driver, 1, protocols=protocols(range=b"r"))
    assert join(driver, protocols=protocols(sticky=b"s")).error == 23


def test_a_member_id_in_an_unknown_group_is_unknown(driver: Driver) -> None:
    sent = join(driver, "unknown")
    assert sent.error == 25
    assert sent.response.member_id == "unknown"


def test_an_unknown_member_id_is_refused(driver: Driver) -> None:
    joining_group(driver, 1)
    assert join(driver, "unknown").error == 25


def test_a_member_id_in_an_empty_group_is_unknown(driver: Driver) -> None:
    leave(driver, *stable_group(driver))
    assert join(driver, "unknown").error == 25


@pytest.mark.fact("E19-03", "E10-07")
def test_from_version_4_a_new_member_must_rejoin_with_its_id(driver: Driver) -> None:
    sent = driver.send(join_request(), version=4, client_id="billing")
    assert sent.error == 79
    assert sent.response.member_id == "billing-id1"
    assert list(driver.groups["g"].pending_members) == ["billing-id1"]


@pytest.mark.fact("E19-03b")
@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_before_version_4_a_new_member_joins_immediately(
    driver: Driver, version: int
) -> None:
    sent = driver.send(join_request(), version=version)
    assert sent.parked
    assert list(driver.groups["g"].members) == ["client-id1"]


def test_a_pending_member_becomes_a_member_when_it_rejoins(driver: Driver) -> None:
    member_id = driver.send(join_request()).response.member_id
    assert driver.send(join_request(member_id)).parked
    group = driver.groups["g"]
    assert list(group.members) == [member_id]
    assert not group.pending_members


def test_the_number_of_pending_members_is_limited() -> None:
    driver = Driver(settings=Settings(group_max_pending_members=2))
    sent = [driver.send(join_request()) for _ in range(3)]
    assert [each.error for each in sent] == [79, 79, 81]
    assert driver.send(join_request(sent[0].response.member_id)).parked
    assert driver.send(join_request()).error == 79


@pytest.mark.parametrize(("size_bytes", "code"), [(200, 79), (201, -1)])
def test_the_metadata_of_all_protocols_of_a_member_is_limited(
    size_bytes: int, code: int
) -> None:
    driver = Driver(settings=Settings(message_max_bytes=100))
    metadata = bytes(size_bytes)
    joining = join_request(protocols=protocols(range=metadata, sticky=metadata))
    assert driver.send(joining).error == code


@pytest.mark.fact("E19-03a")
def test_a_pending_member_is_dropped_after_its_session_timeout(driver: Driver) -> None:
    member_id = driver.send(join_request()).response.member_id
    driver.advance(SESSION_MS - 1)
    assert driver.groups["g"].pending_members
    driver.advance(1)
    assert not driver.groups["g"].pending_members
    assert driver.send(join_request(member_id)).error == 25


@pytest.mark.parametrize("instance_id", ["i", ""])
def test_a_pending_member_cannot_become_a_static_member(
    driver: Driver, instance_id: str
) -> None:
    member_id = driver.send(join_request()).response.member_id
    sent = driver.send(join_request(member_id, group_instance_id=instance_id))
    assert (sent.error, sent.response.member_id) == (-1, "")
    assert driver.groups["g"].pending_members


@pytest.mark.fact("E19-15")
def test_the_first_join_writes_the_group_as_empty(driver: Driver) -> None:
    driver.send(join_request())
    (record,) = driver.log
    assert record.value == GroupMetadataValue(
        protocol_type="",
        generation=0,
        protocol=None,
        leader=None,
        current_state_timestamp=driver.now_ms,
        members=[],
    )
    assert record.value_version == 3


def test_replaying_the_record_of_a_new_group_keeps_its_pending_join(
    driver: Driver,
) -> None:
    driver.send(join_request(), version=3)
    assert len(driver.log) == 1
    group = driver.groups["g"]
    assert group.state is GroupState.PREPARING_REBALANCE
    assert len(group.joins) == 1


def test_a_join_to_an_existing_empty_group_writes_nothing(driver: Driver) -> None:
    leave(driver, *stable_group(driver))
    written = len(driver.log)
    join(driver)
    assert len(driver.log) == written


@pytest.mark.fact("E19-04")
def test_the_first_rebalance_waits_for_the_initial_delay(driver: Driver) -> None:
    first = join(driver)
    assert driver.groups["g"].state is GroupState.PREPARING_REBALANCE
    driver.advance(2_999)
    assert first.parked
    driver.advance(1)
    assert first.error == 0
    assert driver.groups["g"].state is GroupState.COMPLETING_REBALANCE


@pytest.mark.fact("E19-04a")
def test_a_join_during_the_initial_delay_extends_it(driver: Driver) -> None:
    first = join(driver)
    driver.advance(2_000)
    second = join(driver)
    driver.advance(1_000)
    assert first.parked
    driver.advance(2_999)
    assert first.parked
    driver.advance(1)
    assert [first.error, second.error] == [0, 0]


@pytest.mark.fact("E19-04b")
def test_the_delay_is_extended_up_to_the_rebalance_timeout_only(driver: Driver) -> None:
    joins = [join(driver, rebalance_timeout_ms=7_000)]
    for _ in range(6):
        driver.advance(1_000)
        joins.append(join(driver, rebalance_timeout_ms=7_000))
    driver.advance(999)
    assert all(sent.parked for sent in joins)
    driver.advance(1)
    assert [sent.error for sent in joins] == [0] * 7


@pytest.mark.fact("E19-04")
@pytest.mark.parametrize("delay_ms", [0, -1])
def test_the_initial_rebalance_delay_is_configurable(delay_ms: int) -> None:
    driver = Driver(settings=Settings(group_initial_rebalance_delay_ms=delay_ms))
    sent = join(driver)
    driver.advance(0)
    assert sent.error == 0


@pytest.mark.fact("E19-07")
def test_only_the_leader_receives_the_members(driver: Driver) -> None:
    first = join(driver, protocols=protocols(range=b"one"))
    second = join(driver, protocols=protocols(range=b"two"))
    driver.advance(6_000)
    leader, follower = first.response, second.response
    assert leader.leader == follower.leader == leader.member_id
    metadata = {member.member_id: member.metadata for member in leader.members}
    assert metadata == {leader.member_id: b"one", follower.member_id: b"two"}
    assert follower.members == []


def test_the_response_has_generation_and_protocol(driver: Driver) -> None:
    sent = join(driver)
    driver.advance(3_000)
    assert sent.response.generation_id == 1
    assert sent.response.protocol_type == "consumer"
    assert sent.response.protocol_name == "range"
    assert not sent.response.skip_assignment


@pytest.mark.fact("E19-07a")
def test_every_rebalance_increments_the_generation(driver: Driver) -> None:
    leader, follower = stable_group(driver)
    join(driver, leader)
    sent = join(driver, follower)
    assert sent.response.generation_id == 2


def test_the_generation_after_the_int32_maximum_is_zero(driver: Driver) -> None:
    (member_id,) = stable_group(driver, 1)
    driver.groups["g"].generation = 2**31 - 1
    assert join(driver, member_id).response.generation_id == 0


@pytest.mark.fact("E19-06")
def test_each_member_votes_for_its_first_common_protocol(driver: Driver) -> None:
    sticky_first = protocols(own=b"", sticky=b"", range=b"")
    range_first = protocols(range=b"", sticky=b"")
    sent = join(driver, protocols=range_first)
    for _ in range(2):
        join(driver, protocols=sticky_first)
    driver.advance(6_000)
    assert sent.response.protocol_name == "sticky"


def test_before_version_1_the_session_timeout_is_used_as_rebalance_timeout(
    driver: Driver,
) -> None:
    driver.send(join_request(rebalance_timeout_ms=-1), version=0)
    (member,) = driver.groups["g"].members.values()
    assert member.rebalance_timeout_ms == SESSION_MS


def test_from_version_1_the_request_has_a_rebalance_timeout(driver: Driver) -> None:
    driver.send(join_request(rebalance_timeout_ms=123_000), version=1)
    (member,) = driver.groups["g"].members.values()
    assert member.rebalance_timeout_ms == 123_000


def test_a_join_stores_client_id_and_host(driver: Driver) -> None:
    request = join_request()
    driver.send(request, version=2, client_id="billing", client_host="/10.0.0.7")
    (member,) = driver.groups["g"].members.values()
    assert (member.client_id, member.client_host) == ("billing", "/10.0.0.7")


def test_a_join_reason_is_accepted(driver: Driver) -> None:
    assert join(driver, reason="a new pod").parked


def test_a_new_member_starts_a_rebalance_of_a_stable_group(driver: Driver) -> None:
    ids = stable_group(driver)
    newcomer = join(driver)
    assert newcomer.parked
    assert driver.groups["g"].state is GroupState.PREPARING_REBALANCE
    assert [heartbeat(driver, member_id) for member_id in ids] == [27, 27]


@pytest.mark.fact("E19-05c")
def test_the_join_phase_ends_when_all_members_have_joined(driver: Driver) -> None:
    ids = stable_group(driver)
    newcomer = join(driver)
    rejoined = [join(driver, member_id) for member_id in ids]
    assert [sent.error for sent in (newcomer, *rejoined)] == [0, 0, 0]
    assert driver.groups["g"].generation == 2


def test_a_rebalance_waits_for_a_pending_member(driver: Driver) -> None:
    (member_id,) = stable_group(driver, 1)
    pending_id = driver.send(join_request()).response.member_id
    rejoined = join(driver, member_id)
    assert rejoined.parked
    assert driver.send(join_request(pending_id)).error == 0
    assert rejoined.error == 0


def test_a_rebalance_does_not_wait_for_a_pending_member_that_expired(
    driver: Driver,
) -> None:
    (member_id,) = stable_group(driver, 1)
    driver.send(join_request())
    rejoined = join(driver, member_id)
    driver.advance(SESSION_MS)
    assert rejoined.error == 0


def test_a_join_request_of_version_0_is_accepted(driver: Driver) -> None:
    """Send no rebalance timeout, instance id or reason, as in version 0 (G4-03)."""
    request = m.JoinGroupRequest(
        group_id="g",
        session_timeout_ms=SESSION_MS,
        protocol_type="consumer",
        protocols=protocols(range=b""),
    )
    sent = driver.send(request, version=0)
    driver.advance(3_000)
    assert sent.error == 0
