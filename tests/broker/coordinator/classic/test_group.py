from __future__ import annotations

import struct

import pytest

from coterie.broker.coordinator.classic.group import (
    MOVES,
    ClassicGroup,
    GroupState,
    Member,
    MemberProtocol,
)
from tests.broker.coordinator.classic.members import subscription

EMPTY, PREPARING, COMPLETING, STABLE, DEAD = GroupState


def member(member_id: str, instance_id: str | None = None, **named: bytes) -> Member:
    return Member(
        member_id=member_id,
        group_instance_id=instance_id,
        client_id="c",
        client_host="/h",
        rebalance_timeout_ms=60_000,
        session_timeout_ms=10_000,
        protocols=tuple(MemberProtocol(*pair) for pair in named.items()),
    )


def group_of(*members: Member, **fields: object) -> ClassicGroup:
    group = ClassicGroup("g", protocol_type="consumer", **fields)  # type: ignore[arg-type]
    for each in members:
        group.add(each)
    group.choose_protocol(group.protocol_name)
    group.state = STABLE
    return group


@pytest.mark.fact("E19-01")
def test_valid_group_state_transitions_are_accepted() -> None:
    previous = {
        to: {state for state in MOVES if to in MOVES[state]} for to in GroupState
    }
    assert previous == {
        PREPARING: {STABLE, COMPLETING, EMPTY},
        COMPLETING: {PREPARING},
        STABLE: {COMPLETING},
        EMPTY: {PREPARING},
        DEAD: set(),
    }


@pytest.mark.fact("E19-01")
@pytest.mark.parametrize("start", list(MOVES))
@pytest.mark.parametrize("to", list(GroupState))
def test_invalid_group_state_transitions_are_refused(
    start: GroupState, to: GroupState
) -> None:
    group = ClassicGroup("g", state=start)
    if to in MOVES[start]:
        group.move(to, 7)
        assert (group.state, group.state_timestamp_ms) == (to, 7)
    else:
        with pytest.raises(AssertionError):
            group.move(to, 7)


@pytest.mark.fact("E19-06")
def test_the_protocol_with_most_votes_is_selected() -> None:
    group = group_of(
        member("a", range=b"", sticky=b""),
        member("b", sticky=b"", range=b""),
        member("c", sticky=b"", range=b""),
    )
    assert group.select_protocol() == "sticky"


@pytest.mark.fact("E19-06a")
def test_of_protocols_with_the_same_votes_the_first_of_a_hash_map_is_selected() -> None:
    one = member("a", roundrobin=b"", range=b"")
    other = member("b", range=b"", roundrobin=b"")
    assert group_of(one, other).select_protocol() == "range"
    assert group_of(other, one).select_protocol() == "range"


@pytest.mark.fact("E19-06")
def test_only_a_protocol_supported_by_all_members_is_selected() -> None:
    group = group_of(
        member("a", sticky=b"", range=b""),
        member("b", sticky=b"", range=b""),
        member("c", range=b""),
    )
    assert group.select_protocol() == "range"


def test_a_protocol_listed_twice_is_counted_once() -> None:
    twice = (MemberProtocol("range", b""), MemberProtocol("range", b""))
    group = group_of(member("a", range=b""))
    first = group.members["a"]
    group.update(
        Member(
            first.member_id,
            None,
            first.client_id,
            first.client_host,
            rebalance_timeout_ms=1,
            session_timeout_ms=1,
            protocols=twice,
        )
    )
    assert group.supporters == {"range": 1}
    group.remove("a")
    assert group.supporters == {}


def test_removing_a_member_removes_all_its_state() -> None:
    group = group_of(member("a", "i", range=b""), member("b", range=b""))
    group.joins["a"] = group.syncs["a"] = 1
    group.unsynced["a"] = group.new_members["a"] = None
    group.remove("a")
    assert group.leader_id == "b"
    assert list(group.members) == ["b"]
    waiting = (group.joins, group.syncs, group.unsynced, group.new_members)
    assert [dict(each) for each in waiting] == [{}] * 4
    assert group.static_members == {}


def test_an_instance_id_belongs_to_one_member() -> None:
    group = group_of(member("a", "i", range=b""))
    with pytest.raises(AssertionError):
        group.add(member("b", "i", range=b""))


def test_a_new_group_is_simple_until_a_member_is_pending() -> None:
    group = ClassicGroup("g")
    assert group.is_simple
    group.pending_members["m"] = None
    assert not group.is_simple


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_subscribed_topics_are_decoded_from_every_subscription_version(
    version: int,
) -> None:
    later = {
        0: b"",
        1: struct.pack(">i", 0),
        2: struct.pack(">ii", 0, 5),
        3: struct.pack(">iih", 0, 5, -1),
    }
    metadata = struct.pack(">h", version) + subscription("t")[2:] + later[version]
    group = group_of(member("a", range=metadata), protocol_name="range")
    assert group.subscribed_topics() == frozenset({"t"})


def test_a_group_subscribes_to_the_topics_of_all_members() -> None:
    group = group_of(
        member("a", range=subscription("s", "t")),
        member("b", range=subscription("t", "u")),
        protocol_name="range",
    )
    assert group.subscribed_topics() == frozenset({"s", "t", "u"})


def test_subscribed_topics_of_a_malformed_subscription_are_unknown() -> None:
    group = group_of(member("a", range=b"\0"), protocol_name="range")
    assert group.subscribed_topics() is None


def test_an_empty_consumer_group_subscribes_to_nothing() -> None:
    group = ClassicGroup("g", protocol_type="consumer")
    group.choose_protocol(None)
    assert group.subscribed_topics() == frozenset()


@pytest.mark.parametrize("protocol_type", [None, "connect"])
def test_subscribed_topics_of_another_protocol_type_are_unknown(
    protocol_type: str | None,
) -> None:
    assert ClassicGroup("g", protocol_type=protocol_type).subscribed_topics() is None


def test_subscribed_topics_are_unknown_before_the_first_generation() -> None:
    group = ClassicGroup("g", protocol_type="consumer")
    group.add(member("a", range=subscription("t")))
    assert group.subscribed_topics() is None


def test_a_member_subscribes_to_topics_from_its_first_generation_on() -> None:
    group = group_of(
        member("a", range=subscription("t")),
        member("b", range=subscription("u")),
        protocol_name="range",
    )
    group.add(member("c", range=subscription("v")))
    group.remove("b")
    group.update(member("a", range=subscription("w")))
    assert group.subscribed_topics() == {"t", "u"}
    group.choose_protocol("range")
    assert group.subscribed_topics() == {"v", "w"}


def test_a_member_without_the_protocol_has_no_metadata_for_it() -> None:
    assert member("a", range=b"r").metadata("sticky") == b""
