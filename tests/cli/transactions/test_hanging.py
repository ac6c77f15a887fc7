"""`coterie transactions` on a server with open and ended transactions."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from coterie.client.admin.transactions import TransactionListings, Transactions
from tests.broker.server.harness import ThreadServer
from tests.cli.server_shell import ServerShell
from tests.real_clients.confluent_admin import (
    ANSWER_S,
    create_topic,
    transactional_producer,
)

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def server() -> Iterator[ThreadServer]:
    """A server with the open transaction `open-1` from offset 2 of orders:0,
    and the committed one `done-1`."""
    with ThreadServer() as server:
        [(host, port)] = server.addresses
        bootstrap = f"{host}:{port}"
        create_topic(bootstrap, "orders", partitions=2)
        done = send_one(bootstrap, "done-1")
        done.commit_transaction(ANSWER_S)
        producer = send_one(bootstrap, "open-1")
        yield server
        producer.abort_transaction(ANSWER_S)


def send_one(bootstrap: str, transactional_id: str) -> Producer:
    producer = transactional_producer(bootstrap, transactional_id)
    producer.begin_transaction()
    producer.produce("orders", b"1", partition=0)
    assert producer.flush(ANSWER_S) == 0
    return producer


@pytest.fixture
def transactions(
    server: ThreadServer, capsys: pytest.CaptureFixture[str]
) -> ServerShell:
    return ServerShell("transactions", server, capsys)


@pytest.fixture
def forgetful(monkeypatch: pytest.MonkeyPatch) -> None:
    """Coordinators that list no transaction, so that open ones hang."""

    async def list_nothing(_: object, **filters: object) -> TransactionListings:
        return TransactionListings(())

    monkeypatch.setattr(Transactions, "list", list_nothing)


def test_transactions_are_listed_with_their_states(transactions: ServerShell) -> None:
    listed = {each["transactional_id"]: each for each in transactions.items("list")}
    assert listed["open-1"]["state"] == "Ongoing"
    assert listed["done-1"]["state"] == "CompleteCommit"
    producer_id = listed["open-1"]["producer_id"]
    for words in (
        "--state Ongoing",
        f"--producer-id {producer_id}",
        "--running-for 1ms",
        "--regex open-.*",
    ):
        items = transactions.items(f"list {words}")
        assert [each["transactional_id"] for each in items] == ["open-1"], words


def test_a_transaction_is_described_with_its_partitions(
    transactions: ServerShell,
) -> None:
    (item,) = transactions.items("describe open-1")
    assert item["state"] == "Ongoing"
    assert item["partitions"] == ["orders:0"]
    assert item["timeout_ms"] == 300_000
    assert item["started"].endswith("Z")
    (item,) = transactions.items("describe done-1 gone", code=1)
    assert (item["state"], item["duration_ms"]) == ("CompleteCommit", None)
    table = transactions("describe gone", code=1)
    assert "TRANSACTIONAL_ID_NOT_FOUND" in transactions.error
    assert "gone" not in table


def test_producers_are_listed_by_partition(transactions: ServerShell) -> None:
    items = transactions.items("producers orders:0")
    assert sorted(each["transaction_start"] or 0 for each in items) == [0, 2]
    transactions("producers nowhere:0 missing", code=1)
    assert "error: topic missing" in transactions.error


def test_a_transaction_of_its_coordinator_does_not_hang(
    transactions: ServerShell,
) -> None:
    assert transactions.items("find-hanging --all --older-than 0s") == []
    transactions("find-hanging orders --fail-if-found")
    assert "no hanging transaction was found" in transactions.error
    transactions("abort orders:0 --start-offset 2 --yes", code=1)
    assert "does not hang" in transactions.error


@pytest.mark.usefixtures("forgetful")
def test_a_transaction_without_a_coordinator_hangs(transactions: ServerShell) -> None:
    (item,) = transactions.items(
        "find-hanging orders --older-than 0s --fail-if-found", code=3
    )
    assert (item["topic"], item["partition"]) == ("orders", 0)
    assert (item["start_offset"], item["transactional_id"]) == (2, None)
    transactions("find-hanging orders --older-than 0s")
    assert "abort orders:0 --start-offset 2 --execute" in transactions.error
    (item,) = transactions.items("abort orders:0 --start-offset 2")
    assert item["result"] == "planned"
    # Coterie's transactions cannot hang, so it does not serve WriteTxnMarkers.
    (item,) = transactions.items("abort orders:0 --start-offset 2 --yes", code=1)
    assert item["error"]["code"] == "UnsupportedByBroker"


def test_an_offset_without_a_transaction_names_the_open_ones(
    transactions: ServerShell,
) -> None:
    transactions("abort orders:0 --start-offset 7 --yes", code=1)
    assert "starts at 7; open ones start at 2" in transactions.error
    transactions("abort orders:1 --start-offset 0 --yes", code=1)
    assert "none is open" in transactions.error


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("abort orders --start-offset 1", "is not one partition"),
        ("abort orders:0,1 --start-offset 1", "is not one partition"),
        ("find-hanging", "name topics, or use --all"),
        ("find-hanging orders --all", "name topics, or use --all"),
    ],
)
def test_usage_errors_name_the_remedy(
    transactions: ServerShell, line: str, message: str
) -> None:
    transactions(line, code=2)
    assert message in transactions.error
