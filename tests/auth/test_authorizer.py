"""Decisions with index and cache equal those of a scan over all bindings.

Other tests cover authorization by resource type (KIP-679) and the cost of a decision.
"""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.auth.acl import (
    WILDCARD_PRINCIPAL,
    AclBinding,
    AclBindingFilter,
    Operation,
    PatternType,
    PermissionType,
    Principal,
    RequestContext,
    ResourceType,
    binding_from_value,
)
from coterie.auth.authorizer import IMPLIED_BY, AclAuthorizer

ALICE = Principal("User", "alice")
BOB = Principal("User", "bob")
TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
HOME, AWAY = "10.0.0.7", "10.0.0.8"
NETWORKS = {
    "10.0.0.0/8": {HOME, AWAY},
    "10.0.0.9/29": {AWAY},
    "10.0.0.7/32": {HOME},
    "0.0.0.0/0": {HOME, AWAY},
    "::/0": set(),
}
"""The callers in each network."""
NAMES = ["a", "ab", "abc", "b", "*", "ba"]
READ, WRITE, DESCRIBE = Operation.READ, Operation.WRITE, Operation.DESCRIBE


def bindings() -> st.SearchStrategy[AclBinding]:
    """Generate bindings with few names, so that they overlap."""
    return st.builds(
        AclBinding,
        principal=st.sampled_from([ALICE, BOB, WILDCARD_PRINCIPAL]),
        permission=st.sampled_from([PermissionType.ALLOW, PermissionType.DENY]),
        operation=st.sampled_from([*Operation][2:]),
        resource_type=st.sampled_from([TOPIC, GROUP]),
        name=st.sampled_from(NAMES),
        pattern=st.sampled_from([PatternType.LITERAL, PatternType.PREFIXED]),
        host=st.sampled_from(["*", HOME, *NETWORKS]),
    )


def questions() -> st.SearchStrategy[
    tuple[RequestContext, Operation, ResourceType, str]
]:
    callers = st.builds(
        RequestContext, st.sampled_from([ALICE, BOB]), st.sampled_from([HOME, AWAY])
    )
    return st.tuples(
        callers,
        st.sampled_from([*Operation][3:]),
        st.sampled_from([TOPIC, GROUP]),
        st.sampled_from(NAMES),
    )


def walk(
    acls: Iterable[AclBinding],
    caller: RequestContext,
    operation: Operation,
    resource_type: ResourceType,
    name: str,
) -> bool:
    """Return the decision of Kafka's rules by a scan of all bindings."""
    about = [
        acl
        for acl in acls
        if acl.resource_type == resource_type
        and (
            name.startswith(acl.name)
            if acl.pattern is PatternType.PREFIXED
            else acl.name in {name, "*"}
        )
        and acl.principal in {caller.principal, WILDCARD_PRINCIPAL}
        and (
            acl.host in {caller.host, "*"}
            or caller.host in NETWORKS.get(acl.host, set())
        )
    ]
    for acl in about:
        is_meant = acl.operation in {operation, Operation.ALL}
        if acl.permission is PermissionType.DENY and is_meant:
            return False
    allows = {operation, Operation.ALL, *IMPLIED_BY.get(operation, ())}
    return any(
        acl.permission is PermissionType.ALLOW and acl.operation in allows
        for acl in about
    )


@given(
    st.lists(
        st.tuples(st.booleans(), st.lists(bindings(), max_size=8), questions()),
        max_size=8,
    )
)
def test_decisions_equal_a_linear_search_after_any_changes(
    steps: list[
        tuple[
            bool, list[AclBinding], tuple[RequestContext, Operation, ResourceType, str]
        ]
    ],
) -> None:
    authorizer = AclAuthorizer()
    there: set[AclBinding] = set()
    for is_coming, acls, question in steps:
        for acl in acls:
            authorizer.replay(acl.key, acl.to_value() if is_coming else None)
        there = there | {*acls} if is_coming else there - {*acls}
        assert {*authorizer.matching(AclBindingFilter())} == there
        for _ in range(2):  # the second time from the cache
            assert authorizer.authorize(*question) == walk(there, *question)


@given(bindings())
def test_a_binding_is_decoded_from_its_catalog_entry_and_has_a_unique_key(
    acl: AclBinding,
) -> None:
    assert binding_from_value(acl.to_value()) == acl
    other = acl._replace(host=f"{acl.host}0")
    assert other.key != acl.key


def some(*acls: AclBinding, operation: Operation = WRITE, host: str = HOME) -> bool:
    """Return whether Alice is allowed the operation on at least one topic."""
    authorizer = AclAuthorizer()
    for acl in acls:
        authorizer.replay(acl.key, acl.to_value())
    caller = RequestContext(ALICE, host)
    first = authorizer.authorize_by_resource_type(caller, operation, TOPIC)
    assert authorizer.authorize_by_resource_type(caller, operation, TOPIC) == first
    return first


