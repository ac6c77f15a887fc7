"""Bindings decide as Kafka's authorizer does."""

from __future__ import annotations

import pytest

from coterie.auth.acl import (
    GROUP_OPERATIONS,
    Acl,
    AclAuthorizer,
    Pattern,
    Permission,
)
from coterie.auth.authorizer import Authorizer, Operation, Principal, ResourceType
from coterie.errors import SettingError

ALICE = Principal("User", "alice")
BOB = Principal("User", "bob")
EVERYBODY = Principal("User", "*")
GROUP = ResourceType.GROUP
BILLING = "billing"


def allow(
    operation: Operation, name: str = BILLING, principal: Principal = ALICE
) -> Acl:
    return Acl(principal, Permission.ALLOW, operation, GROUP, name)


def deny(
    operation: Operation, name: str = BILLING, principal: Principal = ALICE
) -> Acl:
    return allow(operation, name, principal)._replace(permission=Permission.DENY)


def may(*acls: Acl, resource_type: ResourceType = GROUP) -> set[Operation]:
    """What Alice may do to the group that a group can have done to it."""
    authorizer: Authorizer = AclAuthorizer(acls)
    return {
        operation
        for operation in GROUP_OPERATIONS
        if authorizer.authorize(ALICE, operation, resource_type, BILLING)
    }


def test_whoever_no_binding_speaks_of_may_do_nothing() -> None:
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
def test_to_be_allowed_to_change_something_is_to_be_allowed_to_see_it(
    operation: Operation, resource_type: ResourceType
) -> None:
    acl = allow(operation)._replace(resource_type=resource_type)
    authorizer = AclAuthorizer([acl])
    assert authorizer.authorize(ALICE, Operation.DESCRIBE, resource_type, BILLING)


@pytest.mark.fact("D-32")
@pytest.mark.parametrize("denied", [Operation.READ, Operation.DELETE])
def test_to_be_denied_one_operation_says_nothing_of_another(denied: Operation) -> None:
    allowed = may(allow(Operation.ALL), deny(denied))
    assert allowed == GROUP_OPERATIONS - {denied}


@pytest.mark.fact("D-33")
def test_a_group_has_five_operations_and_no_others() -> None:
    assert may(allow(Operation.ALL)) == {
        Operation.READ,
        Operation.DESCRIBE,
        Operation.DELETE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    }
    with pytest.raises(SettingError, match="a group has no operation WRITE: it has"):
        AclAuthorizer([allow(Operation.WRITE)])


@pytest.mark.fact("D-33")
def test_to_alter_configs_implies_to_describe_them() -> None:
    assert may(allow(Operation.ALTER_CONFIGS)) == {
        Operation.ALTER_CONFIGS,
        Operation.DESCRIBE_CONFIGS,
    }


def test_a_binding_that_denies_settles_it() -> None:
    assert may(allow(Operation.ALL), deny(Operation.ALL)) == set()
    assert may(deny(Operation.ALL), allow(Operation.ALL)) == set()
    denied = deny(Operation.READ, principal=EVERYBODY)
    assert Operation.READ not in may(allow(Operation.READ), denied)


def test_a_binding_may_be_for_everybody_and_for_every_name() -> None:
    assert Operation.READ in may(allow(Operation.READ, "*", EVERYBODY))


def test_a_prefix_is_for_the_names_that_begin_with_it() -> None:
    begins = allow(Operation.READ, "bill")
    assert Operation.READ not in may(begins)
    assert Operation.READ in may(begins._replace(pattern=Pattern.PREFIXED))
    other = allow(Operation.READ, "ill")._replace(pattern=Pattern.PREFIXED)
    assert Operation.READ not in may(other)


def test_a_super_user_may_do_everything() -> None:
    authorizer = AclAuthorizer([deny(Operation.ALL)], super_users=[ALICE])
    assert authorizer.authorize(ALICE, Operation.DELETE, GROUP, BILLING)
    assert not authorizer.authorize(BOB, Operation.DELETE, GROUP, BILLING)


def test_new_bindings_are_a_new_version() -> None:
    authorizer = AclAuthorizer([])
    before = authorizer.version
    authorizer.replace([allow(Operation.READ)])
    assert authorizer.version != before
    assert authorizer.authorize(ALICE, Operation.READ, GROUP, BILLING)
