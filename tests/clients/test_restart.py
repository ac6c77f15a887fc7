"""Clients live through a server that stops, is killed, and comes back on its data."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from .admin import alter_offsets, committed_offsets, create_topic, produce
from .members import Crew
from .process import ServerProcess

PARTITIONS = 4
SETTINGS = ("--set", "group.initial.rebalance.delay.ms=100")


class Restartable:
    """One server, its data and its address, through several lives."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._arguments = ("--data", str(folder / "data"), *SETTINGS)
        self.server = ServerProcess(folder, *self._arguments)
        self.address = self.server.address

    def again(self, *, kill: bool) -> None:
        """End this life and begin the next one at the same address."""
        if kill:
            self.server.kill()
        else:
            self.server.stop()
        self.server = ServerProcess(self._folder, *self._arguments, listen=self.address)


@pytest.fixture
def restartable(tmp_path: Path) -> Iterator[Restartable]:
    """A server that keeps its data, and may be restarted by the test."""
    made = Restartable(tmp_path)
    yield made
    made.server.stop()


@pytest.mark.slow
@pytest.mark.parametrize("kill", [False, True], ids=["stopped", "killed"])
def test_topics_records_and_offsets_are_still_there(
    restartable: Restartable, *, kill: bool
) -> None:
    address = restartable.address
    create_topic(address, "kept", partitions=PARTITIONS)
    produce(address, "kept", {p: [b"%d" % p] * 10 for p in range(PARTITIONS)})
    alter_offsets(address, "g", {("kept", 1): 7, ("kept", 3): 9})
    restartable.again(kill=kill)
    assert committed_offsets(address, "g") == {("kept", 1): 7, ("kept", 3): 9}
    with contextlib.closing(Crew(address, "reader", "kept")) as members:
        members.join()
        members.poll_until(lambda: len(members.seen) == 40)
    assert members.offsets_read() == {p: list(range(10)) for p in range(PARTITIONS)}


@pytest.mark.slow
@pytest.mark.fact("E19-17")
@pytest.mark.parametrize("kill", [False, True], ids=["stopped", "killed"])
def test_a_running_group_goes_on_after_a_restart(
    restartable: Restartable, *, kill: bool
) -> None:
    address = restartable.address
    create_topic(address, "t", partitions=PARTITIONS)
    with contextlib.closing(Crew(address, "g", "t")) as members:
        members.join()
        members.join()
        members.poll_until_shared(PARTITIONS)
        rebalances = [len(member.assigned) for member in members.members]
        restartable.again(kill=kill)
        produce(address, "t", {p: [b"%d" % p] * 10 for p in range(PARTITIONS)})
        members.poll_until(lambda: len(members.seen) == 40)
        # The group was loaded with its members: nobody had to join again.
        assert [len(member.assigned) for member in members.members] == rebalances
    assert committed_offsets(address, "g") == {("t", p): 10 for p in range(PARTITIONS)}
