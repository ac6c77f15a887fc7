"""Subscriptions by regular expression (E14), and changes of topics (E15)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from coterie.broker.coordinator.consumer.topics import metadata_hash, topic_hash
from coterie.broker.coordinator.record_serde import decode_record
from coterie.broker.coordinator.records import (
    ConsumerGroupMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
)
from coterie.broker.coordinator.result import Record
from coterie.wire import messages as m
from tests.broker.server.harness import WireClient
from tests.support.waiting import eventually

from .consumer_group import Members
from .log_records import OFFSETS_TOPIC, Position, end_of_log, records_of
from .members import topic_id

NewTopic = Callable[[str, int], str]


@pytest.fixture
def members(wire: WireClient, group: str) -> Members:
    """A group without members."""
    return Members(wire, group)


def beat_until(members: Members, member: str, wanted: dict[str, list[int]]) -> None:
    """Send heartbeats until the member has these partitions, and the group rests."""

    def is_settled() -> bool:
        members.settle(member)
        return members.owns(member) == wanted

    eventually(is_settled, expected=f"{member} has {wanted}")


def group_records(
    wire: WireClient, group: str, since: Position
) -> list[tuple[Record, bytes | None]]:
    """Return the group's records that Coterie knows, with the bytes of their values."""
    found = [
        (decode_record(key, value), value)
        for key, value in records_of(wire, group, since)
    ]
    return [(record, value) for record, value in found if record is not None]


# Regular expressions.


@pytest.mark.fact("E14-03")
def test_an_expression_must_match_the_whole_name(
    members: Members, new_topic: NewTopic
) -> None:
    short = members.add_topic(new_topic("a", 1))
    members.add_topic(new_topic("ab", 1))
    members.join("m", subscribed_topic_names=[], subscribed_topic_regex=short)
    beat_until(members, "m", {short: [0]})


@pytest.mark.fact("E14-09")
def test_an_expression_matches_internal_topics(
    members: Members, wire: WireClient
) -> None:
    members.topic_ids[OFFSETS_TOPIC] = topic_id(wire, OFFSETS_TOPIC)
    members.join(
        "m", subscribed_topic_names=[], subscribed_topic_regex="__consumer_offse.."
    )

    def offsets_topic() -> list[str]:
        members.settle("m")
        return [*members.owns("m")]

    assert eventually(offsets_topic, expected="a topic") == [OFFSETS_TOPIC]


@pytest.mark.fact("E14-05a", "E14-10", "E14-10a")
def test_an_expression_of_two_members_is_stored_once(
    members: Members, wire: WireClient, group: str, new_topic: NewTopic
) -> None:
    topic = members.add_topic(new_topic("one", 2))
    since = end_of_log(wire, group)
    fields: dict[str, Any] = {
        "subscribed_topic_names": [],
        "subscribed_topic_regex": topic,
    }
    members.join("m", **fields)
    beat_until(members, "m", {topic: [0, 1]})
    members.join("n", **fields)
    members.settle("m", "n")
    assert members.targets("m").keys() == members.targets("n").keys() == {topic}

    def stored() -> list[list[str] | None]:
        values: list[list[str] | None] = []
        for record, _ in group_records(wire, group, since):
            if isinstance(record.key, ConsumerGroupRegularExpressionKey):
                assert record.key.regular_expression == topic
                value = record.value
                if value is not None:
                    assert isinstance(value, ConsumerGroupRegularExpressionValue)
                values.append(None if value is None else value.topics)
        return values

    assert stored() == [[topic]]
    members.beat("n", -1)
    assert stored() == [[topic]]
    members.beat("m", -1)
    assert stored() == [[topic], None]


# Changes of topics.


@pytest.mark.fact("E15-04a", "E15-08", "E15-09")
def test_another_number_of_partitions_bumps_the_epoch(
    members: Members, wire: WireClient, new_topic: NewTopic
) -> None:
    topic = members.add_topic(new_topic("one", 2))
    members.join("a")
    members.join("b")
    members.settle("a", "b")
    epoch = members.describe().group_epoch
    members.beat("a", epoch)
    assert members.describe().group_epoch == epoch
    added = m.CreatePartitionsTopic(name=topic, count=6, assignments=None)
    request = m.CreatePartitionsRequest(topics=[added], timeout_ms=10_000)
    [result] = wire.call(request, 3).results
    assert result.error_code == 0
    members.add_topic(topic)

    def told() -> int:
        return members.beat("b", epoch).member_epoch

    # The heartbeat of b gives it the new epoch; a has the old one.
    assert eventually(lambda: told() - epoch, expected="an epoch") == 1
    assert members.described("a").member_epoch == epoch
    assert len(members.targets("a")[topic]) == len(members.owns("b")[topic]) == 3


@pytest.mark.fact("E15-03", "E15-03a", "E15-03b", "E15-03c")
def test_the_record_of_an_epoch_has_the_hash_of_the_topics(
    members: Members, wire: WireClient, group: str, new_topic: NewTopic
) -> None:
    since = end_of_log(wire, group)
    counts = {new_topic("b", 3): 3, new_topic("a", 1): 1}
    for topic in counts:
        members.add_topic(topic)

    def hashes() -> list[int]:
        values = [record.value for record, _ in group_records(wire, group, since)]
        return [
            value.metadata_hash
            for value in values
            if isinstance(value, ConsumerGroupMetadataValue)
        ]

    members.join("m", f"{group}-none")
    assert hashes()[-1] == 0
    members.beat("m", members.epoch(1), subscribed_topic_names=[*counts])
    assert hashes()[-1] == metadata_hash(
        {
            topic: topic_hash(members.topic_ids[topic], topic, count, ())
            for topic, count in counts.items()
        }
    )
