"""Clients that are many, slow, or do not read: other clients are served, and the memory
of the server is bounded."""

from __future__ import annotations

import resource
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from coterie.wire import messages as m
from coterie.wire.record_batch import LogRecord, encode_batch
from tests.broker.server.harness import WireClient
from tests.crash import requests
from tests.crash.requests import GROUP, PLAIN, TXN
from tests.support.server_process import ServerProcess, start_server

SETTINGS = {"offsets.topic.num.partitions": 1}
IDLE = 10_000
FILES_SPARE = 1_000
IDLE_BYTES = 24 * 1024
"""The largest memory of an idle connection in the server."""
HALF_FRAMES = 500
HALF_SIZE = 90_000_000
RESPONSE_BYTES = 900_000
UNREAD_REQUESTS = 2_000
UNREAD_BYTES = 64 * 1024 * 1024
"""The largest memory for one connection that does not read its responses."""
STALL_S = 1.0


@contextmanager
def open_files(count: int) -> Iterator[int]:
    """Raise the limit of open files, also of children; yield the new limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = max(soft, min(count, hard))
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    try:
        yield limit
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def resident_bytes(server: ServerProcess, name: str = "VmRSS") -> int:
    """Return the resident memory of the server, or with VmHWM its peak."""
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    [line] = [each for each in status.splitlines() if each.startswith(name)]
    return int(line.split()[1]) * 1024


class Ordinary:
    """A client that produces and commits, and is never refused."""

    def __init__(self, stack: ExitStack, server: ServerProcess) -> None:
        self._client = stack.enter_context(server.client())
        self._count = 0
        requests.create_topics(self._client)
        requests.committed(self._client, GROUP)  # waits until it is loaded
        self.check()

    def check(self) -> None:
        """Produce, commit and read both again."""
        number = self._count
        self._count += 1
        request = requests.produce_request(PLAIN, [number])
        requests.produced(self._client.call(request, 11))
        answer = self._client.call(requests.commit_request(number), 8)
        requests.checked(answer.topics[0].partitions[0].error_code)
        assert requests.committed(self._client, GROUP) == number
        found = requests.read(self._client, PLAIN)
        assert found == list(range(self._count))


def connect(stack: ExitStack, server: ServerProcess) -> socket.socket:
    [address] = server.addresses
    return stack.enter_context(socket.create_connection(address, timeout=300))


@pytest.mark.slow
def test_ten_thousand_idle_connections_do_not_hinder_another_client(
    record_property: Any,
) -> None:
    with (
        open_files(IDLE + FILES_SPARE) as limit,
        start_server(settings=SETTINGS) as server,
        ExitStack() as stack,
    ):
        count = min(IDLE, limit - FILES_SPARE)
        ordinary = Ordinary(stack, server)
        before = resident_bytes(server)
        with ExitStack() as idle:
            for number in range(count):
                connect(idle, server)
                if number % (count // 4) == 0:
                    ordinary.check()
            ordinary.check()
            with server.client() as another:
                requests.committed(another, GROUP)
            grown = resident_bytes(server) - before
            assert grown < count * IDLE_BYTES
        ordinary.check()
        record_property("idle connections", count)
        record_property("bytes for each", grown // count)


@pytest.mark.slow
def test_half_frames_do_not_hinder_another_client(record_property: Any) -> None:
    with start_server(settings=SETTINGS) as server, ExitStack() as stack:
        ordinary = Ordinary(stack, server)
        before = resident_bytes(server)
        slow = [connect(stack, server) for _ in range(HALF_FRAMES)]
        frame = HALF_SIZE.to_bytes(4, "big") + bytes([0, 0, 0, 9])
        for byte in frame:
            for each in slow:
                each.sendall(bytes([byte]))
            ordinary.check()
        grown = resident_bytes(server) - before
        assert grown < HALF_FRAMES * IDLE_BYTES, "memory for bytes that did not arrive"
        record_property("half frames", HALF_FRAMES)
        record_property("bytes for each", grown // HALF_FRAMES)


def send_until_stalled(client: WireClient, frame: bytes) -> int:
    """Send requests without reading until the server reads no more; return how many."""
    client.socket.settimeout(STALL_S)
    for sent in range(UNREAD_REQUESTS):
        try:
            client.socket.sendall(frame)
        except TimeoutError:
            return sent
    return UNREAD_REQUESTS


@pytest.mark.slow
def test_a_client_that_never_reads_holds_a_bounded_memory(record_property: Any) -> None:
    with start_server(settings=SETTINGS) as server, ExitStack() as stack:
        ordinary = Ordinary(stack, server)
        with server.client() as client:
            request = requests.produce_request(TXN, [0])
            batch = encode_batch([LogRecord(0, 1, None, bytes(RESPONSE_BYTES))])
            request.topic_data[0].partition_data[0].records = batch
            requests.produced(client.call(request, 11))
        before = resident_bytes(server)
        partition = m.FetchPartition(
            partition=0, fetch_offset=0, partition_max_bytes=requests.FETCH_BYTES
        )
        fetch = m.FetchRequest(
            max_wait_ms=0, topics=[m.FetchTopic(topic=TXN, partitions=[partition])]
        )
        unread = stack.enter_context(server.client())
        frame, _ = unread.frame(fetch, 12)
        sent = send_until_stalled(unread, frame * 100)
        ordinary.check()
        grown = resident_bytes(server, "VmHWM") - before
        assert grown < UNREAD_BYTES
        unread.close()
        ordinary.check()
        record_property("requests of 100 before the server stopped reading", sent)
        record_property("bytes held", grown)
