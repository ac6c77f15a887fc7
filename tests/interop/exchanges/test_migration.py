"""Groups with members of both protocols: upgrades, downgrades, and static members that
change the protocol (KIP-848)."""

from __future__ import annotations

import secrets
from typing import Any, Final

import pytest

from coterie.wire import messages as m
from tests.broker.coordinator.consumer.classic_requests import assigned, assigns
from tests.broker.server.harness import WireClient
from tests.interop.conftest import Broker
from tests.real_clients.confluent_admin import create_topic
from tests.support.waiting import eventually

from .conftest import open_client
from .members import (
    describe_classic,
    describe_consumer,
    heartbeat,
    join_classic,
    leave_classic,
    leave_consumer,
    new_member_id,
    subscription,
)
from .mixed_group import Group

UNKNOWN_SERVER_ERROR: Final = -1
ILLEGAL_GENERATION: Final = 22
INCONSISTENT_PROTOCOL: Final = 23
UNKNOWN_MEMBER: Final = 25
REBALANCE: Final = 27
GROUP_NOT_FOUND: Final = 69
MEMBER_ID_REQUIRED: Final = 79
FENCED_INSTANCE: Final = 82
STALE_EPOCH: Final = 113
ALL: Final = [0, 1, 2, 3]


@pytest.fixture(scope="session")
def foo(broker: Broker) -> str:
    """A topic of four partitions that the group coordinator knows."""
    name = create_topic(broker.bootstrap, f"t-{secrets.token_hex(6)}", partitions=4)
    with open_client(broker.bootstrap) as wire:
        group = Group(wire, f"g-{name}", name)
        member_id = new_member_id()

        def is_known() -> bool:
            # Kafka's coordinator learns of a new topic after its creator does.
            joined = group.rejoin(member_id)
            assert joined.error_code == 0
            assert joined.assignment is not None
            return bool(joined.assignment.topic_partitions)

        eventually(is_known, expected=f"the topic {name}")
        leave_consumer(wire, group.id, member_id)
    return name


@pytest.fixture
def here(wire: WireClient, group: str, foo: str) -> Group:
    return Group(wire, group, foo)


def protocols(*metadata: bytes) -> list[m.JoinGroupRequestProtocol]:
    names = ("range", "roundrobin")
    return [
        m.JoinGroupRequestProtocol(name=name, metadata=data)
        for name, data in zip(names, metadata, strict=False)
    ]


# Joins of classic members to a consumer group.


@pytest.mark.fact("E20-23a")
def test_a_join_with_an_unknown_id_makes_a_new_member(here: Group) -> None:
    member = here.consumer()
    joined = here.join("unheard-of")
    assert (joined.error_code, joined.member_id) == (0, "unheard-of")
    assert joined.generation_id >= member.epoch
    members = {each.member_id for each in describe_consumer(here.wire, here.id).members}
    assert members == {member.id, "unheard-of"}


@pytest.mark.fact("E20-24", "E20-24a")
def test_a_join_is_answered_with_the_first_protocol_and_no_leader(here: Group) -> None:
    here.consumer()
    data = subscription(here.topic)
    joined = here.join("c", protocols=protocols(data, data))
    assert (joined.error_code, joined.protocol_type) == (0, "consumer")
    assert (joined.protocol_name, joined.leader, joined.members) == ("range", "", [])


@pytest.mark.fact("E20-23")
def test_a_member_without_an_id_gets_a_bare_one(here: Group) -> None:
    here.consumer()
    required = here.join()
    assert required.error_code == MEMBER_ID_REQUIRED
    assert len(required.member_id) == 22  # a UUID, without the client's id
    assert len(describe_consumer(here.wire, here.id).members) == 1
    joined = here.join(version=3)
    assert (joined.error_code, len(joined.member_id)) == (0, 22)
    static = here.join(group_instance_id="i")
    assert (static.error_code, len(static.member_id)) == (0, 22)


@pytest.mark.fact("E20-21", "E20-21a")
def test_only_the_first_protocol_of_a_join_is_read(here: Group) -> None:
    here.consumer()
    good = subscription(here.topic)
    assert here.join("c", protocols=protocols(good, b"\0")).error_code == 0
    for bad in (b"\0", good[:-3], b"\xff\xff" + good[2:]):
        joined = here.join("d", protocols=protocols(bad, good))
        assert joined.error_code == INCONSISTENT_PROTOCOL
    newer = b"\0\x09" + subscription(here.topic, version=3)[2:]
    assert here.join("e", protocols=protocols(newer)).error_code == 0


