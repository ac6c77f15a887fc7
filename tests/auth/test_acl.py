"""Bindings decide as Kafka's authorizer does."""

from __future__ import annotations

from typing import Any

import pytest

from coterie.auth.acl import EVERYBODY, Acl, AclFilter, Pattern, Permission
from coterie.auth.acl_authorizer import AclAuthorizer
from coterie.auth.authorizer import (
    OPERATIONS,
    Authorizer,
    Caller,
    Operation,
    Principal,
    ResourceType,
)

ALICE = Principal("User", "alice")
BOB = Principal("User", "bob")
GROUP = ResourceType.GROUP
GROUP_OPERATIONS = set(OPERATIONS[GROUP])
HOST = "10.0.0.7"
BILLING = "billing"


def allow(
    operation: Operation, name: str = BILLING, principal: Principal = ALICE
) -> Acl:
    return Acl(principal, Permission.ALLOW, operation, GROUP, name)


def deny(
    operation: Operation, name: str = BILLING, principal: Principal = ALICE
) -> Acl:
    return allow(operation, name, principal)._replace(permission=Permission.DENY)


def deciding(*acls: Acl, **options: Any) -> AclAuthorizer:
    """An authorizer with these bindings."""
    authorizer = AclAuthorizer(**options)
    for acl in acls:
        authorizer.replay(acl.key, acl.to_value())
    return authorizer


def may(*acls: Acl, resource_type: ResourceType = GROUP) -> set[Operation]:
    """What Alice may do to the group that a group can have done to it."""
    authorizer: Authorizer = deciding(*acls)
    return {
        operation
        for operation in GROUP_OPERATIONS
        if authorizer.authorize(Caller(ALICE, HOST), operation, resource_type, BILLING)
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
    authorizer = deciding(acl)
    assert authorizer.authorize(
        Caller(ALICE, HOST), Operation.DESCRIBE, resource_type, BILLING
    )


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
    assert may(allow(Operation.ALL)) == GROUP_OPERATIONS


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
    authorizer = deciding(deny(Operation.ALL), super_users=[ALICE])
    assert authorizer.authorize(Caller(ALICE, HOST), Operation.DELETE, GROUP, BILLING)
    assert not authorizer.authorize(Caller(BOB, HOST), Operation.DELETE, GROUP, BILLING)


def test_new_bindings_are_a_new_version() -> None:
    authorizer = AclAuthorizer()
    before = authorizer.version
    read = allow(Operation.READ)
    authorizer.replay(read.key, read.to_value())
    assert authorizer.version != before
    assert authorizer.authorize(Caller(ALICE, HOST), Operation.READ, GROUP, BILLING)


def test_a_binding_for_everybody_is_for_every_kind_of_principal() -> None:
    authorizer = deciding(allow(Operation.READ, principal=EVERYBODY))
    caller = Caller(Principal("Group", "auditors"), HOST)
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
        ("*", "unknown", True),
        ("a.example", "a.example", True),
    ],
)
def test_a_binding_may_be_for_one_host_however_it_is_written(
    bound: str, asking: str, holds: bool
) -> None:
    for permission in Permission.ALLOW, Permission.DENY:
        acl = allow(Operation.READ)._replace(host=bound, permission=permission)
        others = [allow(Operation.READ)] if permission is Permission.DENY else []
        authorizer = deciding(acl, *others)
        allowed = authorizer.authorize(
            Caller(ALICE, asking), Operation.READ, GROUP, BILLING
        )
        assert allowed is (holds is (permission is Permission.ALLOW))


@pytest.mark.fact("D-31", "F4-02")
def test_the_text_of_kip_229_can_be_had_delete_alone_shows_nothing() -> None:
    for implies in True, False:
        authorizer = deciding(allow(Operation.DELETE), delete_implies_describe=implies)
        caller = Caller(ALICE, HOST)
        assert authorizer.authorize(caller, Operation.DELETE, GROUP, BILLING)
        describe = authorizer.authorize(caller, Operation.DESCRIBE, GROUP, BILLING)
        assert describe is implies
    kip = deciding(allow(Operation.READ), delete_implies_describe=False)
    assert kip.authorize(Caller(ALICE, HOST), Operation.DESCRIBE, GROUP, BILLING)
    assert not kip.authorize(Caller(ALICE, HOST), Operation.DELETE, GROUP, BILLING)


def test_everyone_may_have_leave_where_no_binding_speaks_of_the_resource() -> None:
    lenient = deciding(
        allow(Operation.READ, principal=BOB), allow_everyone_if_no_acl_found=True
    )
    caller = Caller(ALICE, HOST)
    assert lenient.authorize(caller, Operation.DELETE, GROUP, "other")
    assert lenient.authorize(caller, Operation.READ, ResourceType.TOPIC, BILLING)
    assert not lenient.authorize(caller, Operation.READ, GROUP, BILLING)
    prefix = allow(Operation.READ, "o", BOB)._replace(pattern=Pattern.PREFIXED)
    lenient.replay(prefix.key, prefix.to_value())
    assert not lenient.authorize(caller, Operation.DELETE, GROUP, "other")


def test_a_binding_that_goes_is_gone_and_its_like_stays() -> None:
    both = [
        allow(Operation.READ, name)._replace(pattern=Pattern.PREFIXED)
        for name in ("bill", "bank")
    ]
    authorizer = deciding(*both)
    caller = Caller(ALICE, HOST)
    before = authorizer.version
    authorizer.replay(both[0].key, None)
    assert authorizer.version > before
    assert not authorizer.authorize(caller, Operation.READ, GROUP, BILLING)
    assert authorizer.authorize(caller, Operation.READ, GROUP, "banking")
    authorizer.replay(both[0].key, None)
    authorizer.replay(both[1].key, None)
    assert not authorizer.authorize(caller, Operation.READ, GROUP, "banking")


def test_nothing_is_left_after_clear() -> None:
    authorizer = deciding(allow(Operation.READ))
    caller = Caller(ALICE, HOST)
    assert authorizer.authorize(caller, Operation.READ, GROUP, BILLING)
    authorizer.clear()
    assert not authorizer.authorize(caller, Operation.READ, GROUP, BILLING)
    assert authorizer.picked_by(AclFilter()) == []
