"""DescribeAcls, CreateAcls and DeleteAcls: what is made counts at once and is kept."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from coterie.auth.acl import AclFilter, Pattern, Permission
from coterie.auth.acl_authorizer import AclAuthorizer
from coterie.auth.authorizer import (
    CLUSTER_NAME,
    Caller,
    Operation,
    Principal,
    ResourceType,
)
from coterie.errors import LogFull
from coterie.server.assembly import Assembly
from coterie.settings import Settings
from coterie.wire.error_codes import ErrorCode
from coterie.wire.messages.create_acls import AclCreation, CreateAclsRequest
from coterie.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from coterie.wire.messages.describe_acls import DescribeAclsRequest
from tests.server.apis.in_process import Office

ADMIN = Principal("User", "admin")
ALICE = Caller(Principal("User", "alice"), "10.0.0.7")
VERSIONS = (1, 2, 3)


@pytest.fixture
def office() -> Iterator[Office]:
    authorizer = AclAuthorizer(super_users=[ADMIN])
    with Office(authorizer=authorizer, principal=ADMIN) as office:
        yield office


def binding(**fields: Any) -> AclCreation:
    """Alice may read group g, unless said otherwise."""
    given = {
        "resource_type": ResourceType.GROUP,
        "resource_name": "g",
        "resource_pattern_type": Pattern.LITERAL,
        "principal": "User:alice",
        "host": "*",
        "operation": Operation.READ,
        "permission_type": Permission.ALLOW,
    }
    return AclCreation(**{**given, **fields})


def create(office: Office, *creations: AclCreation, version: int = 3) -> list[int]:
    """The error codes, one for each."""
    request = CreateAclsRequest(creations=list(creations))
    return [result.error_code for result in office.call(request, version).results]


def described(office: Office, version: int = 3, **fields: Any) -> list[str]:
    """What a filter finds, as "GROUP g LITERAL User:alice * READ ALLOW"."""
    response = office.call(DescribeAclsRequest(**{**EVERYTHING, **fields}), version)
    assert response.error_code == 0
    return [
        f"{ResourceType(found.resource_type).name} {found.resource_name} "
        f"{Pattern(found.pattern_type).name} {acl.principal} {acl.host} "
        f"{Operation(acl.operation).name} {Permission(acl.permission_type).name}"
        for found in response.resources
        for acl in found.acls
    ]


EVERYTHING: dict[str, Any] = {
    "resource_type_filter": ResourceType.ANY,
    "resource_name_filter": None,
    "pattern_type_filter": Pattern.ANY,
    "principal_filter": None,
    "host_filter": None,
    "operation": Operation.ANY,
    "permission_type": Permission.ANY,
}


@pytest.mark.parametrize("version", VERSIONS)
def test_what_is_created_is_described_counts_at_once_and_can_go(
    office: Office, version: int
) -> None:
    authorizer = office.broker.authorizer
    asked = ALICE, Operation.READ, ResourceType.GROUP, "g"
    assert not authorizer.authorize(*asked)
    assert create(office, binding(), version=version) == [0]
    assert authorizer.authorize(*asked)
    assert described(office, version) == ["GROUP g LITERAL User:alice * READ ALLOW"]
    wanted = DeleteAclsFilter(**EVERYTHING)
    response = office.call(DeleteAclsRequest(filters=[wanted]), version)
    [result] = response.filter_results
    [gone] = result.matching_acls
    assert (result.error_code, gone.error_code) == (0, 0)
    assert (gone.resource_name, gone.principal, gone.host) == ("g", "User:alice", "*")
    assert not authorizer.authorize(*asked)
    assert described(office, version) == []


def test_a_binding_is_there_once_however_often_it_is_made(office: Office) -> None:
    assert create(office, binding(), binding()) == [0, 0]
    assert create(office, binding()) == [0]
    assert len(described(office)) == 1


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"resource_type": ResourceType.CLUSTER}, "kafka-cluster"),
        ({"resource_name": ""}, "empty resource name"),
        ({"resource_type": ResourceType.ANY}, "Invalid resourceType ANY"),
        ({"resource_type": 99}, "Invalid resourceType UNKNOWN"),
        ({"resource_pattern_type": Pattern.MATCH}, "Invalid patternType MATCH"),
        ({"resource_pattern_type": Pattern.ANY}, "Invalid patternType ANY"),
        ({"operation": Operation.ANY}, "Invalid operation ANY"),
        ({"operation": 0}, "Invalid operation UNKNOWN"),
        ({"permission_type": Permission.ANY}, "Invalid permissionType ANY"),
        ({"principal": "alice"}, "write it like User:alice"),
        ({"host": ""}, "Host pattern cannot be empty"),
    ],
)
def test_what_cannot_be_is_refused_and_the_rest_made(
    office: Office, fields: dict[str, Any], says: str
) -> None:
    creations = [binding(**fields), binding()]
    response = office.call(CreateAclsRequest(creations=creations), 3)
    refused, made = response.results
    assert refused.error_code == ErrorCode.INVALID_REQUEST
    assert says in refused.error_message
    assert (made.error_code, made.error_message) == (0, None)
    assert len(described(office)) == 1


def test_bindings_to_all_kinds_of_resources_are_kept(office: Office) -> None:
    kinds = [kind for kind in ResourceType if kind not in {ResourceType.UNKNOWN, 1}]
    creations = [
        binding(
            resource_type=kind,
            resource_name=CLUSTER_NAME if kind is ResourceType.CLUSTER else "g",
            operation=Operation.DESCRIBE,
        )
        for kind in kinds
    ]
    assert create(office, *creations) == [0] * 6
    assert [line.split()[0] for line in described(office)] == [k.name for k in kinds]


def test_filters_find_by_each_field(office: Office) -> None:
    creations = [
        binding(),
        binding(resource_type=ResourceType.TOPIC, operation=Operation.WRITE),
        binding(resource_name="*", principal="User:*"),
        binding(resource_name="ga", resource_pattern_type=Pattern.PREFIXED),
        binding(host="10.0.0.7", permission_type=Permission.DENY),
    ]
    assert create(office, *creations) == [0] * 5

    def count(**fields: Any) -> int:
        return len(described(office, **fields))

    assert count() == 5
    assert count(resource_type_filter=ResourceType.GROUP) == 4
    assert count(principal_filter="User:*") == 1
    assert count(principal_filter="User:a") == 0
    assert count(host_filter="*") == 4
    assert count(operation=Operation.WRITE) == 1
    assert count(permission_type=Permission.DENY) == 1
    assert count(pattern_type_filter=Pattern.PREFIXED) == 1
    assert count(resource_name_filter="g") == 3
    group = {"resource_type_filter": ResourceType.GROUP}
    match = {**group, "pattern_type_filter": Pattern.MATCH}
    assert count(**match, resource_name_filter="gaga") == 2
    assert count(**match, resource_name_filter="g") == 3
    assert count(**match) == 4
    literal = {**group, "pattern_type_filter": Pattern.LITERAL}
    assert count(**literal, resource_name_filter="gaga") == 0
    assert count(**literal, resource_name_filter="*") == 1


def test_filters_are_each_answered_and_held_against_what_was_there(
    office: Office,
) -> None:
    assert create(office, binding(), binding(operation=Operation.DELETE)) == [0, 0]
    filters = [
        DeleteAclsFilter(**{**EVERYTHING, "operation": Operation.READ}),
        DeleteAclsFilter(**{**EVERYTHING, "operation": 0}),
        DeleteAclsFilter(**{**EVERYTHING, "pattern_type_filter": 99}),
        DeleteAclsFilter(**EVERYTHING),
    ]
    results = office.call(DeleteAclsRequest(filters=filters), 3).filter_results
    no = ErrorCode.INVALID_REQUEST
    assert [each.error_code for each in results] == [0, no, no, 0]
    assert [len(each.matching_acls) for each in results] == [1, 0, 0, 2]
    assert described(office) == []


def test_bindings_are_there_after_a_restart(office: Office) -> None:
    assert create(office, binding(), binding(host="10.0.0.9")) == [0, 0]
    before = described(office)
    office.broker.data.reload()
    assert len(before) == 2
    assert described(office) == before


def test_what_did_not_reach_the_disk_is_not_answered_and_does_not_count(
    office: Office,
) -> None:
    assert create(office, binding()) == [0]

    def fail() -> None:
        office.log.before_write = None
        raise LogFull("no room")

    office.log.before_write = fail
    failed = create(office, binding(resource_name="other"))
    assert failed == [ErrorCode.KAFKA_STORAGE_ERROR]
    office.log.before_write = fail
    request = DeleteAclsRequest(filters=[DeleteAclsFilter(**EVERYTHING)])
    [result] = office.call(request, 3).filter_results
    assert (result.error_code, result.matching_acls) == (56, [])
    assert described(office) == ["GROUP g LITERAL User:alice * READ ALLOW"]
    assert office.broker.authorizer.authorize(
        ALICE, Operation.READ, ResourceType.GROUP, "g"
    )


def codes(office: Office) -> list[int]:
    """What each of the three APIs answers."""
    found = office.call(DescribeAclsRequest(**EVERYTHING), 3)
    wanted = [DeleteAclsFilter(**EVERYTHING)]
    deleted = office.call(DeleteAclsRequest(filters=wanted), 3)
    [result] = deleted.filter_results
    assert found.resources == result.matching_acls == []
    return [found.error_code, *create(office, binding()), result.error_code]


def test_without_an_authorizer_there_are_no_acls() -> None:
    with Office() as office:
        assert codes(office) == [ErrorCode.SECURITY_DISABLED] * 3


def test_to_see_bindings_takes_describe_and_to_change_them_alter(
    office: Office,
) -> None:
    office.principal = ALICE.principal
    no = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert codes(office) == [no] * 3
    office.principal = ADMIN
    cluster = {"resource_type": ResourceType.CLUSTER, "resource_name": CLUSTER_NAME}
    describe = binding(**cluster, operation=Operation.DESCRIBE)
    assert create(office, describe) == [0]
    office.principal = ALICE.principal
    assert len(described(office)) == 1
    assert create(office, binding()) == [no]
    office.principal = ADMIN
    assert create(office, binding(**cluster, operation=Operation.ALTER)) == [0]
    office.principal = ALICE.principal
    assert create(office, binding()) == [0]
    assert len(described(office)) == 3


def test_bindings_wait_on_disk_for_the_day_when_they_count(office: Office) -> None:
    assert create(office, binding(), binding(resource_name="gone")) == [0, 0]
    only = DeleteAclsFilter(**{**EVERYTHING, "resource_name_filter": "gone"})
    assert office.call(DeleteAclsRequest(filters=[only]), 3).filter_results
    kept = office.log.reopen()
    authorizer = AclAuthorizer()

    async def start(authorizer: AclAuthorizer | None) -> None:
        assembly = Assembly(Settings(), kept, authorizer=authorizer)
        assert (assembly.broker.acls is None) is (authorizer is None)

    office.loop.run_until_complete(start(None))
    office.loop.run_until_complete(start(authorizer))
    assert [acl.name for acl in authorizer.picked_by(AclFilter())] == ["g"]
    assert authorizer.authorize(ALICE, Operation.READ, ResourceType.GROUP, "g")
