"""TxnOffsetCommit on its way to the group's shard."""

from __future__ import annotations

from typing import Any

import pytest

from coterie.catalog.transactions import TransactionState
from coterie.server.apis import txn_offset_commit
from coterie.types import TopicPartition
from coterie.wire.error_codes import ErrorCode
from coterie.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from tests.data.test_transactions import Client
from tests.data.world import World

GROUP = "group"
SHARD = 5
V1 = 4
V2 = 5


class Except:
    """An authorizer that refuses one operation on one name."""

    def __init__(self, operation: str, name: str) -> None:
        self._refused = (operation, name)

    def authorize(self, _: object, operation: Any, __: object, name: str) -> bool:
        return (operation.name, name) != self._refused


@pytest.fixture
def world() -> World:
    made = World()
    made.create("a")
    made.create("b")
    done = TxnOffsetCommitResponsePartition(partition_index=0)
    topic = TxnOffsetCommitResponseTopic(name="a", partitions=[done])
    made.groups.response = TxnOffsetCommitResponse(topics=[topic])
    return made


@pytest.fixture
def client(world: World) -> Client:
    made = Client(world)
    made.init()
    return made


def commit(
    client: Client, *names: str, version: int = V2, node: int = 0, group: str = GROUP
) -> dict[str, int]:
    """The error code of each topic's partition."""
    request = TxnOffsetCommitRequest(
        transactional_id=client.transactional_id,
        group_id=group,
        producer_id=client.producer_id,
        producer_epoch=client.epoch,
        topics=[
            TxnOffsetCommitRequestTopic(
                name=name,
                partitions=[TxnOffsetCommitRequestPartition(partition_index=0)],
            )
            for name in names
        ],
    )
    response = client.world.call(txn_offset_commit, request, version, node=node)
    return {topic.name: topic.partitions[0].error_code for topic in response.topics}


def test_version_two_adds_the_shards_partition(world: World, client: Client) -> None:
    assert commit(client, "a") == {"a": 0}
    found = world.catalog.transactions.get("t")
    assert found is not None
    assert found.state is TransactionState.ONGOING
    assert found.partitions == {TopicPartition("__consumer_offsets", SHARD)}
    [(shard, request)] = world.groups.submitted
    assert (shard, [topic.name for topic in request.topics]) == (SHARD, ["a"])


@pytest.mark.parametrize(
    ("version", "code"),
    [(3, ErrorCode.INVALID_TXN_STATE), (4, ErrorCode.TRANSACTION_ABORTABLE)],
)
def test_version_one_wants_it_added_before(
    world: World, client: Client, version: int, code: ErrorCode
) -> None:
    assert commit(client, "a", version=version) == {"a": code}
    assert world.groups.submitted == []
    assert client.add_offsets(GROUP) is ErrorCode.NONE
    assert commit(client, "a", version=version) == {"a": 0}


def test_a_topic_that_may_not_be_read_is_refused_alone(
    world: World, client: Client
) -> None:
    world.authorizer = Except("READ", "b")
    refused = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert commit(client, "b", "a") == {"a": 0, "b": refused}
    [(_, request)] = world.groups.submitted
    assert [topic.name for topic in request.topics] == ["a"]
    assert commit(client, "b") == {"b": refused}
    assert len(world.groups.submitted) == 1


@pytest.mark.parametrize(
    ("operation", "name", "code"),
    [
        ("READ", GROUP, ErrorCode.GROUP_AUTHORIZATION_FAILED),
        ("WRITE", "t", ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
    ],
)
def test_whoever_may_not_is_refused(
    world: World, client: Client, operation: str, name: str, code: ErrorCode
) -> None:
    world.authorizer = Except(operation, name)
    assert commit(client, "a", "b") == {"a": code, "b": code}


def test_a_fenced_producer_is_told_so(world: World, client: Client) -> None:
    Client(world).init()
    assert commit(client, "a") == {"a": ErrorCode.INVALID_PRODUCER_EPOCH}


def test_an_unknown_producer_is_told_so(client: Client) -> None:
    client.producer_id += 1
    assert commit(client, "a") == {"a": ErrorCode.INVALID_PRODUCER_ID_MAPPING}


def test_an_empty_group_id_is_invalid(client: Client) -> None:
    assert commit(client, "a", group="") == {"a": ErrorCode.INVALID_GROUP_ID}


def test_only_the_groups_coordinator_takes_it() -> None:
    world = World(nodes=2)
    world.create("a")
    client = Client(world)
    client.init()
    assert commit(client, "a") == {"a": ErrorCode.NOT_COORDINATOR}
