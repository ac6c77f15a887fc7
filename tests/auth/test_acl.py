"""Authorization by ACL bindings follows the rules of Kafka's authorizer."""

from __future__ import annotations

from typing import Any

import pytest

from coterie.auth.acl import (
    OPERATIONS,
    WILDCARD_PRINCIPAL,
    AclBinding,
    AclBindingFilter,
    Operation,
    PatternType,
    PermissionType,
    Principal,
    RequestContext,
    ResourceType,
    check_binding,
)
from coterie.auth.authorizer import AclAuthorizer, Authorizer
from coterie.errors import ApiError
from coterie.wire.error_codes import ErrorCode

ALICE = Principal("User", "alice")
BOB = Principal("User", "bob")
GROUP = ResourceType.GROUP
GROUP_OPERATIONS = set(OPERATIONS[GROUP])
HOST = "10.0.0.7"
BILLING = "billing"


def allow(
    operation: Operation, name: str = BILLING, principal: Principal = ALICE
) -> AclBinding:
    return AclBinding(principal, PermissionType.ALLOW, operation, GROUP, name)


def deny(
    operation: Operation, name: str = BILLING, principal: Principal = ALICE
) -> AclBinding:
    return allow(operation, name, principal)._replace(permission=PermissionType.DENY)


def deciding(*acls: AclBinding, **options: Any) -> AclAuthorizer:
    """Return an authorizer with these bindings."""
    authorizer = AclAuthorizer(**options)
    for acl in acls:
        authorizer.replay(acl.key, acl.to_value())
    return authorizer


def may(*acls: AclBinding, resource_type: ResourceType = GROUP) -> set[Operation]:
    """Return the group operations that Alice is allowed."""
    authorizer: Authorizer = deciding(*acls)
    return {
        operation
        for operation in GROUP_OPERATIONS
        if authorizer.authorize(
            RequestContext(ALICE, HOST), operation, resource_type, BILLING
        )
    }


def test_without_a_binding_a_principal_is_denied() -> None:
    assert may() == set()
    assert may(allow(Operation.ALL, principal=BOB)) == set()
    assert may(allow(Operation.ALL, name="other")) == set()
    assert may(allow(Operation.ALL), resource_type=ResourceType.TOPIC) == set()


@pytest.mark.fact("D-30")
def test_delete_is_an_operation_on_groups_and_all_implies_the_others() -> None:
    assert Operation.DELETE in may(allow(Operation.DELETE))
    assert Operation.DELETE not in may(allow(Operation.READ))
    assert may(allow(Operation.READ)) == {Operation.READ, Operation.DESCRIBE}
    assert may(allow(Operation.DESCRIBE)) == {Operation.DESCRIBE}
    three = {Operation.DESCRIBE, Operation.READ, Operation.DELETE}
    assert may(allow(Operation.ALL)) >= three


@pytest.mark.fact("D-31")
@pytest.mark.parametrize(
    ("operation", "resource_type"),
    [
        (Operation.READ, ResourceType.GROUP),
        (Operation.DELETE, ResourceType.GROUP),
        (Operation.WRITE, ResourceType.TOPIC),
        (Operation.ALTER, ResourceType.TOPIC),
        (Operation.WRITE, ResourceType.TRANSACTIONAL_ID),
        (Operation.ALTER, ResourceType.CLUSTER),
    ],
)
def test_read_write_delete_and_alter_imply_describe(
    operation: Operation, resource_type: ResourceType
) -> None:
    acl = allow(operation)._replace(resource_type=resource_type)
    authorizer = deciding(acl)
    assert authorizer.authorize(
        RequestContext(ALICE, HOST), Operation.DESCRIBE, resource_type, BILLING
    )


@pytest.mark.fact("D-32")
@pytest.mark.parametrize("denied", [Operation.READ, Operation.DELETE])
def test_denying_an_operation_does_not_deny_others(denied: Operation) -> None:
    allowed = may(allow(Operation.ALL), deny(denied))
    assert allowed == GROUP_OPERATIONS - {denied}


@pytest.mark.fact("D-33a")
def test_a_group_has_five_operations_and_no_others() -> None:
    assert may(allow(Operation.ALL)) == {
        Operation.READ,
        Operation.DESCRIBE,
        Operation.DELETE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    }
    assert may(allow(Operation.ALL)) == GROUP_OPERATIONS


@pytest.mark.fact("D-33b")
def test_alter_configs_implies_describe_configs() -> None:
    assert may(allow(Operation.ALTER_CONFIGS)) == {
        Operation.ALTER_CONFIGS,
        Operation.DESCRIBE_CONFIGS,
    }


def test_one_deny_binding_overrides_allow_bindings() -> None:
    assert may(allow(Operation.ALL), deny(Operation.ALL)) == set()
    assert may(deny(Operation.ALL), allow(Operation.ALL)) == set()
    denied = deny(Operation.READ, principal=WILDCARD_PRINCIPAL)
    assert Operation.READ not in may(allow(Operation.READ), denied)


def test_a_binding_may_use_wildcards_for_principal_and_name() -> None:
    assert Operation.READ in may(allow(Operation.READ, "*", WILDCARD_PRINCIPAL))


def test_a_prefixed_pattern_matches_names_with_the_prefix() -> None:
    begins = allow(Operation.READ, "bill")
    assert Operation.READ not in may(begins)
    assert Operation.READ in may(begins._replace(pattern=PatternType.PREFIXED))
    other = allow(Operation.READ, "ill")._replace(pattern=PatternType.PREFIXED)
    assert Operation.READ not in may(other)


