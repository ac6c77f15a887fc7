"""Transactions by the admin client, on Coterie and on Apache Kafka."""

from __future__ import annotations

import json
import re

import pytest

from coterie.client.admin.admin_client import AdminClient
from coterie.client.admin.log_offsets import LATEST
from coterie.client.admin.transactions import OpenTransaction, TransactionState
from coterie.errors import UnsupportedByBroker
from coterie.types import TopicPartition
from tests.real_clients.confluent_admin import ANSWER_S, transactional_producer

from .conftest import Broker, Command

pytestmark = pytest.mark.slow


@pytest.mark.asyncio
async def test_an_open_transaction_is_described_and_aborted(
    broker: Broker, topic: str
) -> None:
    name = f"txn-{topic}"
    at = TopicPartition(topic, 0)
    producer = transactional_producer(broker.bootstrap, name)
    producer.begin_transaction()
    producer.produce(topic, b"1", partition=0)
    assert producer.flush(ANSWER_S) == 0
    async with AdminClient(broker.bootstrap) as admin:
        listings = await admin.transactions.list(
            states=[TransactionState.ONGOING], id_pattern=re.escape(name)
        )
        (listed,) = listings.all()
        described = (await admin.transactions.describe([name, "gone"])).values[name]
        (state,) = (await admin.transactions.describe_producers([at])).one(at)
        assert listed.transactional_id == described.transactional_id == name
        assert listed.producer_id == described.producer_id == state.producer_id
        assert described.partitions == (at,)
        assert state.transaction_start == 0
        assert (await admin.transactions.find_hanging([at], older_than_ms=0)).all() == {
            at: ()
        }
        ends = await admin.logs.list_offsets({at: LATEST}, committed_only=True)
        assert ends.one(at).offset == 0
        # The coordinator has the transaction: on Kafka the marker ends it in this
        # partition all the same.
        aborted = await admin.transactions.abort([OpenTransaction.of(at, state)])
        if broker.kind == "coterie":
            (error,) = aborted.errors.values()
            assert isinstance(error, UnsupportedByBroker)
        else:
            aborted.all()
            ends = await admin.logs.list_offsets({at: LATEST}, committed_only=True)
            assert ends.one(at).offset == 2
    producer.abort_transaction(ANSWER_S)


def test_hanging_transactions_are_searched_by_the_command(
    broker: Broker, coterie: Command, topic: str
) -> None:
    done = coterie("transactions", "find-hanging", topic, "--output", "json")
    summary = json.loads(done.stdout)["summary"]
    assert (summary["partitions"], summary["hanging"]) == (2, 0)
    done = coterie("transactions", "producers", topic, "--output", "json")
    assert json.loads(done.stdout)["items"] == []


@pytest.mark.asyncio
async def test_features_are_described(
    broker: Broker,
) -> None:
    async with AdminClient(broker.bootstrap) as admin:
        found = await admin.features.describe()
        assert found.finalized["group.version"] <= found.supported["group.version"].high
