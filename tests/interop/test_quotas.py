"""DescribeClientQuotas and AlterClientQuotas: the same results and messages from
Coterie and from Apache Kafka, directly and by kafka-configs."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from coterie.broker.catalog.client_quotas import MatchType
from coterie.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    QuotaAlteration,
)
from coterie.wire.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    QuotaFilterComponent,
)
from tests.broker.server.apis.test_quotas import alteration
from tests.broker.server.harness import WireClient

from .conftest import Broker
from .kafka import JARS, CommandOutput, run_tool
from .test_sasl import connected

pytestmark = pytest.mark.slow

EXACT, DEFAULT, SPECIFIED = MatchType
INVALID, UNSUPPORTED = 42, 35
PRODUCE, RATE = "producer_byte_rate", "connection_creation_rate"


@pytest.fixture
def client(broker: Broker) -> Iterator[WireClient]:
    with connected(broker.bootstrap) as opened:
        yield opened


def alter(
    client: WireClient, *entries: QuotaAlteration
) -> list[tuple[int, str | None]]:
    request = AlterClientQuotasRequest(entries=list(entries))
    return [
        (each.error_code, each.error_message) for each in client.call(request).entries
    ]


def describe(
    client: WireClient, *components: tuple[str, int, str | None], strict: bool = True
) -> object:
    """Return the values of each entity, or the error's code and message."""
    request = DescribeClientQuotasRequest(
        components=[
            QuotaFilterComponent(entity_type=kind, match_type=match_type, match=match)
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
    assert describe(client, ("user", EXACT, name)) == {entity: user}
    loose = describe(client, ("user", EXACT, name), strict=False)
    assert loose == {entity: user, pair: mutations}
    exact = describe(client, ("user", EXACT, name), ("client-id", DEFAULT, None))
    assert exact == {pair: mutations}
    assert describe(client, ("client-id", EXACT, name), strict=False) == {}
    removed = dict.fromkeys(user)
    unset = alteration(both, dict.fromkeys(mutations))
    assert alter(client, alteration({"user": name}, removed), unset) == [(0, None)] * 2
    assert describe(client, ("user", EXACT, name), strict=False) == {}


def test_a_repeated_entity_is_refused_and_its_first_change_takes_effect(
    client: WireClient, name: str
) -> None:
    first, second = (alteration({"user": name}, {PRODUCE: each}) for each in (1.0, 2.0))
    text = f"Ignoring duplicate entity ClientQuotaEntity(entries={{user={name}}})"
    assert alter(client, first, second) == [(INVALID, text)]
    shown = {(("user", name),): {PRODUCE: 1.0}}
    assert describe(client, ("user", EXACT, name)) == shown
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


# kafka-configs of Apache Kafka.


def kafka_configs(broker: Broker, *words: str) -> CommandOutput:
    jars = os.environ.get(JARS)
    if jars is None:
        pytest.skip("kafka-configs needs the jars of Apache Kafka")
    address = "--bootstrap-server", broker.bootstrap
    return run_tool(Path(jars), "kafka.admin.ConfigCommand", *address, *words)


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
