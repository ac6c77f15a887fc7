"""Workers that copy records of one topic to another in transactions (KIP-98, KIP-447).

A worker is a member of a consumer group; the offsets are in the transaction. Each
creates another producer after a fatal error, and counts them.
"""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Event, Thread
from typing import Final, NamedTuple, Protocol

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition

from tests.interop.kafka import java_command, run

from .scenarios import WAIT_S

_BATCH: Final = 20
_CALL_S: Final = 20.0
_IDLE_S: Final = 0.2
_BUILD_S: Final = 300.0
_JAVA: Final = Path(__file__).with_name("Copier.java")
_GO: Final = Path(__file__).with_name("kgo")


class Work(NamedTuple):
    """What a worker does, as whom."""

    bootstrap: str
    name: str
    """The transactional id."""
    group: str
    protocol: str
    source: str
    target: str


class Copier(Protocol):
    """A worker that is running."""

    aborted: int
    """The transactions that were aborted."""
    producers: int
    errors: list[str]
    """Why producers had to be created again."""
    failures: list[str]

    def stop(self) -> None:
        """Finish the transaction in progress and end."""


class ProcessCopier:
    """A worker in a process: `kgo/main.go` or `Copier.java`.

    It ends at the end of its stdin. It writes one line "aborted" for each abort and
    "failed" with the error for each producer with a fatal error.
    """

    def __init__(self, command: Sequence[str], work: Work) -> None:
        self.aborted = 0
        self.producers = 1
        self.errors: list[str] = []
        self.failures: list[str] = []
        self._name = work.name
        self._process = subprocess.Popen(
            [*command, *work],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._reader = Thread(target=self._read, name=work.name)
        self._reader.start()

    def stop(self) -> None:
        """Finish the transaction in progress and end."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            code = self._process.wait(WAIT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        self._reader.join()
        if code:
            self.failures.append(f"{self._name} ended with the exit code {code}")

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.aborted += 1
            kind, _, error = line.strip().partition(" ")
            if kind == "failed":
                self.producers += 1
                self.errors.append(f"{self._name}: {error}")


class ThreadCopier:
    """A worker with librdkafka in a thread."""

    def __init__(self, work: Work) -> None:
        self.failures: list[str] = []
        self.errors: list[str] = []
        """Why producers had to be created again."""
        self.aborted = 0
        self.producers = 0
        self._work = work
        self._stopped = Event()
        self._thread = Thread(target=self._run, name=self._work.name)
        self._thread.start()

    def stop(self) -> None:
        """Finish the transaction in progress and end."""
        self._stopped.set()
        self._thread.join(WAIT_S)
        if self._thread.is_alive():
            self.failures.append(f"{self._work.name} did not end")

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                self._copy_until_stopped()
            except KafkaException as error:
                # A fatal error needs another producer: the transaction was aborted by
                # the coordinator, or will be by the next InitProducerId.
                self.aborted += 1
                self.errors.append(f"{self._work.name}: {error}")
                if not _is_expected(error):
                    self.failures.append(f"{self._work.name}: {error}")
                    return

    def _copy_until_stopped(self) -> None:
        """Copy records until the worker is stopped or a producer is unusable."""
        self.producers += 1
        producer = Producer(
            {
                "bootstrap.servers": self._work.bootstrap,
                "transactional.id": self._work.name,
                "transaction.timeout.ms": 20_000,
                "log_level": 0,
            }
        )
        retried(lambda: producer.init_transactions(_CALL_S))
        consumer = Consumer(
            {
                "bootstrap.servers": self._work.bootstrap,
                "group.id": self._work.group,
                "group.protocol": self._work.protocol,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "log_level": 0,
            }
        )
        consumer.subscribe([self._work.source])
        try:
            while not self._stopped.is_set():
                records = [
                    each
                    for each in consumer.consume(_BATCH, timeout=_IDLE_S)
                    if each.error() is None
                ]
                if records:
                    self._copy(consumer, producer, records)
        finally:
            consumer.close()

    def _copy(
        self, consumer: Consumer, producer: Producer, records: list[Message]
    ) -> None:
        producer.begin_transaction()
        try:
            for record in records:
                producer.produce(self._work.target, record.value())
            offsets = consumer.position(consumer.assignment())
            retried(
                lambda: producer.send_offsets_to_transaction(
                    [each for each in offsets if each.offset >= 0],
                    consumer.consumer_group_metadata(),
                    _CALL_S,
                )
            )
            retried(lambda: producer.commit_transaction(_CALL_S))
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise
            self.aborted += 1
            retried(lambda: producer.abort_transaction(_CALL_S))
            rewind(consumer)


def retried(call: object) -> None:
    """Repeat a call after retriable errors. Raises KafkaException for others."""
    deadline_s = time.monotonic() + WAIT_S
    while True:
        try:
            call()  # type: ignore[operator]
        except KafkaException as error:
            if not error.args[0].retriable() or time.monotonic() > deadline_s:
                raise
        else:
            return


def rewind(consumer: Consumer) -> None:
    """Seek to the committed offsets: the aborted records are read again."""
    assigned = consumer.assignment()
    while assigned:
        try:
            committed = consumer.committed(assigned, timeout=_CALL_S)
        except KafkaException:
            continue
        for each in committed:
            with contextlib.suppress(KafkaException):  # revoked meanwhile
                start = max(each.offset, 0)
                consumer.seek(TopicPartition(each.topic, each.partition, start))
        return


def _is_expected(error: KafkaException) -> bool:
    """Return whether a producer may end so: fenced, or after a fatal time-out."""
    return bool(error.args[0].fatal() or error.args[0].retriable())


def copier_starter(
    client: str, jars: Path, directory: Path
) -> Callable[[Work], Copier]:
    """Return the function that starts workers with a client: "librdkafka", "kgo" or
    "java". It builds the program of kgo in `directory`."""
    if client == "librdkafka":
        return ThreadCopier
    if client == "java":
        command = [*java_command(jars, "error"), str(_JAVA)]
    else:
        program = directory / "kgo-copier"
        build = run(["go", "build", "-C", str(_GO), "-o", str(program)], _BUILD_S)
        assert build.exit_code == 0, build.stderr
        command = [str(program)]
    return lambda work: ProcessCopier(command, work)
