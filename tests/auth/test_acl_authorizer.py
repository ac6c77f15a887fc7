"""The index and the memo change nothing: decisions are those of a walk over bindings.

And what only the authorizer as a whole shows: some resource of a type (KIP-679), and
what decisions cost.
"""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.auth.acl import EVERYBODY, Acl, AclFilter, Pattern, Permission, from_value
from coterie.auth.acl_authorizer import IMPLIED_BY, AclAuthorizer
from coterie.auth.authorizer import Caller, Operation, Principal, ResourceType

ALICE = Principal("User", "alice")
BOB = Principal("User", "bob")
TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
HOME, AWAY = "10.0.0.7", "10.0.0.8"
NAMES = ["a", "ab", "abc", "b", "*", "ba"]
READ, WRITE, DESCRIBE = Operation.READ, Operation.WRITE, Operation.DESCRIBE


def bindings() -> st.SearchStrategy[Acl]:
    """Few names, so that they meet."""
    return st.builds(
        Acl,
        principal=st.sampled_from([ALICE, BOB, EVERYBODY]),
        permission=st.sampled_from([Permission.ALLOW, Permission.DENY]),
        operation=st.sampled_from([*Operation][2:]),
        resource_type=st.sampled_from([TOPIC, GROUP]),
        name=st.sampled_from(NAMES),
        pattern=st.sampled_from([Pattern.LITERAL, Pattern.PREFIXED]),
        host=st.sampled_from(["*", HOME]),
    )


def questions() -> st.SearchStrategy[tuple[Caller, Operation, ResourceType, str]]:
    callers = st.builds(
        Caller, st.sampled_from([ALICE, BOB]), st.sampled_from([HOME, AWAY])
    )
    return st.tuples(
        callers,
        st.sampled_from([*Operation][3:]),
        st.sampled_from([TOPIC, GROUP]),
        st.sampled_from(NAMES),
    )


def walk(
    acls: Iterable[Acl],
    caller: Caller,
    operation: Operation,
    resource_type: ResourceType,
    name: str,
) -> bool:
    """Kafka's rules, one binding after the other."""
    about = [
        acl
        for acl in acls
        if acl.resource_type == resource_type
        and (
            name.startswith(acl.name)
            if acl.pattern is Pattern.PREFIXED
            else acl.name in {name, "*"}
        )
        and acl.principal in {caller.principal, EVERYBODY}
        and acl.host in {caller.host, "*"}
    ]
    for acl in about:
        is_meant = acl.operation in {operation, Operation.ALL}
        if acl.permission is Permission.DENY and is_meant:
            return False
    allows = {operation, Operation.ALL, *IMPLIED_BY.get(operation, ())}
    return any(
        acl.permission is Permission.ALLOW and acl.operation in allows for acl in about
    )


@given(
    st.lists(
        st.tuples(st.booleans(), st.lists(bindings(), max_size=8), questions()),
        max_size=8,
    )
)
def test_decisions_are_those_of_a_walk_whatever_comes_and_goes(
    steps: list[tuple[bool, list[Acl], tuple[Caller, Operation, ResourceType, str]]],
) -> None:
    authorizer = AclAuthorizer()
    there: set[Acl] = set()
    for is_coming, acls, question in steps:
        for acl in acls:
            authorizer.replay(acl.key, acl.to_value() if is_coming else None)
        there = there | {*acls} if is_coming else there - {*acls}
        assert {*authorizer.picked_by(AclFilter())} == there
        for _ in range(2):  # the second time from the memo
            assert authorizer.authorize(*question) == walk(there, *question)


@given(bindings())
def test_a_binding_is_kept_as_it_is_and_has_a_key_of_its_own(acl: Acl) -> None:
    assert from_value(acl.to_value()) == acl
    other = acl._replace(host=f"{acl.host}0")
    assert other.key != acl.key


def some(*acls: Acl, operation: Operation = WRITE, host: str = HOME) -> bool:
    """Whether Alice may do this to some topic."""
    authorizer = AclAuthorizer()
    for acl in acls:
        authorizer.replay(acl.key, acl.to_value())
    caller = Caller(ALICE, host)
    first = authorizer.authorize_some(caller, operation, TOPIC)
    assert authorizer.authorize_some(caller, operation, TOPIC) == first
    return first


def allow(name: str, pattern: Pattern = Pattern.LITERAL) -> Acl:
    return Acl(ALICE, Permission.ALLOW, WRITE, TOPIC, name, pattern)


def deny(name: str, pattern: Pattern = Pattern.LITERAL) -> Acl:
    return allow(name, pattern)._replace(permission=Permission.DENY)


PREFIXED = Pattern.PREFIXED


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
def test_some_topic_is_enough_unless_it_is_denied_as_well(
    acls: list[Acl], may: bool
) -> None:
    assert some(*acls) is may
    everybody = [acl._replace(principal=EVERYBODY) for acl in acls]
    assert some(*everybody) is may


def test_some_topic_means_the_callers_own_bindings_to_that_operation() -> None:
    here = allow("t")._replace(host=HOME)
    assert some(here)
    assert not some(here, host=AWAY)
    assert not some(allow("t")._replace(principal=BOB))
    assert not some(allow("t")._replace(resource_type=GROUP))
    assert not some(allow("t"), operation=READ)
    assert some(allow("t")._replace(operation=Operation.ALL))
    # Kafka asks for the operation itself: nothing is implied here.
    assert not some(allow("t"), operation=DESCRIBE)


def test_a_super_user_may_do_everything_to_some_topic() -> None:
    authorizer = AclAuthorizer(super_users=[ALICE])
    denied = deny("*")
    authorizer.replay(denied.key, denied.to_value())
    assert authorizer.authorize_some(Caller(ALICE, HOME), WRITE, TOPIC)


class Counting(Principal):
    """A principal that counts how often it is compared."""

    compared = 0

    def __eq__(self, other: object) -> bool:
        Counting.compared += 1
        return super().__eq__(other)

    __hash__ = Principal.__hash__


@pytest.mark.parametrize("count", [10, 2_000])
def test_a_decision_costs_the_same_beside_ten_bindings_and_thousands(
    count: int,
) -> None:
    authorizer = AclAuthorizer()
    for number in range(count):
        principal = Principal("User", f"user-{number}")
        for acl in (
            Acl(principal, Permission.ALLOW, READ, GROUP, f"group-{number}"),
            Acl(principal, Permission.ALLOW, READ, GROUP, "shared"),
            Acl(principal, Permission.ALLOW, READ, TOPIC, f"team-{number}-", PREFIXED),
        ):
            authorizer.replay(acl.key, acl.to_value())
    caller = Caller(Counting("User", "user-7"), HOME)
    Counting.compared = 0
    assert authorizer.authorize(caller, READ, GROUP, "group-7")
    assert authorizer.authorize(caller, READ, GROUP, "shared")
    assert authorizer.authorize(caller, READ, TOPIC, "team-7-orders")
    assert not authorizer.authorize(caller, READ, TOPIC, "team-8-orders")
    assert 0 < Counting.compared < 40


def test_what_is_remembered_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coterie.auth.acl_authorizer._MEMO_MAX", 10)
    authorizer = AclAuthorizer()
    every = allow("*")
    authorizer.replay(every.key, every.to_value())
    caller = Caller(ALICE, HOME)
    for number in range(100):
        assert authorizer.authorize(caller, WRITE, TOPIC, f"t{number}")
    assert authorizer.authorize(caller, WRITE, TOPIC, "t" * 30_000)
    assert len(authorizer._memo) <= 10
    assert all(len(str(asked)) < 1_000 for asked in authorizer._memo)
