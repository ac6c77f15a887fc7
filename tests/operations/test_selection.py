"""The selection of groups."""

from __future__ import annotations

import asyncio
import re

import pytest

from coterie.client.admin.groups import GroupState, GroupType, MemberDescription
from coterie.errors import ApiError, ConnectionLost
from coterie.operations.selection import (
    Condition,
    Selection,
    SelectionResult,
    select_groups,
)
from coterie.types import TopicPartition
from coterie.wire.error_codes import ErrorCode

from .fake_admin import FakeAdmin, FakeLog, group, member


def cluster() -> FakeAdmin:
    admin = FakeAdmin(
        known_logs={
            TopicPartition("t", 0): FakeLog.of(0, 1_000),
            TopicPartition("u", 0): FakeLog.of(0, 1_000),
        }
    )
    admin.add(group("orders-eu", member("m", ("t", 0))), t=990)
    admin.add(group("orders-us", state=GroupState.EMPTY), t=10)
    admin.add(group("billing", type=GroupType.CONSUMER, state=GroupState.EMPTY), u=1)
    admin.add(group("connect", protocol_type="connect"))
    admin.add(group("by-hand", protocol_type="", state=GroupState.EMPTY), gone=3)
    return admin


def select(selection: Selection, admin: FakeAdmin | None = None) -> SelectionResult:
    return asyncio.run(select_groups(admin or cluster(), selection))


def test_an_empty_selection_selects_every_group_sorted() -> None:
    selected = select(Selection())
    assert selected.ids == ("billing", "by-hand", "connect", "orders-eu", "orders-us")
    assert Selection().selects_all


def test_named_groups_are_selected_without_a_request() -> None:
    admin = cluster()
    selected = select(Selection(ids=("b", "a", "b")), admin)
    assert selected.ids == ("a", "b")
    assert not admin.calls


def test_named_groups_are_filtered_by_lag() -> None:
    named = ("orders-eu", "orders-us")
    selected = select(Selection(ids=named, lag=Condition.parse(">500")))
    assert selected.ids == ("orders-us",)


def test_a_named_group_that_is_not_listed_is_missing() -> None:
    named = Selection(ids=("absent", "billing"))
    selected = asyncio.run(select_groups(cluster(), named, must_list=True))
    assert selected.ids == ("billing",)
    assert selected.missing == ("absent",)
    patterns = select(Selection(ids=("absent",), globs=("b*g",)))
    assert (patterns.ids, patterns.missing) == (("billing",), ("absent",))


def test_the_lag_read_by_a_filter_is_returned() -> None:
    selected = select(Selection(lag=Condition(">", 500)))
    assert selected.report is not None
    assert [each.group_id for each in selected.report.groups] == list(selected.ids)


@pytest.mark.parametrize(
    ("selection", "ids"),
    [
        (Selection(globs=("orders-*",)), ("orders-eu", "orders-us")),
        (Selection(globs=("ORDERS-*",)), ()),
        (Selection(regexes=(re.compile("orders-e."),)), ("orders-eu",)),
        (Selection(regexes=(re.compile("orders"),)), ()),
        (Selection(ids=("connect",), globs=("b*g",)), ("billing", "connect")),
        (Selection(globs=("*",), excludes=("*-*", "c*")), ("billing",)),
        (Selection(ids=("a-1", "b-1"), excludes=("a-*",)), ("b-1",)),
        (Selection(types=frozenset({GroupType.CONSUMER})), ("billing",)),
        (Selection(protocols=frozenset({""})), ("by-hand",)),
        (Selection(protocols=frozenset({"connect"})), ("connect",)),
        (
            Selection(states=frozenset({GroupState.EMPTY}), globs=("*i*",)),
            ("billing",),
        ),
        (Selection(topics=frozenset({"t"})), ("orders-eu", "orders-us")),
        (Selection(topics=frozenset({"t"}), globs=("*-us",)), ("orders-us",)),
        (Selection(lag=Condition(">", 500)), ("billing", "orders-us")),
        (Selection(lag=Condition("<=", 10)), ("orders-eu",)),
        (Selection(is_orphaned=True), ("by-hand",)),
    ],
)
def test_patterns_are_united_and_filters_are_intersected(
    selection: Selection, ids: tuple[str, ...]
) -> None:
    assert select(selection).ids == ids


