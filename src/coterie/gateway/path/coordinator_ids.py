"""The node ids of transaction coordinators in responses to clients.

The coordinator of a transactional id is a broker upstream, whose id stays the same when
its port on another gateway node is advertised. librdkafka keeps the address of a
transaction coordinator as long as FindCoordinator returns the same id
(`rd_kafka_txn_coord_set`), so it goes on connecting to a gateway node that is dead. An
unknown id makes it forget the coordinator, request Metadata, which has the address, and
request FindCoordinator again after 500 ms. kgo requests Metadata, too; Kafka's Java
client connects to the address in the response, whatever the id is.

So after the address of a broker has changed, every second response for a transactional
id has an unknown id. Once is not enough: Metadata may be received after the next
response of FindCoordinator.
"""

from __future__ import annotations

from typing import Final

from coterie.gateway.path.addresses import Addresses

FIRST_UNKNOWN_ID: Final = 500_000_000
"""The smallest id that Metadata does not have: between those of brokers and of gateway
nodes."""
_UNKNOWN_IDS: Final = 500_000_000
MOVED_WITHIN_S: Final = 300.0
"""How long after a change of its address a broker has two ids. librdkafka requests the
coordinator when it fails to connect, which it tries about every ten seconds."""
KEYS_MAX: Final = 10_000


class CoordinatorIds:
    """The ids of transaction coordinators in the responses of one node."""

    def __init__(self, addresses: Addresses) -> None:
        self._addresses = addresses
        self._keys: set[str] = set()
        """The transactional ids whose last response had an unknown id."""

    def node_id(self, key: str, broker_id: int) -> int:
        """Return the node id for the next response for a transactional id.

        `broker_id` is the coordinator, of which the address was advertised.
        """
        if key in self._keys:
            self._keys.remove(key)
            return broker_id
        if not self._addresses.has_moved(broker_id, MOVED_WITHIN_S):
            return broker_id
        if len(self._keys) >= KEYS_MAX:
            self._keys.clear()  # they only get one more unknown id
        self._keys.add(key)
        # One for each broker: Kafka's Java client keeps a connection by the id.
        return FIRST_UNKNOWN_ID + broker_id % _UNKNOWN_IDS
