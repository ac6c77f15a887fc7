"""Consumer groups (KIP-848) as librdkafka lives in them: joined, left, crashed."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from functools import partial

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka.admin import NewPartitions

from .admin import ANSWER_S, admin_of, produce
from .doomed import Doomed
from .groups import member_ids
from .members import Crew, Member

PARTITIONS = 4
ALL = frozenset(range(PARTITIONS))


def crew(bootstrap: str, group: str, topic: str, **config: object) -> Crew:
    """A crew whose members speak the consumer protocol."""
    return Crew(bootstrap, group, topic, group_protocol="consumer", **config)


def numbered(count: int, partitions: int = PARTITIONS) -> dict[int, list[bytes]]:
    """`count` values for each partition."""
    return {p: [b"%d-%d" % (p, i) for i in range(count)] for p in range(partitions)}


@pytest.mark.fact("G4-07", "E25-01")
def test_records_are_read_once_and_in_order_while_members_come_and_go(
    bootstrap: str, group: str, topic: str
) -> None:
    produce(bootstrap, topic, numbered(50))
    with contextlib.closing(crew(bootstrap, group, topic)) as members:
        first = members.join()
        members.poll_until(lambda: len(members.seen) >= 60)
        members.join()
        members.poll_until_shared(PARTITIONS)
        members.leave(first)
        produce(bootstrap, topic, numbered(50))
        members.poll_until(lambda: len(members.seen) >= 100 * PARTITIONS)
        members.poll_until_shared(PARTITIONS)
    assert members.offsets_read() == {p: list(range(100)) for p in ALL}


@pytest.mark.fact("G4-07", "E25-04")
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
def test_settings_that_are_the_coordinators_now_are_refused(
    bootstrap: str, setting: dict[str, object]
) -> None:
    config = {"bootstrap.servers": bootstrap, "group.id": "unused", **setting}
    Consumer({**config, "group.protocol": "classic"}).close()
    with pytest.raises(KafkaException) as refused:
        Consumer({**config, "group.protocol": "consumer"})
    assert refused.value.args[0].code() == KafkaError._INVALID_ARG
    assert next(iter(setting)) in str(refused.value)


@pytest.mark.fact("E6-01", "E25-07")
def test_who_joins_takes_half_and_nothing_else_moves(
    bootstrap: str, group: str, topic: str
) -> None:
    with contextlib.closing(crew(bootstrap, group, topic)) as members:
        first = members.join()
        members.poll_until_shared(PARTITIONS)
        second = members.join()
        members.poll_until_shared(PARTITIONS)
        assert len(second.owned) == 2
        assert [one for one in first.assigned if one] == [ALL]
        assert [one for one in first.revoked if one] == [second.owned]
        assert [one for one in second.assigned if one] == [second.owned]
        assert not second.revoked
        assert not first.lost


@pytest.mark.fact("E1-03")
def test_a_member_that_is_slow_to_give_up_holds_up_only_what_it_gives_up(
    bootstrap: str, group: str, new_topic: Callable[[str, int], str]
) -> None:
    topic = new_topic("six", 6)
    with contextlib.closing(crew(bootstrap, group, topic)) as members:
        quick, slow = members.join(), members.join()
        members.poll_until_shared(6)
        revocations = len(slow.revoked)
        members.members.remove(slow)  # not polled: its callbacks have to wait
        third = members.join()
        members.poll_until(lambda: len(third.owned) == 1)
        assert len(quick.owned) == 2
        assert len(slow.revoked) == revocations
        produce(bootstrap, topic, numbered(10, partitions=6))
        members.poll_until(lambda: len(members.seen) == 30)
        assert {one.partition for one in quick.seen} == quick.owned
        assert {one.partition for one in third.seen} == third.owned
        members.members.append(slow)
        members.poll_until_shared(6)
        members.poll_until(lambda: len(members.seen) >= 60)
    assert members.offsets_read() == {p: list(range(10)) for p in range(6)}


@pytest.mark.fact("E6-02")
def test_the_partitions_of_a_member_that_leaves_are_taken_over(
    bootstrap: str, group: str, topic: str
) -> None:
    with contextlib.closing(crew(bootstrap, group, topic)) as members:
        first, second = members.join(), members.join()
        members.poll_until_shared(PARTITIONS)
        revocations = len(second.revoked)
        members.leave(first)
        assert member_ids(bootstrap, group) == {second.consumer.memberid()}
        # Long before a session would have timed out: leaving is said, not noticed.
        members.poll_until(lambda: second.owned == ALL, within_s=5)
        assert len(second.revoked) == revocations


@pytest.mark.slow
@pytest.mark.fact("E6-03", "E8-02")
def test_the_partitions_of_crashed_members_are_taken_over(
    bootstrap: str, group: str, new_topic: Callable[[str, int], str]
) -> None:
    topic = new_topic("six", 6)
    produce(bootstrap, topic, numbered(20, partitions=6))
    doomed = partial(Doomed, bootstrap, group, topic, group_protocol="consumer")
    with (
        doomed() as dynamic,
        doomed(group_instance_id="static") as static,
        contextlib.closing(crew(bootstrap, group, topic)) as members,
    ):
        survivor = members.join()
        members.poll_until(lambda: len(survivor.owned) == 2)
        for one in (dynamic, static):
            one.wait_until_it_owns(2)
            one.kill()
        assert len(member_ids(bootstrap, group)) == 3
        members.poll_until(lambda: len(survivor.owned) == 6)
        assert member_ids(bootstrap, group) == {survivor.consumer.memberid()}
        members.poll_until(lambda: len(set(members.seen)) == 120)


@pytest.mark.fact("E9-13", "E6-15", "E6-16")
def test_a_static_member_that_comes_back_disturbs_nobody(
    bootstrap: str, group: str, topic: str
) -> None:
    with contextlib.closing(crew(bootstrap, group, topic)) as members:
        stays = members.join(group_instance_id="stays")
        returns = members.join(group_instance_id="returns")
        members.poll_until_shared(PARTITIONS)
        owned, kept, calls = returns.owned, stays.owned, len(stays.assigned)
        members.leave(returns)
        assert len(member_ids(bootstrap, group)) == 2  # it said -2: I will be back
        back = members.join(group_instance_id="returns")
        members.poll_until(lambda: back.owned == owned)
        assert stays.owned == kept
        assert len(stays.assigned) == calls


@pytest.mark.fact("E7-73")
def test_an_instance_id_that_is_in_use_is_refused(
    bootstrap: str, group: str, topic: str
) -> None:
    with contextlib.closing(crew(bootstrap, group, topic)) as members:
        owner = members.join(group_instance_id="one")
        members.poll_until_shared(PARTITIONS)
        second = Member(
            bootstrap,
            group,
            [topic],
            group_protocol="consumer",
            group_instance_id="one",
        )
        refused = second.until_error()
        assert refused.code() == KafkaError._FATAL
        assert "still used by another member" in refused.str()  # 111
        second.consumer.close()
        produce(bootstrap, topic, numbered(5))
        members.poll_until(lambda: len(owner.seen) == 5 * PARTITIONS)


@pytest.mark.fact("E6-10")
def test_new_partitions_reach_the_members(
    bootstrap: str, group: str, topic: str
) -> None:
    with contextlib.closing(crew(bootstrap, group, topic)) as members:
        first, second = members.join(), members.join()
        members.poll_until_shared(PARTITIONS)
        before = first.owned, second.owned
        admin = admin_of(bootstrap)
        admin.create_partitions([NewPartitions(topic, 6)])[topic].result(ANSWER_S)
        members.poll_until_shared(6)
        assert (first.owned & ALL, second.owned & ALL) == before


def test_twenty_members_that_join_at_once_get_a_share_each(
    bootstrap: str, group: str, new_topic: Callable[[str, int], str]
) -> None:
    topic = new_topic("forty", 40)
    with contextlib.closing(crew(bootstrap, group, topic)) as members:
        for _ in range(20):
            members.join()
        members.poll_until_shared(40)
        assert {len(member.owned) for member in members.members} == {2}