# Syncs, heartbeats and leaves of classic members in a consumer group.


@pytest.mark.fact("E20-26", "E20-26a", "E20-26b", "E20-26c")
def test_syncs_and_heartbeats_of_members_are_checked(here: Group) -> None:
    member = here.consumer(instance_id="m")
    joined = here.join(group_instance_id="c")
    c, generation = joined.member_id, joined.generation_id
    same = {"group_instance_id": "c"}
    calls: list[tuple[str, int, dict[str, Any], int]] = [
        ("nobody", generation, {}, UNKNOWN_MEMBER),
        (member.id, member.epoch, {}, UNKNOWN_MEMBER),
        (c, generation, {"group_instance_id": "none"}, UNKNOWN_MEMBER),
        ("nobody", generation, same, FENCED_INSTANCE),
        (c, generation, {"group_instance_id": "m"}, FENCED_INSTANCE),
        (c, generation + 1, same, ILLEGAL_GENERATION),
        (c, generation - 1, {}, ILLEGAL_GENERATION),
    ]
    for member_id, epoch, fields, code in calls:
        assert here.beat(member_id, epoch, **fields) == code, (member_id, fields)
        found = here.sync(member_id, epoch, **fields).error_code
        assert found == code, (member_id, fields)
    for wrong in ({"protocol_type": "connect"}, {"protocol_name": "sticky"}):
        assert here.sync(c, generation, **wrong).error_code == INCONSISTENT_PROTOCOL
        early = here.sync(c, generation + 1, **wrong).error_code
        assert early == ILLEGAL_GENERATION


# Commits to a consumer group.


@pytest.mark.fact("E17-13")
def test_the_instance_id_of_a_commit_does_not_matter(here: Group) -> None:
    member = here.consumer(instance_id="m")
    joined = here.join(group_instance_id="c")
    for member_id, epoch in (
        (member.id, member.epoch),
        (joined.member_id, joined.generation_id),
    ):
        for instance_id in (None, "m", "c", "none"):
            assert here.commit(member_id, epoch, instance_id) == 0
    assert here.commit("nobody", member.epoch, "m") == UNKNOWN_MEMBER
    assert here.commit(joined.member_id, 99) == ILLEGAL_GENERATION
    assert here.commit(member.id, 99) == STALE_EPOCH


def test_a_static_member_that_left_commits_with_the_epoch_of_its_leave(
    here: Group,
) -> None:
    member = here.consumer(instance_id="m")
    left = heartbeat(here.wire, here.id, member.id, -2, instance_id="m")
    assert left.error_code == 0
    assert here.commit(member.id, -2) == 0
    assert here.commit(member.id, -1) == STALE_EPOCH
    assert here.commit(member.id, member.epoch) == STALE_EPOCH


# Downgrades.


@pytest.mark.fact("E20-40a", "E20-43a")
@pytest.mark.parametrize("version", [5, 9])
def test_a_classic_member_replaces_the_last_static_one(
    here: Group, broker_kind: str, version: int
) -> None:
    member = here.consumer(instance_id="i")
    joined = here.join(group_instance_id="i", version=version)
    assert joined.error_code == 0
    assert joined.generation_id == member.epoch
    if broker_kind == "coterie":
        # In Kafka no member leads that knows of it, so none reacts to changed topics.
        assert joined.leader == joined.member_id
    else:
        assert (joined.leader, joined.members) == ("", [])
    described = describe_classic(here.wire, here.id)
    assert (described.group_state, described.protocol_data) == ("Stable", "range")
    assert describe_consumer(here.wire, here.id).error_code == GROUP_NOT_FOUND
    found = here.sync(joined.member_id, member.epoch, group_instance_id="i")
    assert found.error_code == 0
    assert assigned(found.assignment) == {here.topic: ALL}
    assert here.beat(joined.member_id, member.epoch, group_instance_id="i") == 0
    assert here.beat(member.id, member.epoch, group_instance_id="i") == FENCED_INSTANCE


