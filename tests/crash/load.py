"""A load that records which writes were acknowledged and which were only sent."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.broker.server.harness import WireClient
from tests.crash import requests
from tests.crash.requests import GROUP, PLAIN, TXN, TXN_GROUP
from tests.support.server_process import ServerProcess

WINDOW = 8
"""Produce requests in flight."""


@dataclass
class Ledger:
    """The values that may or must be found after a crash.

    Transactions are numbered; `begun` is the number of the latest one begun.
    """

    sent: int = 0
    acknowledged: int = 0
    commit_sent: int = -1
    commit_acknowledged: int = -1
    begun: int = -1
    committed: set[int] = field(default_factory=set)
    aborted: set[int] = field(default_factory=set)
    uncertain: set[int] = field(default_factory=set)
    """The transaction whose COMMIT was sent and not answered."""


class Load:
    """Three connections that produce, commit and run transactions until the server
    ends."""

    def __init__(self, ledger: Ledger, server: ServerProcess) -> None:
        self._ledger = ledger
        self._server = server
        self.errors: list[BaseException] = []
        self.warm = threading.Barrier(4, timeout=300)
        works = (self._produce, self._commit, self._transact)
        self._threads = [
            threading.Thread(target=self._run, args=(work,)) for work in works
        ]
        for thread in self._threads:
            thread.start()

    def join(self) -> None:
        """Wait until every connection has ended; raise the first unexpected error."""
        for thread in self._threads:
            thread.join(120)
            assert not thread.is_alive()
        if self.errors:
            raise self.errors[0]

    def _run(self, work: Callable[[WireClient], None]) -> None:
        try:
            with self._server.client() as client:
                work(client)
        except (OSError, EOFError):
            pass  # the server was killed
        except BaseException as error:
            self.errors.append(error)
            self.warm.abort()

    def _produce(self, client: WireClient) -> None:
        ledger = self._ledger
        ledger.sent = ledger.acknowledged
        for _ in range(WINDOW):
            self._send_one(client)
        requests.produced(client.receive())
        ledger.acknowledged += 1
        self.warm.wait()
        while True:
            self._send_one(client)
            requests.produced(client.receive())
            ledger.acknowledged += 1

    def _send_one(self, client: WireClient) -> None:
        client.send(requests.produce_request(PLAIN, [self._ledger.sent]), 11)
        self._ledger.sent += 1

    def _commit(self, client: WireClient) -> None:
        ledger = self._ledger
        requests.committed(client, GROUP)  # waits until the coordinator is loaded
        self._commit_one(client, ledger)
        self.warm.wait()
        while True:
            self._commit_one(client, ledger)

    @staticmethod
    def _commit_one(client: WireClient, ledger: Ledger) -> None:
        ledger.commit_sent += 1
        answer = client.call(requests.commit_request(ledger.commit_sent), 8)
        requests.checked(answer.topics[0].partitions[0].error_code)
        ledger.commit_acknowledged = ledger.commit_sent

    def _transact(self, client: WireClient) -> None:
        ledger = self._ledger
        requests.committed(client, TXN_GROUP)  # waits until the coordinator is loaded
        producer = requests.begin(client)
        self.warm.wait()
        while True:
            ledger.begun += 1
            number = ledger.begun
            requests.transaction(client, producer, number)
            sequence = producer.base_sequence + requests.COPIES
            producer = producer._replace(base_sequence=sequence)
            commit = number % 3 != 0
            if commit:
                ledger.uncertain.add(number)
            requests.end(client, producer, commit=commit)
            (ledger.committed if commit else ledger.aborted).add(number)
            ledger.uncertain.discard(number)


def check(ledger: Ledger, server: ServerProcess) -> None:
    """Check the server's contents against the ledger; then update the ledger."""
    with server.client() as client:
        _check_records(ledger, requests.read(client, PLAIN))
        offset = requests.committed(client, GROUP)
        assert ledger.commit_acknowledged <= offset <= ledger.commit_sent
        ledger.commit_sent = ledger.commit_acknowledged = offset
        requests.begin(client)
        _check_transactions(ledger, requests.read(client, TXN))
        last = max(ledger.committed, default=-1)
        assert requests.committed(client, TXN_GROUP) == last


def _check_records(ledger: Ledger, found: list[int]) -> None:
    assert found == list(range(len(found))), "a record is lost, twice or out of order"
    assert ledger.acknowledged <= len(found) <= ledger.sent
    ledger.acknowledged = len(found)


def _check_transactions(ledger: Ledger, found: list[int]) -> None:
    visible = set(found)
    assert sorted(found) == sorted(list(visible) * requests.COPIES), (
        "half a transaction"
    )
    assert ledger.committed <= visible, "an acknowledged transaction is lost"
    assert visible <= ledger.committed | ledger.uncertain, "it was never committed"
    ledger.committed = visible
    ledger.uncertain.clear()
