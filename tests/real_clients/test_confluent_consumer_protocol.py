"""librdkafka members of consumer groups (KIP-848): join, leave, crash."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from functools import partial

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewPartitions

from tests.real_clients.confluent_admin import (
    ANSWER_S,
    admin_client,
    alter_group,
    numbered_values,
    produce,
)
from tests.real_clients.confluent_members import ConfluentGroup, ConfluentMember
from tests.real_clients.group_admin import member_ids
from tests.real_clients.member_process import CRASHED_SESSION_MS, MemberProcess

PARTITIONS = 4
ALL = frozenset(range(PARTITIONS))


def consumers(
    bootstrap: str, group: str, topic: str, **config: object
) -> ConfluentGroup:
    """Return a group of the consumer protocol."""
    return ConfluentGroup(bootstrap, group, topic, group_protocol="consumer", **config)


@pytest.mark.fact("G4-07")
def test_records_are_read_once_in_order_while_members_join_and_leave(
    bootstrap: str, group: str, topic: str
) -> None:
    produce(bootstrap, topic, numbered_values(50))
    with contextlib.closing(consumers(bootstrap, group, topic)) as members:
        first = members.join()
        members.poll_until(lambda: len(members.records) >= 60)
        members.join()
        members.poll_until_assigned(PARTITIONS)
        members.leave(first)
        produce(bootstrap, topic, numbered_values(50))
        members.poll_until(lambda: len(members.records) >= 100 * PARTITIONS)
        members.poll_until_assigned(PARTITIONS)
    assert members.offsets_read() == {p: list(range(100)) for p in ALL}


@pytest.mark.fact("G4-07")
@pytest.mark.parametrize(
    "setting",
    [
        {"session.timeout.ms": 6_000},
        {"heartbeat.interval.ms": 300},
        {"partition.assignment.strategy": "range"},
        {"group.protocol.type": "consumer"},
    ],
    ids=lambda setting: next(iter(setting)),
)
def test_librdkafka_refuses_settings_of_the_classic_protocol(
    bootstrap: str, setting: dict[str, object]
) -> None:
    config = {"bootstrap.servers": bootstrap, "group.id": "unused", **setting}
    Consumer({**config, "group.protocol": "classic"}).close()
    with pytest.raises(KafkaException) as refused:
        Consumer({**config, "group.protocol": "consumer"})
    assert refused.value.args[0].code() == KafkaError._INVALID_ARG
    assert next(iter(setting)) in str(refused.value)


@pytest.mark.fact("E6-01", "E25-07a", "E25-07c")
def test_a_second_member_gets_half_of_the_partitions_and_no_other_moves(
    bootstrap: str, group: str, topic: str
) -> None:
    with contextlib.closing(consumers(bootstrap, group, topic)) as members:
        first = members.join()
        members.poll_until_assigned(PARTITIONS)
        second = members.join()
        members.poll_until_assigned(PARTITIONS)
        assert len(second.owned) == 2
        assert [one for one in first.assigned if one] == [ALL]
        assert [one for one in first.revoked if one] == [second.owned]
        assert [one for one in second.assigned if one] == [second.owned]
        assert not second.revoked
        assert not first.lost


@pytest.mark.fact("E1-03")
def test_a_slow_revocation_delays_only_the_revoked_partitions(
    bootstrap: str,
    admin: AdminClient,
    group: str,
    new_topic: Callable[[str, int], str],
) -> None:
    session = str(CRASHED_SESSION_MS)
    alter_group(admin, group, "consumer.session.timeout.ms", session)
    topic = new_topic("six", 6)
    with contextlib.closing(consumers(bootstrap, group, topic)) as members:
        quick, slow = members.join(), members.join()
        members.poll_until_assigned(6)
        revocations = len(slow.revoked)
        members.members.remove(slow)  # not polled, so that it does not revoke
        third = members.join()
        members.poll_until(lambda: len(third.owned) == 1)
        assert len(quick.owned) == 2
        assert len(slow.revoked) == revocations
        produce(bootstrap, topic, numbered_values(10, partitions=6))
        members.poll_until(lambda: len(members.records) == 30)
        assert {one.partition for one in quick.records} == quick.owned
        assert {one.partition for one in third.records} == third.owned
        members.members.append(slow)
        members.poll_until_assigned(6)
        members.poll_until(lambda: len(members.records) >= 60)
    assert members.offsets_read() == {p: list(range(10)) for p in range(6)}


@pytest.mark.fact("E6-02")
def test_the_partitions_of_a_leaving_member_are_reassigned(
    bootstrap: str, group: str, topic: str
) -> None:
    with contextlib.closing(consumers(bootstrap, group, topic)) as members:
        first, second = members.join(), members.join()
        members.poll_until_assigned(PARTITIONS)
        revocations = len(second.revoked)
        members.leave(first)
        assert member_ids(bootstrap, group) == {second.consumer.memberid()}
        # Within the session time-out of 45 s: the member leaves explicitly.
        members.poll_until(lambda: second.owned == ALL, within_s=30)
        assert len(second.revoked) == revocations


@pytest.mark.slow
@pytest.mark.fact("E6-03", "E8-02")
def test_the_partitions_of_crashed_members_are_reassigned(
    bootstrap: str,
    admin: AdminClient,
    group: str,
    new_topic: Callable[[str, int], str],
) -> None:
    session = str(CRASHED_SESSION_MS)
    alter_group(admin, group, "consumer.session.timeout.ms", session)
    topic = new_topic("six", 6)
    produce(bootstrap, topic, numbered_values(20, partitions=6))
    crashing = partial(
        MemberProcess, bootstrap, group, topic, group_protocol="consumer"
    )
    with (
        crashing() as dynamic,
        crashing(group_instance_id="static") as static,
        contextlib.closing(consumers(bootstrap, group, topic)) as members,
    ):
        survivor = members.join()
        members.poll_until(lambda: len(survivor.owned) == 2)
        # Both before the first is killed: its partitions go to the other.
        for one in (dynamic, static):
            one.wait_for_partitions(2)
        for one in (dynamic, static):
            one.kill()
        assert len(member_ids(bootstrap, group)) == 3
        members.poll_until(lambda: len(survivor.owned) == 6)
        assert member_ids(bootstrap, group) == {survivor.consumer.memberid()}
        members.poll_until(lambda: len(set(members.records)) == 120)


@pytest.mark.fact("E9-13", "E6-15", "E6-16")
def test_a_returning_static_member_causes_no_rebalance(
    bootstrap: str, group: str, topic: str
) -> None:
    with contextlib.closing(consumers(bootstrap, group, topic)) as members:
        stays = members.join(group_instance_id="stays")
        returns = members.join(group_instance_id="returns")
        members.poll_until_assigned(PARTITIONS)
        owned, kept, calls = returns.owned, stays.owned, len(stays.assigned)
        members.leave(returns)
        assert (
            len(member_ids(bootstrap, group)) == 2
        )  # it left with epoch -2, as a static member
        back = members.join(group_instance_id="returns")
        members.poll_until(lambda: back.owned == owned)
        assert stays.owned == kept
        assert len(stays.assigned) == calls


@pytest.mark.fact("E7-73")
def test_an_instance_id_in_use_is_refused(
    bootstrap: str, group: str, topic: str
) -> None:
    with contextlib.closing(consumers(bootstrap, group, topic)) as members:
        owner = members.join(group_instance_id="one")
        members.poll_until_assigned(PARTITIONS)
        second = ConfluentMember(
            bootstrap,
            group,
            [topic],
            group_protocol="consumer",
            group_instance_id="one",
        )
        refused = second.poll_until_error()
        assert refused.code() == KafkaError._FATAL
        assert "still used by another member" in refused.str()  # UNRELEASED_INSTANCE_ID
        second.consumer.close()
        produce(bootstrap, topic, numbered_values(5))
        members.poll_until(lambda: len(owner.records) == 5 * PARTITIONS)


@pytest.mark.fact("E6-10")
def test_new_partitions_are_assigned_to_the_members(
    bootstrap: str, group: str, topic: str
) -> None:
    with contextlib.closing(consumers(bootstrap, group, topic)) as members:
        first, second = members.join(), members.join()
        members.poll_until_assigned(PARTITIONS)
        before = first.owned, second.owned
        admin = admin_client(bootstrap)
        admin.create_partitions([NewPartitions(topic, 6)])[topic].result(ANSWER_S)
        members.poll_until_assigned(6)
        assert (first.owned & ALL, second.owned & ALL) == before


def test_each_of_twenty_members_that_join_together_gets_partitions(
    bootstrap: str, group: str, new_topic: Callable[[str, int], str]
) -> None:
    topic = new_topic("forty", 40)
    with contextlib.closing(consumers(bootstrap, group, topic)) as members:
        for _ in range(20):
            members.join()
        members.poll_until_assigned(40)
        assert {len(member.owned) for member in members.members} == {2}
