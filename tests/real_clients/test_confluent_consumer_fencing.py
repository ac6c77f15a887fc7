"""librdkafka members that are fenced from a consumer group and rejoin it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from tests.real_clients.confluent_admin import committed_offsets, produce
from tests.real_clients.confluent_members import ConfluentGroup
from tests.real_clients.group_admin import leave_on_behalf_of, member_ids

PARTITIONS = 4
ALL = frozenset(range(PARTITIONS))


@pytest.fixture
def consumers(bootstrap: str, group: str, topic: str) -> Iterator[ConfluentGroup]:
    """A group of the consumer protocol, and one record in each partition."""
    produce(bootstrap, topic, {p: [b"%d" % p] for p in range(PARTITIONS)})
    members = ConfluentGroup(bootstrap, group, topic, group_protocol="consumer")
    with contextlib.closing(members):
        yield members


@pytest.mark.fact("E7-72", "E10-06", "E25-07a", "E25-07c")
def test_a_removed_member_rejoins_with_its_member_id(
    consumers: ConfluentGroup, bootstrap: str, group: str
) -> None:
    member = consumers.join()
    consumers.poll_until(lambda: len(member.records) == PARTITIONS)
    known_as = member.consumer.memberid()
    assert known_as is not None
    leave_on_behalf_of(bootstrap, group, known_as)
    consumers.poll_until(lambda: bool(member.lost))
    assert member.lost == [ALL]
    assert not member.revoked
    # Lost partitions may have another owner: the member commits nothing for them.
    assert committed_offsets(bootstrap, group) == {}
    consumers.poll_until(lambda: len(member.records) == 2 * PARTITIONS)
    assert member.consumer.memberid() == known_as
    assert member_ids(bootstrap, group) == {known_as}
    assert member.owned == ALL


@pytest.mark.fact("E7-72")
def test_a_fenced_member_loses_its_partitions_and_the_others_continue(
    consumers: ConfluentGroup, bootstrap: str, group: str
) -> None:
    fenced, other = consumers.join(), consumers.join()
    consumers.poll_until_assigned(PARTITIONS)
    kept, known_as = other.owned, fenced.consumer.memberid()
    assert known_as is not None
    leave_on_behalf_of(bootstrap, group, known_as)
    consumers.poll_until(lambda: bool(fenced.lost))
    consumers.poll_until_assigned(PARTITIONS)
    assert kept & other.owned
    assert not other.lost
    assert member_ids(bootstrap, group) == {
        known_as,
        other.consumer.memberid(),
    }
