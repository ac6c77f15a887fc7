"""ACL bindings that real clients create, describe and delete, and their effect."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)
from kafka import KafkaAdminClient
from kafka.admin import (
    ACL,
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    ResourcePattern,
    ResourcePatternFilter,
)
from kafka.admin import ResourceType as KafkaPythonType

from tests.real_clients.confluent_admin import ANSWER_S
from tests.real_clients.confluent_members import POLL_S, consumer_settings
from tests.support.waiting import eventually

from .kafka import run
from .sasl_listener import SaslListener

pytestmark = pytest.mark.slow

ALICE = "User:alice"
LITERAL, PREFIXED = ResourcePatternType.LITERAL, ResourcePatternType.PREFIXED
GROUP, TOPIC = ResourceType.GROUP, ResourceType.TOPIC
READ, DELETE = AclOperation.READ, AclOperation.DELETE
ALLOW, DENY = AclPermissionType.ALLOW, AclPermissionType.DENY


@pytest.fixture
def admin(sasl: SaslListener) -> AdminClient:
    return AdminClient({**sasl.settings("admin")})


@pytest.fixture
def alice(sasl: SaslListener) -> AdminClient:
    return AdminClient({**sasl.settings("alice")})


@pytest.fixture
def guarded_topic(admin: AdminClient, name: str) -> str:
    """Create a topic of one partition with one record, as the admin."""
    topic = f"t-{name}"
    new_topic = NewTopic(topic, num_partitions=1, replication_factor=1)
    admin.create_topics([new_topic])[topic].result(ANSWER_S)

    def is_there() -> bool:
        return admin.list_topics(topic, timeout=ANSWER_S).topics[topic].error is None

    eventually(is_there, expected=f"{topic} in the metadata")
    return topic


@pytest.fixture
def allow(admin: AdminClient) -> Iterator[Callable[..., AclBinding]]:
    """A function that creates a binding for Alice; all are deleted at the end."""
    made: list[AclBinding] = []

    def make(
        kind: ResourceType,
        name: str,
        operation: AclOperation,
        pattern: ResourcePatternType = LITERAL,
        permission: AclPermissionType = ALLOW,
    ) -> AclBinding:
        binding = AclBinding(kind, name, pattern, ALICE, "*", operation, permission)
        admin.create_acls([binding])[binding].result(ANSWER_S)
        made.append(binding)
        only = filter_of(binding)
        eventually(
            lambda: admin.describe_acls(only).result(ANSWER_S), expected=f"{binding}"
        )
        return binding

    yield make
    for binding in made:
        only = filter_of(binding)
        admin.delete_acls([only])[only].result(ANSWER_S)


def filter_of(binding: AclBinding) -> AclBindingFilter:
    """Return the filter that matches exactly this binding."""
    return AclBindingFilter(
        binding.restype,
        binding.name,
        binding.resource_pattern_type,
        binding.principal,
        binding.host,
        binding.operation,
        binding.permission_type,
    )


def code_of(future: Any) -> int:
    """Return the error code of a future; 0 for none."""
    try:
        future.result(ANSWER_S)
    except KafkaException as error:
        return int(error.args[0].code())
    return 0


def about(name: str, pattern: ResourcePatternType) -> AclBindingFilter:
    """Return a filter of group bindings by name and pattern type."""
    any_principal: Any = None  # accepted by librdkafka, missing in its annotations
    return AclBindingFilter(
        GROUP,
        name,
        pattern,
        any_principal,
        any_principal,
        AclOperation.ANY,
        AclPermissionType.ANY,
    )


def test_librdkafka_creates_describes_and_deletes_bindings(
    admin: AdminClient, group: str, allow: Callable[..., AclBinding]
) -> None:
    one = allow(GROUP, group, READ)
    two = allow(GROUP, group[:-2], DELETE, PREFIXED, DENY)
    exactly = about(group, ResourcePatternType.ANY)
    assert admin.describe_acls(exactly).result(ANSWER_S) == [one]
    found = admin.describe_acls(about(group, ResourcePatternType.MATCH))
    assert {*found.result(ANSWER_S)} == {one, two}
    deleted = admin.delete_acls([exactly])[exactly].result(ANSWER_S)
    assert deleted == [one]
    eventually(
        lambda: admin.describe_acls(exactly).result(ANSWER_S) == [],
        expected="no binding",
    )


def test_kafka_python_creates_describes_and_deletes_bindings(
    sasl: SaslListener, group: str
) -> None:
    client = KafkaAdminClient(**sasl.options("admin"))
    acl = ACL(
        principal=ALICE,
        host="10.0.0.7",
        operation=ACLOperation.DESCRIBE,
        permission_type=ACLPermissionType.DENY,
        resource_pattern=ResourcePattern(
            KafkaPythonType.GROUP, group, ACLResourcePatternType.PREFIXED
        ),
    )

    def about(name: str, pattern: ACLResourcePatternType) -> ACLFilter:
        return ACLFilter(
            principal=None,
            host=None,
            operation=ACLOperation.ANY,
            permission_type=ACLPermissionType.ANY,
            resource_pattern=ResourcePatternFilter(
                KafkaPythonType.GROUP, name, pattern
            ),
        )

    match = about(f"{group}-1", ACLResourcePatternType.MATCH)
    assert client.create_acls([acl])["failed"] == []
    eventually(lambda: acl in client.describe_acls(match)[0], expected="the binding")
    exactly = about(group, ACLResourcePatternType.ANY)
    [(_, deleted, error)] = client.delete_acls([exactly])
    assert error.errno == 0
    assert deleted == [acl]
    client.close()


def test_the_coterie_command_creates_describes_and_deletes_bindings(
    sasl: SaslListener, group: str, tmp_path: Path
) -> None:
    file = tmp_path / "admin.properties"
    file.write_text("".join(f"{k}={v}\n" for k, v in sasl.settings("admin").items()))
    file.chmod(0o600)

    def items(words: str) -> list[tuple[str, ...]]:
        program = str(Path(sys.executable).with_name("coterie"))
        command = [program, "acls", *words.split(), "--output", "json"]
        output = run([*command, "--command-config", str(file)], ANSWER_S)
        assert output.exit_code == 0, output
        found = json.loads(output.stdout)["items"]
        return [(each["operation"], each.get("result", "there")) for each in found]

    words = f"--principal {ALICE} --operation read --operation delete --group {group}"
    assert items(f"add {words} --prefixed --execute") == [
        ("read", "added"),
        ("delete", "added"),
    ]
    applies = f"list --principal {ALICE} --group {group}-1 --pattern match"
    both = [("read", "there"), ("delete", "there")]
    eventually(lambda: items(applies) == both, expected="both bindings")
    removed = [("read", "removed"), ("delete", "removed")]
    assert items(f"remove --group {group} --execute") == removed
    eventually(lambda: items(applies) == [], expected="no binding")


def test_creating_bindings_needs_alter_on_the_cluster(
    alice: AdminClient, group: str
) -> None:
    binding = AclBinding(GROUP, group, LITERAL, ALICE, "*", READ, ALLOW)
    code = code_of(alice.create_acls([binding])[binding])
    assert code == KafkaError.CLUSTER_AUTHORIZATION_FAILED


def error_of(sasl: SaslListener, group: str, topic: str, protocol: str) -> int:
    """Return the first error of Alice's consumer, or 0 once it owns the topic."""
    config = consumer_settings("", group, group_protocol=protocol)
    consumer = Consumer({**config, **sasl.settings("alice")})
    codes: list[int] = []
    consumer.subscribe([topic], on_assign=lambda *_: codes.append(0))
    try:

        def first() -> bool:
            message = consumer.poll(POLL_S)
            if message is not None and (error := message.error()) is not None:
                codes.append(error.code())
            return bool(codes)

        eventually(first, expected="an error, or the topic")
    finally:
        consumer.close()
    return codes[0]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_consumer_needs_read_on_its_group_and_its_topic(
    sasl: SaslListener,
    group: str,
    guarded_topic: str,
    allow: Callable[..., AclBinding],
    protocol: str,
) -> None:
    allow(TOPIC, guarded_topic, READ)
    code = error_of(sasl, group, guarded_topic, protocol)
    assert code == KafkaError.GROUP_AUTHORIZATION_FAILED
    allow(GROUP, group, READ)
    assert error_of(sasl, group, guarded_topic, protocol) == 0
    allow(TOPIC, guarded_topic, AclOperation.DESCRIBE, LITERAL, DENY)
    code = error_of(sasl, group, guarded_topic, protocol)
    assert code == KafkaError.TOPIC_AUTHORIZATION_FAILED


