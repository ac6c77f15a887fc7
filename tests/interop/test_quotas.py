"""DescribeClientQuotas and AlterClientQuotas: the same results and messages from
Coterie and from Apache Kafka, directly and by kafka-configs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from kafka import KafkaProducer

from coterie.broker.catalog.client_quotas import MatchType
from coterie.wire import messages as m
from tests.broker.server.apis.test_quotas import alteration
from tests.broker.server.harness import WireClient
from tests.broker.server.test_throttle import (
    FETCH_VERSION,
    FRAME_SIZE_BYTES,
    PRODUCE_VERSION,
    batch,
    create,
    expected_ms,
)
from tests.support.waiting import eventually

from .conftest import Broker
from .kafka import JARS, CommandOutput, run_tool
from .sasl_listener import SaslListener
from .test_sasl import connected

pytestmark = pytest.mark.slow

EXACT, DEFAULT, SPECIFIED = MatchType
INVALID, UNSUPPORTED = 42, 35
Connect = Callable[..., WireClient]
THROTTLE_MAX = "throttle-time-max"
PRODUCE, RATE = "producer_byte_rate", "connection_creation_rate"


@pytest.fixture
def client(broker: Broker) -> Iterator[WireClient]:
    with connected(broker.bootstrap) as opened:
        yield opened


def alter(
    client: WireClient, *entries: m.QuotaAlteration
) -> list[tuple[int, str | None]]:
    request = m.AlterClientQuotasRequest(entries=list(entries))
    return [
        (each.error_code, each.error_message) for each in client.call(request).entries
    ]


def describe(
    client: WireClient, *components: tuple[str, int, str | None], strict: bool = True
) -> object:
    """Return the values of each entity, or the error's code and message."""
    request = m.DescribeClientQuotasRequest(
        components=[
            m.QuotaFilterComponent(entity_type=kind, match_type=match_type, match=match)
            for kind, match_type, match in components
        ],
        strict=strict,
    )
    response = client.call(request)
    if response.error_code:
        assert response.entries is None
        return response.error_code, response.error_message
    assert response.error_message == ""
    return {
        tuple(sorted((part.entity_type, part.entity_name) for part in each.entity)): {
            value.key: value.value for value in each.values
        }
        for each in response.entries
    }


@pytest.mark.parametrize(
    ("types", "values", "message"),
    [
        ({"user": "NAME"}, {PRODUCE: 0.0}, "Quota {} must be greater than 0"),
        ({"user": "NAME"}, {PRODUCE: 1.5}, "{} cannot be a fractional value."),
        (
            {"user": "NAME"},
            {PRODUCE: 1e19},
            "Proposed value for {} is too large for a LONG.",
        ),
        ({"user": "NAME"}, {RATE: 1.0}, "Invalid configuration key {}"),
        ({"ip": "10.0.0.1"}, {PRODUCE: 1.0}, "Invalid configuration key {}"),
        (
            {"ip": "10.0.0.1"},
            {RATE: 2.0**31},
            "Proposed value for {} is too large for an INT.",
        ),
        ({"ip": "no!"}, {RATE: 1.0}, "no! is not a valid IP or resolvable host."),
        ({}, {PRODUCE: 1.0}, "Invalid empty client quota entity"),
        ({"user": ""}, {PRODUCE: 1.0}, "Empty user not supported"),
        ({"topic": "t"}, {PRODUCE: 1.0}, "Unhandled client quota entity type: topic"),
        (
            {"ip": "10.0.0.1", "user": "NAME"},
            {RATE: 1.0},
            "Invalid quota entity combination, IP entity shouldnot be combined with "
            "User or ClientId",
        ),
    ],
)
def test_an_invalid_change_is_refused(
    client: WireClient,
    name: str,
    types: Mapping[str, str | None],
    values: Mapping[str, float],
    message: str,
) -> None:
    named = {kind: name if each == "NAME" else each for kind, each in types.items()}
    [key] = values
    assert alter(client, alteration(named, values)) == [(INVALID, message.format(key))]


