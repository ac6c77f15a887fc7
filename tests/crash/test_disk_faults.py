"""A disk that fails at every write and sync in turn: no acknowledged write is lost, and
the server continues.

Small writes make some 40 calls, of which each fails once. With log.store=sqlite, a
write that is followed by a checkpoint makes thousands: COTERIE_TEST_FAULT_STRIDE is the
distance between two of them.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from coterie.wire import messages as m
from coterie.wire.record_batch import LogRecord, encode_batch
from tests.broker.server.harness import WireClient
from tests.crash import requests
from tests.crash.fault_layer import FaultLayer
from tests.crash.load import Ledger, check
from tests.crash.requests import GROUP, PLAIN, TXN, TXN_GROUP, Refused
from tests.support.server_process import ServerProcess, start_server

STRIDE = int(os.environ.get("COTERIE_TEST_FAULT_STRIDE", "421"))
SETTINGS = {
    "offsets.topic.num.partitions": 2,
    "message.max.bytes": 6_000_000,
    "log.journal.bytes": 65_536,
}
BULK = "bulk"
BULK_BYTES = 4_500_000
"""More than CHECKPOINT_PAGES, and than a journal: such a write is followed by a
checkpoint."""
RESTART_EVERY = 25
ALL = -1


class Cycle:
    """One write of each kind, each of which the server may refuse."""

    def __init__(self, server: ServerProcess, ledger: Ledger) -> None:
        self.server = server
        self.ledger = ledger
        self.refused = 0

    def run(self, *, bulk: bool) -> None:
        """Write in turn; update the ledger."""
        with self.server.client() as client:
            for write in (self._produce, self._commit, self._transact):
                self._attempt(write, client)
            if bulk:
                self._attempt(self._produce_bulk, client)

    def _attempt(self, write: Any, client: WireClient) -> None:
        try:
            write(client)
        except Refused:
            self.refused += 1

    def _produce(self, client: WireClient) -> None:
        ledger = self.ledger
        value, ledger.sent = ledger.acknowledged, ledger.acknowledged + 1
        requests.produced(client.call(requests.produce_request(PLAIN, [value]), 11))
        ledger.acknowledged += 1

    def _commit(self, client: WireClient) -> None:
        ledger = self.ledger
        ledger.commit_sent += 1
        answer = client.call(requests.commit_request(ledger.commit_sent), 8)
        requests.checked(answer.topics[0].partitions[0].error_code)
        ledger.commit_acknowledged = ledger.commit_sent

    def _transact(self, client: WireClient) -> None:
        ledger = self.ledger
        producer = requests.begin(client)
        ledger.begun += 1
        number = ledger.begun
        requests.transaction(client, producer, number)
        commit = number % 3 != 0
        if commit:
            ledger.uncertain.add(number)
        sequence = producer.base_sequence + requests.COPIES
        producer = producer._replace(base_sequence=sequence)
        requests.end(client, producer, commit=commit)
        (ledger.committed if commit else ledger.aborted).add(number)
        ledger.uncertain.discard(number)

    def _produce_bulk(self, client: WireClient) -> None:
        value = os.urandom(BULK_BYTES)
        request = requests.produce_request(BULK, [0])
        batch = encode_batch([LogRecord(0, 1, None, value)])
        request.topic_data[0].partition_data[0].records = batch
        requests.produced(client.call(request, 11))


def create(server: ServerProcess) -> None:
    """Create the topics that do not exist yet, and wait for the coordinator."""
    topics = [
        m.CreatableTopic(name=name, num_partitions=1, replication_factor=1)
        for name in (PLAIN, TXN, BULK)
    ]
    with server.client() as client:
        client.call(m.CreateTopicsRequest(topics=topics, timeout_ms=30_000))
        for group in (GROUP, TXN_GROUP):
            requests.committed(client, group)  # waits until the coordinator is loaded


def delete_bulk(server: ServerProcess) -> None:
    """Free the space, so that the store stays small."""
    partition = m.DeleteRecordsPartition(partition_index=0, offset=ALL)
    topic = m.DeleteRecordsTopic(name=BULK, partitions=[partition])
    with server.client() as client:
        answer = client.call(m.DeleteRecordsRequest(topics=[topic], timeout_ms=30_000))
        requests.checked(answer.topics[0].partitions[0].error_code)


@pytest.mark.slow
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("bulk", [False, True], ids=["small", "checkpoint"])
@pytest.mark.parametrize(
    ("code", "times"),
    [(errno.EIO, 1), (errno.ENOSPC, 1), (errno.ENOSPC, 40)],
    ids=["EIO", "ENOSPC", "ENOSPC-for-long"],
)
def test_no_acknowledged_write_is_lost_when_a_call_to_the_disk_fails(
    tmp_path: Path,
    store: str,
    record_property: Any,
    code: int,
    times: int,
    bulk: bool,
) -> None:
    data = tmp_path / "data"
    layer = FaultLayer(tmp_path, str(data))
    ledger = Ledger()
    settings = {**SETTINGS, "log.store": store}
    stride = STRIDE if bulk and store == "sqlite" else 1
    at, is_over, refused = 1, False, 0
    while not is_over:
        with layer.preloaded(), start_server(data=data, settings=settings) as server:
            create(server)
            check(ledger, server)
            cycle = Cycle(server, ledger)
            for _ in range(RESTART_EVERY):
                before = layer.failures
                layer.arm(at, code, times)
                cycle.run(bulk=bulk)
                layer.disarm()
                check(ledger, server)
                if bulk:
                    delete_bulk(server)
                is_over = layer.failures == before  # there was no call of this number
                if is_over:
                    break
                at += stride
            refused += cycle.refused
            server.kill()
    with start_server(data=data, settings=settings) as server:
        check(ledger, server)
    record_property("faults", layer.failures)
    record_property("refused writes", refused)
    record_property("acknowledged writes", ledger.acknowledged)
    assert refused > 0
    assert ledger.acknowledged > 0
    assert ledger.commit_acknowledged > 0
    assert ledger.committed
