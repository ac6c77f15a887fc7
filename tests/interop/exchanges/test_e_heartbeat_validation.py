"""ConsumerGroupHeartbeat: requests with fields that are refused (E7.4)."""

from __future__ import annotations

from typing import Any

import pytest

from coterie.wire import messages as m
from tests.broker.server.harness import WireClient

INVALID_REQUEST = 42
UNSUPPORTED_ASSIGNOR = 112
JOIN: dict[str, Any] = {
    "member_id": "m",
    "member_epoch": 0,
    "rebalance_timeout_ms": 30_000,
    "subscribed_topic_names": ["topic"],
    "topic_partitions": [],
}
STAY: dict[str, Any] = {"member_id": "m", "member_epoch": 5}


def refused(
    wire: WireClient, fields: dict[str, Any], *, version: int = 1
) -> tuple[int, str | None]:
    """Return the error of a heartbeat; a refusal has nothing else."""
    sent = wire.call(m.ConsumerGroupHeartbeatRequest(**fields), version)
    assert (sent.member_id, sent.member_epoch, sent.assignment) == (None, 0, None)
    return sent.error_code, sent.error_message


blanks = pytest.mark.parametrize("blank", ["", "  "])


@blanks
@pytest.mark.parametrize(
    ("field", "name"),
    [
        pytest.param("instance_id", "InstanceId", marks=pytest.mark.fact("E7-06")),
        pytest.param("rack_id", "RackId", marks=pytest.mark.fact("E7-06a")),
    ],
)
@pytest.mark.parametrize("fields", [JOIN, STAY])
def test_a_blank_instance_id_or_rack_id_is_refused(
    wire: WireClient,
    group: str,
    field: str,
    name: str,
    fields: dict[str, Any],
    blank: str,
) -> None:
    refusal = refused(wire, {**fields, "group_id": group, field: blank})
    assert refusal == (INVALID_REQUEST, f"{name} can't be empty.")


@blanks
@pytest.mark.fact("E7-15", "E10-02a")
@pytest.mark.parametrize("epoch", [0, 1, -1, -2])
def test_a_heartbeat_of_version_1_needs_a_member_id(
    wire: WireClient, group: str, epoch: int, blank: str
) -> None:
    fields = {**JOIN, "group_id": group, "member_epoch": epoch, "member_id": blank}
    refusal = refused(wire, {**fields, "instance_id": "i"})
    assert refusal == (INVALID_REQUEST, "MemberId can't be empty.")


@pytest.mark.parametrize(
    "subscription",
    [
        pytest.param({"subscribed_topic_names": []}, marks=pytest.mark.fact("E7-11a")),
        pytest.param(
            {"subscribed_topic_names": None, "subscribed_topic_regex": ""},
            marks=pytest.mark.fact("E7-11a"),
        ),
        pytest.param(
            {"subscribed_topic_names": None, "subscribed_topic_regex": "none-.*"},
            marks=pytest.mark.fact("E7-07"),
        ),
        pytest.param({"subscribed_topic_regex": "none-.*"}, marks=()),
    ],
)
def test_a_join_with_a_subscription_is_accepted(
    wire: WireClient, group: str, subscription: dict[str, Any]
) -> None:
    request = m.ConsumerGroupHeartbeatRequest(
        **{**JOIN, "group_id": group, **subscription}
    )
    assert wire.call(request, 1).error_code == 0


@pytest.mark.fact("E7-13")
@pytest.mark.parametrize("epoch", [-3, -(2**31)])
def test_an_epoch_below_minus_two_is_refused(
    wire: WireClient, group: str, epoch: int
) -> None:
    refusal = refused(wire, {**STAY, "group_id": group, "member_epoch": epoch})
    assert refusal == (INVALID_REQUEST, "MemberEpoch is invalid.")


@pytest.mark.fact("E7-14", "E12-05")
@pytest.mark.parametrize("fields", [JOIN, STAY])
def test_an_unknown_server_assignor_is_refused(
    wire: WireClient, group: str, fields: dict[str, Any]
) -> None:
    refusal = refused(wire, {**fields, "group_id": group, "server_assignor": "sticky"})
    assert refusal == (
        UNSUPPORTED_ASSIGNOR,
        "ServerAssignor sticky is not supported. Supported assignors: uniform, range.",
    )
