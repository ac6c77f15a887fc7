from __future__ import annotations

import pytest

from coterie.broker.coordinator.classic.group import (
    ClassicGroup,
    GroupState,
    Member,
    MemberProtocol,
)
from coterie.broker.coordinator.classic.group_metadata import (
    empty_record,
    replay,
    tombstone,
)
from coterie.broker.coordinator.records import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
)
from tests.broker.coordinator.classic.members import (
    heartbeat,
    join,
    leave,
    protocols,
    stable_group,
    subscription,
)
from tests.broker.coordinator.driver import ClassicState, Driver

KEY = GroupMetadataKey(group="g")


def stored(**fields: object) -> MemberMetadata:
    values: dict[str, object] = {
        "member_id": "m",
        "group_instance_id": "i",
        "client_id": "c",
        "client_host": "/h",
        "rebalance_timeout": 7,
        "session_timeout": 5,
        "subscription": b"sub",
        "assignment": b"ass",
        **fields,
    }
    return MemberMetadata(**values)  # type: ignore[arg-type]


def value(*members: MemberMetadata) -> GroupMetadataValue:
    return GroupMetadataValue(
        protocol_type="consumer",
        generation=4,
        protocol="range",
        leader="m",
        current_state_timestamp=9,
        members=list(members),
    )


def test_a_record_with_members_loads_a_stable_group() -> None:
    state = ClassicState()
    replay(state, KEY, value(stored()))
    assert state.classic_groups["g"] == ClassicGroup(
        group_id="g",
        state=GroupState.STABLE,
        state_timestamp_ms=9,
        protocol_type="consumer",
        protocol_name="range",
        generation=4,
        leader_id="m",
        members={
            "m": Member(
                member_id="m",
                group_instance_id="i",
                client_id="c",
                client_host="/h",
                rebalance_timeout_ms=7,
                session_timeout_ms=5,
                protocols=(MemberProtocol("range", b"sub"),),
                assignment=b"ass",
            )
        },
        static_members={"i": "m"},
        supporters={"range": 1},
    )


def test_a_record_without_members_loads_an_empty_group() -> None:
    state = ClassicState()
    record = empty_record("g", protocol_type="consumer", generation=5, at_ms=9)
    replay(state, KEY, record.value)  # type: ignore[arg-type]
    group = state.classic_groups["g"]
    assert group.state is GroupState.EMPTY
    assert (group.generation, group.protocol_type) == (5, "consumer")
    assert not group.is_simple


def test_a_record_without_a_protocol_type_loads_a_simple_group() -> None:
    state = ClassicState()
    record = empty_record("g", protocol_type=None, generation=0, at_ms=9)
    replay(state, KEY, record.value)  # type: ignore[arg-type]
    assert state.classic_groups["g"].protocol_type is None
    assert state.classic_groups["g"].is_simple


def test_before_version_1_the_session_timeout_is_used_as_rebalance_timeout() -> None:
    state = ClassicState()
    replay(state, KEY, value(stored(rebalance_timeout=-1)))
    assert state.classic_groups["g"].members["m"].rebalance_timeout_ms == 5


def test_a_tombstone_removes_the_group() -> None:
    state = ClassicState()
    replay(state, KEY, value(stored()))
    replay(state, KEY, tombstone("g").value)  # type: ignore[arg-type]
    assert state.classic_groups == {}


def test_a_tombstone_of_an_unknown_group_is_ignored() -> None:
    state = ClassicState()
    replay(state, KEY, None)
    assert state.classic_groups == {}


def test_the_last_record_of_a_group_restores_its_whole_state() -> None:
    driver = Driver()
    ids = stable_group(driver)
    leave(driver, ids[1])
    join(driver, ids[0])
    for kept in range(len(driver.log)):
        whole = driver.reload(log=driver.log[: kept + 1])
        last = driver.reload(log=driver.log[kept : kept + 1])
        assert whole.groups == last.groups


@pytest.mark.fact("E22-46")
def test_timers_are_set_after_loading_and_not_by_replay() -> None:
    driver = Driver()
    stable_group(driver)
    fresh = Driver()
    for record, origin in zip(driver.log, driver.origins, strict=True):
        fresh.shard.replay(record, origin)
    assert fresh.timers == {}
    assert driver.reload().timers.keys() == driver.timers.keys()


def test_loading_a_stable_group_restores_the_same_group() -> None:
    driver = Driver()
    ids = stable_group(driver, static=True)
    loaded = driver.reload()
    assert loaded.groups == driver.groups
    assert [heartbeat(loaded, member_id) for member_id in ids] == [0, 0]


def test_live_members_keep_all_protocols_and_loaded_members_the_selected_one() -> None:
    driver = Driver()
    both = protocols(range=b"r", sticky=b"s")
    (member_id,) = stable_group(driver, 1, protocols=both)
    names = [p.name for p in driver.groups["g"].members[member_id].protocols]
    assert names == ["range", "sticky"]
    loaded = driver.reload()
    names = [p.name for p in loaded.groups["g"].members[member_id].protocols]
    assert names == ["range"]


def test_a_rebalance_in_flight_is_lost_on_restart() -> None:
    driver = Driver()
    ids = stable_group(driver)
    join(driver)
    loaded = driver.reload()
    assert loaded.groups["g"].state is GroupState.STABLE
    assert set(loaded.groups["g"].members) == set(ids)


def test_a_loaded_group_has_its_subscribed_topics() -> None:
    state = ClassicState()
    replay(state, KEY, value(stored(subscription=subscription("a", "b"))))
    assert state.classic_groups["g"].subscribed_topics() == frozenset({"a", "b"})


def test_the_last_record_of_a_member_has_its_subscription() -> None:
    state = ClassicState()
    replay(state, KEY, value(stored(subscription=subscription("a"))))
    group = state.classic_groups["g"]
    assert group.subscribed_topics() == frozenset({"a"})
    replay(state, KEY, value(stored(subscription=subscription("b"))))
    group = state.classic_groups["g"]
    assert group.subscribed_topics() == frozenset({"b"})
    assert group.members["m"].metadata("range") == subscription("b")


def test_a_restarted_static_member_subscribes_from_the_next_generation_on() -> None:
    """Give a loaded group the newer subscription at once, as Kafka does."""
    driver = Driver()
    stable_group(driver, static=True)
    other = protocols(range=subscription("u"))
    sent = join(driver, group_instance_id="i1", protocols=other)
    assert sent.response.generation_id == 1
    assert driver.groups["g"].subscribed_topics() == frozenset({"t"})
    assert driver.reload().groups["g"].subscribed_topics() == frozenset({"t", "u"})
