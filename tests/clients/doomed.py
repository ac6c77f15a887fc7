"""A consumer in a process of its own, there to be killed without a word to anybody."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from types import TracebackType

from .members import settings_of
from .waiting import eventually

# The member says what it owns whenever that changes; it never commits.
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


class Doomed:
    """`with Doomed(...)`: a member of the group until it is killed."""

    def __init__(
        self, bootstrap: str, group: str, topic: str, **config: object
    ) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self._said = Path(self._folder.name) / "said"
        settings = json.dumps(settings_of(bootstrap, group, **config))
        command = [sys.executable, "-c", SCRIPT, topic, settings]
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
