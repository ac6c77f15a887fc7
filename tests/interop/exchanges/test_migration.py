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
UNRELEASED_INSTANCE: Final = 111
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


@pytest.mark.fact("E20-22a")
@pytest.mark.parametrize(
    "fields",
    [
        {"protocols": []},
        {"protocol_type": "connect"},
        {"protocols": protocols(b"", b"")[1:]},
    ],
)
def test_a_join_needs_a_protocol_of_all_classic_members(
    here: Group, fields: dict[str, Any]
) -> None:
    here.consumer()
    assert here.join("c").error_code == 0
    refused = here.join("d", **fields)
    assert refused.error_code == INCONSISTENT_PROTOCOL
    # This check comes before that of the member id.
    refused = here.join("d", group_instance_id="none", **fields)
    assert refused.error_code == INCONSISTENT_PROTOCOL
    unknown = here.join("d", group_instance_id="none")
    assert unknown.error_code == UNKNOWN_MEMBER


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


@pytest.mark.fact("E20-32", "E20-28")
def test_a_leave_by_a_classic_member_computes_no_target(here: Group) -> None:
    here.target_at_once()
    member = here.consumer()
    first, second = here.join("c"), here.join("d")
    assert (first.error_code, second.error_code) == (0, 0)
    epoch = describe_consumer(here.wire, here.id).group_epoch
    assert here.leave(("c", None)) == [(0, "c")]
    assert here.beat("d", second.generation_id) == 0
    described = describe_consumer(here.wire, here.id)
    assert (described.group_state, described.group_epoch) == ("Assigning", epoch + 1)

    def computes() -> bool:
        beat = heartbeat(here.wire, here.id, member.id, member.epoch)
        assert beat.error_code == 0
        return here.beat("d", second.generation_id) == REBALANCE

    eventually(computes, expected="a target that a consumer member's heartbeat makes")


@pytest.mark.fact("E20-30", "E20-30a")
def test_each_entry_of_a_leave_is_answered(here: Group) -> None:
    member = here.consumer(instance_id="m")
    here.join("c")
    i = here.join(group_instance_id="i").member_id
    epoch = describe_consumer(here.wire, here.id).group_epoch
    found = here.leave(
        ("c", None),
        ("c", None),
        ("", "i"),
        (i, "i"),
        (i, "m"),
        ("nobody", None),
        ("", None),
        ("", "none"),
    )
    assert found == [
        (0, "c"),
        (0, "c"),
        (0, ""),
        (0, i),
        (FENCED_INSTANCE, i),
        (UNKNOWN_MEMBER, "nobody"),
        (UNKNOWN_MEMBER, ""),
        (UNKNOWN_MEMBER, ""),
    ]
    described = describe_consumer(here.wire, here.id)
    assert described.group_epoch == epoch + 1
    assert [each.member_id for each in described.members] == [member.id]


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


@pytest.mark.fact("E20-43a")
def test_a_replacement_with_other_topics_rebalances(here: Group) -> None:
    member = here.consumer(instance_id="i")
    joined = here.join("", "other", group_instance_id="i")
    # The generation is that of a member that has not got an epoch yet.
    assert (joined.error_code, joined.generation_id, joined.leader) == (0, 0, "")
    described = describe_classic(here.wire, here.id)
    assert described.group_state == "PreparingRebalance"
    same = {"group_instance_id": "i"}
    assert here.sync(joined.member_id, 0, **same).error_code == ILLEGAL_GENERATION
    assert here.beat(joined.member_id, 0, **same) == ILLEGAL_GENERATION
    assert here.beat(joined.member_id, member.epoch, **same) == REBALANCE
    again = here.join(joined.member_id, "other", group_instance_id="i")
    assert (again.error_code, again.generation_id) == (0, member.epoch + 1)
    assert again.leader == joined.member_id


@pytest.mark.fact("E20-40")
def test_a_dynamic_member_that_switches_leaves_a_consumer_group(here: Group) -> None:
    member = here.consumer()
    joined = here.join(member.id)
    assert (joined.error_code, joined.generation_id) == (0, member.epoch)
    described = describe_consumer(here.wire, here.id)
    assert (described.error_code, described.group_state) == (0, "Stable")
    assert [each.member_type for each in described.members] == [0]


