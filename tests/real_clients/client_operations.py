"""One interface to the operations of three clients, with their outcomes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, Final

import aiokafka
import kafka as kafka_python
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin import NewPartitions as AioPartitions
from aiokafka.admin import NewTopic as AioTopic
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic
from kafka.admin import KafkaAdminClient
from kafka.admin import NewPartitions as PythonPartitions
from kafka.admin import NewTopic as PythonTopic

GROUP: Final = "billing"
WINDOW_S: Final = 4.0
"""How long a client is watched that reports neither a record nor an error."""
LONG_WINDOW_S: Final = 40.0
"""How long if that was too short, as on a busy machine."""
REQUEST_MS: Final = 8_000


class Client:
    """The operations of a client; each returns its outcome."""

    window_s = WINDOW_S

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    def _window(self) -> Iterator[None]:
        """Yield until `window_s` are over."""
        ends_s = time.monotonic() + self.window_s
        while time.monotonic() < ends_s:
            yield

    def read(self, topic: str, offset: int = 0, reset: str = "earliest") -> object:
        """Read one record from an offset; return its offset."""
        raise NotImplementedError

    def subscribe(self, topic: str) -> object:
        """Read one record as a member; return its offset."""
        raise NotImplementedError

    def commit(self, topic: str, metadata: str = "") -> object:
        raise NotImplementedError

    def committed(self, topic: str) -> object:
        raise NotImplementedError

    def produce(self, topic: str, size: int = 1, time_ms: int | None = None) -> object:
        raise NotImplementedError

    def create(
        self, topic: str, replicas: int = 1, config: str = "", broker: int = 0
    ) -> object:
        """Create a topic of one partition, on a certain broker unless it is 0."""
        raise NotImplementedError

    def grow(self, topic: str, partitions: int) -> object:
        raise NotImplementedError

    def delete(self, topic: str) -> object:
        raise NotImplementedError


def name_of(error: Exception, base: type[Exception]) -> str:
    """Return the class of an error, with its text if that is the base class of all."""
    return str(error) if type(error) is base else type(error).__name__


class Confluent(Client):
    def _consumer(self, reset: str = "earliest") -> Consumer:
        return Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": GROUP,
                "auto.offset.reset": reset,
                "enable.auto.commit": False,
                "log_level": 0,
            }
        )

    def _first(self, consumer: Consumer) -> object:
        try:
            for _ in self._window():
                message = consumer.poll(0.1)
                if message is not None:
                    error = message.error()
                    return message.offset() if error is None else error.name()
            return "nothing"
        finally:
            consumer.close()

    def read(self, topic: str, offset: int = 0, reset: str = "earliest") -> object:
        consumer = self._consumer("error" if reset == "none" else reset)
        consumer.assign([TopicPartition(topic, 0, offset)])
        return self._first(consumer)

    def subscribe(self, topic: str) -> object:
        consumer = self._consumer()
        consumer.subscribe([topic])
        return self._first(consumer)

    def commit(self, topic: str, metadata: str = "") -> object:
        consumer = self._consumer()
        row = TopicPartition(topic, 0, 1, metadata)
        try:
            consumer.commit(offsets=[row], asynchronous=False)
        except KafkaException as error:
            return error.args[0].name()
        finally:
            consumer.close()
        return "ok"

    def committed(self, topic: str) -> object:
        consumer = self._consumer()
        try:
            (row,) = consumer.committed(
                [TopicPartition(topic, 0)], timeout=self.window_s
            )
        except KafkaException as error:
            return error.args[0].name()
        finally:
            consumer.close()
        return row.error.name() if row.error else row.offset

    def produce(self, topic: str, size: int = 1, time_ms: int | None = None) -> object:
        outcomes: list[object] = []
        producer = Producer(
            {
                "bootstrap.servers": self.bootstrap,
                "log_level": 0,
                "message.timeout.ms": REQUEST_MS,
            }
        )
        producer.produce(
            topic,
            b"v" * size,
            timestamp=time_ms or 0,
            on_delivery=lambda error, _: outcomes.append(
                error.name() if error else "ok"
            ),
        )
        producer.flush()
        return outcomes

    def _admin(self, start: Callable[[AdminClient], dict[Any, Any]]) -> object:
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        (future,) = start(admin).values()
        try:
            future.result()
        except KafkaException as error:
            return error.args[0].name()
        return "ok"

    def create(
        self, topic: str, replicas: int = 1, config: str = "", broker: int = 0
    ) -> object:
        new = NewTopic(
            topic,
            1,
            **{"replica_assignment": [[broker]]}
            if broker
            else {"replication_factor": replicas},
            config={config: "1"} if config else {},
        )
        return self._admin(lambda admin: admin.create_topics([new]))

    def grow(self, topic: str, partitions: int) -> object:
        new = NewPartitions(topic, partitions)
        return self._admin(lambda admin: admin.create_partitions([new]))

    def delete(self, topic: str) -> object:
        return self._admin(lambda admin: admin.delete_topics([topic]))


class KafkaPython(Client):
    def _outcome(self, work: Callable[[], object]) -> object:
        try:
            return work()
        except kafka_python.errors.KafkaError as error:
            return name_of(error, kafka_python.errors.KafkaError)

    def _with_consumer(
        self, work: Callable[[kafka_python.KafkaConsumer], object], reset: str
    ) -> object:
        consumer = kafka_python.KafkaConsumer(
            bootstrap_servers=self.bootstrap,
            group_id=GROUP,
            auto_offset_reset=reset,
            enable_auto_commit=False,
        )
        try:
            return self._outcome(lambda: work(consumer))
        finally:
            consumer.close(autocommit=False, timeout_ms=1_000)

    def _first(self, consumer: kafka_python.KafkaConsumer) -> object:
        for _ in self._window():
            for records in consumer.poll(timeout_ms=1_000).values():
                return records[0].offset
        return "nothing"

    def read(self, topic: str, offset: int = 0, reset: str = "earliest") -> object:
        def work(consumer: kafka_python.KafkaConsumer) -> object:
            partition = kafka_python.TopicPartition(topic, 0)
            consumer.assign([partition])
            consumer.seek(partition, offset)
            return self._first(consumer)

        return self._with_consumer(work, reset)

    def subscribe(self, topic: str) -> object:
        def work(consumer: kafka_python.KafkaConsumer) -> object:
            consumer.subscribe([topic])
            return self._first(consumer)

        return self._with_consumer(work, "earliest")

    def commit(self, topic: str, metadata: str = "") -> object:
        def work(consumer: kafka_python.KafkaConsumer) -> object:
            partition = kafka_python.TopicPartition(topic, 0)
            consumer.assign([partition])
            offset = kafka_python.structs.OffsetAndMetadata(1, metadata, -1)
            consumer.commit({partition: offset}, timeout_ms=REQUEST_MS)
            return "ok"

        return self._with_consumer(work, "earliest")

    def committed(self, topic: str) -> object:
        partition = kafka_python.TopicPartition(topic, 0)
        return self._with_consumer(
            lambda consumer: consumer.committed(partition, timeout_ms=REQUEST_MS),
            "earliest",
        )

    def produce(self, topic: str, size: int = 1, time_ms: int | None = None) -> object:
        producer = kafka_python.KafkaProducer(
            bootstrap_servers=self.bootstrap,
            delivery_timeout_ms=REQUEST_MS,
            request_timeout_ms=REQUEST_MS - 1_000,
            max_block_ms=REQUEST_MS,
        )
        try:
            return self._outcome(
                lambda: bool(
                    producer.send(topic, b"v" * size, timestamp_ms=time_ms).get(
                        2 * REQUEST_MS
                    )
                )
            )
        finally:
            producer.close(timeout=1)

    def _admin(self, work: Callable[[KafkaAdminClient], object]) -> object:
        admin = KafkaAdminClient(bootstrap_servers=self.bootstrap)
        try:
            return self._outcome(lambda: bool(work(admin)))
        finally:
            admin.close()

    def create(
        self, topic: str, replicas: int = 1, config: str = "", broker: int = 0
    ) -> object:
        new = PythonTopic(
            topic,
            *((-1, -1) if broker else (1, replicas)),
            replica_assignments={0: [broker]} if broker else {},
            topic_configs={config: "1"} if config else {},
        )
        return self._admin(lambda admin: admin.create_topics([new]))

    def grow(self, topic: str, partitions: int) -> object:
        new = {topic: PythonPartitions(partitions)}
        return self._admin(lambda admin: admin.create_partitions(new))

    def delete(self, topic: str) -> object:
        return self._admin(lambda admin: admin.delete_topics([topic]))


class Aiokafka(Client):
    def _run(self, work: Callable[[], Any]) -> object:
        async def outcome() -> object:
            try:
                return await asyncio.wait_for(work(), 2 * self.window_s)
            except aiokafka.errors.KafkaError as error:
                return name_of(error, aiokafka.errors.KafkaError)
            except TimeoutError:
                return "nothing"

        return asyncio.run(outcome())

    async def _with_consumer(
        self, work: Callable[[Any], Any], reset: str = "earliest"
    ) -> object:
        consumer = aiokafka.AIOKafkaConsumer(
            bootstrap_servers=self.bootstrap,
            group_id=GROUP,
            auto_offset_reset=reset,
            enable_auto_commit=False,
        )
        await consumer.start()
        try:
            return await work(consumer)
        finally:
            await consumer.stop()

    async def _first(self, consumer: Any) -> object:
        for _ in self._window():
            for records in (await consumer.getmany(timeout_ms=100)).values():
                return records[0].offset
        return "nothing"

    def read(self, topic: str, offset: int = 0, reset: str = "earliest") -> object:
        async def work(consumer: Any) -> object:
            partition = aiokafka.TopicPartition(topic, 0)
            consumer.assign([partition])
            consumer.seek(partition, offset)
            return await self._first(consumer)

        return self._run(lambda: self._with_consumer(work, reset))

    def subscribe(self, topic: str) -> object:
        async def work(consumer: Any) -> object:
            consumer.subscribe([topic])
            return await self._first(consumer)

        return self._run(lambda: self._with_consumer(work))

    def commit(self, topic: str, metadata: str = "") -> object:
        async def work(consumer: Any) -> object:
            partition = aiokafka.TopicPartition(topic, 0)
            consumer.assign([partition])
            await consumer.commit({partition: (1, metadata)})
            return "ok"

        return self._run(lambda: self._with_consumer(work))

    def committed(self, topic: str) -> object:
        async def work(consumer: Any) -> object:
            return await consumer.committed(aiokafka.TopicPartition(topic, 0))

        return self._run(lambda: self._with_consumer(work))

    def produce(self, topic: str, size: int = 1, time_ms: int | None = None) -> object:
        async def work() -> object:
            producer = aiokafka.AIOKafkaProducer(
                bootstrap_servers=self.bootstrap, request_timeout_ms=REQUEST_MS
            )
            await producer.start()
            try:
                sent = await producer.send_and_wait(
                    topic, b"v" * size, timestamp_ms=time_ms
                )
                return bool(sent)
            finally:
                await producer.stop()

        return self._run(work)

    def _admin(self, work: Callable[[AIOKafkaAdminClient], Any]) -> object:
        async def run() -> object:
            admin = AIOKafkaAdminClient(bootstrap_servers=self.bootstrap)
            await admin.start()
            try:
                response = await work(admin)
                for name in ("topic_errors", "topic_error_codes"):
                    if hasattr(response, name):
                        return [each[1] for each in getattr(response, name)]
                return repr(response)
            finally:
                await admin.close()

        return self._run(run)

    def create(
        self, topic: str, replicas: int = 1, config: str = "", broker: int = 0
    ) -> object:
        new = AioTopic(
            topic,
            *((-1, -1) if broker else (1, replicas)),
            replica_assignments={0: [broker]} if broker else None,
            topic_configs={config: "1"} if config else {},
        )
        return self._admin(lambda admin: admin.create_topics([new]))

    def grow(self, topic: str, partitions: int) -> object:
        new = {topic: AioPartitions(partitions)}
        return self._admin(lambda admin: admin.create_partitions(new))

    def delete(self, topic: str) -> object:
        return self._admin(lambda admin: admin.delete_topics([topic]))


def equal_outcomes(play: Callable[[float], tuple[object, object]]) -> bool:
    """Return whether both outcomes of a play are equal.

    Clients are watched for longer if they are not, or if the play fails: one may
    have needed more time.
    """
    with suppress(AssertionError):
        real, faked = play(WINDOW_S)
        if real == faked:
            return True
    real, faked = play(LONG_WINDOW_S)
    assert real == faked, "with the cause; with the fault"
    return True


CLIENTS: Final[dict[str, type[Client]]] = {
    "confluent-kafka": Confluent,
    "kafka-python": KafkaPython,
    "aiokafka": Aiokafka,
}
