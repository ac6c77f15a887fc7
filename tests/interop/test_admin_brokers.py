"""AdminClient operations on topics, logs, configurations, ACLs and users."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from coterie.auth.acl import (
    AclBinding,
    AclBindingFilter,
    Operation,
    PatternType,
    PermissionType,
    Principal,
    ResourceType,
)
from coterie.client.admin.admin_client import AdminClient
from coterie.client.admin.configs import ConfigResource
from coterie.client.admin.log_offsets import (
    EARLIEST,
    LATEST,
    AtTime,
    LogOffsetInfo,
    SpecialOffset,
)
from coterie.client.admin.quotas import QuotaEntity, QuotaName
from coterie.client.admin.topics import NewTopic
from coterie.client.admin.users import ScramDeletion, ScramInfo, ScramUpsertion
from coterie.client.options import ClientOptions
from coterie.client.secret import Secret
from coterie.errors import ApiError
from coterie.types import ScramMechanism, TopicPartition
from coterie.wire.configs import ConfigResourceType, ConfigSource
from coterie.wire.error_codes import ErrorCode
from tests.broker.server.apis.fake_broker import batch_of, produce_request
from tests.broker.server.harness import WireClient
from tests.support.waiting import eventually

pytestmark = [pytest.mark.asyncio, pytest.mark.slow]

WAIT_S = 120
SESSION = "consumer.session.timeout.ms"


@pytest_asyncio.fixture
async def admin(bootstrap: str) -> AsyncIterator[AdminClient]:
    options = ClientOptions(leader_wait_ms=5_000)
    async with AdminClient(bootstrap, options) as admin:
        yield admin


def codes(errors: object) -> dict[object, ErrorCode]:
    """Return the code of each error."""
    assert isinstance(errors, dict)
    found = {}
    for key, error in errors.items():
        assert isinstance(error, ApiError), error
        found[key] = error.code
    return found


def produce(bootstrap: str, topic: str, timestamp_ms: int, *values: bytes) -> None:
    """Append a batch to partition 0, once its leader accepts writes."""
    host, _, port = bootstrap.partition(":")
    batch = batch_of(*values, timestamp_ms=timestamp_ms)

    def is_done() -> bool:
        answer = client.call(produce_request(batch, topic=topic), 12)
        code = ErrorCode.read(answer.responses[0].partition_responses[0].error_code)
        assert code is ErrorCode.NONE or code.retriable, code
        return code is ErrorCode.NONE

    with WireClient(host, int(port)) as client:
        eventually(is_done, expected="a leader that takes the batch")


async def test_topics_are_created_described_extended_and_deleted(
    admin: AdminClient, name: str
) -> None:
    a, b, c, gone = (f"{name}-{letter}" for letter in "abcd")
    made = await admin.topics.create(
        [
            NewTopic(a, 2, 1),
            NewTopic(b, assignments={0: [1]}, configs={"retention.ms": "1000000"}),
            NewTopic(c, 1, 5),
            NewTopic("no name", 1, 1),
            NewTopic(gone, 1, 1, configs={"no.such": "1"}),
        ]
    )
    assert [each.partitions for each in made.values.values()] == [2, 1]
    assert codes(made.errors) == {
        c: ErrorCode.INVALID_REPLICATION_FACTOR,
        "no name": ErrorCode.INVALID_TOPIC_EXCEPTION,
        gone: ErrorCode.INVALID_CONFIG,
    }
    again = await admin.topics.create([NewTopic(a, 2, 1)])
    assert codes(again.errors) == {a: ErrorCode.TOPIC_ALREADY_EXISTS}
    tried = await admin.topics.create([NewTopic(c)], validate_only=True)
    assert tried.one(c).partitions == 1

    found = await admin.topics.describe([a, c, "no name"])
    assert found.one(a).topic_id == made.one(a).topic_id
    assert [each.leader_id for each in found.one(a).partitions] == [1, 1]
    assert codes(found.errors) == {
        c: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        "no name": ErrorCode.INVALID_TOPIC_EXCEPTION,
    }
    grown = await admin.topics.create_partitions({a: 3, b: 1, gone: 2})
    assert list(grown.values) == [a]
    assert codes(grown.errors) == {
        b: ErrorCode.INVALID_PARTITIONS,
        gone: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    deleted = await admin.topics.delete([a, gone, b])
    assert list(deleted.values) == [a, b]
    assert codes(deleted.errors) == {gone: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


async def test_offsets_are_listed_by_every_kind_of_timestamp(
    admin: AdminClient, bootstrap: str, topic: str
) -> None:
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    produce(bootstrap, topic, 1_700_000_000_000, b"a", b"b")
    produce(bootstrap, topic, 1_700_000_005_000, b"c")
    for spec, offset in (
        (LATEST, LogOffsetInfo(3, -1, 0)),
        (EARLIEST, LogOffsetInfo(0, -1, 0)),
        (SpecialOffset.MAX_TIMESTAMP, LogOffsetInfo(2, 1_700_000_005_000, 0)),
        (SpecialOffset.EARLIEST_LOCAL, LogOffsetInfo(0, -1, 0)),
        (SpecialOffset.LATEST_TIERED, LogOffsetInfo(-1)),
        (AtTime(1_700_000_000_001), LogOffsetInfo(2, 1_700_000_005_000, 0)),
        (AtTime(1_800_000_000_000), LogOffsetInfo(-1)),
        (AtTime(-5), LogOffsetInfo(0, 1_700_000_000_000, 0)),
    ):
        for committed_only in (False, True):
            results = await admin.logs.list_offsets(
                {first: spec}, committed_only=committed_only
            )
            assert results.one(first) == offset, spec
    missing = TopicPartition(topic, 9), TopicPartition(f"{topic}-gone", 0)
    results = await admin.logs.list_offsets(
        dict.fromkeys([first, second, *missing], LATEST)
    )
    assert [each.offset for each in results.values.values()] == [3, 0]
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert codes(results.errors) == dict.fromkeys(missing, unknown)

    deleted = await admin.logs.delete_records({first: 2, second: 5, missing[1]: 1})
    assert deleted.values == {first: 2}
    assert codes(deleted.errors) == {
        second: ErrorCode.OFFSET_OUT_OF_RANGE,
        missing[1]: unknown,
    }
    assert (await admin.logs.delete_records({first: -1})).values == {first: 3}


@pytest.mark.fact("E21-04")
async def test_configurations_are_described_set_and_reset(
    admin: AdminClient, name: str, topic: str
) -> None:
    group = ConfigResource(ConfigResourceType.GROUP, name)
    own = ConfigResource(ConfigResourceType.TOPIC, topic)
    gone = ConfigResource(ConfigResourceType.TOPIC, f"{topic}-gone")
    nameless = ConfigResource(ConfigResourceType.GROUP, "")

    async def session() -> tuple[str | None, ConfigSource]:
        found = await admin.configs.describe([group], names=[SESSION])
        [entry] = found.one(group)
        return entry.value, entry.source

    assert await session() == ("6000", ConfigSource.STATIC_BROKER)
    results = await admin.configs.alter(
        {
            group: {SESSION: "50000"},
            own: {"retention.ms": "77"},
            gone: {"retention.ms": "77"},
            nameless: {SESSION: "50000"},
        }
    )
    assert list(results.values) == [group, own]
    assert codes(results.errors) == {
        gone: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        nameless: ErrorCode.INVALID_REQUEST,
    }
    async with asyncio.timeout(WAIT_S):
        while await session() != ("50000", ConfigSource.GROUP):
            pass  # a Kafka broker applies the change after its controller
        # Kafka applies a change before it publishes the image that is listed.
        while group not in await admin.configs.list_resources(
            [ConfigResourceType.GROUP]
        ):
            pass
    found = await admin.configs.describe([own, gone, nameless], names=["retention.ms"])
    [retention] = found.one(own)
    assert (retention.value, retention.is_default) == ("77", False)
    assert codes(found.errors) == {
        gone: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        nameless: ErrorCode.INVALID_REQUEST,
    }
    for change in ({SESSION: "1"}, {"no.such": "1"}):
        refused = await admin.configs.alter({group: change}, validate_only=True)
        assert codes(refused.errors) == {group: ErrorCode.INVALID_CONFIG}
    assert (await admin.configs.alter({group: {SESSION: None}})).all()
    async with asyncio.timeout(WAIT_S):
        while group in await admin.configs.list_resources([ConfigResourceType.GROUP]):
            pass


async def test_bindings_are_created_described_and_deleted(
    admin: AdminClient, group: str, broker_kind: str
) -> None:
    alice = Principal("User", "alice")
    read = AclBinding(
        alice, PermissionType.ALLOW, Operation.READ, ResourceType.GROUP, group
    )
    prefixed = read._replace(pattern=PatternType.PREFIXED, name=f"{group}-")
    nameless = read._replace(name="")
    mine = AclBindingFilter(ResourceType.GROUP, f"{group}-a", PatternType.MATCH)
    if (
        broker_kind == "coterie"
    ):  # without an authorizer, loopback listeners allow everything
        assert codes((await admin.acls.create([read])).errors) == {
            read: ErrorCode.SECURITY_DISABLED
        }
        return
    made = await admin.acls.create([read, prefixed, nameless])
    assert list(made.values) == [read, prefixed]
    assert codes(made.errors) == {nameless: ErrorCode.INVALID_REQUEST}
    async with asyncio.timeout(WAIT_S):
        while await admin.acls.describe(mine) != (prefixed,):
            pass
    exact = AclBindingFilter(name=group, pattern=PatternType.LITERAL)
    gone = await admin.acls.delete([mine, exact, AclBindingFilter(host="10.9.9.9")])
    assert [list(each.all()) for each in gone.all().values()] == [
        [prefixed],
        [read],
        [],
    ]


async def test_passwords_are_set_described_and_deleted(
    admin: AdminClient, name: str
) -> None:
    alice, bob, nobody = (f"{name}-{who}" for who in ("alice", "bob", "nobody"))
    sha_256, sha_512 = ScramMechanism
    word = Secret("pencil")
    changed = await admin.users.alter(
        [
            ScramUpsertion(alice, sha_256, word),
            ScramUpsertion(bob, sha_512, word, iterations=1),
            ScramDeletion(nobody, sha_256),
        ]
    )
    assert list(changed.values) == [alice]
    assert codes(changed.errors) == {
        bob: ErrorCode.UNACCEPTABLE_CREDENTIAL,
        nobody: ErrorCode.RESOURCE_NOT_FOUND,
    }
    async with asyncio.timeout(WAIT_S):
        while alice not in (await admin.users.describe()).values:
            pass
    found = await admin.users.describe([nobody, alice])
    assert found.values == {alice: (ScramInfo(sha_256, 4_096),)}
    assert codes(found.errors) == {nobody: ErrorCode.RESOURCE_NOT_FOUND}
    gone = await admin.users.alter([ScramDeletion(alice, sha_256)])
    assert list(gone.all()) == [alice]


async def test_client_quotas_are_set_described_and_removed(
    admin: AdminClient, name: str
) -> None:
    user = QuotaEntity(user=name)
    pair = QuotaEntity(user=name, client_id=QuotaName.DEFAULT)
    values = {
        user: {"producer_byte_rate": 1024.0, "request_percentage": 12.5},
        pair: {"consumer_byte_rate": 2048.0},
    }
    assert (await admin.quotas.alter(values)).errors == {}
    for entity, expected in values.items():
        # Kafka shows changes some time after the response.
        await shown(admin, entity, {entity: expected})
    gone = {entity: dict.fromkeys(each) for entity, each in values.items()}
    assert (await admin.quotas.alter(gone)).errors == {}
    await shown(admin, user, {})


async def shown(admin: AdminClient, match: QuotaEntity, expected: object) -> None:
    for _ in range(10_000):
        described = await admin.quotas.describe(match, strict=True)
        if described == expected:
            return
    raise AssertionError((described, expected))
