"""A consumer in a separate process, which tests kill without a LeaveGroup."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Final

from tests.real_clients.confluent_members import consumer_settings
from tests.support.waiting import eventually

CRASHED_SESSION_MS: Final = 6_000
"""Session time-out of members that are killed, the least that Kafka accepts."""
# The script prints the number of assigned partitions after each change. It never
# commits.
SCRIPT = """
import json, sys
from confluent_kafka import Consumer
topic, settings = sys.argv[1:]
consumer = Consumer(json.loads(settings))
consumer.subscribe([topic])
owned = None
while True:
    consumer.poll(0.1)
    if (now := len(consumer.assignment())) != owned:
        owned = now
        print(owned, flush=True)
"""


class MemberProcess:
    """A group member in a process, until `kill` or the end of the `with` block."""

    def __init__(
        self, bootstrap: str, group: str, topic: str, **config: object
    ) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self._output = Path(self._folder.name) / "stdout"
        if config.get("group_protocol", "classic") == "classic":
            config = {"session_timeout_ms": CRASHED_SESSION_MS, **config}
        settings = json.dumps(consumer_settings(bootstrap, group, **config))
        command = [sys.executable, "-c", SCRIPT, topic, settings]
        with self._output.open("wb") as stdout:
            self._process = subprocess.Popen(command, stdout=stdout)

    def wait_for_partitions(self, partitions: int) -> None:
        """Wait until the member is assigned that many partitions."""
        eventually(
            lambda: self._output.read_text().split()[-1:] == [str(partitions)],
            expected=f"a member process with {partitions} partitions",
        )

    def kill(self) -> None:
        """Kill the process with SIGKILL, so that it does not leave the group."""
        self._process.kill()
        self._process.wait(60)

    def __enter__(self) -> MemberProcess:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()
        self._folder.cleanup()
