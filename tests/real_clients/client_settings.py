"""TLS and SASL settings of each client library, and a round trip with each."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, Producer
from kafka import KafkaConsumer, KafkaProducer

from tests.broker.server.secured import Certificates
from tests.support.waiting import DEADLINE_S, eventually

ANSWER_S: Final = 60


@dataclass(frozen=True)
class Access:
    """Address and credentials of a server: user and password for SASL, a certificate
    for TLS."""

    bootstrap: str
    protocol: str
    certificates: Certificates
    mechanism: str = ""
    user: str = ""
    password: str = ""
    with_certificate: bool = False

    def librdkafka(self, **more: object) -> dict[str, Any]:
        """Return the settings of confluent-kafka."""
        settings: dict[str, Any] = {
            "bootstrap.servers": self.bootstrap,
            "security.protocol": self.protocol,
            "log_level": 0,
        }
        if self.protocol.endswith("SSL"):
            settings["ssl.ca.location"] = str(self.certificates.authority)
        if self.with_certificate:
            settings["ssl.certificate.location"] = str(self.certificates.alice)
            settings["ssl.key.location"] = str(self.certificates.alice)
        if self.mechanism:
            settings["sasl.mechanism"] = self.mechanism
            settings["sasl.username"] = self.user
            settings["sasl.password"] = self.password
        return {**settings, **more}

    def python(self) -> dict[str, Any]:
        """Return the settings of kafka-python and aiokafka."""
        settings: dict[str, Any] = {
            "bootstrap_servers": self.bootstrap,
            "security_protocol": self.protocol,
        }
        if self.protocol.endswith("SSL"):
            own = self.certificates.alice if self.with_certificate else None
            settings["ssl_context"] = self.certificates.client(certificate=own)
        if self.mechanism:
            settings["sasl_mechanism"] = self.mechanism
            settings["sasl_plain_username"] = self.user
            settings["sasl_plain_password"] = self.password
        return settings


def confluent_round(access: Access, topic: str, group: str) -> list[bytes]:
    """Produce a record, read it in a group and commit; return the values read."""
    producer = Producer(access.librdkafka())
    producer.produce(topic, b"by confluent")
    assert producer.flush(ANSWER_S) == 0
    settings = {"group.id": group, "auto.offset.reset": "earliest"}
    consumer = Consumer(access.librdkafka(**settings))
    consumer.subscribe([topic])
    read: list[bytes] = []

    def has_read() -> bool:
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            read.append(message.value() or b"")
        return bool(read)

    try:
        eventually(has_read, expected="a record")
        consumer.commit(asynchronous=False)
    finally:
        consumer.close()
    return read


def kafka_python_round(access: Access, topic: str, group: str) -> list[bytes]:
    """Do the round trip with kafka-python."""
    settings = access.python()
    producer = KafkaProducer(**settings)
    producer.send(topic, b"by kafka-python").get(timeout=ANSWER_S)
    producer.close()
    consumer = KafkaConsumer(
        topic, group_id=group, auto_offset_reset="earliest", **settings
    )
    read: list[bytes] = []

    def has_read() -> bool:
        for records in consumer.poll(timeout_ms=200).values():
            read.extend(record.value for record in records)
        return bool(read)

    try:
        eventually(has_read, expected="a record")
        consumer.commit()
    finally:
        consumer.close()
    return read


def aiokafka_round(access: Access, topic: str, group: str) -> list[bytes]:
    """Do the round trip with aiokafka."""
    return asyncio.run(_aiokafka_round(access, topic, group))


async def _aiokafka_round(access: Access, topic: str, group: str) -> list[bytes]:
    settings = access.python()
    async with AIOKafkaProducer(**settings) as producer:
        await producer.send_and_wait(topic, b"by aiokafka")
    consumer = AIOKafkaConsumer(
        topic, group_id=group, auto_offset_reset="earliest", **settings
    )
    async with consumer:
        record = await asyncio.wait_for(consumer.getone(), DEADLINE_S)
        await consumer.commit()
    return [record.value]


ROUNDS: Final[Mapping[str, Callable[[Access, str, str], list[bytes]]]] = {
    "confluent": confluent_round,
    "kafka-python": kafka_python_round,
    "aiokafka": aiokafka_round,
}
