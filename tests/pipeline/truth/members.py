"""Group members of three client libraries that write down what happens to them.

Each member has a thread in which alone its consumer is used; a call from another thread
is passed to it.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from typing import Any, Final

from aiokafka import AIOKafkaConsumer
from aiokafka import ConsumerRebalanceListener as AiokafkaListener
from aiokafka import TopicPartition as AiokafkaPartition
from aiokafka.errors import KafkaError as AiokafkaError
from confluent_kafka import Consumer, KafkaException, TopicPartition
from kafka import ConsumerRebalanceListener, KafkaConsumer
from kafka import TopicPartition as PythonPartition
from kafka.errors import KafkaError as PythonError
from kafka.structs import OffsetAndMetadata

from tests.pipeline.truth.journal import (
    LEFT,
    OPEN,
    Commit,
    Journal,
    PartitionKey,
    Session,
    Span,
    now,
)
from tests.real_clients.confluent_members import consumer_settings
from tests.support.waiting import DEADLINE_S, eventually

POLL_S: Final = 0.05
SESSION_MS: Final = 1_200_000
"""The session timeout: a machine that stands still for minutes evicts no member."""
SHORT_SESSION_MS: Final = 6_000
"""That of a member process that is killed, Kafka's least."""
FOREVER_S: Final = float("inf")
REFUSED: Final = (KafkaException, PythonError, AiokafkaError)
"""Errors of a commit; a commit during a rebalance is refused and repeated."""


class Member:
    """A member of a group. `owned` has the partitions that it may use now."""

    def __init__(
        self,
        journal: Journal,
        bootstrap: str,
        group: str,
        client_id: str,
        topics: Iterable[str],
        **config: Any,
    ) -> None:
        self.bootstrap, self.group, self.client_id = bootstrap, group, client_id
        self.topics = list(topics)
        self.instance_id: str | None = config.get("group.instance.id")
        self.config = config
        self.owned: frozenset[PartitionKey] = frozenset()
        self.failure: BaseException | None = None
        self.settled_s: float | None = None
        """The last time at which its partitions were known to be its own."""
        self._journal = journal
        self._calls: queue.SimpleQueue[tuple[Callable[[], Any], Future[Any]]] = (
            queue.SimpleQueue()
        )
        self._over = threading.Event()
        self._began_s = now()
        self._assigned_s: float | None = None
        self._is_leaving = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def commit(self, offset: int, metadata: str = "", topic: str | None = None) -> None:
        """Commit an offset for every owned partition, or those of a topic."""
        keys = [key for key in sorted(self.owned) if topic in {None, key[0]}]
        if keys:
            self.commit_offsets(dict.fromkeys(keys, offset), metadata)

    def commit_offsets(
        self, offsets: Mapping[PartitionKey, int], metadata: str = ""
    ) -> None:
        """Commit offsets, again while refused; write them down when committed."""

        def is_committed() -> bool:
            from_s = now()
            try:
                self._call(lambda: self._commit(offsets, metadata))
            except REFUSED as error:
                self.last_error = error
                return False
            span = Span(from_s, now())
            self._journal.committed(
                Commit(self.group, *key, offset, span, self.client_id, metadata)
                for key, offset in offsets.items()
            )
            return True

        eventually(is_committed, expected=f"a commit of {self.client_id}")

    def leave(self, end: str = LEFT) -> None:
        """Close the consumer. A static member is a member until it is replaced."""
        from_s = now()
        self._is_leaving = True
        self._journal.revoked(self.group, self.client_id, self.owned, from_s)
        self._stop()
        self._write_session(Span(from_s, now() if end == LEFT else FOREVER_S), end)

    def join(self) -> None:
        """Consume until the process ends."""
        self._thread.join()

    def still_member(self) -> None:
        """Write down that the membership continues after the recording."""
        self._write_session(None, OPEN)

    def close(self) -> None:
        """Close the consumer after the recording."""
        self._is_leaving = True
        self._stop()

    def _write_session(self, ended: Span | None, end: str) -> None:
        began = Span(self._began_s, self._assigned_s or now())
        self._journal.session(
            Session(self.group, self.client_id, self.instance_id, began, ended, end)
        )

    def _stop(self) -> None:
        self._over.set()
        self._thread.join(DEADLINE_S)
        assert not self._thread.is_alive(), f"{self.client_id} does not stop"

    def _call(self, function: Callable[[], Any]) -> Any:
        future: Future[Any] = Future()
        self._calls.put((function, future))
        return future.result(DEADLINE_S)

    def _run(self) -> None:
        try:
            self._open()
            while not self._over.is_set():
                self._poll()
                self._answer_calls()
            self._close()
        except BaseException as error:
            self.failure = error
            raise

    def _answer_calls(self) -> None:
        while not self._calls.empty():
            function, future = self._calls.get()
            try:
                future.set_result(function())
            except Exception as error:
                future.set_exception(error)

    def _on_assigned(self, keys: Iterable[PartitionKey]) -> None:
        at_s = now()
        keys = frozenset(keys)
        self._assigned_s = self._assigned_s or at_s
        self._journal.assigned(self.group, self.client_id, keys, at_s)
        self.owned |= keys

    def _on_revoked(self, keys: Iterable[PartitionKey]) -> None:
        if self._is_leaving:
            return  # written down before the consumer was closed
        keys = frozenset(keys)
        at_s = now()
        if "cooperative" in self.config.get("partition.assignment.strategy", ""):
            # The member learns from its new generation what to revoke, so the
            # coordinator had ended the ownership before.
            at_s = self.settled_s or 0.0
        self._journal.revoked(self.group, self.client_id, keys, at_s)
        self.owned -= keys

    def _open(self) -> None:
        raise NotImplementedError

    def _poll(self) -> None:
        raise NotImplementedError

    def _commit(self, offsets: Mapping[PartitionKey, int], metadata: str) -> None:
        raise NotImplementedError

    def _close(self) -> None:
        raise NotImplementedError


