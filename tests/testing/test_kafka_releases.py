"""Client libraries and commands against a server that acts as earlier releases."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import aiokafka
import confluent_kafka
import kafka as kafka_python
import pytest
from confluent_kafka.admin import AdminClient as ConfluentAdmin
from confluent_kafka.admin import NewTopic

from coterie.cli.main import main
from coterie.client.group_member import GroupMember
from coterie.errors import (
    ApiError,
    CoterieError,
    SettingError,
    UnsupportedByBroker,
)
from coterie.testing.kafka import Kafka
from coterie.wire import messages as m
from coterie.wire.api import ApiKey
from coterie.wire.configs import ConfigResourceType
from coterie.wire.releases import load_release
from tests.support.server_process import start_server
from tests.support.waiting import eventually

pytestmark = pytest.mark.slow

RELEASES: Final = ("0.11", "1.1", "2.3", "2.8", "3.9", "4.3", "4.4")
Setting = str | int | float | bool

TOPIC: Final = "orders"
VALUE: Final = b"value"
WAIT_S: Final = 120.0


@pytest.fixture(scope="module", params=RELEASES)
def release(request: pytest.FixtureRequest) -> Iterator[Kafka]:
    with Kafka(act_as=request.param) as kafka:
        yield kafka


@pytest.fixture
def old() -> Iterator[Kafka]:
    with Kafka(act_as="0.11") as kafka:
        yield kafka


def settings(
    kafka: Kafka, more: Mapping[str, Setting] | None = None
) -> dict[str, Setting]:
    return {"bootstrap.servers": kafka.bootstrap_servers, **(more or {})}


def produce(kafka: Kafka, topic: str) -> None:
    producer = confluent_kafka.Producer(settings(kafka))
    producer.produce(topic, VALUE, partition=0)
    assert producer.flush(WAIT_S) == 0


def test_confluent_kafka(release: Kafka) -> None:
    admin = ConfluentAdmin(settings(release))
    admin.create_topics([NewTopic("confluent", 1, 1)])["confluent"].result(WAIT_S)
    produce(release, "confluent")
    options: dict[str, Setting] = {
        "group.id": "confluent",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
    }
    consumer = confluent_kafka.Consumer(settings(release, options))
    consumer.subscribe(["confluent"])
    message = consumer.poll(WAIT_S)
    assert message is not None
    assert message.value() == VALUE
    consumer.commit(message=message, asynchronous=False)
    (committed,) = consumer.committed(
        [confluent_kafka.TopicPartition("confluent", 0)], WAIT_S
    )
    assert committed.offset == 1
    consumer.close()


def test_kafka_python(release: Kafka) -> None:
    servers = release.bootstrap_servers
    producer = kafka_python.KafkaProducer(bootstrap_servers=servers)
    producer.send("python", VALUE).get(WAIT_S)
    producer.close()
    consumer = kafka_python.KafkaConsumer(
        "python",
        bootstrap_servers=servers,
        group_id="python",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        consumer_timeout_ms=WAIT_S * 1000,
    )
    assert next(consumer).value == VALUE
    consumer.commit()
    assert consumer.committed(kafka_python.TopicPartition("python", 0)) == 1
    consumer.close()


def test_aiokafka(release: Kafka) -> None:
    servers = release.bootstrap_servers

    async def use() -> int:
        producer = aiokafka.AIOKafkaProducer(bootstrap_servers=servers)
        await producer.start()
        await producer.send_and_wait("aiokafka", VALUE)
        await producer.stop()
        consumer = aiokafka.AIOKafkaConsumer(
            "aiokafka",
            bootstrap_servers=servers,
            group_id="aiokafka",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
        await consumer.start()
        message = await asyncio.wait_for(consumer.getone(), WAIT_S)
        assert message.value == VALUE
        await consumer.commit()
        committed: int = await consumer.committed(
            aiokafka.TopicPartition("aiokafka", 0)
        )
        await consumer.stop()
        return committed

    assert asyncio.run(use()) == 1


def commit_offset(kafka: Kafka, group: str) -> None:
    produce(kafka, TOPIC)
    consumer = confluent_kafka.Consumer(settings(kafka, {"group.id": group}))
    consumer.commit(
        offsets=[confluent_kafka.TopicPartition(TOPIC, 0, 1)], asynchronous=False
    )
    consumer.close()


def coterie(kafka: Kafka, *words: str) -> int:
    return main([*words, "--bootstrap-server", kafka.bootstrap_servers])


def test_commands_of_groups(release: Kafka, capsys: pytest.CaptureFixture[str]) -> None:
    commit_offset(release, "billing")
    assert coterie(release, "groups", "list") == 0
    assert "billing" in capsys.readouterr().out
    assert coterie(release, "groups", "describe", "billing") == 0
    assert TOPIC in capsys.readouterr().out


def test_deleting_a_group_needs_1_1(
    old: Kafka,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    commit_offset(old, "billing")
    assert coterie(old, "groups", "delete", "billing", "--yes") != 0
    assert "DeleteGroups" in capsys.readouterr().err


class LogMessages(logging.Handler):
    """The messages of a client library's log."""

    def __init__(self) -> None:
        super().__init__()
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())


