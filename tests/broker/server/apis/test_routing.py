"""Every request that stages a change responds with an error when the flush fails."""

from __future__ import annotations

from typing import Any

import pytest

from coterie.wire import messages as m
from coterie.wire.configs import ConfigResourceType
from coterie.wire.error_codes import ErrorCode
from tests.broker.server.apis.fake_broker import FakeBroker
from tests.broker.server.apis.test_transactions import Client

STORAGE = ErrorCode.KAFKA_STORAGE_ERROR
ASK_AGAIN = ErrorCode.NOT_COORDINATOR


def grow(client: Client) -> Any:
    topic = m.CreatePartitionsTopic(name="a", count=5, assignments=None)
    return m.CreatePartitionsRequest(topics=[topic])


def delete(client: Client) -> Any:
    return m.DeleteTopicsRequest(topic_names=["a"])


def alter(client: Client) -> Any:
    change = m.IncrementalAlterableConfig(
        name="retention.ms", config_operation=0, value="5"
    )
    resource = m.IncrementalAlterConfigsResource(
        resource_type=ConfigResourceType.TOPIC, resource_name="a", configs=[change]
    )
    return m.IncrementalAlterConfigsRequest(resources=[resource])


def initialise(client: Client) -> Any:
    return m.InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=1_000)


def add(client: Client) -> Any:
    return m.AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="t",
        v3_and_below_producer_id=client.producer_id,
        v3_and_below_producer_epoch=client.epoch,
        v3_and_below_topics=[m.AddPartitionsToTxnTopic(name="a", partitions=[1])],
    )


def add_offsets(client: Client) -> Any:
    return m.AddOffsetsToTxnRequest(
        transactional_id="t",
        producer_id=client.producer_id,
        producer_epoch=client.epoch,
        group_id="g",
    )


def end(client: Client) -> Any:
    return m.EndTxnRequest(
        transactional_id="t",
        producer_id=client.producer_id,
        producer_epoch=client.epoch,
        committed=True,
    )


def code_of(response: Any) -> int:
    """Return the one error code of a response, at any depth."""
    for name in ("error_code", "partition_error_code"):
        if hasattr(response, name) and not hasattr(response, "results_by_transaction"):
            code: int = getattr(response, name)
            return code
    for name in (
        "results",
        "responses",
        "results_by_topic_v3_and_below",
        "results_by_partition",
    ):
        if found := getattr(response, name, None):
            return code_of(found[0])
    raise AssertionError(response)


@pytest.mark.parametrize(
    ("make", "version", "code"),
    [
        (grow, 3, STORAGE),
        (delete, 5, STORAGE),
        (alter, 1, STORAGE),
        (initialise, 4, ASK_AGAIN),
        (add, 3, ASK_AGAIN),
        (add_offsets, 3, ASK_AGAIN),
        (end, 3, ASK_AGAIN),
    ],
)
def test_a_full_disk_is_an_error_and_a_retry_succeeds(
    make: Any, version: int, code: ErrorCode
) -> None:
    broker = FakeBroker()
    broker.create("a", partition_count=2)
    client = Client(broker)
    client.init()
    client.add(0)
    request = make(client)
    broker.fail_next_write()
    assert code_of(broker.call(request, version)) == code
    assert code_of(broker.call(request, version)) == ErrorCode.NONE
