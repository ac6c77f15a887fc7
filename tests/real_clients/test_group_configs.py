"""Group configurations, altered and described by real admin clients (KIP-848)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigResource,
    ConfigSource,
    ResourceType,
)
from kafka import KafkaAdminClient
from kafka.admin import ConfigResource as PythonResource
from kafka.admin import ConfigResourceType

from tests.real_clients.confluent_admin import (
    ANSWER_S,
    alter_group,
    skip_without_group_configs,
)
from tests.support.waiting import eventually

SESSION = "consumer.session.timeout.ms"
HEARTBEAT = "consumer.heartbeat.interval.ms"


@pytest.fixture(autouse=True)
def supported(admin: AdminClient, group: str) -> None:
    """Skip the tests in front of an old broker without configurations of groups."""
    try:
        described(admin, group)
    except KafkaException as error:
        skip_without_group_configs(error)
        raise


@pytest.fixture
def python_admin(bootstrap: str) -> Iterator[KafkaAdminClient]:
    """kafka-python's admin client."""
    client = KafkaAdminClient(bootstrap_servers=bootstrap)
    yield client
    client.close()


def described(admin: AdminClient, group: str) -> dict[str, tuple[str, int]]:
    """Return the value and source of each configuration, by name."""
    asked = ConfigResource(ResourceType.GROUP, group)
    found: dict[str, Any] = admin.describe_configs([asked])[asked].result(ANSWER_S)
    return {name: (one.value, one.source) for name, one in found.items()}


@pytest.mark.fact("E21-05", "E21-10")
def test_librdkafka_describes_and_alters_group_configurations(
    admin: AdminClient, group: str
) -> None:
    own = ConfigSource.GROUP_CONFIG.value
    servers = {
        ConfigSource.DEFAULT_CONFIG.value,
        ConfigSource.STATIC_BROKER_CONFIG.value,
    }
    before = described(admin, group)
    assert {before[SESSION][1], before[HEARTBEAT][1]} <= servers
    alter_group(admin, group, SESSION, "50000", AlterConfigOpType.SET)
    eventually(
        lambda: described(admin, group)[SESSION] == ("50000", own),
        expected="the new session timeout",
    )
    assert described(admin, group)[HEARTBEAT] == before[HEARTBEAT]
    alter_group(admin, group, SESSION, None, AlterConfigOpType.DELETE)
    eventually(
        lambda: described(admin, group)[SESSION] == before[SESSION],
        expected="the default again",
    )


@pytest.mark.fact("E21-06a", "E21-07")
@pytest.mark.parametrize(("name", "value"), [(SESSION, "1"), ("no.such", "50000")])
def test_librdkafka_gets_the_error_of_an_invalid_group_configuration(
    admin: AdminClient, group: str, name: str, value: str
) -> None:
    with pytest.raises(KafkaException) as refused:
        alter_group(admin, group, name, value, AlterConfigOpType.SET)
    error = refused.value.args[0]
    assert error.code() == KafkaError.INVALID_CONFIG
    assert name in error.str()


def test_kafka_python_describes_and_alters_group_configurations(
    python_admin: KafkaAdminClient, group: str
) -> None:
    change = PythonResource(ConfigResourceType.GROUP, group, {HEARTBEAT: "5500"})
    python_admin.alter_configs([change])
    asked = [PythonResource(ConfigResourceType.GROUP, group)]
    eventually(
        lambda: "5500" in str(python_admin.describe_configs(asked)),
        expected="the new interval",
    )


@pytest.mark.fact("E21-04b")
def test_librdkafka_replaces_all_configurations_of_a_group(
    admin: AdminClient, group: str
) -> None:
    """Use AlterConfigs, which librdkafka still sends although it is deprecated."""
    own = ConfigSource.GROUP_CONFIG.value

    def replace(**values: str) -> None:
        entries = {name.replace("_", "."): text for name, text in values.items()}
        change = ConfigResource(ResourceType.GROUP, group, set_config=entries)
        with pytest.deprecated_call():
            [future] = admin.alter_configs([change]).values()
        future.result(ANSWER_S)

    replace(consumer_session_timeout_ms="50000", consumer_heartbeat_interval_ms="4000")
    eventually(
        lambda: described(admin, group)[HEARTBEAT] == ("4000", own),
        expected="the new interval",
    )
    replace(consumer_session_timeout_ms="51000")
    eventually(
        lambda: (
            described(admin, group)[SESSION] == ("51000", own)
            and described(admin, group)[HEARTBEAT][1] != own
        ),
        expected="the interval back at its default",
    )