def test_quotas_are_described_as_they_were_set(client: WireClient, name: str) -> None:
    both: dict[str, str | None] = {"user": name, "client-id": None}
    user = {PRODUCE: 1024.0, "request_percentage": 12.5}
    mutations = {"controller_mutation_rate": 0.5}
    set_all = alteration({"user": name}, user), alteration(both, mutations)
    assert alter(client, *set_all) == [(0, None)] * 2
    entity, pair = (("user", name),), (("client-id", None), ("user", name))
    # A broker of Kafka learns of a change a moment after the controller's answer.
    eventually(
        lambda: (
            describe(client, ("user", EXACT, name), strict=False)
            == {entity: user, pair: mutations}
        ),
        expected="the quotas",
    )
    assert describe(client, ("user", EXACT, name)) == {entity: user}
    exact = describe(client, ("user", EXACT, name), ("client-id", DEFAULT, None))
    assert exact == {pair: mutations}
    assert describe(client, ("client-id", EXACT, name), strict=False) == {}
    removed = dict.fromkeys(user)
    unset = alteration(both, dict.fromkeys(mutations))
    assert alter(client, alteration({"user": name}, removed), unset) == [(0, None)] * 2
    eventually(
        lambda: describe(client, ("user", EXACT, name), strict=False) == {},
        expected="no quotas",
    )


def test_a_repeated_entity_is_refused_and_its_first_change_takes_effect(
    client: WireClient, name: str
) -> None:
    first, second = (alteration({"user": name}, {PRODUCE: each}) for each in (1.0, 2.0))
    text = f"Ignoring duplicate entity ClientQuotaEntity(entries={{user={name}}})"
    assert alter(client, first, second) == [(INVALID, text)]
    shown = {(("user", name),): {PRODUCE: 1.0}}
    eventually(
        lambda: describe(client, ("user", EXACT, name)) == shown,
        expected="the first change",
    )
    assert alter(client, alteration({"user": name}, {PRODUCE: None})) == [(0, None)]


@pytest.mark.parametrize(
    ("components", "code", "message"),
    [
        ([("", SPECIFIED, None)], INVALID, "Invalid empty entity type."),
        (
            [("user", SPECIFIED, None), ("user", DEFAULT, None)],
            INVALID,
            "Entity type user cannot appear more than once in the filter.",
        ),
        ([("t", SPECIFIED, None)], UNSUPPORTED, "Unsupported entity type t"),
        (
            [("user", EXACT, None)],
            INVALID,
            "Request specified MATCH_TYPE_EXACT, but set match string to null.",
        ),
        (
            [("user", SPECIFIED, "u")],
            INVALID,
            "Request specified MATCH_TYPE_SPECIFIED, but also specified a match "
            "string.",
        ),
        ([("user", 3, None)], INVALID, "Unknown match type 3"),
        (
            [("ip", DEFAULT, None), ("user", SPECIFIED, None)],
            INVALID,
            "Invalid entity filter component combination. IP filter component should "
            "not be used with user or clientId filter component.",
        ),
    ],
)
def test_an_invalid_filter_is_refused(
    client: WireClient,
    components: list[tuple[str, int, str | None]],
    code: int,
    message: str,
) -> None:
    assert describe(client, *components) == (code, message)


# Throttle times.


@pytest.fixture
def limited(client: WireClient, broker: Broker, name: str) -> Iterator[Connect]:
    """A function that sets quotas of a new client id and connects with it."""
    opened: list[WireClient] = []
    keys: set[str] = set()
    entity: dict[str, str | None] = {"client-id": name}

    def connect(**values: float | None) -> WireClient:
        keys.update(values)
        assert alter(client, alteration(entity, values)) == [(0, None)]
        shown = {(("client-id", name),): values}
        # Kafka applies a quota some time after the response.
        eventually(
            lambda: describe(client, ("client-id", EXACT, name)) == shown,
            expected=f"quotas {shown}",
        )
        host, _, port = broker.bootstrap.partition(":")
        opened.append(WireClient(host, int(port), client_id=name))
        return opened[-1]

    yield connect
    assert alter(client, alteration(entity, dict.fromkeys(keys))) == [(0, None)]
    for each in opened:
        each.close()


