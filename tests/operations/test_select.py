"""Which groups an operator means."""

from __future__ import annotations

import asyncio
import re

import pytest

from coterie.client.admin.group_values import GroupState, GroupType, MemberDescription
from coterie.errors import ApiError, ConnectionLost
from coterie.operations.select import Condition, Selected, Selection, select_groups
from coterie.types import TopicPartition
from coterie.wire.error_codes import ErrorCode

from .fake_admin import FakeAdmin, FakeLog, group, member


def cluster() -> FakeAdmin:
    admin = FakeAdmin(
        logs={
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


def select(selection: Selection, admin: FakeAdmin | None = None) -> Selected:
    return asyncio.run(select_groups(admin or cluster(), selection))


def test_without_a_word_every_group_is_meant_in_order() -> None:
    selected = select(Selection())
    assert selected.ids == ("billing", "by-hand", "connect", "orders-eu", "orders-us")
    assert Selection().is_everything


def test_named_groups_are_taken_at_their_word_and_nobody_is_asked() -> None:
    admin = cluster()
    selected = select(Selection(ids=("b", "a", "b")), admin)
    assert selected.ids == ("a", "b")
    assert not admin.calls


def test_a_name_that_the_cluster_does_not_list_is_told_of() -> None:
    named = Selection(ids=("absent", "billing"))
    selected = asyncio.run(select_groups(cluster(), named, must_list=True))
    assert selected.ids == ("billing",)
    assert selected.missing == ("absent",)
    patterns = select(Selection(ids=("absent",), globs=("b*g",)))
    assert (patterns.ids, patterns.missing) == (("billing",), ("absent",))


def test_what_a_filter_found_of_the_groups_is_handed_on() -> None:
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
def test_patterns_add_up_and_filters_take_away(
    selection: Selection, ids: tuple[str, ...]
) -> None:
    assert select(selection).ids == ids


def test_who_subscribes_by_name_reads_a_topic_before_it_owns_any_of_it() -> None:
    admin = cluster()
    eager = MemberDescription("x-id", "x", "/x", subscribed_topics=("u",))
    admin.add(group("new", eager))
    assert select(Selection(topics=frozenset({"u"})), admin).ids == ("billing", "new")


def test_a_broker_that_cannot_filter_is_asked_for_everything() -> None:
    admin = cluster()
    admin.cannot_filter = True
    empty = Selection(states=frozenset({GroupState.EMPTY}))
    assert select(empty, admin).ids == ("billing", "by-hand", "orders-us")
    names = [name for name, _ in admin.calls]
    assert names == ["list_groups", "list_groups", "describe_groups"]


def test_brokers_filter_when_they_can() -> None:
    admin = cluster()
    wanted = frozenset({GroupState.EMPTY})
    select(Selection(states=wanted), admin)
    assert admin.calls == [("list_groups", (wanted, frozenset()))]


def test_a_group_that_cannot_be_judged_is_left_out_and_told_of() -> None:
    admin = cluster()
    refused = ApiError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    admin.group_errors["orders-us"] = refused
    selected = select(Selection(topics=frozenset({"t"})), admin)
    assert selected.ids == ("orders-eu",)
    assert selected.errors == {"orders-us": refused}


def test_a_node_that_could_not_be_asked_is_told_of() -> None:
    admin = cluster()
    admin.node_errors[2] = ConnectionLost("down")
    selected = select(Selection(globs=("b*",)), admin)
    assert selected.ids == ("billing", "by-hand")
    assert selected.node_errors == admin.node_errors


def test_a_topic_that_we_may_not_see_is_not_gone() -> None:
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
def test_a_condition_compares(text: str, number: int | None, holds: bool) -> None:
    assert Condition.parse(text).holds(number) is holds


@pytest.mark.parametrize("text", ["", ">", "lots", ">-1", "> 1 2", "=>1"])
def test_what_is_no_condition_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="say >1000"):
        Condition.parse(text)
