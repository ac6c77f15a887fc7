"""Clients live through a server that stops, is killed, and comes back on its data."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from .admin import alter_offsets, committed_offsets, create_topic, produce
from .conftest import ARGUMENTS
from .members import Crew
from .process import ServerProcess

PARTITIONS = 4
KILL = pytest.mark.parametrize("kill", [False, True], ids=["stopped", "killed"])


class Restartable:
    """One server, its data and its address, through several lives."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._arguments = ("--data", str(folder / "data"), *ARGUMENTS)
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
@KILL
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
@KILL
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_running_group_goes_on_after_a_restart(
    restartable: Restartable, protocol: str, *, kill: bool
) -> None:
    address = restartable.address
    create_topic(address, "t", partitions=PARTITIONS)
    with contextlib.closing(
        Crew(address, "g", "t", group_protocol=protocol)
    ) as members:
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


@pytest.mark.slow
@KILL
def test_no_commit_of_a_consuming_group_is_lost(
    restartable: Restartable, *, kill: bool
) -> None:
    address = restartable.address
    create_topic(address, "t", partitions=PARTITIONS)
    values = {p: [b"%d" % i for i in range(30)] for p in range(PARTITIONS)}
    with contextlib.closing(
        Crew(
            address, "g", "t", group_protocol="consumer", max_partition_fetch_bytes=200
        )
    ) as members:
        one, two = members.join(), members.join()
        members.poll_until_shared(PARTITIONS)
        produce(address, "t", values)  # now, so that each has something to read
        members.poll_until(lambda: len(one.seen) > 10 and len(two.seen) > 10)
        for member in members.members:
            member.commit()
        before = committed_offsets(address, "g")
        restartable.again(kill=kill)
        assert committed_offsets(address, "g") == before
        # One goes without another commit; two goes on where one had committed.
        one.commits, inherited, known = False, one.owned, len(two.seen)
        members.leave(one)
        produce(address, "t", values)
        members.poll_until(lambda: len(set(members.seen)) == 60 * PARTITIONS)
        members.poll_until_shared(PARTITIONS)
        for partition in inherited:
            new = [one.offset for one in two.seen[known:] if one.partition == partition]
            assert new == list(range(before.get(("t", partition), 0), 60))
    assert committed_offsets(address, "g") == {("t", p): 60 for p in range(PARTITIONS)}
