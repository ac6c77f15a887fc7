"""A consumer in a process of its own, there to be killed without a word to anybody."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from types import TracebackType

from .waiting import eventually

# The member says what it owns whenever that changes; it never commits.
SCRIPT = """
import sys
from confluent_kafka import Consumer
bootstrap, group, topic, strategy = sys.argv[1:]
consumer = Consumer({
    "bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False,
    "session.timeout.ms": 6000, "heartbeat.interval.ms": 300,
    "auto.offset.reset": "earliest", "partition.assignment.strategy": strategy,
})
consumer.subscribe([topic])
owned = None
while True:
    consumer.poll(0.1)
    if (now := len(consumer.assignment())) != owned:
        owned = now
        print(owned, flush=True)
"""


class Doomed:
    """`with Doomed(...)`: a member of the group until it is killed."""

    def __init__(self, bootstrap: str, group: str, topic: str, strategy: str) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self._said = Path(self._folder.name) / "said"
        command = [sys.executable, "-c", SCRIPT, bootstrap, group, topic, strategy]
        with self._said.open("wb") as said:
            self._process = subprocess.Popen(command, stdout=said)

    def wait_until_it_owns(self, partitions: int) -> None:
        """Wait until the member says that it owns so many partitions."""
        eventually(
            lambda: self._said.read_text().split()[-1:] == [str(partitions)],
            wanted=f"a doomed member that owns {partitions} partitions",
        )

    def kill(self) -> None:
        """kill -9; the group is told nothing."""
        self._process.kill()
        self._process.wait(10)

    def __enter__(self) -> Doomed:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()
        self._folder.cleanup()