def test_a_super_user_is_allowed_everything() -> None:
    authorizer = deciding(deny(Operation.ALL), super_users=[ALICE])
    assert authorizer.authorize(
        RequestContext(ALICE, HOST), Operation.DELETE, GROUP, BILLING
    )
    assert not authorizer.authorize(
        RequestContext(BOB, HOST), Operation.DELETE, GROUP, BILLING
    )


def test_a_change_of_bindings_increases_the_version() -> None:
    authorizer = AclAuthorizer()
    before = authorizer.version
    read = allow(Operation.READ)
    authorizer.replay(read.key, read.to_value())
    assert authorizer.version != before
    assert authorizer.authorize(
        RequestContext(ALICE, HOST), Operation.READ, GROUP, BILLING
    )


def test_a_wildcard_binding_covers_every_type_of_principal() -> None:
    authorizer = deciding(allow(Operation.READ, principal=WILDCARD_PRINCIPAL))
    caller = RequestContext(Principal("Group", "auditors"), HOST)
    assert authorizer.authorize(caller, Operation.READ, GROUP, BILLING)
    no_wildcard = allow(Operation.READ, principal=Principal("Group", "*"))
    authorizer = deciding(no_wildcard)
    assert not authorizer.authorize(caller, Operation.READ, GROUP, BILLING)


@pytest.mark.parametrize(
    ("bound", "asking", "holds"),
    [
        ("*", "10.0.0.7", True),
        ("10.0.0.7", "10.0.0.7", True),
        ("10.0.0.7", "10.0.0.8", False),
        ("10.0.0.7", "::ffff:10.0.0.7", True),
        ("0:0:0:0:0:0:0:1", "::1", True),
        ("2001:DB8::1", "2001:db8:0::1", True),
        ("10.0.0", "10.0.0.7", False),
        ("010.0.0.0/8", "10.0.0.7", True),
        ("10.0.0.0/29", "::ffff:10.0.0.7", True),
        ("10.0.0.0/29", "10.0.0.8", False),
        ("2001:DB8::/32", "2001:db8:0::1", True),
        ("*", "unknown", True),
        ("a.example", "a.example", True),
    ],
)
def test_a_host_matches_in_every_spelling_of_its_address(
    bound: str, asking: str, holds: bool
) -> None:
    for permission in PermissionType.ALLOW, PermissionType.DENY:
        acl = allow(Operation.READ)._replace(host=bound, permission=permission)
        others = [allow(Operation.READ)] if permission is PermissionType.DENY else []
        authorizer = deciding(acl, *others)
        allowed = authorizer.authorize(
            RequestContext(ALICE, asking), Operation.READ, GROUP, BILLING
        )
        assert allowed is (holds is (permission is PermissionType.ALLOW))


@pytest.mark.fact("D-31")
def test_delete_does_not_imply_describe_by_the_rule_of_the_kip_229_text() -> None:
    for implies in True, False:
        authorizer = deciding(allow(Operation.DELETE), delete_implies_describe=implies)
        caller = RequestContext(ALICE, HOST)
        assert authorizer.authorize(caller, Operation.DELETE, GROUP, BILLING)
        describe = authorizer.authorize(caller, Operation.DESCRIBE, GROUP, BILLING)
        assert describe is implies
    kip = deciding(allow(Operation.READ), delete_implies_describe=False)
    assert kip.authorize(
        RequestContext(ALICE, HOST), Operation.DESCRIBE, GROUP, BILLING
    )
    assert not kip.authorize(
        RequestContext(ALICE, HOST), Operation.DELETE, GROUP, BILLING
    )


def test_allow_everyone_if_no_acl_found_allows_resources_without_bindings() -> None:
    lenient = deciding(
        allow(Operation.READ, principal=BOB), allow_everyone_if_no_acl_found=True
    )
    caller = RequestContext(ALICE, HOST)
    assert lenient.authorize(caller, Operation.DELETE, GROUP, "other")
    assert lenient.authorize(caller, Operation.READ, ResourceType.TOPIC, BILLING)
    assert not lenient.authorize(caller, Operation.READ, GROUP, BILLING)
    prefix = allow(Operation.READ, "o", BOB)._replace(pattern=PatternType.PREFIXED)
    lenient.replay(prefix.key, prefix.to_value())
    assert not lenient.authorize(caller, Operation.DELETE, GROUP, "other")


def test_deleting_a_binding_keeps_similar_ones() -> None:
    both = [
        allow(Operation.READ, name)._replace(pattern=PatternType.PREFIXED)
        for name in ("bill", "bank")
    ]
    authorizer = deciding(*both)
    caller = RequestContext(ALICE, HOST)
    before = authorizer.version
    authorizer.replay(both[0].key, None)
    assert authorizer.version > before
    assert not authorizer.authorize(caller, Operation.READ, GROUP, BILLING)
    assert authorizer.authorize(caller, Operation.READ, GROUP, "banking")
    authorizer.replay(both[0].key, None)
    authorizer.replay(both[1].key, None)
    assert not authorizer.authorize(caller, Operation.READ, GROUP, "banking")


def test_clear_deletes_every_binding() -> None:
    authorizer = deciding(allow(Operation.READ))
    caller = RequestContext(ALICE, HOST)
    assert authorizer.authorize(caller, Operation.READ, GROUP, BILLING)
    authorizer.clear()
    assert not authorizer.authorize(caller, Operation.READ, GROUP, BILLING)
    assert authorizer.matching(AclBindingFilter()) == []


@pytest.mark.parametrize(
    "host",
    ["10.0.0.0/33", "10.0/8", "/8", "10.0.0.0/", "::ffff:10.0.0.0/104", "::/129"],
)
def test_a_host_that_is_no_network_is_refused(host: str) -> None:
    with pytest.raises(ApiError, match="CIDR") as refused:
        check_binding(allow(Operation.READ)._replace(host=host))
    assert refused.value.code is ErrorCode.INVALID_REQUEST
