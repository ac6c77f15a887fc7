"""Describe, plan, apply, undo: a session at a terminal, on a group of a real consumer.

    python examples/plan_apply_undo.py            shows it
    python examples/plan_apply_undo.py --write    writes it to docs/transcript.md

It starts a server of its own in memory, consumes with confluent-kafka (librdkafka, the
protocol of KIP-848), and types every command. What differs from run to run (ids and
times) is replaced, so that the transcript is the same each time, and a test holds the
file to it.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

TRANSCRIPT: Final = Path(__file__).parent.parent / "docs" / "transcript.md"
GROUP: Final = "billing"
TOPIC: Final = "orders"
WAIT_S: Final = 30.0
READY: Final = "coterie ready on "

_ID: Final = re.compile(r"[0-9]{8}-[0-9]{6}-[0-9a-f]{4}")
_CONSUMER: Final = re.compile(r"(?<=  )\S{22}(?=  /127.0.0.1)")
_TIME: Final = re.compile(r"[0-9-]{10}T[0-9:.]{12}Z")

_HEAD: Final = """\
# Describe, plan, apply, undo

Made by `python examples/plan_apply_undo.py --write` on a Coterie server; do not edit.
`COTERIE_BOOTSTRAP_SERVER` names the cluster. The group's one consumer is librdkafka's.
"""


class Session:
    """What is typed at a terminal, and what comes back."""

    def __init__(self, bootstrap: str, directory: Path) -> None:
        self._directory = directory
        self._environment = {
            **os.environ,
            "COTERIE_BOOTSTRAP_SERVER": bootstrap,
            "XDG_STATE_HOME": str(directory / "state"),
        }
        self._ids: list[str] = []
        self.text = _HEAD

    def say(self, sentence: str) -> None:
        """Tell the reader something."""
        self.text += f"\n{sentence}\n"

    def type(self, line: str, code: int = 0) -> None:
        """Type a command; it has to end with that exit code."""
        for number, real in enumerate(self._ids):
            line = line.replace(f"ID-{number}", real)
        run = subprocess.run(
            [sys.executable, "-m", "coterie.cli.main", *line.split()],
            env=self._environment,
            cwd=self._directory,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=WAIT_S,
            check=False,
        )
        assert run.returncode == code, f"{line}: {run.returncode}\n{run.stdout}"
        ended = f"[exit code {code}]\n" if code else ""
        shown = f"$ coterie {line}\n{run.stdout}{ended}"
        self.text += f"\n```console\n{self._steady(shown)}```\n"

    def _steady(self, text: str) -> str:
        """The same in every run: ids in the order in which they come, and one time."""
        for found in _ID.findall(text):
            if found not in self._ids:
                self._ids.append(found)
        for number, real in enumerate(self._ids):
            text = text.replace(real, f"20261121-10000{number}-5eed")
        text = text.replace(f"{self._directory}/state", "~/.local/state")
        text = _CONSUMER.sub("tNzsBaNYT5y01RFlmktinA", text)
        text = _TIME.sub("2026-11-21T10:00:00.000Z", text)
        return "".join(f"{line.rstrip()}\n" for line in text.splitlines())


def tell(bootstrap: str, directory: Path) -> str:
    """The whole transcript."""
    session = Session(bootstrap, directory)
    produce(bootstrap)
    with consuming(bootstrap):
        session.say("A consumer is at work. Its group cannot be reset:")
        session.type(f"groups describe {GROUP}")
        session.type(f"groups plan again.json reset {GROUP} --to-earliest", code=1)
    session.say(
        "It stops. A plan is a file with what was seen; nothing is written yet:"
    )
    session.type(f"groups plan again.json reset {GROUP} --to-earliest")
    session.say("Somebody commits after the plan was made, so it is refused:")
    commit(bootstrap, TopicPartition(TOPIC, 0, 8))
    session.type("groups apply again.json --execute", code=1)
    session.say("So plan again, and apply. The old offsets are kept first:")
    session.type(f"groups plan fresh.json reset {GROUP} --to-earliest")
    session.type("groups apply fresh.json --execute")
    session.type(f"groups describe {GROUP}")
    session.say("Applying it again does nothing:")
    session.type("groups apply fresh.json --execute")
    session.say("Take it back:")
    session.type("groups undo --list")
    session.type("groups undo ID-0 --execute")
    session.type(f"groups describe {GROUP}")
    return session.text


def produce(bootstrap: str) -> None:
    """Ten records in each of two partitions."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    made = admin.create_topics([NewTopic(TOPIC, 2)])
    made[TOPIC].result(WAIT_S)
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(20):
        producer.produce(TOPIC, str(number).encode(), partition=number % 2)
    assert producer.flush(WAIT_S) == 0


@contextmanager
def consuming(bootstrap: str) -> Iterator[None]:
    """A consumer that owns both partitions and has committed in the middle of them."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "client.id": "till-1",
            "group.id": GROUP,
            "group.protocol": "consumer",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([TOPIC])
    read = 0
    while read < 20:
        record = consumer.poll(WAIT_S)
        assert record is not None, "no record came"
        if record.error():
            raise KafkaException(record.error())
        read += 1
    middle = [TopicPartition(TOPIC, 0, 6), TopicPartition(TOPIC, 1, 10)]
    consumer.commit(offsets=middle, asynchronous=False)
    try:
        yield
    finally:
        consumer.close()


def commit(bootstrap: str, offset: TopicPartition) -> None:
    """Commit for the group without joining it."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": GROUP})
    consumer.commit(offsets=[offset], asynchronous=False)
    consumer.close()


@contextmanager
def server(directory: Path) -> Iterator[str]:
    """A server of our own; yields its HOST:PORT and stops it afterwards."""
    command = [sys.executable, "-m", "coterie.cli.main", "serve", "--memory"]
    with (directory / "server.log").open("wb") as log:
        process = subprocess.Popen(
            [*command, "--listen", "127.0.0.1:0"],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
    assert process.stdout is not None
    try:
        yield process.stdout.readline().removeprefix(READY).split()[0]
    finally:
        process.terminate()
        process.communicate(timeout=WAIT_S)


def main(arguments: list[str]) -> int:
    """Show the transcript, or write it to its file."""
    with tempfile.TemporaryDirectory() as name, server(Path(name)) as bootstrap:
        text = tell(bootstrap, Path(name))
    if "--write" in arguments:
        TRANSCRIPT.write_text(text, encoding="utf-8")
    else:
        print(text, end="")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
