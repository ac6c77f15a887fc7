"""Clients of the classic protocol alone, and of both, in the same group (E20)."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import pytest
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

from .admin import committed_offsets, produce
from .groups import is_classic
from .members import Crew
from .waiting import eventually
from .workers import Worker

PARTITIONS = 4
ALL = frozenset(range(PARTITIONS))


class Stream:
    """Records that come in portions, numbered on in each partition of a topic."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._bootstrap, self._topic = bootstrap, topic
        self.count = 0

    def flows(self, count: int = 10) -> None:
        """So many more in each partition."""
        values = [b"%d" % i for i in range(self.count, self.count + count)]
        produce(self._bootstrap, self._topic, dict.fromkeys(ALL, values))
        self.count += count

    def everything(self) -> dict[int, list[int]]:
        """By partition, the offsets of all there has been."""
        return {partition: list(range(self.count)) for partition in ALL}


@pytest.fixture
def stream(bootstrap: str, topic: str) -> Stream:
    """The records of the test's topic."""
    return Stream(bootstrap, topic)


@pytest.mark.fact("E20-02", "E20-44", "E20-45")
def test_a_group_that_stops_starts_again_with_the_other_protocol(
    bootstrap: str, group: str, topic: str, stream: Stream
) -> None:
    seen: dict[int, list[int]] = {partition: [] for partition in ALL}
    for protocol in ("classic", "consumer", "classic"):
        stream.flows()
        with contextlib.closing(
            Crew(bootstrap, group, topic, group_protocol=protocol)
        ) as members:
            members.join()
            members.poll_until(lambda: len(members.seen) == 10 * PARTITIONS)
            assert is_classic(bootstrap, group) == (protocol == "classic")
        for partition, offsets in members.offsets_read().items():
            seen[partition] += offsets
    assert seen == stream.everything()


@pytest.mark.fact("E20-10", "E20-25", "E20-31", "E20-40")
@pytest.mark.parametrize("assignor", [RangePartitionAssignor, StickyPartitionAssignor])
def test_a_client_that_knows_only_the_classic_protocol_shares_with_one_of_the_new(
    bootstrap: str, group: str, topic: str, stream: Stream, assignor: type
) -> None:
    stream.flows()
    with (
        Worker(
            bootstrap, group, topic, partition_assignment_strategy=(assignor,)
        ) as worker,
        contextlib.closing(
            Crew(bootstrap, group, topic, group_protocol="consumer")
        ) as crew,
    ):

        def until(condition: Callable[[], bool]) -> None:
            """Poll on, while no partition has two owners."""

            def holds() -> bool:
                assert not worker.owned & native.owned
                return condition()

            crew.poll_until(holds)

        def is_shared() -> bool:
            return len(worker.owned) == len(native.owned) == 2

        def is_read() -> bool:
            return len(worker.seen) + len(crew.seen) >= stream.count * PARTITIONS

        eventually(
            lambda: worker.owned == ALL and is_classic(bootstrap, group),
            wanted="a classic member alone",
        )
        native = crew.join()
        until(is_shared)
        assert not is_classic(bootstrap, group)
        stream.flows()
        until(is_read)
        assert worker.owned | native.owned == ALL
        crew.leave(native)
        assert is_classic(bootstrap, group)
        stream.flows()
        until(is_read)
        assert worker.owned == ALL
    read = {(p, i) for p, i, _ in worker.seen + crew.seen}
    assert read == {(p, i) for p in ALL for i in range(stream.count)}
    assert set(committed_offsets(bootstrap, group).values()) == {stream.count}
