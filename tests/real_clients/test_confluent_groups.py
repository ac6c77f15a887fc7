"""librdkafka members of classic groups: eager, cooperative, static, crashed."""

from __future__ import annotations

import contextlib
from functools import partial

import pytest
from confluent_kafka.admin import NewPartitions

from tests.real_clients.confluent_admin import (
    ANSWER_S,
    admin_client,
    committed_offsets,
    create_topic,
    numbered_values,
    produce,
)
from tests.real_clients.confluent_members import ConfluentGroup, ConfluentMember
from tests.real_clients.member_process import MemberProcess

PARTITIONS = 4
STRATEGIES = ("range", "roundrobin", "cooperative-sticky")


def has_read(member: ConfluentMember, count: int) -> bool:
    """Return whether the member has read that many records."""
    return len(member.records) == count


def consumers(bootstrap: str, group: str, topic: str, strategy: str) -> ConfluentGroup:
    """Return a group whose members use one assignor."""
    return ConfluentGroup(
        bootstrap, group, topic, partition_assignment_strategy=strategy
    )


@pytest.mark.fact("G4-02", "G4-03", "G4-06")
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_records_are_read_once_in_order_while_members_join_and_leave(
    bootstrap: str, group: str, topic: str, strategy: str
) -> None:
    produce(bootstrap, topic, numbered_values(50))
    with contextlib.closing(consumers(bootstrap, group, topic, strategy)) as members:
        first = members.join()
        members.poll_until(lambda: len(members.records) >= 60)
        members.join()
        members.poll_until_assigned(PARTITIONS)
        members.leave(first)
        produce(bootstrap, topic, numbered_values(50))
        members.poll_until(lambda: len(members.records) >= 100 * PARTITIONS)
        members.poll_until_assigned(PARTITIONS)
    offsets = members.offsets_read()
    assert offsets == {p: list(range(100)) for p in range(PARTITIONS)}


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_joining_member_is_assigned_partitions(
    bootstrap: str, group: str, topic: str, strategy: str
) -> None:
    with contextlib.closing(consumers(bootstrap, group, topic, strategy)) as members:
        members.join()
        members.poll_until_assigned(PARTITIONS)
        members.join()
        members.poll_until_assigned(PARTITIONS)
        assert sorted(len(member.owned) for member in members.members) == [2, 2]


def test_a_cooperative_member_revokes_only_moved_partitions(
    bootstrap: str, group: str, topic: str
) -> None:
    with contextlib.closing(
        consumers(bootstrap, group, topic, "cooperative-sticky")
    ) as members:
        first = members.join()
        members.poll_until_assigned(PARTITIONS)
        members.join()
        members.poll_until_assigned(PARTITIONS)
        assert sum(map(len, first.revoked)) == 2  # eager would have revoked four


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_the_partitions_of_a_leaving_member_are_reassigned(
    bootstrap: str, group: str, topic: str, strategy: str
) -> None:
    with contextlib.closing(consumers(bootstrap, group, topic, strategy)) as members:
        first = members.join()
        second = members.join()
        members.poll_until_assigned(PARTITIONS)
        members.leave(first)
        # Within the session time-out of 45 s: the member leaves explicitly.
        members.poll_until_assigned(PARTITIONS, within_s=30)
        assert second.owned == frozenset(range(PARTITIONS))


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_the_partitions_of_a_crashed_member_are_reassigned(
    bootstrap: str, group: str, topic: str, strategy: str
) -> None:
    produce(bootstrap, topic, numbered_values(20))
    with (
        MemberProcess(
            bootstrap, group, topic, partition_assignment_strategy=strategy
        ) as crashing,
        contextlib.closing(consumers(bootstrap, group, topic, strategy)) as members,
    ):
        crashing.wait_for_partitions(PARTITIONS)
        survivor = members.join()
        members.poll_until(lambda: len(survivor.owned) == 2)
        crashing.kill()
        members.poll_until(lambda: len(survivor.owned) == PARTITIONS)
        members.poll_until(lambda: len(set(members.records)) == 20 * PARTITIONS)


def test_a_returning_static_member_causes_no_rebalance(
    bootstrap: str, group: str, topic: str
) -> None:
    with contextlib.closing(consumers(bootstrap, group, topic, "range")) as members:
        stays = members.join(group_instance_id="stays")
        returns = members.join(group_instance_id="returns")
        members.poll_until_assigned(PARTITIONS)
        owned, rebalances = returns.owned, len(stays.assigned)
        members.leave(returns)
        back = members.join(group_instance_id="returns")
        members.poll_until(lambda: back.owned == owned)
        assert len(stays.assigned) == rebalances
        assert not stays.revoked[rebalances:]


def test_a_static_member_whose_instance_id_is_reused_is_fenced(
    bootstrap: str, group: str, topic: str
) -> None:
    with contextlib.closing(consumers(bootstrap, group, topic, "range")) as members:
        old = members.join(group_instance_id="one")
        members.poll_until_assigned(PARTITIONS)
        members.members.remove(old)
        new = members.join(group_instance_id="one")
        members.poll_until(lambda: len(new.owned) == PARTITIONS)
        fenced = old.poll_until_error()
        assert fenced.name() in {"FENCED_INSTANCE_ID", "_FATAL"}
        old.consumer.close()


def test_a_group_continues_at_its_committed_offsets(
    bootstrap: str, group: str, topic: str
) -> None:
    produce(bootstrap, topic, numbered_values(30))
    with contextlib.closing(consumers(bootstrap, group, topic, "range")) as before:
        before.join()
        before.poll_until(lambda: len(before.records) == 70)
    with contextlib.closing(consumers(bootstrap, group, topic, "range")) as after:
        after.join()
        after.poll_until(lambda: len(after.records) == 50)
    assert not set(before.records) & set(after.records)
    assert committed_offsets(bootstrap, group) == {
        (topic, p): 30 for p in range(PARTITIONS)
    }


def test_a_group_without_commits_reads_from_the_start_again(
    bootstrap: str, group: str, topic: str
) -> None:
    produce(bootstrap, topic, numbered_values(5))
    for _ in range(2):
        with contextlib.closing(consumers(bootstrap, group, topic, "range")) as members:
            member = members.join()
            member.commits = False
            members.poll_until(partial(has_read, member, 20))


def test_new_partitions_are_assigned_to_the_members(
    bootstrap: str, group: str, topic: str
) -> None:
    with contextlib.closing(
        ConfluentGroup(bootstrap, group, topic, topic_metadata_refresh_interval_ms=500)
    ) as members:
        members.join()
        members.poll_until_assigned(PARTITIONS)
        admin = admin_client(bootstrap)
        admin.create_partitions([NewPartitions(topic, 6)])[topic].result(ANSWER_S)
        members.poll_until_assigned(6)


def test_a_regular_expression_subscribes_to_every_matching_topic(
    bootstrap: str, group: str, name: str
) -> None:
    for suffix in ("a", "b"):
        create_topic(bootstrap, f"t-{name}-{suffix}", partitions=2)
        produce(bootstrap, f"t-{name}-{suffix}", {0: [suffix.encode()]})
    with contextlib.closing(
        ConfluentGroup(bootstrap, group, f"^t-{name}-.*")
    ) as members:
        members.join()
        members.poll_until(lambda: len(members.records) == 2)
    assert {record.value for record in members.records} == {b"a", b"b"}
