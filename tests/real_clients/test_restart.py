"""Clients continue after a server was stopped or killed and started again."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.real_clients.confluent_admin import (
    alter_offsets,
    committed_offsets,
    create_topic,
    produce,
)
from tests.real_clients.confluent_members import ConfluentGroup
from tests.support.server_process import start_server

from .conftest import SETTINGS

PARTITIONS = 4
KILL = pytest.mark.parametrize("kill", [False, True], ids=["stopped", "killed"])


class RestartableServer:
    """A server that can be restarted with the same data at the same address."""

    def __init__(self, data: Path) -> None:
        self._data = data
        self.server = start_server(data=data, settings=SETTINGS)
        self.address = self.server.bootstrap

    def restart(self, *, kill: bool) -> None:
        """Stop or kill the server, and start it again."""
        if kill:
            self.server.kill()
        else:
            self.server.stop()
        self.server = start_server(
            data=self._data, settings=SETTINGS, listen=self.address
        )


@pytest.fixture
def restartable(tmp_path: Path) -> Iterator[RestartableServer]:
    server = RestartableServer(tmp_path)
    yield server
    server.server.stop()


@pytest.mark.slow
@KILL
def test_topics_records_and_offsets_survive_a_restart(
    restartable: RestartableServer, *, kill: bool
) -> None:
    address = restartable.address
    create_topic(address, "kept", partitions=PARTITIONS)
    produce(address, "kept", {p: [b"%d" % p] * 10 for p in range(PARTITIONS)})
    alter_offsets(address, "g", {("kept", 1): 7, ("kept", 3): 9})
    restartable.restart(kill=kill)
    assert committed_offsets(address, "g") == {("kept", 1): 7, ("kept", 3): 9}
    with contextlib.closing(ConfluentGroup(address, "reader", "kept")) as members:
        members.join()
        members.poll_until(lambda: len(members.records) == 40)
    assert members.offsets_read() == {p: list(range(10)) for p in range(PARTITIONS)}


@pytest.mark.slow
@KILL
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_continues_after_a_server_restart(
    restartable: RestartableServer, protocol: str, *, kill: bool
) -> None:
    address = restartable.address
    create_topic(address, "t", partitions=PARTITIONS)
    with contextlib.closing(
        ConfluentGroup(address, "g", "t", group_protocol=protocol)
    ) as members:
        members.join()
        members.join()
        members.poll_until_assigned(PARTITIONS)
        rebalances = [len(member.assigned) for member in members.members]
        restartable.restart(kill=kill)
        produce(address, "t", {p: [b"%d" % p] * 10 for p in range(PARTITIONS)})
        members.poll_until(lambda: len(members.records) == 40)
        # The group was loaded with its members: none had to join again.
        assert [len(member.assigned) for member in members.members] == rebalances
    assert committed_offsets(address, "g") == {("t", p): 10 for p in range(PARTITIONS)}


@pytest.mark.slow
@KILL
def test_no_commit_of_a_consuming_group_is_lost(
    restartable: RestartableServer, *, kill: bool
) -> None:
    address = restartable.address
    create_topic(address, "t", partitions=PARTITIONS)
    values = {p: [b"%d" % i for i in range(30)] for p in range(PARTITIONS)}
    with contextlib.closing(
        ConfluentGroup(
            address, "g", "t", group_protocol="consumer", max_partition_fetch_bytes=200
        )
    ) as members:
        one, two = members.join(), members.join()
        members.poll_until_assigned(PARTITIONS)
        produce(address, "t", values)  # while both members are assigned
        members.poll_until(lambda: len(one.records) > 10 and len(two.records) > 10)
        for member in members.members:
            member.commit()
        before = committed_offsets(address, "g")
        restartable.restart(kill=kill)
        assert committed_offsets(address, "g") == before
        # `one` leaves without a commit; `two` continues at the committed offsets.
        one.commits, inherited, known = False, one.owned, len(two.records)
        members.leave(one)
        produce(address, "t", values)
        members.poll_until(lambda: len(set(members.records)) == 60 * PARTITIONS)
        members.poll_until_assigned(PARTITIONS)
        for partition in inherited:
            new = [
                one.offset for one in two.records[known:] if one.partition == partition
            ]
            assert new == list(range(before.get(("t", partition), 0), 60))
    assert committed_offsets(address, "g") == {("t", p): 60 for p in range(PARTITIONS)}
