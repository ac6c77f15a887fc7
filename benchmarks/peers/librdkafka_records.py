"""Produce or consume a number of records with librdkafka, as a process.

`python -m benchmarks.peers.librdkafka_records produce ADDRESS TOPIC COUNT` prints a
line of JSON: seconds, and CPU seconds of this process in them. The default acks=all
applies.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

RECORD_BYTES = 200
BATCH = 10_000
QUEUE = 500_000
TIMEOUT_S = 60.0


def produce(address: str, topic: str, count: int) -> Callable[[], None]:
    """Connect; return the function that produces the records."""
    failures: list[KafkaError] = []

    def on_delivery(error: KafkaError | None, message: Message) -> None:
        del message
        if error is not None:
            failures.append(error)

    producer = Producer(
        {
            "bootstrap.servers": address,
            "linger.ms": 5,
            "queue.buffering.max.messages": QUEUE,
            "delivery.report.only.error": True,
        }
    )
    producer.list_topics(topic, timeout=TIMEOUT_S)
    batch = [{"value": bytes(RECORD_BYTES)} for _ in range(BATCH)]

    def work() -> None:
        left = count
        while left:
            accepted = _enqueue(producer, topic, batch[:left], on_delivery)
            left -= accepted
            producer.poll(0 if accepted else 0.001)
        if producer.flush(TIMEOUT_S) or failures:
            raise RuntimeError(f"records were not delivered: {failures[:1]}")

    return work


def _enqueue(
    producer: Producer,
    topic: str,
    batch: list[dict[str, bytes]],
    on_delivery: Callable[[KafkaError | None, Message], None],
) -> int:
    """Return the number of records that fitted into the producer's queue."""
    if len(producer) + len(batch) > QUEUE:
        return 0
    accepted = producer.produce_batch(topic, batch, on_delivery=on_delivery)
    assert accepted == len(batch)
    return len(batch)


def consume(address: str, topic: str, count: int) -> Callable[[], None]:
    """Connect; return the function that consumes the records from the beginning."""
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "records",
            "enable.auto.commit": False,
        }
    )
    partitions = consumer.list_topics(topic, timeout=TIMEOUT_S).topics[topic].partitions

    def work() -> None:
        consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
        left = count
        while left:
            messages = consumer.consume(min(BATCH, left), TIMEOUT_S)
            if not messages:
                raise RuntimeError(f"{left} of {count} records did not arrive")
            if failed := [each.error() for each in messages if each.error()]:
                raise RuntimeError(f"consume: {failed[0]}")
            left -= len(messages)

    return work


def main(kind: str, address: str, topic: str, count: str) -> None:
    """Run one load and print its times."""
    connect = {"produce": produce, "consume": consume}[kind]
    work = connect(address, topic, int(count))
    began, before = time.perf_counter(), time.process_time()
    work()
    seconds, cpu_s = time.perf_counter() - began, time.process_time() - before
    print(json.dumps({"seconds": seconds, "cpu_s": cpu_s}))


if __name__ == "__main__":
    main(*sys.argv[1:])
