"""Members of the classic and of the consumer protocol in one group (E20)."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import pytest
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

from tests.real_clients.confluent_admin import committed_offsets, produce
from tests.real_clients.confluent_members import ConfluentGroup
from tests.real_clients.group_admin import is_classic
from tests.real_clients.kafka_python_members import KafkaPythonMember
from tests.support.waiting import eventually

PARTITIONS = 4
ALL = frozenset(range(PARTITIONS))


class Stream:
    """A producer of batches with consecutive numbers to each partition."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._bootstrap, self._topic = bootstrap, topic
        self.count = 0

    def flows(self, count: int = 10) -> None:
        """Produce another batch to each partition."""
        values = [b"%d" % i for i in range(self.count, self.count + count)]
        produce(self._bootstrap, self._topic, dict.fromkeys(ALL, values))
        self.count += count

    def everything(self) -> dict[int, list[int]]:
        """Return the offsets produced so far, by partition."""
        return {partition: list(range(self.count)) for partition in ALL}


@pytest.fixture
def stream(bootstrap: str, topic: str) -> Stream:
    """A producer that sends to the topic of this test."""
    return Stream(bootstrap, topic)


@pytest.mark.fact("E20-02", "E20-44")
def test_an_empty_group_may_change_its_protocol(
    bootstrap: str, group: str, topic: str, stream: Stream
) -> None:
    seen: dict[int, list[int]] = {partition: [] for partition in ALL}
    for protocol in ("classic", "consumer", "classic"):
        stream.flows()
        with contextlib.closing(
            ConfluentGroup(bootstrap, group, topic, group_protocol=protocol)
        ) as members:
            members.join()
            members.poll_until(lambda: len(members.records) == 10 * PARTITIONS)
            assert is_classic(bootstrap, group) == (protocol == "classic")
        for partition, offsets in members.offsets_read().items():
            seen[partition] += offsets
    assert seen == stream.everything()


@pytest.mark.fact("E20-10", "E20-25", "E20-31", "E20-40")
@pytest.mark.parametrize("assignor", [RangePartitionAssignor, StickyPartitionAssignor])
def test_classic_and_consumer_protocol_members_share_a_group(
    bootstrap: str, group: str, topic: str, stream: Stream, assignor: type
) -> None:
    stream.flows()
    with (
        KafkaPythonMember(
            bootstrap, group, topic, partition_assignment_strategy=(assignor,)
        ) as worker,
        contextlib.closing(
            ConfluentGroup(bootstrap, group, topic, group_protocol="consumer")
        ) as consumers,
    ):

        def until(condition: Callable[[], bool]) -> None:
            """Poll all members; fail when a partition has two owners."""

            def holds() -> bool:
                assert not worker.owned & native.owned
                return condition()

            consumers.poll_until(holds)

        def is_shared() -> bool:
            return len(worker.owned) == len(native.owned) == 2

        def is_read() -> bool:
            return (
                len(worker.records) + len(consumers.records)
                >= stream.count * PARTITIONS
            )

        eventually(
            lambda: worker.owned == ALL and is_classic(bootstrap, group),
            expected="a classic member alone",
        )
        native = consumers.join()
        until(is_shared)
        assert not is_classic(bootstrap, group)
        stream.flows()
        until(is_read)
        assert worker.owned | native.owned == ALL
        consumers.leave(native)
        assert is_classic(bootstrap, group)
        stream.flows()
        until(is_read)
        assert worker.owned == ALL
    read = {(p, i) for p, i, _ in worker.records + consumers.records}
    assert read == {(p, i) for p in ALL for i in range(stream.count)}
    assert set(committed_offsets(bootstrap, group).values()) == {stream.count}
