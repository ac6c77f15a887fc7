"""A system time that is set forward and back while the server runs: no session expires,
no offset is lost, and records have the new time."""

from __future__ import annotations

import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from coterie.wire.record_batch import LogRecord, encode_batch
from tests.broker.server.harness import WireClient
from tests.crash import requests
from tests.crash.requests import GROUP, PLAIN
from tests.crash.test_pause import call_until_loaded, join_classic, join_consumer
from tests.support.server_process import ServerProcess, start_server

MINUTE_S = 60
HOUR_S = 60 * MINUTE_S
DAY_S = 24 * HOUR_S
CHANGES_S = [HOUR_S, 3 * DAY_S, -DAY_S, -30 * DAY_S, 0]
SESSION_MS = 60_000
"""Longer than the test, and far shorter than the changes of the time."""
SETTINGS = {
    "offsets.topic.num.partitions": 2,
    "group.initial.rebalance.delay.ms": 20,
    "group.min.session.timeout.ms": 1_000,
    "log.retention.check.interval.ms": 50,
}
SITE = """
import time

def changed(function, unit, path={path!r}):
    def read():
        with open(path) as file:
            return function() + int(file.read() or 0) * unit
    return read

time.time, time.time_ns = changed(time.time, 1), changed(time.time_ns, 10**9)
"""
"""Python imports a module `sitecustomize` at start."""


class SystemTime:
    """The system time of the servers that start after it."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        folder.mkdir()
        self._file = folder / "change"
        self.set(0)
        site = SITE.format(path=str(self._file))
        (folder / "sitecustomize.py").write_text(site)
        patch.setenv("PYTHONPATH", str(folder), prepend=":")

    def set(self, ahead_s: int) -> None:
        """Set the time this far ahead of the real one."""
        temporary = self._file.with_suffix(".new")
        temporary.write_text(str(ahead_s))
        temporary.replace(self._file)
        self.ahead_s = ahead_s

    def now_ms(self) -> int:
        return int((time.time() + self.ahead_s) * 1_000)


class Members:
    """Two members with sessions, and a client that produces and commits."""

    def __init__(self, stack: ExitStack, server: ServerProcess) -> None:
        self._server = server
        self._client = stack.enter_context(server.client())
        self._heartbeats: list[tuple[WireClient, Any, int]] = []
        self._groups = 0
        requests.create_topics(self._client)
        requests.committed(self._client, GROUP)  # waits until it is loaded
        client = stack.enter_context(server.client())
        joined = join_classic(client, "classic", SESSION_MS)
        self._heartbeats.append((client, *joined))
        client = stack.enter_context(server.client())
        self._heartbeats.append((client, *join_consumer(client, "consumer")))

    def check(self, number: int, now_ms: int) -> None:
        """Check that sessions are kept and writes of the time are accepted."""
        with self._server.client() as another:
            # Its timers make the server look for sessions that are due.
            join_classic(another, f"other-{number}")
        for client, heartbeat, version in self._heartbeats:
            call_until_loaded(client, heartbeat, version)
        request = requests.produce_request(PLAIN, [number])
        batch = encode_batch([LogRecord(0, now_ms, b"key", b"%d" % number)])
        request.topic_data[0].partition_data[0].records = batch
        requests.produced(self._client.call(request, 11))
        answer = self._client.call(requests.commit_request(number), 8)
        requests.checked(answer.topics[0].partitions[0].error_code)
        assert requests.committed(self._client, GROUP) == number
        assert requests.read(self._client, PLAIN) == list(range(number + 1))


@pytest.mark.slow
def test_changes_of_the_system_time_lose_no_session_and_no_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, record_property: Any
) -> None:
    system_time = SystemTime(tmp_path / "site", monkeypatch)
    data = tmp_path / "data"
    with start_server(data=data, settings=SETTINGS) as server, ExitStack() as stack:
        members = Members(stack, server)
        members.check(0, system_time.now_ms())
        for number, ahead_s in enumerate(CHANGES_S, 1):
            system_time.set(ahead_s)
            members.check(number, system_time.now_ms())
        server.kill()
    for ahead_s in (HOUR_S, -HOUR_S):
        system_time.set(ahead_s)
        with (
            start_server(data=data, settings=SETTINGS) as server,
            server.client() as client,
        ):
            assert requests.committed(client, GROUP) == len(CHANGES_S)
            read = requests.read(client, PLAIN)
            assert read == list(range(len(CHANGES_S) + 1))
    record_property("changes of the time", len(CHANGES_S))