@pytest.mark.fact("E20-40a", "E20-43a")
def test_the_last_static_member_switches_under_its_own_id(here: Group) -> None:
    member = here.consumer(instance_id="i")
    joined = here.join(member.id, group_instance_id="i")
    assert (joined.error_code, joined.member_id) == (0, member.id)
    assert joined.generation_id == member.epoch
    assert describe_classic(here.wire, here.id).group_state == "Stable"
    found = here.sync(member.id, member.epoch, group_instance_id="i")
    assert assigned(found.assignment) == {here.topic: ALL}


@pytest.mark.fact("E20-41b")
def test_an_undecodable_version_prevents_a_downgrade(here: Group) -> None:
    member = here.consumer(instance_id="m")
    good = subscription(here.topic)
    assert here.join("c", protocols=protocols(good, b"")).error_code == 0
    assert here.join("d", protocols=protocols(good, good)[1:]).error_code == 0
    # All members support `roundrobin`, so the classic group would use it.
    left = leave_consumer(here.wire, here.id, member.id, instance_id="m")
    assert left.error_code == GROUP_NOT_FOUND
    prefix = f"Cannot downgrade the classic group {here.id}: "
    assert (left.error_message or "").startswith(prefix)
    request = m.LeaveGroupRequest(
        group_id=here.id, members=[m.MemberIdentity(member_id=member.id)]
    )
    response = here.wire.call(request, 5)
    assert (response.error_code, response.members) == (GROUP_NOT_FOUND, [])
    for member_id in ("", member.id):
        joined = here.join(
            member_id, group_instance_id="m", protocols=protocols(good, b"\0")
        )
        assert joined.error_code == GROUP_NOT_FOUND
    members = describe_consumer(here.wire, here.id).members
    assert {each.member_id for each in members} == {member.id, "c", "d"}


@pytest.mark.fact("E20-41", "E20-30")
def test_the_last_member_leaves_an_empty_consumer_group(here: Group) -> None:
    here.consumer()
    here.join("c")
    members = [each.member_id for each in describe_consumer(here.wire, here.id).members]
    assert here.leave(*((each, None) for each in members)) == [
        (0, each) for each in members
    ]
    described = describe_consumer(here.wire, here.id)
    assert (described.error_code, described.group_state) == (0, "Empty")


# Upgrades.


@pytest.mark.fact("E20-10", "E20-14a", "E20-26d", "E20-25", "E20-31")
def test_a_heartbeat_upgrades_a_classic_group(here: Group) -> None:
    whole = assigns({here.topic: ALL})
    classic = join_classic(here.wire, here.id, here.topic, assignment=whole)
    joined = here.rejoin("m")
    assert (joined.error_code, joined.member_epoch) == (0, classic.generation + 1)
    assert joined.assignment is not None
    assert joined.assignment.topic_partitions == []
    described = describe_consumer(here.wire, here.id)
    assert described.group_epoch == described.assignment_epoch == joined.member_epoch
    assert {(each.member_type, each.member_epoch) for each in described.members} == {
        (0, classic.generation),
        (1, joined.member_epoch),
    }
    assert here.beat(classic.id, classic.generation) == REBALANCE
    assert here.sync(classic.id, classic.generation).error_code == REBALANCE
    rejoined = here.join(classic.id)
    assert rejoined.generation_id == joined.member_epoch
    found = here.sync(classic.id, rejoined.generation_id)
    assert len(assigned(found.assignment)[here.topic]) == 2


@pytest.mark.fact("E20-28b", "E20-31")
def test_a_classic_member_joins_again_when_its_partitions_are_free(
    here: Group,
) -> None:
    here.target_at_once()
    consumer = here.consumer()
    joined = here.join("c")
    assert joined.error_code == 0
    synced = here.sync("c", joined.generation_id)
    assert assigned(synced.assignment).get(here.topic, []) == []
    assert here.beat("c", joined.generation_id) == 0
    told = heartbeat(here.wire, here.id, consumer.id, consumer.epoch)
    assert told.assignment is not None
    kept = told.assignment.topic_partitions
    assert here.beat("c", joined.generation_id) == 0
    released = heartbeat(
        here.wire, here.id, consumer.id, told.member_epoch, topic_partitions=kept
    )
    assert released.error_code == 0
    assert here.beat("c", joined.generation_id) == REBALANCE
    rejoined = here.join("c")
    found = here.sync("c", rejoined.generation_id)
    assert len(assigned(found.assignment)[here.topic]) == 2
    assert here.beat("c", rejoined.generation_id) == 0


