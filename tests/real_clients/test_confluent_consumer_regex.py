"""Regular expressions of librdkafka members of consumer groups: RE2, on the broker."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import pytest

from tests.real_clients.confluent_admin import produce
from tests.real_clients.confluent_members import ConfluentMember
from tests.support.waiting import eventually

NewTopic = Callable[[str, int], str]


@pytest.fixture
def topics(bootstrap: str, new_topic: NewTopic) -> dict[str, str]:
    """Three topics by suffix; each has its suffix as a record."""
    made = {suffix: new_topic(suffix, 2) for suffix in ("a1", "a2", "b1")}
    for suffix, topic in made.items():
        produce(bootstrap, topic, {0: [suffix.encode()]})
    return made


@pytest.fixture
def member(bootstrap: str, group: str, name: str) -> Iterator[ConfluentMember]:
    """A member of the consumer protocol with a regular expression."""
    member = ConfluentMember(
        bootstrap, group, [f"^t-{name}-a."], group_protocol="consumer"
    )
    with contextlib.closing(member.consumer):
        yield member


def until_reads(member: ConfluentMember, *values: bytes) -> None:
    """Poll until the member has read these values and no others."""
    eventually(
        lambda: member.poll() and len(member.records) == len(values), expected="all"
    )
    assert {one.value for one in member.records} == set(values)


def subscribed(member: ConfluentMember) -> set[str]:
    """Return the topics of the member's assignment."""
    return {one.topic for one in member.consumer.assignment()}


@pytest.mark.fact("G4-07", "E14-03")
def test_a_regular_expression_must_match_the_whole_topic_name(
    topics: dict[str, str], member: ConfluentMember, new_topic: NewTopic
) -> None:
    until_reads(member, b"a1", b"a2")
    assert subscribed(member) == {topics["a1"], topics["a2"]}


@pytest.mark.fact("E6-06")
def test_a_new_regular_expression_replaces_the_first(
    topics: dict[str, str], member: ConfluentMember, name: str
) -> None:
    until_reads(member, b"a1", b"a2")
    member.subscribe([f"^t-{name}-[b-z][[:digit:]]"])
    until_reads(member, b"a1", b"a2", b"b1")
    assert subscribed(member) == {topics["b1"]}


def test_topic_names_and_regular_expressions_may_be_mixed(
    topics: dict[str, str], member: ConfluentMember, name: str
) -> None:
    member.subscribe([topics["b1"], f"^t-{name}-a2"])
    until_reads(member, b"a2", b"b1")


@pytest.mark.fact("E14-02", "E14-04")
def test_an_invalid_re2_expression_is_refused(
    bootstrap: str, group: str, name: str
) -> None:
    pattern = rf"^t-{name}-(a)\1"  # librdkafka's own engine has back-references
    member = ConfluentMember(bootstrap, group, [pattern], group_protocol="consumer")
    with contextlib.closing(member.consumer):
        assert (
            "regular expression is not valid" in member.poll_until_error().str()
        )  # INVALID_REGULAR_EXPRESSION


@pytest.mark.slow
@pytest.mark.fact("E6-12")
def test_a_topic_created_later_is_subscribed(
    bootstrap: str, topics: dict[str, str], member: ConfluentMember, new_topic: NewTopic
) -> None:
    until_reads(member, b"a1", b"a2")
    produce(bootstrap, new_topic("a3", 2), {1: [b"a3"]})
    # As in Apache Kafka, regular expressions are resolved at most every ten seconds.
    until_reads(member, b"a1", b"a2", b"a3")
    assert not member.revoked
