"""Describe, plan, apply and undo a reset of a group with a real consumer.

    python examples/plan_apply_undo.py            print the transcript
    python examples/plan_apply_undo.py --write    write it to docs/transcript.md

Starts a server in memory, consumes with confluent-kafka (librdkafka, KIP-848), and runs
every command. Ids and times are replaced by fixed ones, so that the transcript is the
same in every run; a test compares it with the file.
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
    """A terminal session: commands and their output."""

    def __init__(self, bootstrap: str, directory: Path) -> None:
        self._directory = directory
        self._environment = {
            **os.environ,
            "COTERIE_BOOTSTRAP_SERVER": bootstrap,
            "XDG_STATE_HOME": str(directory / "state"),
        }
        self._ids: list[str] = []
        self.text = _HEAD

    def comment(self, sentence: str) -> None:
        """Add an explanation for the reader."""
        self.text += f"\n{sentence}\n"

    def run(self, line: str, code: int = 0) -> None:
        """Run a command and check its exit code."""
        for number, real in enumerate(self._ids):
            line = line.replace(f"ID-{number}", real)
        process = subprocess.run(
            [sys.executable, "-m", "coterie.cli.main", *line.split()],
            env=self._environment,
            cwd=self._directory,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=WAIT_S,
            check=False,
        )
        assert process.returncode == code, f"{line}: {process.stdout}"
        ended = f"[exit code {code}]\n" if code else ""
        shown = f"$ coterie {line}\n{process.stdout}{ended}"
        self.text += f"\n```console\n{self._normalize(shown)}```\n"

    def _normalize(self, text: str) -> str:
        """Replace ids by numbered ones, and times by a fixed one."""
        for operation_id in _ID.findall(text):
            if operation_id not in self._ids:
                self._ids.append(operation_id)
        for number, real in enumerate(self._ids):
            text = text.replace(real, f"20261121-10000{number}-5eed")
        text = text.replace(f"{self._directory}/state", "~/.local/state")
        text = _CONSUMER.sub("tNzsBaNYT5y01RFlmktinA", text)
        text = _TIME.sub("2026-11-21T10:00:00.000Z", text)
        return "".join(f"{line.rstrip()}\n" for line in text.splitlines())


def transcript(bootstrap: str, directory: Path) -> str:
    """Run the session; return its transcript."""
    session = Session(bootstrap, directory)
    produce(bootstrap)
    with consuming(bootstrap):
        session.comment("A group with an active consumer cannot be reset:")
        session.run(f"groups describe {GROUP}")
        session.run(f"groups plan again.json reset {GROUP} --to-earliest", code=1)
    session.comment(
        "The consumer stops. A plan file records the state of the group; nothing is"
        " written to the cluster yet:"
    )
    session.run(f"groups plan again.json reset {GROUP} --to-earliest")
    session.comment(
        "A commit after the plan was made changes the group, so the plan is refused:"
    )
    commit(bootstrap, TopicPartition(TOPIC, 0, 8))
    session.run("groups apply again.json --execute", code=1)
    session.comment("Plan again, and apply. The old offsets are saved first:")
    session.run(f"groups plan fresh.json reset {GROUP} --to-earliest")
    session.run("groups apply fresh.json --execute")
    session.run(f"groups describe {GROUP}")
    session.comment("Applying the plan again changes nothing:")
    session.run("groups apply fresh.json --execute")
    session.comment("Undo the change:")
    session.run("groups undo --list")
    session.run("groups undo ID-0 --execute")
    session.run(f"groups describe {GROUP}")
    return session.text


def produce(bootstrap: str) -> None:
    """Create the topic with ten records in each of two partitions."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    created = admin.create_topics([NewTopic(TOPIC, 2)])
    created[TOPIC].result(WAIT_S)
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(20):
        producer.produce(TOPIC, str(number).encode(), partition=number % 2)
    assert producer.flush(WAIT_S) == 0


@contextmanager
def consuming(bootstrap: str) -> Iterator[None]:
    """Run a consumer that owns both partitions and has committed part of them."""
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
        assert record is not None, "no record was received"
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
    """Run a server; yield its HOST:PORT and stop it afterwards."""
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
    """Print the transcript, or write it to its file."""
    with tempfile.TemporaryDirectory() as name, server(Path(name)) as bootstrap:
        text = transcript(bootstrap, Path(name))
    if "--write" in arguments:
        TRANSCRIPT.write_text(text, encoding="utf-8")
    else:
        print(text, end="")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