@pytest.mark.parametrize("act_as", ["2.8", "3.9"])
def test_librdkafka_finds_no_consumer_protocol(act_as: str) -> None:
    # With a broker of 3.9.1 it does the same: no error, only this line of debug=cgrp,
    # with one more attempt each second.
    expected = "ConsumerGroupHeartbeatRequest not supported by broker"
    options: dict[str, Setting] = {
        "group.id": "billing",
        "group.protocol": "consumer",
        "debug": "cgrp",
    }
    logger, log = logging.Logger("librdkafka"), LogMessages()
    logger.addHandler(log)
    with Kafka(act_as=act_as) as kafka:
        produce(kafka, TOPIC)
        consumer = confluent_kafka.Consumer(settings(kafka, options), logger=logger)
        consumer.subscribe([TOPIC])

        def is_unsupported() -> bool:
            assert consumer.poll(0.1) is None
            return any(expected in message for message in log.messages)

        eventually(is_unsupported, within_s=WAIT_S, expected=expected)
        consumer.close()
        assert not any(each.api == "ConsumerGroupHeartbeat" for each in kafka.requests)


@pytest.mark.parametrize(
    ("act_as", "error"), [("2.8", UnsupportedByBroker), ("3.9", ApiError)]
)
def test_group_member_is_refused(act_as: str, error: type[CoterieError]) -> None:
    async def join(kafka: Kafka) -> None:
        async with GroupMember(
            kafka.bootstrap_servers, group_id="billing", topics=[TOPIC]
        ):
            pass

    with Kafka(act_as=act_as) as kafka:
        produce(kafka, TOPIC)
        with pytest.raises(error, match=r"ConsumerGroupHeartbeat|UNSUPPORTED_VERSION"):
            asyncio.run(join(kafka))


def test_classic_members_of_old_releases_send_no_later_versions() -> None:
    with Kafka(act_as="1.1") as kafka:
        produce(kafka, TOPIC)
        commit_offset(kafka, "billing")
        sent = {(each.api, each.version) for each in kafka.requests}
    release = load_release("1.1")
    for api, version in sent:
        key = next(key for key in ApiKey if key.title == api)
        assert release.has(key, version)


def test_defaults_of_the_release_can_be_overridden() -> None:
    name = "group.coordinator.rebalance.protocols"
    with Kafka(act_as="3.9", settings={name: "classic,consumer"}) as kafka:
        chosen = kafka.server.assembly.broker.settings
        assert chosen.group_coordinator_rebalance_protocols == ("classic", "consumer")
    with Kafka(act_as="1.1") as kafka:
        assert kafka.server.assembly.broker.settings.offsets_retention_minutes == 1440


def test_unknown_release_is_refused_before_anything_starts() -> None:
    with pytest.raises(SettingError, match=r"'5\.0'; known are 0\.11\.0"):
        Kafka(act_as="5.0")


def test_serve_acts_as_a_release() -> None:
    broker = m.DescribeConfigsResource(
        resource_type=ConfigResourceType.BROKER,
        resource_name="1",
        configuration_keys=["offsets.retention.minutes"],
    )
    with start_server("--act-as", "1.1") as server, server.client() as client:
        versions = client.call(m.ApiVersionsRequest(), 0).api_keys
        configs = client.call(m.DescribeConfigsRequest(resources=[broker]), 1)
    assert {each.api_key for each in versions} == {*load_release("1.1").versions}
    assert configs.results[0].configs[0].value == "1440"
