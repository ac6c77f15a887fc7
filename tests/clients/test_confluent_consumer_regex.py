"""Regular expressions of librdkafka's KIP-848 members: RE2, resolved by the broker."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import pytest

from .admin import produce
from .members import Member
from .waiting import eventually

NewTopic = Callable[[str, int], str]


@pytest.fixture
def topics(bootstrap: str, new_topic: NewTopic) -> dict[str, str]:
    """Three topics by their suffixes; each has its suffix as a record."""
    made = {suffix: new_topic(suffix, 2) for suffix in ("a1", "a2", "b1")}
    for suffix, topic in made.items():
        produce(bootstrap, topic, {0: [suffix.encode()]})
    return made


@pytest.fixture
def member(bootstrap: str, group: str, name: str) -> Iterator[Member]:
    """A member of the new protocol that is subscribed to the topics with an a."""
    member = Member(bootstrap, group, [f"^t-{name}-a."], group_protocol="consumer")
    with contextlib.closing(member.consumer):
        yield member


def until_reads(member: Member, *values: bytes) -> None:
    """Poll until the member has read these, and nothing else."""
    eventually(lambda: member.poll() and len(member.seen) == len(values), wanted="all")
    assert {one.value for one in member.seen} == set(values)


def subscribed(member: Member) -> set[str]:
    """The topics of which the member owns a partition."""
    return {one.topic for one in member.consumer.assignment()}


@pytest.mark.fact("G4-07", "E14-03")
def test_a_pattern_subscribes_to_every_topic_that_matches_as_a_whole(
    topics: dict[str, str], member: Member, new_topic: NewTopic
) -> None:
    until_reads(member, b"a1", b"a2")
    assert subscribed(member) == {topics["a1"], topics["a2"]}


@pytest.mark.fact("E6-06")
def test_another_pattern_takes_the_place_of_the_first(
    topics: dict[str, str], member: Member, name: str
) -> None:
    until_reads(member, b"a1", b"a2")
    member.subscribe([f"^t-{name}-[b-z][[:digit:]]"])
    until_reads(member, b"a1", b"a2", b"b1")
    assert subscribed(member) == {topics["b1"]}


def test_names_and_patterns_may_be_mixed(
    topics: dict[str, str], member: Member, name: str
) -> None:
    member.subscribe([topics["b1"], f"^t-{name}-a2"])
    until_reads(member, b"a2", b"b1")


@pytest.mark.fact("E14-02", "E14-04")
def test_a_pattern_that_re2_does_not_know_is_refused(
    bootstrap: str, group: str, name: str
) -> None:
    pattern = rf"^t-{name}-(a)\1"  # librdkafka would match such a back-reference
    member = Member(bootstrap, group, [pattern], group_protocol="consumer")
    with contextlib.closing(member.consumer):
        assert "regular expression is not valid" in member.until_error().str()  # 128


@pytest.mark.slow
@pytest.mark.fact("E6-12")
def test_a_topic_that_is_created_later_is_found(
    bootstrap: str, topics: dict[str, str], member: Member, new_topic: NewTopic
) -> None:
    until_reads(member, b"a1", b"a2")
    produce(bootstrap, new_topic("a3", 2), {1: [b"a3"]})
    # As in Apache Kafka, a group's patterns are looked at once in ten seconds.
    until_reads(member, b"a1", b"a2", b"a3")
    assert not member.revoked
