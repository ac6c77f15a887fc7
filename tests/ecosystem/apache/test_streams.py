"""A Kafka Streams application that copies and counts exactly once, over kills."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.ecosystem.apache.processes import (
    JavaProcess,
    committed_values,
    create_topics,
    duplicates,
    produce,
)
from tests.support.server_process import ServerProcess, start_server
from tests.support.waiting import eventually

pytestmark = [pytest.mark.slow, pytest.mark.apache_tools]
SOURCE: Final = Path(__file__).with_name("CopyStream.java")
SETTINGS: Final = {"group.initial.rebalance.delay.ms": 0}
RECORDS: Final = 5_000
EXPECTED: Final = {str(number) for number in range(RECORDS)}


class Application:
    """The application, which may be killed and started again."""

    def __init__(self, jars: Path, folder: Path, bootstrap: str) -> None:
        self._arguments = (bootstrap, str(folder / "state"))
        self._jars, self._log = jars, folder / "streams.log"

    def start(self) -> JavaProcess:
        """Start it with the state that an earlier run left."""
        return JavaProcess(self._jars, self._log, str(SOURCE), *self._arguments)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    """Run a server with data on disk, and the topics."""
    with start_server(data=tmp_path / "data", settings=SETTINGS) as running:
        create_topics(running.bootstrap, "input", "output", "counts")
        produce(running.bootstrap, "input", range(RECORDS))
        yield running


def wait_for_output(bootstrap: str, count: int) -> list[str]:
    """Wait until the output has this many records at least; return its values."""
    return eventually(
        lambda: (
            values
            if len(values := committed_values(bootstrap, "output")) >= count
            else []
        ),
        within_s=300,
        expected=f"{count} records of output",
    )


def test_each_record_is_copied_once_when_the_application_is_killed(
    jars: Path, tmp_path: Path, server: ServerProcess
) -> None:
    application = Application(jars, tmp_path, server.bootstrap)
    with application.start() as process:
        wait_for_output(server.bootstrap, 1)
        process.kill()
    before = committed_values(server.bootstrap, "output")
    assert len(before) < RECORDS, "it was killed too late to show anything"
    with application.start():
        values = wait_for_output(server.bootstrap, RECORDS)
    assert duplicates(values) == []
    assert set(values) == EXPECTED


def test_each_record_is_copied_once_when_the_server_is_killed(
    jars: Path, tmp_path: Path, server: ServerProcess
) -> None:
    application = Application(jars, tmp_path, server.bootstrap)
    with application.start():
        before = wait_for_output(server.bootstrap, 1)
        server.kill()
        again = start_server(
            data=tmp_path / "data", settings=SETTINGS, listen=server.bootstrap
        )
        with again:
            values = wait_for_output(again.bootstrap, RECORDS)
    assert len(before) < RECORDS, "it was killed too late to show anything"
    assert duplicates(values) == []
    assert set(values) == EXPECTED
