"""A client does with the error of a fault what it does with the error's real cause.

Each case runs once on a server that has the cause, and once on a server with the fault
`reply` that claims it; the outcome is the client's result or the name of its error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final, NamedTuple

import pytest

from coterie.auth.acl import CLUSTER_NAME, Operation, PermissionType, ResourceType
from coterie.testing import Kafka
from coterie.testing.request_names import CONFIG_TOPIC
from coterie.wire import messages as m
from tests.real_clients.client_operations import CLIENTS, GROUP, Client, equal_outcomes

pytestmark = pytest.mark.slow

TOPIC: Final = "orders"
NEW: Final = "new"
BEYOND: Final = 1_000
ACLS: Final[Mapping[str, object]] = {
    "authorizer": "acl",
    "allow.everyone.if.no.acl.found": "true",
}


def deny(kafka: Kafka, operation: Operation, kind: ResourceType, name: str) -> None:
    """Deny everybody an operation, and allow all others on the resource."""
    bindings = [
        m.AclCreation(
            resource_type=kind,
            resource_name=name,
            principal="User:*",
            host="*",
            operation=each,
            permission_type=permission,
        )
        for each, permission in (
            (operation, PermissionType.DENY),
            (Operation.ALL, PermissionType.ALLOW),
        )
    ]
    kafka.request(m.CreateAclsRequest(creations=bindings), m.CreateAclsResponse)


Work = Callable[[Client], object]


class Case(NamedTuple):
    """An error of an API, an operation that meets it, and its cause: `settings`, what
    `prepare` does, or an operation of its own, `real`."""

    api: str
    error: str
    work: Work
    real: Work | None = None
    prepare: Callable[[Kafka], object] | None = None
    settings: Mapping[str, object] = {}
    times: int | None = None


def denied(
    api: str, error: str, work: Work, operation: Operation, kind: ResourceType
) -> Case:
    """Return a case whose cause is a binding that denies the operation."""
    name = TOPIC if kind is ResourceType.TOPIC else GROUP

    def prepare(kafka: Kafka) -> None:
        if operation in {Operation.CREATE, Operation.DELETE}:
            # The right on the cluster is one on all topics.
            deny(kafka, operation, ResourceType.CLUSTER, CLUSTER_NAME)
        deny(kafka, operation, kind, NEW if operation is Operation.CREATE else name)

    return Case(api, error, work, prepare=prepare, settings=ACLS)


def configured(name: str, value: str) -> Callable[[Kafka], object]:
    """Return a function that sets a configuration of the topic."""
    config = m.AlterableConfig(name=name, value=value)
    topic = m.AlterConfigsResource(
        resource_type=CONFIG_TOPIC, resource_name=TOPIC, configs=[config]
    )
    request = m.AlterConfigsRequest(resources=[topic])
    return lambda kafka: kafka.request(request, m.AlterConfigsResponse)


TOPIC_DENIED, GROUP_DENIED = "TOPIC_AUTHORIZATION_FAILED", "GROUP_AUTHORIZATION_FAILED"
OF_TOPIC, OF_GROUP = ResourceType.TOPIC, ResourceType.GROUP
READ, WRITE, DESCRIBE = Operation.READ, Operation.WRITE, Operation.DESCRIBE
UNKNOWN = "UNKNOWN_TOPIC_OR_PARTITION"
NO_CREATION: Final[Mapping[str, object]] = {"auto.create.topics.enable": "false"}

CASES: Final = (
    Case(
        "Fetch",
        "OFFSET_OUT_OF_RANGE",
        lambda client: client.read(TOPIC),
        real=lambda client: client.read(TOPIC, BEYOND),
        times=1,
    ),
    Case(
        "Fetch",
        "OFFSET_OUT_OF_RANGE",
        lambda client: client.read(TOPIC, reset="none"),
        real=lambda client: client.read(TOPIC, BEYOND, reset="none"),
    ),
    denied("Fetch", TOPIC_DENIED, lambda client: client.read(TOPIC), READ, OF_TOPIC),
    denied(
        "Metadata",
        TOPIC_DENIED,
        lambda client: client.subscribe(TOPIC),
        DESCRIBE,
        OF_TOPIC,
    ),
    denied(
        "Metadata",
        TOPIC_DENIED,
        lambda client: client.produce(TOPIC),
        DESCRIBE,
        OF_TOPIC,
    ),
    Case(
        "Metadata",
        UNKNOWN,
        lambda client: client.subscribe(TOPIC),
        real=lambda client: client.subscribe("missing"),
        settings=NO_CREATION,
    ),
    Case(
        "Metadata",
        UNKNOWN,
        lambda client: client.produce(TOPIC),
        real=lambda client: client.produce("missing"),
        settings=NO_CREATION,
    ),
    denied(
        "FindCoordinator",
        GROUP_DENIED,
        lambda client: client.committed(TOPIC),  # librdkafka's commit waits for 45 s
        DESCRIBE,
        OF_GROUP,
    ),
    denied(
        "JoinGroup",
        GROUP_DENIED,
        lambda client: client.subscribe(TOPIC),
        READ,
        OF_GROUP,
    ),
    denied(
        "OffsetCommit",
        GROUP_DENIED,
        lambda client: client.commit(TOPIC),
        READ,
        OF_GROUP,
    ),
    denied(
        "OffsetCommit",
        TOPIC_DENIED,
        lambda client: client.commit(TOPIC),
        READ,
        OF_TOPIC,
    ),
    denied(
        "OffsetFetch",
        TOPIC_DENIED,
        lambda client: client.committed(TOPIC),
        DESCRIBE,
        OF_TOPIC,
    ),
    Case(
        "OffsetCommit",
        "OFFSET_METADATA_TOO_LARGE",
        lambda client: client.commit(TOPIC),
        real=lambda client: client.commit(TOPIC, "m" * 5_000),
    ),
    Case(
        "JoinGroup",
        "INVALID_SESSION_TIMEOUT",
        lambda client: client.subscribe(TOPIC),
        settings={"group.min.session.timeout.ms": 60_000},
    ),
    Case(
        "Produce",
        "MESSAGE_TOO_LARGE",
        lambda client: client.produce(TOPIC, 50_000),
        settings={"message.max.bytes": 5_000},
    ),
    denied(
        "Produce", TOPIC_DENIED, lambda client: client.produce(TOPIC), WRITE, OF_TOPIC
    ),
    Case(
        "CreateTopics",
        "TOPIC_ALREADY_EXISTS",
        lambda client: client.create(NEW),
        real=lambda client: client.create(TOPIC),
    ),
    Case(
        "CreateTopics",
        "INVALID_REPLICATION_FACTOR",
        lambda client: client.create(NEW),
        real=lambda client: client.create(NEW, replicas=3),
    ),
    Case(
        "CreateTopics",
        "INVALID_CONFIG",
        lambda client: client.create(NEW),
        real=lambda client: client.create(NEW, config="no.such.config"),
    ),
    denied(
        "CreateTopics",
        TOPIC_DENIED,
        lambda client: client.create(NEW),
        Operation.CREATE,
        OF_TOPIC,
    ),
    Case(
        "CreatePartitions",
        "INVALID_PARTITIONS",
        lambda client: client.grow(TOPIC, 2),
        real=lambda client: client.grow(TOPIC, 1),
    ),
    Case(
        "CreatePartitions",
        UNKNOWN,
        lambda client: client.grow(TOPIC, 2),
        real=lambda client: client.grow("missing", 2),
    ),
    Case(
        "DeleteTopics",
        UNKNOWN,
        lambda client: client.delete(TOPIC),
        real=lambda client: client.delete("missing"),
    ),
    denied(
        "DeleteTopics",
        TOPIC_DENIED,
        lambda client: client.delete(TOPIC),
        Operation.DELETE,
        OF_TOPIC,
    ),
    Case(
        "CreateTopics",
        "INVALID_TOPIC_EXCEPTION",
        lambda client: client.create(NEW),
        real=lambda client: client.create("no topic"),
    ),
    Case(
        "CreateTopics",
        "INVALID_REPLICA_ASSIGNMENT",
        lambda client: client.create(NEW, broker=1),
        real=lambda client: client.create(NEW, broker=77),
    ),
    Case(
        "DeleteTopics",
        "TOPIC_DELETION_DISABLED",
        lambda client: client.delete(TOPIC),
        settings={"delete.topic.enable": "false"},
    ),
    Case(
        "Produce",
        "INVALID_RECORD",
        lambda client: client.produce(TOPIC),
        prepare=configured("cleanup.policy", "compact"),  # the record has no key
    ),
    Case(
        "Produce",
        "INVALID_TIMESTAMP",
        lambda client: client.produce(TOPIC, time_ms=1),
        prepare=configured("message.timestamp.before.max.ms", "60000"),
    ),
)


@contextmanager
def server(settings: Mapping[str, object]) -> Iterator[Kafka]:
    with Kafka(settings=settings) as kafka:
        kafka.topic(TOPIC)
        kafka.produce(TOPIC, [(b"key", b"a"), (b"key", b"b")])
        yield kafka


@pytest.mark.parametrize("name", CLIENTS)
@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=f"{number}-{case.api}-{case.error}")
        for number, case in enumerate(CASES)
    ],
)
def test_the_outcome_is_that_of_the_real_cause(name: str, case: Case) -> None:
    def play(window_s: float) -> tuple[object, object]:
        def client(kafka: Kafka) -> Client:
            made = CLIENTS[name](kafka.bootstrap_servers)
            made.window_s = window_s
            return made

        with server(case.settings) as kafka:
            if case.prepare is not None:
                case.prepare(kafka)
            real = (case.real or case.work)(client(kafka))
            assert kafka.requests.of(case.api, errors=case.error), kafka.history()
        with (
            server({}) as kafka,
            kafka.faults.reply(case.api, case.error, times=case.times),
        ):
            return real, case.work(client(kafka))

    assert equal_outcomes(play)
