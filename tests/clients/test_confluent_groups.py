"""Classic groups as librdkafka lives in them: eager, cooperative, static, crashed."""

from __future__ import annotations

import contextlib
from functools import partial

import pytest
from confluent_kafka.admin import NewPartitions

from .admin import ANSWER_S, admin_of, committed_offsets, create_topic, produce
from .doomed import Doomed
from .members import Crew, Member

PARTITIONS = 4
STRATEGIES = ("range", "roundrobin", "cooperative-sticky")


def numbered(count: int) -> dict[int, list[bytes]]:
    """`count` values for each partition."""
    return {p: [b"%d-%d" % (p, i) for i in range(count)] for p in range(PARTITIONS)}


def has_read(member: Member, count: int) -> bool:
    """Whether the member has read so many records."""
    return len(member.seen) == count


def crew(bootstrap: str, group: str, topic: str, strategy: str) -> Crew:
    """A crew whose members use one assignor."""
    return Crew(bootstrap, group, topic, partition_assignment_strategy=strategy)


@pytest.mark.fact("G4-02", "G4-03", "G4-06", "E19-06", "E19-07")
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_records_are_read_once_and_in_order_while_members_come_and_go(
    bootstrap: str, group: str, topic: str, strategy: str
) -> None:
    produce(bootstrap, topic, numbered(50))
    with contextlib.closing(crew(bootstrap, group, topic, strategy)) as members:
        first = members.join()
        members.poll_until(lambda: len(members.seen) >= 60)
        members.join()
        members.poll_until_shared(PARTITIONS)
        members.leave(first)
        produce(bootstrap, topic, numbered(50))
        members.poll_until(lambda: len(members.seen) >= 100 * PARTITIONS)
        members.poll_until_shared(PARTITIONS)
    offsets = members.offsets_read()
    assert offsets == {p: list(range(100)) for p in range(PARTITIONS)}


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_member_that_joins_gets_its_share(
    bootstrap: str, group: str, topic: str, strategy: str
) -> None:
    with contextlib.closing(crew(bootstrap, group, topic, strategy)) as members:
        members.join()
        members.poll_until_shared(PARTITIONS)
        members.join()
        members.poll_until_shared(PARTITIONS)
        assert sorted(len(member.owned) for member in members.members) == [2, 2]


def test_a_cooperative_member_keeps_what_it_need_not_give_up(
    bootstrap: str, group: str, topic: str
) -> None:
    with contextlib.closing(
        crew(bootstrap, group, topic, "cooperative-sticky")
    ) as members:
        first = members.join()
        members.poll_until_shared(PARTITIONS)
        members.join()
        members.poll_until_shared(PARTITIONS)
        assert sum(map(len, first.revoked)) == 2  # eager would have revoked four


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_the_partitions_of_a_member_that_leaves_are_taken_over(
    bootstrap: str, group: str, topic: str, strategy: str
) -> None:
    with contextlib.closing(crew(bootstrap, group, topic, strategy)) as members:
        first = members.join()
        second = members.join()
        members.poll_until_shared(PARTITIONS)
        members.leave(first)
        # Long before its session would have timed out: leaving is said, not noticed.
        members.poll_until_shared(PARTITIONS, within_s=5)
        assert second.owned == frozenset(range(PARTITIONS))


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_the_partitions_of_a_crashed_member_are_taken_over(
    bootstrap: str, group: str, topic: str, strategy: str
) -> None:
    produce(bootstrap, topic, numbered(20))
    with (
        Doomed(
            bootstrap, group, topic, partition_assignment_strategy=strategy
        ) as doomed,
        contextlib.closing(crew(bootstrap, group, topic, strategy)) as members,
    ):
        doomed.wait_until_it_owns(PARTITIONS)
        survivor = members.join()
        members.poll_until(lambda: len(survivor.owned) == 2)
        doomed.kill()
        members.poll_until(lambda: len(survivor.owned) == PARTITIONS)
        members.poll_until(lambda: len(set(members.seen)) == 20 * PARTITIONS)


@pytest.mark.fact("E19-13")
def test_a_static_member_that_comes_back_disturbs_nobody(
    bootstrap: str, group: str, topic: str
) -> None:
    with contextlib.closing(crew(bootstrap, group, topic, "range")) as members:
        stays = members.join(group_instance_id="stays")
        returns = members.join(group_instance_id="returns")
        members.poll_until_shared(PARTITIONS)
        owned, rebalances = returns.owned, len(stays.assigned)
        members.leave(returns)
        back = members.join(group_instance_id="returns")
        members.poll_until(lambda: back.owned == owned)
        assert len(stays.assigned) == rebalances
        assert not stays.revoked[rebalances:]


def test_a_static_member_whose_name_is_taken_is_fenced(
    bootstrap: str, group: str, topic: str
) -> None:
    with contextlib.closing(crew(bootstrap, group, topic, "range")) as members:
        old = members.join(group_instance_id="one")
        members.poll_until_shared(PARTITIONS)
        members.members.remove(old)
        new = members.join(group_instance_id="one")
        members.poll_until(lambda: len(new.owned) == PARTITIONS)
        fenced = old.until_error()
        assert fenced.name() in {"FENCED_INSTANCE_ID", "_FATAL"}
        old.consumer.close()


def test_a_group_goes_on_where_it_committed(
    bootstrap: str, group: str, topic: str
) -> None:
    produce(bootstrap, topic, numbered(30))
    with contextlib.closing(crew(bootstrap, group, topic, "range")) as before:
        before.join()
        before.poll_until(lambda: len(before.seen) == 70)
    with contextlib.closing(crew(bootstrap, group, topic, "range")) as after:
        after.join()
        after.poll_until(lambda: len(after.seen) == 50)
    assert not set(before.seen) & set(after.seen)
    assert committed_offsets(bootstrap, group) == {
        (topic, p): 30 for p in range(PARTITIONS)
    }


def test_a_group_that_committed_nothing_starts_again(
    bootstrap: str, group: str, topic: str
) -> None:
    produce(bootstrap, topic, numbered(5))
    for _ in range(2):
        with contextlib.closing(crew(bootstrap, group, topic, "range")) as members:
            member = members.join()
            member.commits = False
            members.poll_until(partial(has_read, member, 20))


def test_new_partitions_reach_the_members(
    bootstrap: str, group: str, topic: str
) -> None:
    with contextlib.closing(
        Crew(bootstrap, group, topic, topic_metadata_refresh_interval_ms=500)
    ) as members:
        members.join()
        members.poll_until_shared(PARTITIONS)
        admin = admin_of(bootstrap)
        admin.create_partitions([NewPartitions(topic, 6)])[topic].result(ANSWER_S)
        members.poll_until_shared(6)


def test_a_pattern_subscribes_to_every_topic_that_matches(
    bootstrap: str, group: str, name: str
) -> None:
    for suffix in ("a", "b"):
        create_topic(bootstrap, f"t-{name}-{suffix}", partitions=2)
        produce(bootstrap, f"t-{name}-{suffix}", {0: [suffix.encode()]})
    with contextlib.closing(Crew(bootstrap, group, f"^t-{name}-.*")) as members:
        members.join()
        members.poll_until(lambda: len(members.seen) == 2)
    assert {record.value for record in members.seen} == {b"a", b"b"}
