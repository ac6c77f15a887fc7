"""A full disk of a running server: no write succeeds, and none is lost afterwards.

The test sets a file size limit of the process (RLIMIT_FSIZE) while it runs: writes
beyond it fail as on a full disk.
"""

from __future__ import annotations

import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from coterie.wire import messages as m
from coterie.wire.error_codes import ErrorCode
from tests.broker.server.harness import WireClient
from tests.crash import requests
from tests.crash.requests import GROUP, PLAIN, TXN
from tests.support.server_process import ServerProcess, start_server

LIMIT = 64 * 1024
RECORDS = 20_000
"""More than LIMIT, so that every later write is beyond it."""


@pytest.fixture
def settings(store: str) -> dict[str, object]:
    return {"offsets.topic.num.partitions": 4, "log.store": store}


@pytest.fixture
def server(tmp_path: Path, settings: dict[str, object]) -> Iterator[ServerProcess]:
    with start_server(data=tmp_path, settings=settings) as server:
        with server.client() as client:
            requests.create_topics(client)
            requests.committed(client, GROUP)  # waits until the coordinator is loaded
            requests.begin(client)
            requests.produced(client.call(produce(list(range(RECORDS))), 11))
        yield server


@contextmanager
def full_disk(server: ServerProcess) -> Iterator[None]:
    """Limit the size of the server's files during the test."""
    pid = server.process.pid
    limits = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (LIMIT, limits[1]))
    try:
        yield
    finally:
        if server.process.poll() is None:
            resource.prlimit(pid, resource.RLIMIT_FSIZE, limits)


def produce(values: list[int]) -> m.ProduceRequest:
    return requests.produce_request(PLAIN, values)


def produce_code(client: WireClient) -> int:
    answer = client.call(produce([RECORDS]), 11)
    code: int = answer.responses[0].partition_responses[0].error_code
    return code


def commit_code(client: WireClient) -> int:
    answer = client.call(requests.commit_request(7), 8)
    code: int = answer.topics[0].partitions[0].error_code
    return code


def transaction_code(client: WireClient) -> int:
    """Return the error code of the first request of a transaction."""
    with pytest.raises(requests.Refused) as refusal:
        requests.transaction(client, requests.begin(client), 0)
    return int(ErrorCode[str(refusal.value)])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ask", "codes"),
    [
        (produce_code, {ErrorCode.KAFKA_STORAGE_ERROR}),
        (
            commit_code,
            {ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR},
        ),
        (
            transaction_code,
            {ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR},
        ),
    ],
    ids=["produce", "commit", "transaction"],
)
def test_a_write_to_a_full_disk_fails(
    server: ServerProcess, ask: Callable[[WireClient], int], codes: set[ErrorCode]
) -> None:
    with server.client() as client, full_disk(server):
        assert ask(client) in codes


@pytest.mark.slow
def test_killing_a_server_with_a_full_disk_loses_and_adds_nothing(
    server: ServerProcess, tmp_path: Path, settings: dict[str, object]
) -> None:
    with server.client() as client, full_disk(server):
        assert produce_code(client) != 0
        assert commit_code(client) != 0
        server.kill()
    with (
        start_server(data=tmp_path, settings=settings) as later,
        later.client() as client,
    ):
        assert requests.read(client, PLAIN) == list(range(RECORDS))
        assert requests.read(client, TXN) == []
        assert requests.committed(client, GROUP) == -1


@pytest.mark.slow
def test_a_server_continues_after_space_is_freed(server: ServerProcess) -> None:
    with server.client() as client:
        with full_disk(server):
            assert produce_code(client) != 0
            assert commit_code(client) != 0
        requests.committed(client, GROUP)  # waits until the coordinator is loaded again
        assert commit_code(client) == 0
        assert produce_code(client) == 0
        assert requests.committed(client, GROUP) == 7
        assert requests.read(client, PLAIN) == list(range(RECORDS + 1))
