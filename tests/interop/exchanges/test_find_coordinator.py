"""FindCoordinator: its layout in every version, batches of keys, and errors."""

from __future__ import annotations

from typing import Any

import pytest

from coterie.wire import messages as m
from tests.broker.server.harness import WireClient
from tests.support.waiting import eventually

GROUP, TRANSACTION, SHARE, UNKNOWN = 0, 1, 2, 9
INVALID_REQUEST = 42
MALFORMED = (
    "This most likely occurs because of a request being malformed by the client "
    "library or the message was sent to an incompatible broker. See the broker logs "
    "for more details."
)
NO_NODE = (-1, "", -1)


def node_of(answer: Any) -> tuple[int, str, int]:
    return answer.node_id, answer.host, answer.port


def is_the_broker(wire: WireClient, answer: Any) -> bool:
    host, port = wire.socket.getpeername()
    return (answer.host, answer.port) == (host, port) and answer.node_id >= 0


@pytest.mark.fact("B-01a", "B-01c", "B-01d", "B-12a", "B-17")
@pytest.mark.parametrize("version", range(4))
def test_before_version_4_the_answer_is_about_one_key(
    wire: WireClient, group: str, version: int
) -> None:
    found = wire.call(m.FindCoordinatorRequest(key=group), version)
    assert (found.throttle_time_ms, found.error_code) == (0, 0)
    assert is_the_broker(wire, found)
    assert found.error_message == ("" if version == 0 else "NONE")


@pytest.mark.fact("B-02", "B-04", "B-05a", "B-10", "B-12b", "B-18")
@pytest.mark.parametrize("version", [4, 5, 6])
def test_keys_are_answered_in_order_even_if_repeated(
    wire: WireClient, group: str, version: int
) -> None:
    keys = [f"{group}-{i}" for i in (2, 1, 2)]
    response = wire.call(m.FindCoordinatorRequest(coordinator_keys=keys), version)
    assert response.throttle_time_ms == 0
    assert [each.key for each in response.coordinators] == keys
    for each in response.coordinators:
        assert (each.error_code, each.error_message) == (0, "")
        assert is_the_broker(wire, each)


@pytest.mark.fact("B-02", "B-05a")
@pytest.mark.parametrize("version", [4, 5, 6])
def test_the_key_type_is_that_of_every_key(
    wire: WireClient, group: str, version: int
) -> None:
    keys = [f"{group}-1", f"{group}-2"]
    request = m.FindCoordinatorRequest(key_type=TRANSACTION, coordinator_keys=keys)

    def are_found() -> bool:
        found = wire.call(request, version).coordinators
        return all(is_the_broker(wire, each) for each in found)

    eventually(are_found, expected="a transaction coordinator")


@pytest.mark.fact("B-11", "B-12b", "B-12c", "B-14a", "B-14b")
@pytest.mark.parametrize(
    ("key_type", "version"), [(UNKNOWN, 4), (UNKNOWN, 6), (SHARE, 4), (SHARE, 5)]
)
def test_an_unknown_key_type_is_an_invalid_request_for_every_key(
    wire: WireClient, group: str, key_type: int, version: int
) -> None:
    keys = [f"{group}-1", f"{group}-2"]
    request = m.FindCoordinatorRequest(key_type=key_type, coordinator_keys=keys)
    found = wire.call(request, version).coordinators
    assert [(each.key, each.error_code) for each in found] == [
        (key, INVALID_REQUEST) for key in keys
    ]
    assert [node_of(each) for each in found] == [NO_NODE] * 2
    message = MALFORMED if key_type == UNKNOWN else ""
    assert [each.error_message for each in found] == [message] * 2


@pytest.mark.fact("B-01b", "B-11", "B-12a", "B-14a", "B-14b")
@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("key_type", [UNKNOWN, SHARE])
def test_before_version_4_an_error_has_a_message(
    wire: WireClient, group: str, key_type: int, version: int
) -> None:
    found = wire.call(m.FindCoordinatorRequest(key=group, key_type=key_type), version)
    assert (found.error_code, node_of(found)) == (INVALID_REQUEST, NO_NODE)
    assert found.error_message == MALFORMED
