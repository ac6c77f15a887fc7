"""Processes of Apache Kafka's programs, and the records they leave on a server."""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic

from tests.interop.kafka import java_command

END_S: Final = 60.0
PARTITIONS: Final = 2
_JVM: Final = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


class JavaProcess:
    """A program of the jars in a JVM of its own, with its output in a file."""

    def __init__(self, jars: Path, log: Path, *command: str) -> None:
        self._log = log
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [*java_command(jars, "warn", _JVM), *command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()
        if error is not None:
            error.add_note(self._log.read_text(errors="replace")[-4000:])

    def kill(self) -> None:
        """Kill the process with SIGKILL."""
        self._process.kill()
        self._process.wait(END_S)

    @property
    def is_running(self) -> bool:
        """Return whether the process has not ended."""
        return self._process.poll() is None


def create_topics(bootstrap: str, *names: str, partitions: int = PARTITIONS) -> None:
    """Create topics and wait for the response."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    topics = [NewTopic(name, partitions) for name in names]
    for future in admin.create_topics(topics).values():
        future.result(END_S)


def produce(bootstrap: str, topic: str, values: Iterable[int]) -> None:
    """Produce numbers, each with itself modulo ten as its key, to two partitions."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5})
    for value in values:
        producer.produce(topic, str(value), str(value % 10), value % PARTITIONS)
        producer.poll(0)
    assert producer.flush(END_S) == 0


def committed_values(bootstrap: str, topic: str) -> list[str]:
    """Return the values of a topic that are not of aborted or open transactions.

    A topic that does not exist has none.
    """
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 10,
        }
    )
    try:
        # Without a name, since a request that names a topic would create it.
        topics = consumer.list_topics(timeout=END_S).topics
        if topic not in topics:
            return []
        partitions = [
            TopicPartition(topic, number, OFFSET_BEGINNING)
            for number in topics[topic].partitions
        ]
        ends = {
            each.partition: consumer.get_watermark_offsets(each, END_S)[1]
            for each in partitions
        }
        consumer.assign(partitions)
        return _values_until(consumer, ends)
    finally:
        consumer.close()


def _values_until(consumer: Consumer, ends: Mapping[int, int]) -> list[str]:
    """Read up to the ends, which do not move while a program goes on writing."""
    values: list[str] = []
    unread = {partition for partition, end in ends.items() if end > 0}
    while unread:
        message = consumer.poll(END_S)
        assert message is not None, "no record and no end of a partition"
        error, partition = message.error(), message.partition() or 0
        if error is None and (message.offset() or 0) < ends[partition]:
            values.append((message.value() or b"").decode())
            if message.offset() == ends[partition] - 1:
                unread.discard(partition)
        elif error is None or error.code() == KafkaError._PARTITION_EOF:
            unread.discard(partition)
        else:
            raise AssertionError(error)
    return values


def duplicates(values: Sequence[str]) -> list[str]:
    """Return the values that occur more than once."""
    return [value for value, count in Counter(values).items() if count > 1]
