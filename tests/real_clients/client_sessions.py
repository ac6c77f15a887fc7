"""What members of a group and producers do about what happens while they work.

`meanwhile` is called when the client has joined, or has sent its first record. An
outcome is what the application sees after that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import aiokafka
import kafka as kafka_python
from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)

from tests.real_clients.client_operations import (
    GROUP,
    REQUEST_MS,
    Aiokafka,
    Client,
    Confluent,
    KafkaPython,
)

TRANSACTIONAL_ID: Final = "payments"
STAYING_MS: Final = 100
"""The heartbeat interval of a member that has to notice something by its heartbeat."""
COMMITTING_MS: Final = 10_000
"""The heartbeat interval of a member that has to notice it by its commit."""
SESSION_MS: Final = 30_000
Meanwhile = Callable[[], object]


def nothing() -> None:
    """Do nothing meanwhile."""


class Sessions(Client):
    """The operations of a client over some time; each returns its outcome."""

    meanwhile: Meanwhile = staticmethod(nothing)

    def member_commits(self, topic: str, instance: str = "") -> object:
        """Join, read a record, and commit."""
        raise NotImplementedError

    def member_stays(self, topic: str, instance: str = "") -> object:
        """Join and read a record; return what happens until one is read again after
        an assignment."""
        raise NotImplementedError

    def produces_again(self, topic: str) -> object:
        """Produce with an idempotent producer, twice."""
        raise NotImplementedError

    def begins(self, timeout_ms: int = 60_000) -> object:
        """Initialize transactions."""
        raise NotImplementedError

    def transacts(self, topic: str, then: str = "record") -> object:
        """Commit a transaction with a record, and then another "record", an "offset",
        or "nothing"."""
        raise NotImplementedError

    def reads_on(self, topic: str) -> object:
        """Read two records, and the offset of a third one that comes later."""
        raise NotImplementedError

    def stable_offset(self, topic: str) -> object:
        """Ask for the committed offset that no open transaction may change."""
        raise NotImplementedError

    def deletes_group(self) -> object:
        raise NotImplementedError

    def deletes_offset(self, topic: str) -> object:
        raise NotImplementedError


class ConfluentSessions(Confluent, Sessions):
    def _protocol(self, heartbeat_ms: int) -> dict[str, object]:
        """Return the settings of the group protocol."""
        return {
            "heartbeat.interval.ms": heartbeat_ms,
            "session.timeout.ms": SESSION_MS,
        }

    def _member(self, instance: str, heartbeat_ms: int) -> Consumer:
        static = {"group.instance.id": instance} if instance else {}
        return Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": GROUP,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "log_level": 0,
                "error_cb": lambda _: None,  # poll raises a fatal error otherwise
                **self._protocol(heartbeat_ms),
                **static,
            }
        )

    def _read(self, consumer: Consumer) -> Message:
        message = consumer.poll(self.window_s)
        if message is None:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        if message.error() is not None:
            raise KafkaException(message.error())
        return message

    def member_commits(self, topic: str, instance: str = "") -> object:
        consumer = self._member(instance, COMMITTING_MS)
        consumer.subscribe([topic])
        try:
            message = self._read(consumer)
            self.meanwhile()
            consumer.commit(message=message, asynchronous=False)
        except KafkaException as error:
            return error.args[0].name()
        finally:
            consumer.close()
        return "ok"

    def member_stays(self, topic: str, instance: str = "") -> object:
        events: list[object] = []
        consumer = self._member(instance, STAYING_MS)
        consumer.subscribe(
            [topic],
            on_assign=lambda *_: events.append("assigned"),
            on_revoke=lambda *_: events.append("revoked"),
            on_lost=lambda *_: events.append("lost"),
        )
        try:
            self._read(consumer)
            events.clear()
            self.meanwhile()
            for _ in self._window():
                message = consumer.poll(0.1)
                if message is None:
                    continue
                error = message.error()
                if error is not None:
                    return [*events, error.name()]
                if "assigned" in events:
                    return [*events, message.offset()]
        except KafkaException as failure:
            return failure.args[0].name()
        else:
            return [*events]
        finally:
            consumer.close()

    def _producer(self, **settings: object) -> Producer:
        return Producer(
            {
                "bootstrap.servers": self.bootstrap,
                "log_level": 0,
                "error_cb": lambda _: None,
                "enable.idempotence": True,
                "message.timeout.ms": REQUEST_MS,
                **{name.replace("_", "."): each for name, each in settings.items()},
            }
        )

    def _send(self, producer: Producer, topic: str) -> object:
        outcomes: list[object] = []
        delivered: list[KafkaError | None] = []
        producer.produce(
            topic,
            b"v",
            partition=0,
            on_delivery=lambda error, _: delivered.append(error),
        )
        while not delivered:
            try:
                producer.poll(0.1)
            except KafkaException as error:  # a fatal one
                outcomes.append(error.args[0].name())
        if delivered[0] is not None:
            outcomes.append(delivered[0].name())
        return outcomes or "ok"

    def produces_again(self, topic: str) -> object:
        producer = self._producer()
        sent = self._send(producer, topic)
        if sent != "ok":
            return "first", sent
        self.meanwhile()
        return self._send(producer, topic)

    def begins(self, timeout_ms: int = 60_000) -> object:
        producer = self._producer(
            transactional_id=TRANSACTIONAL_ID, transaction_timeout_ms=timeout_ms
        )
        try:
            producer.init_transactions(REQUEST_MS / 1000)
        except KafkaException as error:
            return error.args[0].name()
        return "ok"

    def transacts(self, topic: str, then: str = "record") -> object:
        producer = self._producer(transactional_id=TRANSACTIONAL_ID)
        consumer = self._consumer()
        producer.init_transactions()
        producer.begin_transaction()
        assert self._send(producer, topic) == "ok"
        self.meanwhile()
        step = "send"
        try:
            if then == "offset":
                producer.send_offsets_to_transaction(
                    [TopicPartition(topic, 0, 1)],
                    consumer.consumer_group_metadata(),
                    REQUEST_MS / 1000,
                )
            elif then == "record":
                sent = self._send(producer, topic)
                if sent != "ok":
                    return step, sent
            step = "commit"
            producer.commit_transaction(REQUEST_MS / 1000)
        except KafkaException as error:
            return step, error.args[0].name()
        finally:
            consumer.close()
        return "ok"

    def stable_offset(self, topic: str) -> object:
        return self.committed(topic)

    def deletes_group(self) -> object:
        return self._admin(lambda admin: admin.delete_consumer_groups([GROUP]))


class NewProtocolSessions(ConfluentSessions):
    """A member of the consumer protocol (KIP-848)."""

    def _protocol(self, heartbeat_ms: int) -> dict[str, object]:
        # The interval is the server's.
        return {"group.protocol": "consumer", "group.remote.assignor": "uniform"}


class KafkaPythonSessions(KafkaPython, Sessions):
    def _as_member(
        self,
        work: Callable[[kafka_python.KafkaConsumer], object],
        instance: str,
        heartbeat_ms: int,
    ) -> object:
        consumer = kafka_python.KafkaConsumer(
            bootstrap_servers=self.bootstrap,
            group_id=GROUP,
            group_instance_id=instance or None,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            heartbeat_interval_ms=heartbeat_ms,
            session_timeout_ms=SESSION_MS,
        )
        try:
            return self._outcome(lambda: work(consumer))
        finally:
            consumer.close(autocommit=False, timeout_ms=1_000)

    def member_commits(self, topic: str, instance: str = "") -> object:
        def work(consumer: kafka_python.KafkaConsumer) -> object:
            consumer.subscribe([topic])
            assert self._first(consumer) == 0
            self.meanwhile()
            consumer.commit(timeout_ms=REQUEST_MS)
            return "ok"

        return self._as_member(work, instance, COMMITTING_MS)

    def member_stays(self, topic: str, instance: str = "") -> object:
        events: list[object] = []

        class Listener(kafka_python.ConsumerRebalanceListener):
            def on_partitions_revoked(self, _: object) -> None:
                events.append("revoked")

            def on_partitions_assigned(self, _: object) -> None:
                events.append("assigned")

            def on_partitions_lost(self, _: object) -> None:
                events.append("lost")

        def work(consumer: kafka_python.KafkaConsumer) -> object:
            consumer.subscribe([topic], listener=Listener())
            assert self._first(consumer) == 0
            events.clear()
            self.meanwhile()
            try:
                for _ in self._window():
                    for records in consumer.poll(timeout_ms=100).values():
                        if "assigned" in events:
                            return [*events, records[0].offset]
            except kafka_python.errors.KafkaError as error:
                return [*events, type(error).__name__]
            return [*events]

        return self._as_member(work, instance, STAYING_MS)

    def _with_producer(
        self, work: Callable[[kafka_python.KafkaProducer], object], **settings: object
    ) -> object:
        producer = kafka_python.KafkaProducer(
            bootstrap_servers=self.bootstrap,
            enable_idempotence=True,
            delivery_timeout_ms=REQUEST_MS,
            request_timeout_ms=REQUEST_MS - 1_000,
            max_block_ms=REQUEST_MS,
            **settings,
        )
        try:
            return self._outcome(lambda: work(producer))
        finally:
            producer.close(timeout=1)

    def produces_again(self, topic: str) -> object:
        def work(producer: kafka_python.KafkaProducer) -> object:
            producer.send(topic, b"v", partition=0).get(2 * REQUEST_MS)
            self.meanwhile()
            return bool(producer.send(topic, b"v", partition=0).get(2 * REQUEST_MS))

        return self._with_producer(work)

    def begins(self, timeout_ms: int = 60_000) -> object:
        return self._with_producer(
            lambda producer: producer.init_transactions() or "ok",
            transactional_id=TRANSACTIONAL_ID,
            transaction_timeout_ms=timeout_ms,
        )

    def transacts(self, topic: str, then: str = "record") -> object:
        def work(producer: kafka_python.KafkaProducer) -> object:
            producer.init_transactions()
            producer.begin_transaction()
            producer.send(topic, b"v", partition=0).get(2 * REQUEST_MS)
            self.meanwhile()
            step = "send"
            try:
                if then == "offset":
                    partition = kafka_python.TopicPartition(topic, 0)
                    offset = kafka_python.structs.OffsetAndMetadata(1, "", -1)
                    producer.send_offsets_to_transaction({partition: offset}, GROUP)
                elif then == "record":
                    producer.send(topic, b"v", partition=0).get(2 * REQUEST_MS)
                step = "commit"
                producer.commit_transaction()
            except kafka_python.errors.KafkaError as error:
                return step, type(error).__name__
            return "ok"

        return self._with_producer(work, transactional_id=TRANSACTIONAL_ID)

    def reads_on(self, topic: str) -> object:
        consumer = kafka_python.KafkaConsumer(bootstrap_servers=self.bootstrap)
        partition = kafka_python.TopicPartition(topic, 0)

        def next_offset() -> int | None:
            for _ in self._window():
                for records in consumer.poll(timeout_ms=100, max_records=1).values():
                    return int(records[0].offset)
            return None

        def work() -> object:
            consumer.assign([partition])
            consumer.seek(partition, 0)
            assert [next_offset(), next_offset()] == [0, 1]
            self.meanwhile()
            self.produce(topic)
            return next_offset()

        try:
            return self._outcome(work)
        finally:
            consumer.close(autocommit=False, timeout_ms=1_000)

    def stable_offset(self, topic: str) -> object:
        consumer = kafka_python.KafkaConsumer(
            bootstrap_servers=self.bootstrap,
            group_id=GROUP,
            isolation_level="read_committed",
        )
        partition = kafka_python.TopicPartition(topic, 0)
        try:
            return self._outcome(
                lambda: consumer.committed(partition, timeout_ms=1000 * self.window_s)
            )
        finally:
            consumer.close(autocommit=False, timeout_ms=1_000)

    def deletes_group(self) -> object:
        return self._result(lambda admin: admin.delete_groups([GROUP]))

    def deletes_offset(self, topic: str) -> object:
        partitions = [kafka_python.TopicPartition(topic, 0)]
        return self._result(lambda admin: admin.delete_group_offsets(GROUP, partitions))

    def _result(self, work: Callable[[kafka_python.KafkaAdminClient], Any]) -> object:
        results: list[object] = []
        raised = self._admin(lambda admin: results.append(work(admin)))
        return raised, str(results)


class AiokafkaSessions(Aiokafka, Sessions):
    async def _pause(self) -> None:
        """Do the other work beside the event loop, as the client goes on."""
        await asyncio.get_running_loop().run_in_executor(None, self.meanwhile)

    def _as_member(
        self, work: Callable[[Any], Any], instance: str, heartbeat_ms: int
    ) -> object:
        async def run() -> object:
            consumer = aiokafka.AIOKafkaConsumer(
                bootstrap_servers=self.bootstrap,
                group_id=GROUP,
                group_instance_id=instance or None,
                auto_offset_reset="earliest",
                enable_auto_commit=False,
                heartbeat_interval_ms=heartbeat_ms,
                session_timeout_ms=SESSION_MS,
            )
            await consumer.start()
            try:
                return await work(consumer)
            finally:
                with suppress(aiokafka.errors.KafkaError):
                    await consumer.stop()

        return self._run(run)

    def member_commits(self, topic: str, instance: str = "") -> object:
        async def work(consumer: Any) -> object:
            consumer.subscribe([topic])
            assert await self._first(consumer) == 0
            await self._pause()
            await consumer.commit()
            return "ok"

        return self._as_member(work, instance, COMMITTING_MS)

    def member_stays(self, topic: str, instance: str = "") -> object:
        events: list[object] = []

        class Listener(aiokafka.ConsumerRebalanceListener):
            def on_partitions_revoked(self, _: object) -> None:
                events.append("revoked")

            def on_partitions_assigned(self, _: object) -> None:
                events.append("assigned")

        async def work(consumer: Any) -> object:
            consumer.subscribe([topic], listener=Listener())
            assert await self._first(consumer) == 0
            events.clear()
            await self._pause()
            try:
                for _ in self._window():
                    for records in (await consumer.getmany(timeout_ms=100)).values():
                        if "assigned" in events:
                            return [*events, records[0].offset]
            except aiokafka.errors.KafkaError as error:
                return [*events, type(error).__name__]
            return [*events]

        return self._as_member(work, instance, STAYING_MS)

    async def _with_producer(
        self, work: Callable[[Any], Any], **settings: object
    ) -> object:
        producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=self.bootstrap,
            enable_idempotence=True,
            request_timeout_ms=REQUEST_MS,
            **settings,
        )
        try:
            await producer.start()
            return await work(producer)
        finally:
            with suppress(aiokafka.errors.KafkaError):
                await producer.stop()

    def produces_again(self, topic: str) -> object:
        async def work(producer: Any) -> object:
            await producer.send_and_wait(topic, b"v", partition=0)
            await self._pause()
            return bool(await producer.send_and_wait(topic, b"v", partition=0))

        return self._run(lambda: self._with_producer(work))

    def begins(self, timeout_ms: int = 60_000) -> object:
        async def work(_: Any) -> object:
            return "ok"

        return self._run(
            lambda: self._with_producer(
                work,
                transactional_id=TRANSACTIONAL_ID,
                transaction_timeout_ms=timeout_ms,
            )
        )

    def transacts(self, topic: str, then: str = "record") -> object:
        async def work(producer: Any) -> object:
            await producer.begin_transaction()
            await producer.send_and_wait(topic, b"v", partition=0)
            await self._pause()
            step = "send"
            try:
                if then == "offset":
                    rows = {aiokafka.TopicPartition(topic, 0): 1}
                    await producer.send_offsets_to_transaction(rows, GROUP)
                elif then == "record":
                    await producer.send_and_wait(topic, b"v", partition=0)
                step = "commit"
                await producer.commit_transaction()
            except aiokafka.errors.KafkaError as error:
                return step, type(error).__name__
            return "ok"

        return self._run(
            lambda: self._with_producer(work, transactional_id=TRANSACTIONAL_ID)
        )


SESSIONS: Final[dict[str, type[Sessions]]] = {
    "confluent-kafka": ConfluentSessions,
    "kafka-python": KafkaPythonSessions,
    "aiokafka": AiokafkaSessions,
}