class ConfluentMember(Member):
    """A member of librdkafka; `config` has librdkafka's names."""

    consumer: Consumer

    def metadata(self) -> Any:
        """Return the group metadata that a transactional producer needs."""
        return self._call(self.consumer.consumer_group_metadata)

    def _open(self) -> None:
        config = {"client.id": self.client_id, **self.config}
        self.consumer = Consumer(
            consumer_settings(self.bootstrap, self.group, **config)
        )
        self.consumer.subscribe(
            self.topics,
            on_assign=lambda _, keys: self._on_assigned(_keys(keys)),
            on_revoke=lambda _, keys: self._on_revoked(_keys(keys)),
            on_lost=lambda _, keys: self._on_revoked(_keys(keys)),
        )

    def _poll(self) -> None:
        self.consumer.poll(POLL_S)

    def _commit(self, offsets: Mapping[PartitionKey, int], metadata: str) -> None:
        assert not metadata, "confluent-kafka appends a NUL byte to metadata"
        listed = [TopicPartition(*key, offset) for key, offset in offsets.items()]
        done = self.consumer.commit(offsets=listed, asynchronous=False) or []
        for each in done:
            if each.error is not None:
                raise KafkaException(each.error)

    def _close(self) -> None:
        self.consumer.close()


class KafkaPythonMember(Member, ConsumerRebalanceListener):
    """A member of kafka-python."""

    _consumer: KafkaConsumer

    def generation(self) -> int:
        """Return the generation that the client is in."""
        return int(self._call(self._consumer.group_metadata).generation_id)

    def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
        """Write down assigned partitions."""
        self._on_assigned(_keys(assigned))

    def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
        """Write down revoked partitions."""
        self._on_revoked(_keys(revoked))

    def _open(self) -> None:
        self._consumer = KafkaConsumer(
            bootstrap_servers=self.bootstrap,
            group_id=self.group,
            client_id=self.client_id,
            session_timeout_ms=SESSION_MS,
            max_poll_interval_ms=SESSION_MS,
            heartbeat_interval_ms=300,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            fetch_max_wait_ms=50,
            metrics_enabled=False,
        )
        for topic in self.topics:
            assert self._consumer.partitions_for_topic(topic)
        self._consumer.subscribe(self.topics, listener=self)

    def _poll(self) -> None:
        self._consumer.poll(timeout_ms=int(POLL_S * 1_000))

    def _commit(self, offsets: Mapping[PartitionKey, int], metadata: str) -> None:
        self._consumer.commit(
            {
                PythonPartition(*key): OffsetAndMetadata(offset, metadata, -1)
                for key, offset in offsets.items()
            }
        )

    def _close(self) -> None:
        self._consumer.close()


class AiokafkaMember(Member, AiokafkaListener):
    """A member of aiokafka, with an event loop in its thread."""

    _consumer: AIOKafkaConsumer
    _loop: asyncio.AbstractEventLoop

    async def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
        """Write down assigned partitions."""
        self._on_assigned(_keys(assigned))

    async def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
        """Write down revoked partitions."""
        self._on_revoked(_keys(revoked))

    def _open(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._loop.run_until_complete(self._start())

    async def _start(self) -> None:
        self._consumer = AIOKafkaConsumer(
            bootstrap_servers=self.bootstrap,
            group_id=self.group,
            client_id=self.client_id,
            session_timeout_ms=SESSION_MS,
            max_poll_interval_ms=SESSION_MS,
            heartbeat_interval_ms=300,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            fetch_max_wait_ms=50,
        )
        await self._consumer.start()
        self._consumer.subscribe(self.topics, listener=self)

    def _poll(self) -> None:
        self._loop.run_until_complete(
            self._consumer.getmany(timeout_ms=int(POLL_S * 1_000))
        )

    def _commit(self, offsets: Mapping[PartitionKey, int], metadata: str) -> None:
        listed = {
            AiokafkaPartition(*key): (offset, metadata)
            for key, offset in offsets.items()
        }
        self._loop.run_until_complete(self._consumer.commit(listed))

    def _close(self) -> None:
        self._loop.run_until_complete(self._consumer.stop())
        self._loop.close()


def _keys(partitions: Iterable[Any]) -> list[PartitionKey]:
    return [(each.topic, each.partition) for each in partitions]
