"""Topics and log offsets on a server of three nodes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from coterie.client.admin.admin_client import AdminClient
from coterie.client.admin.log_offsets import (
    EARLIEST,
    LATEST,
    AtTime,
    LogOffsetInfo,
    SpecialOffset,
)
from coterie.client.admin.topics import NewTopic
from coterie.errors import ApiError
from coterie.types import TopicPartition
from coterie.wire.error_codes import ErrorCode
from tests.broker.server.apis.fake_broker import batch_of, produce_request
from tests.broker.server.harness import ThreadServer
from tests.client.scripted_broker import OPTIONS

pytestmark = pytest.mark.asyncio

T0, T1, T2 = (TopicPartition("t", number) for number in range(3))
BY_NAME = 12


@pytest.fixture
def server() -> Iterator[ThreadServer]:
    with ThreadServer(node_count=3) as server:
        yield server


@pytest_asyncio.fixture
async def admin(server: ThreadServer) -> AsyncIterator[AdminClient]:
    host, port = server.addresses[0]
    async with AdminClient(f"{host}:{port}", OPTIONS) as admin:
        new = [NewTopic("t", 3, 1), NewTopic("u", 1, 1)]
        results = await admin.topics.create(new)
        assert [each.partitions for each in results.all().values()] == [3, 1]
        yield admin


def produce(server: ThreadServer, *values: bytes, timestamp_ms: int = 1_000) -> None:
    """Append a batch to partition 0 of t on the first node."""
    with server.client() as client:
        batch = batch_of(*values, timestamp_ms=timestamp_ms)
        answer = client.call(produce_request(batch, topic="t"), BY_NAME)
        assert answer.responses[0].partition_responses[0].error_code == 0


async def test_every_kind_of_offset_is_listed_from_all_leaders(
    server: ThreadServer, admin: AdminClient
) -> None:
    produce(server, b"a", b"b", timestamp_ms=1_000)
    produce(server, b"c", timestamp_ms=2_000)
    results = await admin.logs.list_offsets(
        {T0: LATEST, T1: LATEST, T2: EARLIEST, TopicPartition("u", 0): LATEST}
    )
    assert [found.offset for found in results.all().values()] == [3, 0, 0, 0]
    for spec, found in (
        (EARLIEST, LogOffsetInfo(0, -1, 0)),
        (AtTime(1_001), LogOffsetInfo(2, 2_000, 0)),
        (AtTime(2_001), LogOffsetInfo(-1)),
        (SpecialOffset.MAX_TIMESTAMP, LogOffsetInfo(2, 2_000, 0)),
        (SpecialOffset.EARLIEST_LOCAL, LogOffsetInfo(0, -1, 0)),
    ):
        results = await admin.logs.list_offsets({T0: spec}, committed_only=True)
        assert results.one(T0) == found, spec


async def test_a_topic_deleted_during_a_call_does_not_affect_others(
    server: ThreadServer, admin: AdminClient
) -> None:
    wanted = {T0: LATEST, TopicPartition("u", 0): LATEST}
    assert len((await admin.logs.list_offsets(wanted)).all()) == 2
    await admin.topics.delete(["t"])
    results = await admin.logs.list_offsets(wanted)
    assert list(results.values) == [("u", 0)]
    [error] = results.errors.values()
    assert isinstance(error, ApiError)
    assert error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_records_are_deleted(server: ThreadServer, admin: AdminClient) -> None:
    produce(server, b"a", b"b", b"c")
    told: list[tuple[int, int]] = []
    results = await admin.logs.delete_records(
        {T0: 2, T1: 5},
        progress=lambda done, of: told.append((done, of)),
    )
    assert results.values == {T0: 2}
    with pytest.raises(ApiError, match="partition t-1 has no such offset"):
        results.one(T1)
    assert told[-1] == (2, 2)
    assert (await admin.logs.delete_records({T0: -1})).one(T0) == 3
    assert (await admin.logs.list_offsets({T0: EARLIEST})).one(T0).offset == 3


async def test_topics_are_created_extended_and_deleted(admin: AdminClient) -> None:
    [t] = (await admin.topics.describe(["t"])).all().values()
    assert t.topic_id is not None
    assert t.all_partitions == (T0, T1, T2)
    assert [each.leader_id for each in t.partitions] == [1, 2, 3]

    grown = await admin.topics.create_partitions({"t": 4, "u": 1, "v": 2})
    assert (list(grown.values), list(grown.errors)) == (["t"], ["u", "v"])
    tried = await admin.topics.create_partitions({"t": 9}, validate_only=True)
    assert list(tried.all()) == ["t"]

    gone = await admin.topics.delete(["u", "v"])
    assert (list(gone.values), list(gone.errors)) == (["u"], ["v"])
    results = await admin.topics.describe()
    assert {
        name: len(each.partitions)
        for name, each in results.all().items()
        if not each.is_internal
    } == {"t": 4}


async def test_create_topics_supports_validation_and_broker_defaults(
    admin: AdminClient,
) -> None:
    tried = await admin.topics.create([NewTopic("v")], validate_only=True)
    assert tried.one("v").partitions == 1
    made = await admin.topics.create([NewTopic("v"), NewTopic("t", 1, 1)])
    assert list(made.values) == ["v"]
    with pytest.raises(ApiError, match="topic t: TOPIC_ALREADY_EXISTS"):
        made.all()