def produce(topic: str, size: int) -> m.ProduceRequest:
    partition = m.PartitionProduceData(index=0, records=batch(size))
    data = m.TopicProduceData(name=topic, partition_data=[partition])
    return m.ProduceRequest(acks=-1, timeout_ms=5_000, topic_data=[data])


def fetch(topic: str, session_id: int, epoch: int) -> m.FetchRequest:
    partition = m.FetchPartition(
        partition=0, fetch_offset=0, partition_max_bytes=1 << 20
    )
    topics = [m.FetchTopic(topic=topic, partitions=[partition])]
    return m.FetchRequest(
        max_bytes=1 << 20, session_id=session_id, session_epoch=epoch, topics=topics
    )


def test_a_producer_over_its_quota_gets_the_same_throttle_time(
    limited: Connect, topic: str
) -> None:
    client = limited(producer_byte_rate=50)
    request = produce(topic, 1_000)
    frame, _ = limited(producer_byte_rate=50).frame(request, PRODUCE_VERSION)
    response = client.call(request, PRODUCE_VERSION)
    size = len(frame) - FRAME_SIZE_BYTES
    assert response.throttle_time_ms == expected_ms(size, 50)
    assert response.responses[0].partition_responses[0].error_code == 0


def test_a_fetch_over_its_quota_is_empty_and_keeps_the_session(
    limited: Connect, client: WireClient, topic: str
) -> None:
    def is_appended() -> bool:
        # Kafka creates a topic before its broker leads the partitions.
        response = client.call(produce(topic, 1_000), PRODUCE_VERSION)
        return response.responses[0].partition_responses[0].error_code == 0

    eventually(is_appended, expected="an append to the new topic")
    consumer = limited(consumer_byte_rate=10_000_000.0)
    created = consumer.call(fetch(topic, 0, 0), FETCH_VERSION)
    assert created.session_id
    assert len(created.responses[0].partitions[0].records) == len(batch(1_000))
    other = limited(consumer_byte_rate=50.0)
    refused = consumer.call(fetch(topic, created.session_id, 1), FETCH_VERSION)
    assert (refused.error_code, refused.session_id) == (0, created.session_id)
    assert refused.throttle_time_ms
    assert refused.responses == []
    new = other.call(fetch(topic, 0, 0), FETCH_VERSION)
    assert new.throttle_time_ms
    assert (new.error_code, new.session_id, new.responses) == (0, 0, [])


def test_topics_above_the_mutation_quota_are_refused(
    limited: Connect, name: str
) -> None:
    client = limited(controller_mutation_rate=0.5)
    first = client.call(create(f"{name}-a", partitions=13), 7)
    assert [(each.error_code, each.error_message) for each in first.topics] == [
        (0, None)
    ]
    response = client.call(create(f"{name}-b"), 7)
    [topic] = response.topics
    assert (topic.error_code, topic.error_message) == (89, None)
    assert 0 < response.throttle_time_ms <= 15_000


