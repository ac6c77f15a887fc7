"""A worker with librdkafka; see `copiers.ProcessCopier` for its arguments and output.

It is a process, so that it may be killed, and because librdkafka writes its log to
stderr, also while a call hangs. `COTERIE_TEST_LIBRDKAFKA_DEBUG` has the contexts of
that log, as in `debug`: "eos,cgrp,broker,metadata".
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable
from threading import Event, Thread
from typing import Final

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition

DEBUG: Final = "COTERIE_TEST_LIBRDKAFKA_DEBUG"
_BATCH: Final = 100
_CALL_S: Final = 20.0
_RETRIED_S: Final = 90.0
_IDLE_S: Final = 0.2


def main(words: list[str]) -> int:
    """Copy records until the end of stdin; return 1 after an unexpected error."""
    bootstrap, name, group, protocol, source, target = words
    stopped = Event()
    Thread(target=_wait_for_end, args=(stopped,), daemon=True).start()
    producing: dict[str, object] = {
        "bootstrap.servers": bootstrap,
        "transactional.id": name,
        "transaction.timeout.ms": 20_000,
    }
    consuming: dict[str, object] = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "group.protocol": protocol,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "isolation.level": "read_committed",
    }
    if protocol == "classic":
        consuming["session.timeout.ms"] = 6_000
    for each in (producing, consuming):
        if debug := os.environ.get(DEBUG):
            each["debug"] = debug
        else:
            each["log_level"] = 0
    while not stopped.is_set():
        try:
            _work(producing, consuming, source, target, stopped)
        except KafkaException as error:
            # A fatal error needs another producer: the transaction was aborted by the
            # coordinator, or will be by the next InitProducerId.
            _print(f"failed {error}")
            if not (error.args[0].fatal() or error.args[0].retriable()):
                return 1
    return 0


def _wait_for_end(stopped: Event) -> None:
    sys.stdin.read()
    stopped.set()


def _work(
    producing: dict[str, object],
    consuming: dict[str, object],
    source: str,
    target: str,
    stopped: Event,
) -> None:
    """Copy records until the worker is stopped or its producer is unusable."""
    producer = Producer(producing)
    _retry(lambda: producer.init_transactions(_CALL_S))
    consumer = Consumer(consuming)
    consumer.subscribe([source])
    try:
        while not stopped.is_set():
            records = [
                each
                for each in consumer.consume(_BATCH, timeout=_IDLE_S)
                if each.error() is None
            ]
            if records:
                _copy(consumer, producer, records, target)
    finally:
        consumer.close()


def _copy(
    consumer: Consumer, producer: Producer, records: list[Message], target: str
) -> None:
    producer.begin_transaction()
    try:
        for record in records:
            producer.produce(target, record.value())
        offsets = consumer.position(consumer.assignment())
        _retry(
            lambda: producer.send_offsets_to_transaction(
                [each for each in offsets if each.offset >= 0],
                consumer.consumer_group_metadata(),
                _CALL_S,
            )
        )
        _retry(lambda: producer.commit_transaction(_CALL_S))
    except KafkaException as error:
        if not error.args[0].txn_requires_abort():
            raise
        _print(f"aborted {error}")
        _retry(lambda: producer.abort_transaction(_CALL_S))
        _rewind(consumer)


def _retry(call: Callable[[], object]) -> None:
    """Repeat a call after retriable errors. Raises KafkaException for others."""
    deadline_s = time.monotonic() + _RETRIED_S
    while True:
        try:
            call()
        except KafkaException as error:
            if not error.args[0].retriable() or time.monotonic() > deadline_s:
                raise
        else:
            return


def _rewind(consumer: Consumer) -> None:
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


def _print(line: str) -> None:
    sys.stdout.write(line.replace("\n", " ") + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