@pytest.mark.fact("E20-12a")
def test_an_upgrade_reads_only_the_chosen_protocol(here: Group) -> None:
    good = subscription(here.topic)
    join_classic(here.wire, here.id, protocols=protocols(good, b"\0"))
    assert here.rejoin("m").error_code == 0


@pytest.mark.fact("E20-12a")
def test_upgrades_that_are_refused(here: Group) -> None:
    prefix = f"Cannot upgrade classic group {here.id} to consumer group because"
    malformed = f"{prefix} the embedded consumer protocol is malformed."
    for bad in (b"\0", b"\xff\xff\0\0\0\0", b"\0\1"):
        member = join_classic(here.wire, here.id, here.topic, assignment=bad)
        refused = here.rejoin("m")
        assert (refused.error_code, refused.error_message) == (
            GROUP_NOT_FOUND,
            malformed,
        )
        leave_classic(here.wire, here.id, member.id)
    join_classic(here.wire, here.id, protocols=protocols(b"\0"))
    refused = here.rejoin("m")
    assert (refused.error_code, refused.error_message) == (GROUP_NOT_FOUND, malformed)


@pytest.mark.fact("E20-11")
def test_a_group_of_another_protocol_type_is_not_upgraded(here: Group) -> None:
    data = subscription(here.topic)
    joined = here.join(version=3, protocol_type="connect", protocols=protocols(data))
    assert joined.error_code == 0
    assert here.sync(joined.member_id, 1, protocol_type="connect").error_code == 0
    refused = here.rejoin("m")
    assert refused.error_code == GROUP_NOT_FOUND
    assert refused.error_message == (
        f"Cannot upgrade classic group {here.id} to consumer group because the group "
        "does not use the consumer embedded protocol."
    )
    for epoch in (1, -1):
        refused = heartbeat(here.wire, here.id, "m", epoch)
        assert (refused.error_code, refused.error_message) == (
            GROUP_NOT_FOUND,
            f"Group {here.id} is not a consumer group.",
        )


@pytest.mark.fact("E20-12")
@pytest.mark.parametrize("name", ["custom", "cooperative-sticky"])
def test_user_data_prevents_an_upgrade(
    here: Group, broker_kind: str, name: str
) -> None:
    join_classic(
        here.wire,
        here.id,
        assignment=assigns({here.topic: ALL}, user_data=b"x"),
        protocols=[
            m.JoinGroupRequestProtocol(name=name, metadata=subscription(here.topic))
        ],
    )
    joined = here.rejoin("m")
    if broker_kind == "coterie" and name == "cooperative-sticky":
        # group.consumer.migration.drop.user.data
        assert joined.error_code == 0
        return
    assert joined.error_code == GROUP_NOT_FOUND
    assert joined.error_message == (
        f"Cannot upgrade classic group {here.id} to consumer group because an "
        "unsupported custom assignor is in use. Please refer to the documentation or "
        "switch to a default assignor before re-attempting the upgrade."
    )


# Static members that change the protocol.


def test_a_classic_member_replaces_a_static_one_beside_others(here: Group) -> None:
    here.consumer()
    static = here.consumer(instance_id="i")
    epoch = describe_consumer(here.wire, here.id).group_epoch
    joined = here.join(group_instance_id="i")
    assert (joined.error_code, joined.leader) == (0, "")
    again = here.join(group_instance_id="i")
    assert (again.error_code, again.leader) == (0, "")
    assert len({static.id, joined.member_id, again.member_id}) == 3
    described = describe_consumer(here.wire, here.id)
    assert described.group_epoch == epoch
    assert described.assignment_epoch == again.generation_id
    assert {each.member_type for each in described.members} == {0, 1}
    generation = again.generation_id
    assert here.beat(joined.member_id, generation) == UNKNOWN_MEMBER
    assert here.beat(again.member_id, generation, group_instance_id="i") == 0
