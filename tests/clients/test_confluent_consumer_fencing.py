"""Members that a consumer group (KIP-848) loses sight of, and librdkafka's way back."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from .admin import committed_offsets, produce
from .groups import make_forget, member_ids
from .members import Crew

PARTITIONS = 4
ALL = frozenset(range(PARTITIONS))


@pytest.fixture
def crew(bootstrap: str, group: str, topic: str) -> Iterator[Crew]:
    """A crew whose members speak the consumer protocol, and a record a partition."""
    produce(bootstrap, topic, {p: [b"%d" % p] for p in range(PARTITIONS)})
    members = Crew(bootstrap, group, topic, group_protocol="consumer")
    with contextlib.closing(members):
        yield members


@pytest.mark.fact("E7-72", "E10-06", "E25-07")
def test_a_member_that_the_group_forgot_comes_back_under_its_own_id(
    crew: Crew, bootstrap: str, group: str
) -> None:
    member = crew.join()
    crew.poll_until(lambda: len(member.seen) == PARTITIONS)
    known_as = member.consumer.memberid()
    assert known_as is not None
    make_forget(bootstrap, group, known_as)
    crew.poll_until(lambda: bool(member.lost))
    assert member.lost == [ALL]
    assert not member.revoked
    # What it lost may be another's by now, so it committed nothing on the way out.
    assert committed_offsets(bootstrap, group) == {}
    crew.poll_until(lambda: len(member.seen) == 2 * PARTITIONS)
    assert member.consumer.memberid() == known_as
    assert member_ids(bootstrap, group) == {known_as}
    assert member.owned == ALL


@pytest.mark.fact("E7-72")
def test_a_fenced_member_gives_up_at_once_and_the_others_go_on(
    crew: Crew, bootstrap: str, group: str
) -> None:
    fenced, other = crew.join(), crew.join()
    crew.poll_until_shared(PARTITIONS)
    kept, known_as = other.owned, fenced.consumer.memberid()
    assert known_as is not None
    make_forget(bootstrap, group, known_as)
    crew.poll_until(lambda: bool(fenced.lost))
    crew.poll_until_shared(PARTITIONS)
    assert kept & other.owned
    assert not other.lost
    assert member_ids(bootstrap, group) == {
        known_as,
        other.consumer.memberid(),
    }
