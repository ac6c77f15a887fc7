"""TxnOffsetCommit: authorization and transaction checks before the group's shard."""

from __future__ import annotations

import pytest

from coterie.broker.catalog.transactions import TransactionState
from coterie.types import TopicPartition
from coterie.wire import messages as m
from coterie.wire.commit import decoded
from coterie.wire.error_codes import ErrorCode
from tests.broker.server.apis.fake_broker import FakeBroker, allow_except
from tests.broker.server.apis.test_transactions import Client

GROUP = "group"
SHARD = 5
V1 = 4
V2 = 5


@pytest.fixture
def broker() -> FakeBroker:
    made = FakeBroker()
    made.create("a")
    made.create("b")
    return made


@pytest.fixture
def client(broker: FakeBroker) -> Client:
    made = Client(broker)
    made.init()
    return made


def commit(
    client: Client, *names: str, version: int = V2, node: int = 0, group: str = GROUP
) -> dict[str, int]:
    """Commit offsets in a transaction; return the error of each topic's partition."""
    request = m.TxnOffsetCommitRequest(
        transactional_id=client.transactional_id,
        group_id=group,
        producer_id=client.producer_id,
        producer_epoch=client.epoch,
        topics=[
            m.TxnOffsetCommitRequestTopic(
                name=name,
                partitions=[m.TxnOffsetCommitRequestPartition(partition_index=0)],
            )
            for name in names
        ],
    )
    response = decoded(client.broker.call(request, version, node=node), version)
    return {topic.name: topic.partitions[0].error_code for topic in response.topics}


def test_transactions_v2_add_the_offsets_partition(
    broker: FakeBroker, client: Client
) -> None:
    assert commit(client, "a") == {"a": 0}
    found = broker.catalog.transactions.get("t")
    assert found is not None
    assert found.state is TransactionState.ONGOING
    assert found.partitions == {TopicPartition("__consumer_offsets", SHARD)}
    [(shard, request)] = broker.groups.submitted
    assert (shard, [topic.name for topic in request.topics]) == (SHARD, ["a"])


@pytest.mark.parametrize(
    ("version", "code"),
    [(3, ErrorCode.INVALID_TXN_STATE), (4, ErrorCode.TRANSACTION_ABORTABLE)],
)
def test_transactions_v1_need_add_offsets_to_txn(
    broker: FakeBroker, client: Client, version: int, code: ErrorCode
) -> None:
    assert commit(client, "a", version=version) == {"a": code}
    assert broker.groups.submitted == []
    assert client.add_offsets(GROUP) is ErrorCode.NONE
    assert commit(client, "a", version=version) == {"a": 0}


def test_a_topic_without_read_permission_does_not_affect_others(
    broker: FakeBroker, client: Client
) -> None:
    broker.authorizer = allow_except(("READ", "b"))
    refused = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert commit(client, "b", "a") == {"a": 0, "b": refused}
    [(_, request)] = broker.groups.submitted
    assert [(topic.name, topic.error_code) for topic in request.topics] == [
        ("b", refused),
        ("a", 0),
    ]
    assert commit(client, "b") == {"b": refused}
    assert len(broker.groups.submitted) == 1


@pytest.mark.parametrize(
    ("operation", "name", "code"),
    [
        ("READ", GROUP, ErrorCode.GROUP_AUTHORIZATION_FAILED),
        ("WRITE", "t", ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
    ],
)
def test_a_commit_without_permission_is_refused(
    broker: FakeBroker, client: Client, operation: str, name: str, code: ErrorCode
) -> None:
    broker.authorizer = allow_except((operation, name))
    assert commit(client, "a", "b") == {"a": code, "b": code}


def test_a_fenced_producer_gets_invalid_producer_epoch(
    broker: FakeBroker, client: Client
) -> None:
    Client(broker).init()
    assert commit(client, "a") == {"a": ErrorCode.INVALID_PRODUCER_EPOCH}


def test_an_unknown_producer_gets_invalid_producer_id_mapping(client: Client) -> None:
    client.producer_id += 1
    assert commit(client, "a") == {"a": ErrorCode.INVALID_PRODUCER_ID_MAPPING}


def test_an_empty_group_id_is_invalid(client: Client) -> None:
    assert commit(client, "a", group="") == {"a": ErrorCode.INVALID_GROUP_ID}


def test_only_the_groups_coordinator_accepts_the_commit() -> None:
    broker = FakeBroker(nodes=2)
    broker.create("a")
    client = Client(broker)
    client.init()
    assert commit(client, "a") == {"a": ErrorCode.NOT_COORDINATOR}


@pytest.mark.parametrize("version", [0, V1, V2])
def test_an_unknown_topic_is_reported_whatever_the_transaction(
    broker: FakeBroker, client: Client, version: int
) -> None:
    client.producer_id = 99
    for group in (GROUP, ""):
        assert commit(client, "none", version=version, group=group) == {
            "none": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        }
    found = commit(client, "a", "none", version=version)
    assert found["none"] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert found["a"] == ErrorCode.INVALID_PRODUCER_ID_MAPPING
