"""DescribeAcls, CreateAcls and DeleteAcls."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from coterie.auth.acl import (
    CLUSTER_NAME,
    AclBindingFilter,
    Operation,
    PatternType,
    PermissionType,
    Principal,
    RequestContext,
    ResourceType,
)
from coterie.auth.authorizer import AclAuthorizer
from coterie.broker.server.apis import acls
from coterie.broker.server.assembly import Assembly
from coterie.errors import LogFull
from coterie.settings import Settings
from coterie.wire import messages as m
from coterie.wire.error_codes import ErrorCode
from tests.broker.server.apis.in_process_server import InProcessServer

ADMIN = Principal("User", "admin")
ALICE = RequestContext(Principal("User", "alice"), "10.0.0.7")
VERSIONS = (1, 2, 3)


@pytest.fixture
def server() -> Iterator[InProcessServer]:
    authorizer = AclAuthorizer(super_users=[ADMIN])
    with InProcessServer(authorizer=authorizer, principal=ADMIN) as server:
        yield server


def binding(**fields: Any) -> m.AclCreation:
    """Return a creation: Alice has READ on group g, unless `fields` override this."""
    given = {
        "resource_type": ResourceType.GROUP,
        "resource_name": "g",
        "resource_pattern_type": PatternType.LITERAL,
        "principal": "User:alice",
        "host": "*",
        "operation": Operation.READ,
        "permission_type": PermissionType.ALLOW,
    }
    return m.AclCreation(**{**given, **fields})


def create(
    server: InProcessServer, *creations: m.AclCreation, version: int = 3
) -> list[int]:
    """Create bindings; return their error codes."""
    request = m.CreateAclsRequest(creations=list(creations))
    return [result.error_code for result in server.call(request, version).results]


def described(server: InProcessServer, version: int = 3, **fields: Any) -> list[str]:
    """Describe bindings, as in "GROUP g LITERAL User:alice * READ ALLOW"."""
    response = server.call(m.DescribeAclsRequest(**{**EVERYTHING, **fields}), version)
    assert response.error_code == 0
    return [
        f"{ResourceType(found.resource_type).name} {found.resource_name} "
        f"{PatternType(found.pattern_type).name} {acl.principal} {acl.host} "
        f"{Operation(acl.operation).name} {PermissionType(acl.permission_type).name}"
        for found in response.resources
        for acl in found.acls
    ]


EVERYTHING: dict[str, Any] = {
    "resource_type_filter": ResourceType.ANY,
    "resource_name_filter": None,
    "pattern_type_filter": PatternType.ANY,
    "principal_filter": None,
    "host_filter": None,
    "operation": Operation.ANY,
    "permission_type": PermissionType.ANY,
}


@pytest.mark.parametrize("version", VERSIONS)
def test_a_created_binding_is_described_enforced_and_deleted(
    server: InProcessServer, version: int
) -> None:
    authorizer = server.broker.authorizer
    requested = ALICE, Operation.READ, ResourceType.GROUP, "g"
    assert not authorizer.authorize(*requested)
    assert create(server, binding(), version=version) == [0]
    assert authorizer.authorize(*requested)
    assert described(server, version) == ["GROUP g LITERAL User:alice * READ ALLOW"]
    acl_filter = m.DeleteAclsFilter(**EVERYTHING)
    response = server.call(m.DeleteAclsRequest(filters=[acl_filter]), version)
    [result] = response.filter_results
    [gone] = result.matching_acls
    assert (result.error_code, gone.error_code) == (0, 0)
    assert (gone.resource_name, gone.principal, gone.host) == ("g", "User:alice", "*")
    assert not authorizer.authorize(*requested)
    assert described(server, version) == []


def test_creating_an_existing_binding_changes_nothing(
    server: InProcessServer,
) -> None:
    assert create(server, binding(), binding()) == [0, 0]
    assert create(server, binding()) == [0]
    assert len(described(server)) == 1


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"resource_type": ResourceType.CLUSTER}, "kafka-cluster"),
        ({"resource_name": ""}, "empty resource name"),
        ({"resource_type": ResourceType.ANY}, "Invalid resourceType ANY"),
        ({"resource_type": 99}, "Invalid resourceType UNKNOWN"),
        ({"resource_pattern_type": PatternType.MATCH}, "Invalid patternType MATCH"),
        ({"resource_pattern_type": PatternType.ANY}, "Invalid patternType ANY"),
        ({"operation": Operation.ANY}, "Invalid operation ANY"),
        ({"operation": 0}, "Invalid operation UNKNOWN"),
        ({"permission_type": PermissionType.ANY}, "Invalid permissionType ANY"),
        ({"principal": "alice"}, "write it like User:alice"),
        ({"host": ""}, "Host pattern cannot be empty"),
    ],
)
def test_an_invalid_binding_is_refused_and_the_others_are_created(
    server: InProcessServer, fields: dict[str, Any], message: str
) -> None:
    creations = [binding(**fields), binding()]
    response = server.call(m.CreateAclsRequest(creations=creations), 3)
    refused, made = response.results
    assert refused.error_code == ErrorCode.INVALID_REQUEST
    assert message in refused.error_message
    assert (made.error_code, made.error_message) == (0, None)
    assert len(described(server)) == 1


def test_bindings_of_all_resource_types_are_stored(server: InProcessServer) -> None:
    kinds = [kind for kind in ResourceType if kind not in {ResourceType.UNKNOWN, 1}]
    creations = [
        binding(
            resource_type=kind,
            resource_name=CLUSTER_NAME if kind is ResourceType.CLUSTER else "g",
            operation=Operation.DESCRIBE,
        )
        for kind in kinds
    ]
    assert create(server, *creations) == [0] * 6
    assert [line.split()[0] for line in described(server)] == [k.name for k in kinds]


def test_filters_match_each_field(server: InProcessServer) -> None:
    creations = [
        binding(),
        binding(resource_type=ResourceType.TOPIC, operation=Operation.WRITE),
        binding(resource_name="*", principal="User:*"),
        binding(resource_name="ga", resource_pattern_type=PatternType.PREFIXED),
        binding(host="10.0.0.7", permission_type=PermissionType.DENY),
    ]
    assert create(server, *creations) == [0] * 5

    def count(**fields: Any) -> int:
        return len(described(server, **fields))

    assert count() == 5
    assert count(resource_type_filter=ResourceType.GROUP) == 4
    assert count(principal_filter="User:*") == 1
    assert count(principal_filter="User:a") == 0
    assert count(host_filter="*") == 4
    assert count(operation=Operation.WRITE) == 1
    assert count(permission_type=PermissionType.DENY) == 1
    assert count(pattern_type_filter=PatternType.PREFIXED) == 1
    assert count(resource_name_filter="g") == 3
    group = {"resource_type_filter": ResourceType.GROUP}
    match = {**group, "pattern_type_filter": PatternType.MATCH}
    assert count(**match, resource_name_filter="gaga") == 2
    assert count(**match, resource_name_filter="g") == 3
    assert count(**match) == 4
    literal = {**group, "pattern_type_filter": PatternType.LITERAL}
    assert count(**literal, resource_name_filter="gaga") == 0
    assert count(**literal, resource_name_filter="*") == 1


def test_each_filter_gets_a_result_and_matches_the_bindings_before_the_request(
    server: InProcessServer,
) -> None:
    assert create(server, binding(), binding(operation=Operation.DELETE)) == [0, 0]
    filters = [
        m.DeleteAclsFilter(**{**EVERYTHING, "operation": Operation.READ}),
        m.DeleteAclsFilter(**{**EVERYTHING, "operation": 0}),
        m.DeleteAclsFilter(**{**EVERYTHING, "pattern_type_filter": 99}),
        m.DeleteAclsFilter(**EVERYTHING),
    ]
    results = server.call(m.DeleteAclsRequest(filters=filters), 3).filter_results
    no = ErrorCode.INVALID_REQUEST
    assert [each.error_code for each in results] == [0, no, no, 0]
    assert [len(each.matching_acls) for each in results] == [1, 0, 0, 2]
    assert described(server) == []


def test_bindings_survive_a_restart(server: InProcessServer) -> None:
    assert create(server, binding(), binding(host="10.0.0.9")) == [0, 0]
    before = described(server)
    server.broker.data.reload()
    assert len(before) == 2
    assert described(server) == before


def test_a_binding_whose_flush_fails_gets_an_error_and_is_not_enforced(
    server: InProcessServer,
) -> None:
    assert create(server, binding()) == [0]

    def fail() -> None:
        server.log.before_write = None
        raise LogFull("no room")

    server.log.before_write = fail
    failed = create(server, binding(resource_name="other"))
    assert failed == [ErrorCode.KAFKA_STORAGE_ERROR]
    server.log.before_write = fail
    request = m.DeleteAclsRequest(filters=[m.DeleteAclsFilter(**EVERYTHING)])
    [result] = server.call(request, 3).filter_results
    assert (result.error_code, result.matching_acls) == (56, [])
    assert described(server) == ["GROUP g LITERAL User:alice * READ ALLOW"]
    assert server.broker.authorizer.authorize(
        ALICE, Operation.READ, ResourceType.GROUP, "g"
    )


def codes(server: InProcessServer) -> list[int]:
    """Return the error codes of the three APIs."""
    found = server.call(m.DescribeAclsRequest(**EVERYTHING), 3)
    filters = [m.DeleteAclsFilter(**EVERYTHING)]
    deleted = server.call(m.DeleteAclsRequest(filters=filters), 3)
    [result] = deleted.filter_results
    assert found.resources == result.matching_acls == []
    return [found.error_code, *create(server, binding()), result.error_code]


def test_without_an_authorizer_there_are_no_acls() -> None:
    with InProcessServer() as server:
        assert codes(server) == [ErrorCode.SECURITY_DISABLED] * 3


def test_describing_bindings_needs_describe_and_changing_them_needs_alter(
    server: InProcessServer,
) -> None:
    server.principal = ALICE.principal
    no = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert codes(server) == [no] * 3
    server.principal = ADMIN
    cluster = {"resource_type": ResourceType.CLUSTER, "resource_name": CLUSTER_NAME}
    describe = binding(**cluster, operation=Operation.DESCRIBE)
    assert create(server, describe) == [0]
    server.principal = ALICE.principal
    assert len(described(server)) == 1
    assert create(server, binding()) == [no]
    server.principal = ADMIN
    assert create(server, binding(**cluster, operation=Operation.ALTER)) == [0]
    server.principal = ALICE.principal
    assert create(server, binding()) == [0]
    assert len(described(server)) == 3


def test_bindings_stay_on_disk_while_acls_are_disabled(
    server: InProcessServer,
) -> None:
    assert create(server, binding(), binding(resource_name="gone")) == [0, 0]
    only = m.DeleteAclsFilter(**{**EVERYTHING, "resource_name_filter": "gone"})
    assert server.call(m.DeleteAclsRequest(filters=[only]), 3).filter_results
    kept = server.log.reopen()
    authorizer = AclAuthorizer()

    async def start(authorizer: AclAuthorizer | None) -> None:
        assembly = Assembly(Settings(), kept, authorizer=authorizer)
        assert (assembly.broker.acls is None) is (authorizer is None)

    server.loop.run_until_complete(start(None))
    server.loop.run_until_complete(start(authorizer))
    assert [acl.name for acl in authorizer.matching(AclBindingFilter())] == ["g"]
    assert authorizer.authorize(ALICE, Operation.READ, ResourceType.GROUP, "g")


# Limits.


def test_a_request_creates_at_most_10_000_bindings(server: InProcessServer) -> None:
    many = [binding()] * 10_001
    assert {*create(server, *many)} == {ErrorCode.POLICY_VIOLATION}
    assert described(server) == []


def test_a_request_matches_at_most_10_000_bindings(
    server: InProcessServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(acls, "CHANGES_PER_REQUEST_MAX", 2)
    create(server, binding(), binding(host="h"))
    group = m.DeleteAclsFilter(
        resource_type_filter=ResourceType.GROUP,
        resource_name_filter="g",
        pattern_type_filter=PatternType.LITERAL,
        principal_filter=None,
        host_filter=None,
        operation=Operation.ANY,
        permission_type=PermissionType.ANY,
    )
    results = server.call(m.DeleteAclsRequest(filters=[group, group]), 3).filter_results
    assert [result.error_code for result in results] == [0, ErrorCode.POLICY_VIOLATION]
    assert [len(result.matching_acls) for result in results] == [2, 0]


def test_there_are_at_most_catalog_max_entries_bindings() -> None:
    authorizer = AclAuthorizer(super_users=[ADMIN])
    settings = Settings(catalog_max_entries=2)
    with InProcessServer(
        settings=settings, authorizer=authorizer, principal=ADMIN
    ) as server:
        codes = create(server, *(binding(host=host) for host in "abc"))
        assert codes == [0, 0, ErrorCode.POLICY_VIOLATION]
        assert create(server, binding(host="a")) == [0], "an existing binding"