def test_the_quota_of_user_and_client_id_precedes_that_of_the_client_id(
    sasl: SaslListener, name: str
) -> None:
    pair: dict[str, str | None] = {"user": "admin", "client-id": name}
    key = "controller_mutation_rate"
    with sasl.client("admin") as admin:
        low = alteration(pair, {key: 0.5})
        high = alteration({"client-id": name}, {key: 1_000.0})
        assert alter(admin, low, high) == [(0, None)] * 2
        match = [("user", EXACT, "admin"), ("client-id", EXACT, name)]
        eventually(lambda: describe(admin, *match), expected="the quotas")
        eventually(lambda: describe(admin, match[1]), expected="the quotas")
        with sasl.client("admin", client_id=name) as client:
            first = client.call(create(f"{name}-a", partitions=13), 7)
            second = client.call(create(f"{name}-b"), 7)
        assert [first.topics[0].error_code, second.topics[0].error_code] == [0, 89]
        gone = [alteration(each, {key: None}) for each in (pair, {"client-id": name})]
        assert alter(admin, *gone) == [(0, None)] * 2


@pytest.mark.parametrize("key", ["throttle_cb", "kafka-python"])
def test_producers_report_the_throttle_time(
    limited: Connect, broker: Broker, topic: str, name: str, key: str
) -> None:
    limited(producer_byte_rate=1_000)
    report = librdkafka_ms if key == "throttle_cb" else kafka_python_ms
    # 30,000 bytes and some more are 3,000 per second, which takes 20 s.
    assert 20_000 <= report(broker.bootstrap, topic, name) <= 25_000


def librdkafka_ms(bootstrap: str, topic: str, client_id: str) -> float:
    events: list[Any] = []
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "client.id": client_id,
            "throttle_cb": events.append,
        }
    )
    producer.produce(topic, bytes(30_000))

    def throttled() -> list[Any]:
        producer.poll(0)
        return events

    [event] = eventually(throttled, expected="an event of the throttle")
    return float(event.throttle_time * 1_000)


def kafka_python_ms(bootstrap: str, topic: str, client_id: str) -> float:
    producer = KafkaProducer(bootstrap_servers=bootstrap, client_id=client_id)
    producer.send(topic, bytes(30_000)).get(timeout=30)
    metrics = producer.metrics().values()
    producer.close(timeout=0)
    return max(float(each.get(THROTTLE_MAX, 0)) for each in metrics)


# kafka-configs of Apache Kafka.


def kafka_configs(broker: Broker, *words: str) -> CommandOutput:
    address = "--bootstrap-server", broker.bootstrap
    return run_tool(
        Path(os.environ[JARS]), "org.apache.kafka.tools.ConfigCommand", *address, *words
    )


@pytest.mark.apache_tools
@pytest.mark.parametrize(
    ("entity", "key", "shown"),
    [
        (
            ["--entity-type", "users", "--entity-name", "NAME"],
            PRODUCE,
            "Quota configs for user-principal 'NAME' are producer_byte_rate=1024.0",
        ),
        (
            ["--entity-type", "clients", "--entity-name", "NAME"],
            "request_percentage",
            "Quota configs for client-id 'NAME' are request_percentage=1024.0",
        ),
        (
            [
                *("--entity-type", "users", "--entity-name", "NAME"),
                *("--entity-type", "clients", "--entity-default"),
            ],
            "consumer_byte_rate",
            "Quota configs for user-principal 'NAME', the default client-id are "
            "consumer_byte_rate=1024.0",
        ),
        (
            ["--entity-type", "ips", "--entity-name", "192.0.2.1"],
            RATE,
            "Quota configs for ip '192.0.2.1' are connection_creation_rate=1024.0",
        ),
    ],
)
def test_kafka_configs_sets_shows_and_removes_a_quota(
    broker: Broker, name: str, entity: list[str], key: str, shown: str
) -> None:
    entity = [word.replace("NAME", name) for word in entity]
    shown = shown.replace("NAME", name)
    done = kafka_configs(broker, "--alter", "--add-config", f"{key}=1024", *entity)
    assert done.stdout.startswith("Completed updating config for"), done
    assert kafka_configs(broker, "--describe", *entity).stdout.strip() == shown
    done = kafka_configs(broker, "--alter", "--delete-config", key, *entity)
    assert done.stdout.startswith("Completed updating config for"), done
    assert kafka_configs(broker, "--describe", *entity).stdout.strip() == ""