@pytest.mark.fact("E14-08")
def test_a_regular_expression_matches_only_topics_with_describe_permission(
    sasl: SaslListener,
    admin: AdminClient,
    group: str,
    name: str,
    guarded_topic: str,
    allow: Callable[..., AclBinding],
) -> None:
    hidden = f"{guarded_topic}-hidden"
    new_topic = NewTopic(hidden, num_partitions=1, replication_factor=1)
    admin.create_topics([new_topic])[hidden].result(ANSWER_S)
    allow(TOPIC, guarded_topic, READ)
    allow(GROUP, group, READ)
    config = consumer_settings("", group, group_protocol="consumer")
    consumer = Consumer({**config, **sasl.settings("alice")})
    consumer.subscribe([f"^t-{name}.*"])

    def owned() -> set[str]:
        consumer.poll(POLL_S)
        return {partition.topic for partition in consumer.assignment()}

    try:
        assert eventually(owned, expected="a topic") == {guarded_topic}
    finally:
        consumer.close()


@pytest.mark.fact("D-34")
def test_deleting_a_group_needs_delete_on_it(
    alice: AdminClient,
    admin: AdminClient,
    group: str,
    guarded_topic: str,
    allow: Callable[..., AclBinding],
) -> None:
    both = [group, f"{group}-2"]

    def has_offsets(name: str) -> bool:
        offsets = [TopicPartition(guarded_topic, 0, 1)]
        asked = ConsumerGroupTopicPartitions(name, offsets)
        future = admin.alter_consumer_group_offsets([asked])[name]
        [partition] = future.result(ANSWER_S).topic_partitions
        return partition.error is None

    for each in both:
        eventually(partial(has_offsets, each), expected=f"offsets of {each}")
    no = KafkaError.GROUP_AUTHORIZATION_FAILED
    allow(GROUP, f"{group}-2", AclOperation.DESCRIBE)
    # Describing a group needs DESCRIBE and not DELETE.
    listed = alice.list_consumer_groups().result(ANSWER_S).valid
    assert {found.group_id for found in listed} & {*both} == {f"{group}-2"}
    assert {code_of(f) for f in alice.delete_consumer_groups(both).values()} == {no}
    allow(GROUP, group, DELETE)
    deleted = alice.delete_consumer_groups(both)
    assert {each: code_of(deleted[each]) for each in both} == {
        group: 0,
        f"{group}-2": no,
    }


def test_an_idempotent_producer_needs_only_write_on_its_topic(
    sasl: SaslListener, guarded_topic: str, allow: Callable[..., AclBinding]
) -> None:
    allow(TOPIC, guarded_topic[:-4], AclOperation.WRITE, PREFIXED)
    producer = Producer({**sasl.settings("alice"), "enable.idempotence": True})
    failed: list[KafkaError | None] = []
    producer.produce(
        guarded_topic, b"v", on_delivery=lambda error, _: failed.append(error)
    )
    assert producer.flush(ANSWER_S) == 0
    assert failed == [None]
    denied = allow(TOPIC, guarded_topic, AclOperation.WRITE, LITERAL, DENY)
    assert denied.permission_type == DENY
    producer.produce(
        guarded_topic, b"v", on_delivery=lambda error, _: failed.append(error)
    )
    assert producer.flush(ANSWER_S) == 0
    refused = failed[1]
    assert refused is not None
    assert refused.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
