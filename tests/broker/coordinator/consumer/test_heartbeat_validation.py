"""Invalid fields of a heartbeat, checked in Kafka's order."""

from __future__ import annotations

from typing import Any

import pytest

from coterie.broker.coordinator.consumer.heartbeat import check_heartbeat
from coterie.errors import ApiError
from coterie.wire import messages as m
from coterie.wire.error_codes import ErrorCode

ASSIGNORS = ("uniform", "range")
JOIN: dict[str, Any] = {
    "group_id": "group",
    "member_id": "m",
    "member_epoch": 0,
    "rebalance_timeout_ms": 5_000,
    "subscribed_topic_names": ["topic"],
    "topic_partitions": [],
}
STAY: dict[str, Any] = {"group_id": "group", "member_id": "m", "member_epoch": 5}


def check(fields: dict[str, Any], api_version: int = 0, **changed: Any) -> None:
    request = m.ConsumerGroupHeartbeatRequest(**{**fields, **changed})
    check_heartbeat(request, api_version=api_version, assignors=ASSIGNORS)


def refusal_of(
    fields: dict[str, Any], api_version: int = 0, **changed: Any
) -> ApiError:
    with pytest.raises(ApiError) as refusal:
        check(fields, api_version, **changed)
    return refusal.value


def invalid(fields: dict[str, Any], api_version: int = 0, **changed: Any) -> str:
    """Return the message of an INVALID_REQUEST."""
    refusal = refusal_of(fields, api_version, **changed)
    assert refusal.code is ErrorCode.INVALID_REQUEST
    return str(refusal)


blanks = pytest.mark.parametrize("blank", ["", "  "])


@blanks
@pytest.mark.fact("H-01b", "E7-06", "E7-06a")
@pytest.mark.parametrize("field", ["instance_id", "rack_id"])
def test_an_empty_instance_id_or_rack_id_is_refused(field: str, blank: str) -> None:
    name = {"instance_id": "InstanceId", "rack_id": "RackId"}[field]
    assert name in invalid({**JOIN, field: blank})


@pytest.mark.fact("H-02", "E7-07")
def test_a_regular_expression_is_a_subscription() -> None:
    check(JOIN, 1, subscribed_topic_names=None, subscribed_topic_regex="t.*")


@pytest.mark.fact("E7-11a")
def test_a_subscription_to_no_topics_is_accepted() -> None:
    check(JOIN, subscribed_topic_names=[])


@pytest.mark.parametrize("api_version", [0, 1])
def test_a_temporary_leave_needs_a_member_id_from_version_1(api_version: int) -> None:
    fields = {**STAY, "member_epoch": -2, "member_id": "", "instance_id": "i"}
    if api_version:
        assert "MemberId" in invalid(fields, api_version)
    else:
        check(fields, api_version)


@pytest.mark.fact("E7-13")
@pytest.mark.parametrize("epoch", [-3, -(2**31)])
def test_an_epoch_below_minus_two_is_refused(epoch: int) -> None:
    assert "MemberEpoch" in invalid(STAY, member_epoch=epoch)


@pytest.mark.fact("H-01h", "E7-14")
@pytest.mark.parametrize("fields", [JOIN, STAY])
def test_an_unknown_server_assignor_is_refused(fields: dict[str, Any]) -> None:
    refusal = refusal_of(fields, server_assignor="sticky")
    assert refusal.code is ErrorCode.UNSUPPORTED_ASSIGNOR
    assert "uniform, range" in str(refusal)


@blanks
@pytest.mark.fact("E7-15", "E10-02a")
@pytest.mark.parametrize("fields", [JOIN, STAY])
def test_from_version_1_a_join_needs_a_member_id(
    fields: dict[str, Any], blank: str
) -> None:
    assert "MemberId" in invalid(fields, 1, member_id=blank)


def test_in_version_0_a_member_may_join_without_an_id() -> None:
    check(JOIN, 0, member_id="")


@pytest.mark.parametrize(
    ("earlier", "later", "name"),
    [
        ({"group_id": ""}, {"instance_id": ""}, "GroupId"),
        ({"instance_id": ""}, {"rack_id": ""}, "InstanceId"),
        ({"rack_id": ""}, {"rebalance_timeout_ms": -1}, "RackId"),
        ({"rebalance_timeout_ms": -1}, {"topic_partitions": None}, "RebalanceTimeout"),
        ({"topic_partitions": None}, {"subscribed_topic_names": None}, "Partitions"),
        ({"subscribed_topic_names": None}, {"server_assignor": "x"}, "Subscribed"),
    ],
)
def test_the_first_error_in_kafkas_order_is_returned(
    earlier: dict[str, Any], later: dict[str, Any], name: str
) -> None:
    assert name in invalid(JOIN, **earlier, **later)


@pytest.mark.parametrize(
    ("fields", "changed"),
    [
        (JOIN, {}),
        (STAY, {}),
        (STAY, {"member_epoch": -1}),
        (STAY, {"member_epoch": -2, "instance_id": "i"}),
        (JOIN, {"server_assignor": "range", "instance_id": "i", "rack_id": "r"}),
    ],
)
def test_a_valid_heartbeat_is_accepted(
    fields: dict[str, Any], changed: dict[str, Any]
) -> None:
    check(fields, 1, **changed)