def allow(name: str, pattern: PatternType = PatternType.LITERAL) -> AclBinding:
    return AclBinding(ALICE, PermissionType.ALLOW, WRITE, TOPIC, name, pattern)


def deny(name: str, pattern: PatternType = PatternType.LITERAL) -> AclBinding:
    return allow(name, pattern)._replace(permission=PermissionType.DENY)


PREFIXED = PatternType.PREFIXED


@pytest.mark.parametrize(
    ("acls", "may"),
    [
        ([], False),
        ([allow("t")], True),
        ([allow("t", PREFIXED)], True),
        ([allow("*")], True),
        ([allow("t"), deny("t")], False),
        ([allow("t"), deny("u")], True),
        ([allow("t"), deny("t", PREFIXED)], False),
        ([allow("tea"), deny("te", PREFIXED)], False),
        ([allow("te", PREFIXED), deny("tea", PREFIXED)], True),
        ([allow("te", PREFIXED), deny("te")], True),
        ([allow("te", PREFIXED), deny("t", PREFIXED)], False),
        ([allow("t"), deny("*")], False),
        ([allow("*"), deny("t")], True),
        ([allow("*"), deny("t", PREFIXED)], True),
        ([allow("*"), deny("h", PREFIXED)], True),
        ([allow("t"), deny("h", PREFIXED)], True),
        ([allow("*"), deny("*")], False),
    ],
)
def test_one_allowed_topic_authorizes_by_resource_type_unless_it_is_denied(
    acls: list[AclBinding], may: bool
) -> None:
    assert some(*acls) is may
    everybody = [acl._replace(principal=WILDCARD_PRINCIPAL) for acl in acls]
    assert some(*everybody) is may


def test_authorization_by_resource_type_needs_a_matching_binding_of_the_principal() -> (
    None
):
    here = allow("t")._replace(host=HOME)
    assert some(here)
    assert not some(here, host=AWAY)
    assert not some(allow("t")._replace(principal=BOB))
    assert not some(allow("t")._replace(resource_type=GROUP))
    assert not some(allow("t"), operation=READ)
    assert some(allow("t")._replace(operation=Operation.ALL))
    # As in Kafka, WRITE does not imply DESCRIBE in authorization by resource type.
    assert not some(allow("t"), operation=DESCRIBE)


def test_a_super_user_is_authorized_by_resource_type() -> None:
    authorizer = AclAuthorizer(super_users=[ALICE])
    denied = deny("*")
    authorizer.replay(denied.key, denied.to_value())
    assert authorizer.authorize_by_resource_type(
        RequestContext(ALICE, HOME), WRITE, TOPIC
    )


class Counting(Principal):
    """A principal that counts its comparisons."""

    compared = 0

    def __eq__(self, other: object) -> bool:
        Counting.compared += 1
        return super().__eq__(other)

    __hash__ = Principal.__hash__


@pytest.mark.parametrize("count", [10, 2_000])
def test_the_cost_of_a_decision_does_not_grow_with_the_bindings(
    count: int,
) -> None:
    authorizer = AclAuthorizer()
    for number in range(count):
        principal = Principal("User", f"user-{number}")
        for acl in (
            AclBinding(principal, PermissionType.ALLOW, READ, GROUP, f"group-{number}"),
            AclBinding(principal, PermissionType.ALLOW, READ, GROUP, "shared"),
            AclBinding(
                principal,
                PermissionType.ALLOW,
                READ,
                TOPIC,
                f"team-{number}-",
                PREFIXED,
            ),
        ):
            authorizer.replay(acl.key, acl.to_value())
    caller = RequestContext(Counting("User", "user-7"), HOME)
    Counting.compared = 0
    assert authorizer.authorize(caller, READ, GROUP, "group-7")
    assert authorizer.authorize(caller, READ, GROUP, "shared")
    assert authorizer.authorize(caller, READ, TOPIC, "team-7-orders")
    assert not authorizer.authorize(caller, READ, TOPIC, "team-8-orders")
    assert 0 < Counting.compared < 40


def test_the_decision_cache_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coterie.auth.authorizer._CACHED_DECISIONS_MAX", 10)
    authorizer = AclAuthorizer()
    every = allow("*")
    authorizer.replay(every.key, every.to_value())
    caller = RequestContext(ALICE, HOME)
    for number in range(100):
        assert authorizer.authorize(caller, WRITE, TOPIC, f"t{number}")
    assert authorizer.authorize(caller, WRITE, TOPIC, "t" * 30_000)
    assert len(authorizer._decisions) <= 10
    assert all(len(str(asked)) < 1_000 for asked in authorizer._decisions)