@pytest.mark.fact("E20-40", "E20-43")
def test_a_leave_downgrades_a_group_of_classic_members(here: Group) -> None:
    member = here.consumer()
    joined = here.join("c")
    assert here.join(member.id).error_code == 0
    epoch = describe_consumer(here.wire, here.id).group_epoch
    assert here.leave((member.id, None)) == [(0, member.id)]
    described = describe_classic(here.wire, here.id)
    assert described.group_state == "PreparingRebalance"
    assert [each.member_id for each in described.members] == ["c"]
    assert describe_consumer(here.wire, here.id).error_code == GROUP_NOT_FOUND
    assert here.beat("c", epoch) == REBALANCE
    assert here.beat("c", epoch - 1) == ILLEGAL_GENERATION
    assert joined.generation_id <= epoch
    again = here.join("c")
    assert (again.error_code, again.generation_id) == (0, epoch + 1)


@pytest.mark.fact("E20-40", "E20-43")
def test_a_leave_of_the_last_consumer_member_downgrades(here: Group) -> None:
    member = here.consumer()
    assert here.join("c").error_code == 0
    left = leave_consumer(here.wire, here.id, member.id)
    assert (left.error_code, left.member_epoch) == (0, -1)
    described = describe_classic(here.wire, here.id)
    assert described.group_state == "PreparingRebalance"
    refused = heartbeat(here.wire, here.id, member.id, member.epoch)
    assert refused.error_code == GROUP_NOT_FOUND
    assert refused.error_message == f"Group {here.id} is not a consumer group."


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


@pytest.mark.fact("E20-25a", "E20-26d", "E20-26e", "E20-28a")
def test_a_cooperative_member_revokes_before_it_gets_the_epoch(here: Group) -> None:
    topic = here.topic
    whole = assigns({topic: ALL})
    classic = join_classic(here.wire, here.id, topic, assignment=whole)
    epoch = here.rejoin("m").member_epoch
    owns_all = protocols(subscription(topic, owned={topic: ALL}, version=3))
    joined = here.join(classic.id, protocols=owns_all)
    assert (joined.error_code, joined.generation_id) == (0, classic.generation)
    synced = here.sync(classic.id, classic.generation)
    assert (synced.error_code, synced.assignment[:2]) == (0, b"\0\3")
    kept = assigned(synced.assignment)[topic]
    assert len(kept) == 2
    assert here.beat(classic.id, classic.generation) == REBALANCE
    again = here.join(classic.id, protocols=owns_all)
    assert again.generation_id == classic.generation
    owns_kept = protocols(subscription(topic, owned={topic: kept}, version=1))
    revoked = here.join(classic.id, protocols=owns_kept)
    assert revoked.generation_id == epoch
    synced = here.sync(classic.id, epoch)
    assert synced.assignment[:2] == b"\0\1"
    assert assigned(synced.assignment)[topic] == kept
    assert here.beat(classic.id, epoch) == 0


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


@pytest.mark.fact("E20-14a")
def test_an_upgrade_by_a_member_without_topics_keeps_the_epoch(here: Group) -> None:
    classic = join_classic(here.wire, here.id, here.topic)
    joined = here.rejoin("m", subscribed_topic_names=[])
    assert (joined.error_code, joined.member_epoch) == (0, classic.generation)
    described = describe_consumer(here.wire, here.id)
    assert described.group_epoch == classic.generation
    assert here.beat(classic.id, classic.generation) == 0


@pytest.mark.fact("E9-05")
def test_a_static_member_that_upgrades_keeps_epoch_and_assignment(here: Group) -> None:
    whole = assigns({here.topic: ALL})
    classic = join_classic(
        here.wire, here.id, here.topic, assignment=whole, group_instance_id="i"
    )
    joined = here.rejoin("m", instance_id="i")
    assert (joined.error_code, joined.member_epoch) == (0, classic.generation)
    assert joined.assignment is not None
    [topic] = joined.assignment.topic_partitions
    assert sorted(topic.partitions) == ALL
    again = heartbeat(here.wire, here.id, "m", classic.generation, instance_id="i")
    assert (again.error_code, again.assignment) == (0, None)
    same = {"group_instance_id": "i"}
    assert here.beat(classic.id, classic.generation, **same) == FENCED_INSTANCE


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


@pytest.mark.fact("E9-05")
def test_a_consumer_member_replaces_a_static_classic_one(here: Group) -> None:
    here.consumer()
    classic = here.join(group_instance_id="i")
    assert classic.error_code == 0
    successor = new_member_id()
    assert here.rejoin(successor, instance_id="i").error_code == 0
    again = here.rejoin(new_member_id(), instance_id="i")
    assert again.error_code == UNRELEASED_INSTANCE
    same = {"group_instance_id": "i"}
    generation = classic.generation_id
    assert here.beat(classic.member_id, generation, **same) == FENCED_INSTANCE
    assert here.beat(classic.member_id, generation) == UNKNOWN_MEMBER
    assert here.beat(successor, generation, **same) == UNKNOWN_MEMBER
    assert here.sync(successor, generation, **same).error_code == UNKNOWN_MEMBER


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
