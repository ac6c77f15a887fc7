"""The first records at offsets, on a server of three nodes and scripted brokers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from coterie.client.admin.admin_client import AdminClient
from coterie.client.admin.fetch import FETCHES_MAX, FirstRecord, first_records
from coterie.client.admin.topics import NewTopic
from coterie.errors import ApiError, ClientError
from coterie.types import TopicPartition
from coterie.wire import messages as m
from coterie.wire.api import ApiKey
from coterie.wire.error_codes import ErrorCode
from coterie.wire.record_batch import encode_marker
from tests.broker.server.apis.fake_broker import batch_of, produce_request
from tests.broker.server.harness import ThreadServer
from tests.client.admin.scripted_cluster import ScriptedCluster
from tests.client.scripted_broker import OPTIONS
from tests.client.test_record_reader import aborted_answers, answers, batch, part

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
BY_NAME = 12


@pytest.fixture
def server() -> Iterator[ThreadServer]:
    with ThreadServer(node_count=3) as server:
        yield server


@pytest_asyncio.fixture
async def admin(server: ThreadServer) -> AsyncIterator[AdminClient]:
    host, port = server.addresses[0]
    async with AdminClient(f"{host}:{port}", OPTIONS) as admin:
        (await admin.create_topics([NewTopic("t", 2, 1)])).all()
        with server.client() as client:
            for time_ms in (1_000, 2_000):
                batch = batch_of(b"a", b"b", timestamp_ms=time_ms)
                client.call(produce_request(batch, topic="t"), BY_NAME)
        yield admin


@pytest.mark.asyncio
async def test_the_first_record_at_each_offset_is_returned(admin: AdminClient) -> None:
    found = (await admin.first_records({T0: [0, 1, 2, 3, 4]})).one(T0)
    times_ms = (1_000, 1_000, 2_000, 2_000)
    expected: dict[int, FirstRecord | None] = {
        offset: FirstRecord(offset, time_ms) for offset, time_ms in enumerate(times_ms)
    }
    assert found == {**expected, 4: None}


@pytest.mark.asyncio
async def test_each_partition_has_its_own_error(admin: AdminClient) -> None:
    gone = TopicPartition("gone", 0)
    found = await admin.first_records({T0: [3, 99], T1: [0], gone: [0]})
    assert found.values == {T1: {0: None}}
    for at, code in (
        (T0, ErrorCode.OFFSET_OUT_OF_RANGE),
        (gone, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ):
        error = found.errors[at]
        assert isinstance(error, ApiError)
        assert error.code is code


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("committed_only", "first"), [(False, FirstRecord(0, 1)), (True, FirstRecord(3, 1))]
)
async def test_markers_and_aborted_records_are_left_out(
    committed_only: bool,
    first: FirstRecord,
) -> None:
    log = (
        batch(0, b"aborted", producer=5)
        + encode_marker(1, 1, 5, 0, commit=False)
        + encode_marker(2, 1, 6, 0, commit=True)
        + batch(3, b"later", producer=5)
    )

    async with ScriptedCluster() as nodes:
        nodes.lead(1, "t", 0)
        nodes.brokers[0].answers[ApiKey.FETCH] = aborted_answers(log, (5, 0))
        found = await first_records(
            nodes.client(), {T0: [0, 1]}, committed_only=committed_only, progress=None
        )
    assert found.one(T0) == {0: first, 1: FirstRecord(3, 1)}


@pytest.mark.asyncio
async def test_markers_without_end_are_given_up() -> None:
    requests: list[int] = []

    def answer(request: m.FetchRequest) -> m.FetchResponse:
        offset = request.topics[0].partitions[0].fetch_offset
        requests.append(offset)
        return answers(part(encode_marker(offset, 1, 5, 0, commit=True)))(request)

    async with ScriptedCluster() as nodes:
        nodes.lead(1, "t", 0)
        nodes.brokers[0].answers[ApiKey.FETCH] = answer
        found = await first_records(
            nodes.client(), {T0: [7]}, committed_only=False, progress=None
        )
    assert requests == [7 + each for each in range(FETCHES_MAX)]
    assert found.one(T0) == {7: FirstRecord(7 + FETCHES_MAX, -1)}


@pytest.mark.asyncio
async def test_invalid_batches_are_an_error_of_their_partition() -> None:
    async with ScriptedCluster() as nodes:
        nodes.lead(1, "t", 0)
        nodes.brokers[0].answers[ApiKey.FETCH] = answers(
            part(bytes(11) + b"\x44" + b"x" * 68)
        )
        found = await first_records(
            nodes.client(), {T0: [0]}, committed_only=False, progress=None
        )
    with pytest.raises(ClientError, match="t-0: cannot read the batch at offset 0"):
        found.one(T0)
