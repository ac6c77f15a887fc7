"""Every request that changes something says so when the change is not durable."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from coterie.server.apis import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    create_partitions,
    delete_topics,
    end_txn,
    incremental_alter_configs,
    init_producer_id,
)
from coterie.wire.config_kinds import ResourceKind
from coterie.wire.error_codes import ErrorCode
from coterie.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from coterie.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from coterie.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from coterie.wire.messages.delete_topics import DeleteTopicsRequest
from coterie.wire.messages.end_txn import EndTxnRequest
from coterie.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from coterie.wire.messages.init_producer_id import InitProducerIdRequest
from tests.data.test_transactions import Client
from tests.data.world import World

STORAGE = ErrorCode.KAFKA_STORAGE_ERROR
ASK_AGAIN = ErrorCode.NOT_COORDINATOR


def grow(client: Client) -> Any:
    topic = CreatePartitionsTopic(name="a", count=5, assignments=None)
    return CreatePartitionsRequest(topics=[topic])


def delete(client: Client) -> Any:
    return DeleteTopicsRequest(topic_names=["a"])


def alter(client: Client) -> Any:
    change = AlterableConfig(name="retention.ms", config_operation=0, value="5")
    resource = AlterConfigsResource(
        resource_type=ResourceKind.TOPIC, resource_name="a", configs=[change]
    )
    return IncrementalAlterConfigsRequest(resources=[resource])


def initialise(client: Client) -> Any:
    return InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=1_000)


def add(client: Client) -> Any:
    return AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="t",
        v3_and_below_producer_id=client.producer_id,
        v3_and_below_producer_epoch=client.epoch,
        v3_and_below_topics=[AddPartitionsToTxnTopic(name="a", partitions=[1])],
    )


def add_offsets(client: Client) -> Any:
    return AddOffsetsToTxnRequest(
        transactional_id="t",
        producer_id=client.producer_id,
        producer_epoch=client.epoch,
        group_id="g",
    )


def end(client: Client) -> Any:
    return EndTxnRequest(
        transactional_id="t",
        producer_id=client.producer_id,
        producer_epoch=client.epoch,
        committed=True,
    )


def code_of(response: Any) -> int:
    """The one error code of an answer, however deep it lies."""
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
    ("api", "make", "version", "code"),
    [
        (create_partitions, grow, 3, STORAGE),
        (delete_topics, delete, 5, STORAGE),
        (incremental_alter_configs, alter, 1, STORAGE),
        (init_producer_id, initialise, 4, ASK_AGAIN),
        (add_partitions_to_txn, add, 3, ASK_AGAIN),
        (add_offsets_to_txn, add_offsets, 3, ASK_AGAIN),
        (end_txn, end, 3, ASK_AGAIN),
    ],
)
def test_a_full_disk_is_told_and_the_next_try_succeeds(
    api: ModuleType, make: Any, version: int, code: ErrorCode
) -> None:
    world = World()
    world.create("a", partition_count=2)
    client = Client(world)
    client.init()
    client.add(0)
    request = make(client)
    world.fail_next_write()
    assert code_of(world.call(api, request, version)) == code
    assert code_of(world.call(api, request, version)) == ErrorCode.NONE