def test_a_subscription_by_name_selects_a_group() -> None:
    admin = cluster()
    eager = MemberDescription("x-id", "x", "/x", subscribed_topics=("u",))
    admin.add(group("new", eager))
    assert select(Selection(topics=frozenset({"u"})), admin).ids == ("billing", "new")


def test_groups_are_listed_unfiltered_when_a_broker_cannot_filter() -> None:
    admin = cluster()
    admin.cannot_filter = True
    empty = Selection(states=frozenset({GroupState.EMPTY}))
    assert select(empty, admin).ids == ("billing", "by-hand", "orders-us")
    names = admin.calls
    assert names == ["list_groups", "list_groups", "describe_groups"]


def test_groups_are_filtered_by_brokers_that_support_it() -> None:
    admin = cluster()
    wanted = frozenset({GroupState.EMPTY})
    select(Selection(states=wanted), admin)
    assert admin.requests == [("list_groups", (wanted, frozenset()))]


@pytest.mark.parametrize(
    ("types", "ids"),
    [((), ["a", "b"]), (("classic",), ["a", "b"]), (("consumer",), [])],
)
def test_groups_of_a_broker_before_kip_848_are_classic(
    types: tuple[str, ...], ids: list[str]
) -> None:
    admin = FakeAdmin(cannot_filter=True, is_classic_only=True)
    admin.add(group("a", type=GroupType.CLASSIC), t=1)
    admin.add(group("b", type=GroupType.CLASSIC), t=1)
    selection = Selection(types=frozenset(map(GroupType.read, types)))
    selected = asyncio.run(select_groups(admin, selection))
    assert [(each.group_id, each.type) for each in selected.groups] == [
        (each, GroupType.CLASSIC) for each in ids
    ]
    assert "describe_groups" not in admin.calls


def test_a_group_whose_filter_fails_is_excluded_with_an_error() -> None:
    admin = cluster()
    refused = ApiError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    admin.group_errors["orders-us"] = refused
    selected = select(Selection(topics=frozenset({"t"})), admin)
    assert selected.ids == ("orders-eu",)
    assert selected.errors == {"orders-us": refused}


def test_without_commits_no_topic_is_described() -> None:
    admin = cluster()
    found = select(Selection(globs=("connect",), is_orphaned=True), admin)
    assert found.ids == ()
    assert "describe_topics" not in admin.calls


def test_the_error_of_a_node_is_reported() -> None:
    admin = cluster()
    admin.node_errors[2] = ConnectionLost("down")
    selected = select(Selection(globs=("b*",)), admin)
    assert selected.ids == ("billing", "by-hand")
    assert selected.node_errors == admin.node_errors


def test_an_unauthorized_topic_does_not_count_as_deleted() -> None:
    admin = cluster()
    hidden = ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    admin.topic_errors["gone"] = hidden
    assert select(Selection(is_orphaned=True), admin).ids == ()


@pytest.mark.parametrize(
    ("text", "number", "holds"),
    [
        (">1000", 1_000, False),
        (">1000", 1_001, True),
        ("1000", 1_000, True),
        (" >= 1_000 ", 1_000, True),
        ("<10", 9, True),
        ("=0", 0, True),
        ("==0", 0, True),
        ("!=0", 0, False),
        (">=0", None, False),
    ],
)
def test_a_condition_compares_lag_with_its_bound(
    text: str, number: int | None, holds: bool
) -> None:
    assert Condition.parse(text).holds(number) is holds


@pytest.mark.parametrize("text", ["", ">", "lots", ">-1", "> 1 2", "=>1"])
def test_an_invalid_condition_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="use >1000"):
        Condition.parse(text)
