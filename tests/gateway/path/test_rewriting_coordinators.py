"""The node ids of transaction coordinators after their addresses changed."""

from __future__ import annotations

from coterie.gateway.path.addresses import Addresses, UpstreamBroker
from coterie.gateway.path.rewriting import (
    ALTERNATING_MAX,
    FIRST_UNKNOWN_ID,
    MOVED_WITHIN_S,
    CoordinatorIds,
)
from coterie.gateway.view import NodeInfo, View

A = NodeInfo(name="a", host="gw-a", port=9000, broker_port=9001)
B = NodeInfo(name="b", host="gw-b", port=9100, broker_port=9101)


class MovingBroker:
    """A broker at the second node, until that node leaves."""

    def __init__(self) -> None:
        self.nodes: tuple[NodeInfo, ...] = (A, B)
        self.now_s = 0.0
        self.addresses = Addresses(
            lambda: View(self.nodes, (), 1), A, lambda: self.now_s
        )
        self.addresses.learn([UpstreamBroker(1, "up", 1), UpstreamBroker(2, "up", 2)])
        self.addresses.advertised(2)
        self.ids = CoordinatorIds(self.addresses)

    def move(self) -> None:
        self.nodes = (A,)
        self.addresses.advertised(2)

    def look_up(self, key: str = "t") -> int:
        return self.ids.node_id(key, 2)


def test_a_coordinator_at_its_first_address_has_its_own_id() -> None:
    broker = MovingBroker()

    assert [broker.look_up() for _ in range(3)] == [2, 2, 2]


def test_a_moved_coordinator_has_an_unknown_id_in_every_second_response() -> None:
    broker = MovingBroker()
    broker.move()

    unknown = FIRST_UNKNOWN_ID + 2
    assert [broker.look_up() for _ in range(4)] == [unknown, 2, unknown, 2]


def test_transactional_ids_are_counted_apart() -> None:
    broker = MovingBroker()
    broker.move()

    unknown = FIRST_UNKNOWN_ID + 2
    assert [broker.look_up("t"), broker.look_up("u")] == [unknown, unknown]
    assert [broker.look_up("u"), broker.look_up("t")] == [2, 2]


def test_a_broker_that_stayed_has_its_own_id() -> None:
    broker = MovingBroker()
    broker.addresses.advertised(1)
    broker.move()
    broker.addresses.advertised(1)

    assert broker.ids.node_id("t", 1) == 1


def test_a_coordinator_that_moved_long_ago_has_its_own_id() -> None:
    broker = MovingBroker()
    broker.move()
    broker.now_s = MOVED_WITHIN_S
    assert broker.look_up() > FIRST_UNKNOWN_ID
    broker.now_s = MOVED_WITHIN_S + 1

    assert [broker.look_up() for _ in range(3)] == [2, 2, 2]


def test_the_kept_transactional_ids_are_bounded() -> None:
    broker = MovingBroker()
    broker.move()
    for number in range(ALTERNATING_MAX + 1):
        assert broker.look_up(f"t-{number}") > FIRST_UNKNOWN_ID

    assert broker.look_up(f"t-{ALTERNATING_MAX}") == 2
    assert broker.look_up("t-0") > FIRST_UNKNOWN_ID
