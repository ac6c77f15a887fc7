"""ACLs and SCRAM users, on a server and on scripted brokers."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from coterie.auth.acl import (
    ANONYMOUS,
    AclBinding,
    AclBindingFilter,
    Operation,
    PatternType,
    PermissionType,
    Principal,
    ResourceType,
)
from coterie.auth.authorizer import AclAuthorizer
from coterie.client.admin.acls import create_acls, delete_acls, describe_acls
from coterie.client.admin.admin_client import AdminClient
from coterie.client.admin.users import (
    ScramDeletion,
    ScramInfo,
    ScramUpsertion,
    alter_scram_users,
    describe_scram_users,
)
from coterie.client.secret import Secret
from coterie.errors import (
    ApiError,
    ClientError,
    ConnectionLost,
    CoterieError,
    UnsupportedByBroker,
)
from coterie.types import ScramMechanism
from coterie.wire import messages as m
from coterie.wire.api import ApiKey
from coterie.wire.error_codes import ErrorCode
from coterie.wire.schema import Versions
from tests.broker.server.harness import ThreadServer
from tests.client.admin.scripted_cluster import ScriptedCluster
from tests.client.scripted_broker import HANG_UP, OPTIONS

pytestmark = pytest.mark.asyncio

ALICE, BOB = Principal("User", "alice"), Principal("User", "bob")
READ = AclBinding(ALICE, PermissionType.ALLOW, Operation.READ, ResourceType.GROUP, "g")
DENY = AclBinding(
    BOB, PermissionType.DENY, Operation.ALL, ResourceType.TOPIC, "*", host="10.0.0.1"
)
PREFIX = READ._replace(name="team-", pattern=PatternType.PREFIXED)
SHA_256, SHA_512 = ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512
PASSWORD = Secret("pencil")


@pytest_asyncio.fixture
async def admin() -> AsyncIterator[AdminClient]:
    authorizer = AclAuthorizer(super_users=[ANONYMOUS])
    with ThreadServer(authorizer=authorizer) as server:
        host, port = server.addresses[0]
        async with AdminClient(f"{host}:{port}", OPTIONS) as admin:
            yield admin


def code_of(error: CoterieError) -> ErrorCode:
    assert isinstance(error, ApiError)
    return error.code


async def test_bindings_are_created_described_and_deleted(admin: AdminClient) -> None:
    made = await admin.create_acls([READ, DENY, PREFIX, READ])
    assert list(made.all()) == [READ, DENY, PREFIX]
    assert set(await admin.describe_acls()) == {READ, DENY, PREFIX}
    group = ResourceType.GROUP
    matching = AclBindingFilter(group, "team-a", PatternType.MATCH)
    assert await admin.describe_acls(matching) == (PREFIX,)
    assert await admin.describe_acls(AclBindingFilter(principal="User:bob")) == (DENY,)
    nobody = AclBindingFilter(host="10.9.9.9")
    gone = await admin.delete_acls([matching, nobody])
    assert [list(each.all()) for each in gone.all().values()] == [[PREFIX], []]
    assert set(await admin.describe_acls()) == {READ, DENY}


async def test_an_invalid_binding_does_not_affect_others(admin: AdminClient) -> None:
    odd = READ._replace(name="")
    results = await admin.create_acls([odd, READ])
    assert list(results.values) == [READ]
    error = results.errors[odd]
    assert code_of(error) is ErrorCode.INVALID_REQUEST
    assert "to create ALLOW User:alice from * to READ GROUP" in str(error)
    unknown = AclBindingFilter(operation=Operation.UNKNOWN)
    gone = await admin.delete_acls([unknown, AclBindingFilter()])
    assert code_of(gone.errors[unknown]) is ErrorCode.INVALID_REQUEST
    assert list(gone.one(AclBindingFilter()).values) == [READ]


async def test_unknown_acl_elements_are_not_sent() -> None:
    """Refuse UNKNOWN elements in the client: Kafka closes the connection on them."""
    async with ScriptedCluster() as nodes:
        [broker] = nodes.brokers
        broker.answers[ApiKey.CREATE_ACLS] = lambda _: m.CreateAclsResponse()
        broker.answers[ApiKey.DELETE_ACLS] = lambda _: m.DeleteAclsResponse()
        cluster = nodes.client()
        odd = READ._replace(operation=Operation.UNKNOWN)
        made = await create_acls(cluster, [odd])
        assert code_of(made.errors[odd]) is ErrorCode.INVALID_REQUEST
        unknown = AclBindingFilter(pattern=PatternType.UNKNOWN)
        gone = await delete_acls(cluster, [unknown])
        assert "PatternType UNKNOWN" in str(gone.errors[unknown])
        with pytest.raises(ApiError, match="PatternType UNKNOWN"):
            await describe_acls(cluster, unknown)
        assert broker.asked_of(m.CreateAclsRequest) == []
        assert broker.asked_of(m.DeleteAclsRequest) == []


async def test_acl_calls_fail_on_a_broker_without_an_authorizer() -> None:
    with ThreadServer() as server:
        host, port = server.addresses[0]
        async with AdminClient(f"{host}:{port}", OPTIONS) as admin:
            with pytest.raises(ApiError, match="SECURITY_DISABLED: No authorizer"):
                await admin.describe_acls()
            made = await admin.create_acls([READ])
            assert code_of(made.errors[READ]) is ErrorCode.SECURITY_DISABLED
            gone = await admin.delete_acls([AclBindingFilter()])
            assert (
                code_of(gone.errors[AclBindingFilter()]) is ErrorCode.SECURITY_DISABLED
            )


async def test_acl_elements_of_newer_brokers_are_unknown() -> None:
    async with ScriptedCluster() as nodes:
        entry = m.AclDescription(
            principal="odd", host="*", operation=99, permission_type=9
        )
        resource = m.DescribeAclsResource(
            resource_type=77, resource_name="x", pattern_type=6, acls=[entry]
        )
        nodes.brokers[0].answers[ApiKey.DESCRIBE_ACLS] = lambda _: (
            m.DescribeAclsResponse(resources=[resource])
        )
        [acl] = await describe_acls(nodes.client())
        assert acl.principal == Principal("", "odd")
        assert acl[1:4] == (
            PermissionType.UNKNOWN,
            Operation.UNKNOWN,
            ResourceType.UNKNOWN,
        )
        assert acl.pattern is PatternType.UNKNOWN


async def test_user_resources_are_unsupported_by_older_brokers() -> None:
    async with ScriptedCluster() as nodes:
        nodes.brokers[0].versions[ApiKey.CREATE_ACLS] = Versions(0, 2)
        nodes.brokers[0].versions[ApiKey.DESCRIBE_ACLS] = Versions(0, 0)
        cluster = nodes.client()
        user = READ._replace(resource_type=ResourceType.USER)
        with pytest.raises(UnsupportedByBroker, match="3 to 3 is needed"):
            await create_acls(cluster, [user])
        with pytest.raises(UnsupportedByBroker, match="1 to 3 is needed"):
            await describe_acls(cluster)


async def test_each_binding_that_was_not_deleted_has_an_error() -> None:
    async with ScriptedCluster() as nodes:
        fields: dict[str, Any] = {
            "resource_type": 3,
            "resource_name": "g",
            "principal": "User:alice",
            "host": "*",
            "operation": 3,
            "permission_type": 3,
        }
        answer = m.DeleteAclsResponse(
            filter_results=[
                m.DeleteAclsFilterResult(
                    error_message=None,
                    matching_acls=[
                        m.DeleteAclsMatchingAcl(error_code=-1, **fields),
                        m.DeleteAclsMatchingAcl(**{**fields, "resource_name": "h"}),
                    ],
                )
            ]
        )
        nodes.brokers[0].answers[ApiKey.DELETE_ACLS] = lambda _: answer
        results = await delete_acls(nodes.client(), [AclBindingFilter()])
        found = results.one(AclBindingFilter())
        assert list(found.errors) == [READ]
        assert list(found.values) == [READ._replace(name="h")]


async def test_delete_acls_is_not_retried_after_a_lost_response() -> None:
    async with ScriptedCluster() as nodes:
        [broker] = nodes.brokers
        broker.answers[ApiKey.DELETE_ACLS] = lambda _: HANG_UP
        with pytest.raises(ConnectionLost):
            await delete_acls(nodes.client(), [AclBindingFilter()])
        assert len(broker.asked_of(m.DeleteAclsRequest)) == 1


async def test_a_response_with_too_few_results_is_an_error() -> None:
    async with ScriptedCluster() as nodes:
        nodes.brokers[0].answers[ApiKey.CREATE_ACLS] = lambda _: m.CreateAclsResponse(
            results=[m.AclCreationResult()]
        )
        with pytest.raises(ClientError, match="1 results for 2 ACLs"):
            await create_acls(nodes.client(), [READ, DENY])


# Users.


async def test_passwords_are_set_described_and_deleted(admin: AdminClient) -> None:
    results = await admin.alter_scram_users(
        [
            ScramUpsertion("alice", SHA_256, PASSWORD),
            ScramUpsertion("bob", SHA_512, PASSWORD, iterations=5_000),
            ScramUpsertion("carol", SHA_512, PASSWORD, iterations=1),
        ]
    )
    assert list(results.values) == ["alice", "bob"]
    assert code_of(results.errors["carol"]) is ErrorCode.UNACCEPTABLE_CREDENTIAL
    assert "user carol" in str(results.errors["carol"])
    found = await admin.describe_scram_users()
    assert found.all() == {
        "alice": (ScramInfo(SHA_256, 4_096),),
        "bob": (ScramInfo(SHA_512, 5_000),),
    }
    gone = [ScramDeletion("alice", SHA_256), ScramDeletion("dave", SHA_256)]
    results = await admin.alter_scram_users(gone)
    assert list(results.values) == ["alice"]
    assert code_of(results.errors["dave"]) is ErrorCode.RESOURCE_NOT_FOUND
    named = await admin.describe_scram_users(["bob", "alice", "bob"])
    assert list(named.values) == ["bob"]
    assert code_of(named.errors["alice"]) is ErrorCode.RESOURCE_NOT_FOUND


async def test_no_request_is_sent_for_an_empty_list_of_users(
    admin: AdminClient,
) -> None:
    assert (await admin.describe_scram_users([])).all() == {}


async def test_a_password_is_salted_and_sent_to_the_controller() -> None:
    async with ScriptedCluster(2) as nodes:
        nodes.controller_id = 2
        broker = nodes.brokers[1]
        answer = m.AlterUserScramCredentialsResponse(
            results=[
                m.AlterUserScramCredentialsResult(user="alice", error_message=None)
            ]
        )
        broker.answers[ApiKey.ALTER_USER_SCRAM_CREDENTIALS] = lambda _: answer
        cluster = nodes.client()
        salt = b"a salt of some length"
        await alter_scram_users(
            cluster, [ScramUpsertion("alice", SHA_512, PASSWORD, 5_000, salt)]
        )
        await alter_scram_users(cluster, [ScramUpsertion("alice", SHA_256, PASSWORD)])
        first, second = broker.asked_of(m.AlterUserScramCredentialsRequest)
        [sent] = first.upsertions
        assert (sent.salt, sent.iterations, sent.mechanism) == (salt, 5_000, 2)
        assert sent.salted_password == hashlib.pbkdf2_hmac(
            "sha512", b"pencil", salt, 5_000
        )
        assert len(second.upsertions[0].salt) == 32
        assert "pencil" not in repr(ScramUpsertion("alice", SHA_256, PASSWORD))


async def test_unknown_scram_mechanisms_are_left_out() -> None:
    async with ScriptedCluster() as nodes:
        infos = [
            m.CredentialInfo(mechanism=9, iterations=1),
            m.CredentialInfo(mechanism=1, iterations=4_096),
        ]
        answers = iter(
            [
                m.DescribeUserScramCredentialsResponse(
                    error_message=None,
                    results=[
                        m.DescribeUserScramCredentialsResult(
                            user="alice", error_message=None, credential_infos=infos
                        )
                    ],
                ),
                m.DescribeUserScramCredentialsResponse(
                    error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
                    error_message=None,
                ),
            ]
        )
        key = ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS
        nodes.brokers[0].answers[key] = lambda _: next(answers)
        cluster = nodes.client()
        found = await describe_scram_users(cluster)
        assert found.one("alice") == (ScramInfo(SHA_256, 4_096),)
        with pytest.raises(ApiError, match="to describe users is not authorized"):
            await describe_scram_users(cluster)
