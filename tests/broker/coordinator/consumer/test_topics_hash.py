"""The metadata hash, with expected values computed by Kafka 4.4.0's code."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pytest

from coterie.broker.coordinator.consumer.topics import metadata_hash, topic_hash

Racks = Sequence[Collection[str]]


def uuid(most: int, least: int) -> bytes:
    return most.to_bytes(8, signed=True) + least.to_bytes(8, signed=True)


FOO = (uuid(1, 2), "foo", 1, ())
BAR = (uuid(0x0102030405060708, 0x090A0B0C0D0E0F10), "bar", 3, ())
GOLDEN: list[tuple[tuple[bytes, str, int, Racks], int]] = [
    (FOO, -7733839198221838498),
    (BAR, -4317358056770452972),
    (
        (uuid(-1, -2), "orders.eu-west_1", 2, [{"a", "b"}, {"c"}]),
        -8210768605675855428,
    ),
    (
        (uuid(-(2**63), 5), "racks", 2, [["rack-1", "rack-2", "rack-0"], []]),
        -2398047562374496709,
    ),
    ((uuid(7, 7), "télé.😀", 1, [["zürich", "€"]]), -2121812087066871170),
    ((uuid(3, 4), "big", 1_000, ()), 6175015588984314185),
]


@pytest.mark.parametrize(("topic", "expected"), GOLDEN)
@pytest.mark.fact("E15-03a")
def test_the_hash_of_a_topic_equals_kafkas(
    topic: tuple[bytes, str, int, Racks], expected: int
) -> None:
    assert topic_hash(*topic) == expected


@pytest.mark.fact("E15-03b")
def test_the_hash_of_many_topics_equals_kafkas() -> None:
    hashes = {topic[1]: expected for topic, expected in GOLDEN}
    assert metadata_hash(hashes) == -9151743511542495379
    foo_and_bar = {name: hashes[name] for name in ("foo", "bar")}
    assert metadata_hash(foo_and_bar) == -8366993441488236158


@pytest.mark.fact("E15-03c")
def test_without_topics_the_hash_is_zero() -> None:
    assert metadata_hash({}) == 0


@pytest.mark.fact("E15-03a")
def test_any_change_of_a_topic_changes_its_hash() -> None:
    was = (uuid(1, 2), "foo", 2, [["a"], ["b"]])
    others = {
        topic_hash(uuid(1, 3), *was[1:]),
        topic_hash(was[0], "fox", *was[2:]),
        topic_hash(*was[:2], 1, [["a"]]),
        topic_hash(*was[:3], [["b"], ["a"]]),
        topic_hash(*was[:3], [["a"], ["b", "c"]]),
        topic_hash(*was[:3], ()),
    }
    assert len(others) == 6
    assert topic_hash(*was) not in others


@pytest.mark.fact("E15-03b")
def test_the_hash_does_not_depend_on_the_order_of_topics() -> None:
    hashes = {topic[1]: expected for topic, expected in GOLDEN}
    backwards = dict(reversed(hashes.items()))
    assert [*backwards] != [*hashes]
    assert metadata_hash(backwards) == metadata_hash(hashes)
