"""A simulated world: a server, its members, and their environment, from one seed.

`phases.py` runs it.
"""

from __future__ import annotations

from random import Random
from typing import Final

from coterie.broker.runtime.deferred import Respond
from coterie.broker.runtime.shards import DrivenShard
from coterie.types import GroupId
from coterie.wire import messages as m
from coterie.wire.error_codes import ErrorCode
from sim.broken import BugRecorder
from sim.checker import Checker
from sim.disk import Disk, Killed, MemoryDisk
from sim.network import Call, Network
from sim.plan import draw_plan
from sim.population import Population
from sim.server import Server
from sim.transactions import Producers, Transaction

_DOWN_MS_MAX: Final = 2_000
_RESTART_MS: Final = (500, 4_000)
_WRONG_PROTOCOL: Final = (
    ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
)


class World(Population):
    """The server, members, network, disk and clock of a simulated world."""

    def __init__(
        self, seed: int, recorder: BugRecorder, disk: Disk | None = None
    ) -> None:
        rng = Random(seed)  # noqa: S311 - a seed is to decide everything
        super().__init__(seed, rng, draw_plan(rng))
        checker = Checker(self.server_environment, recorder, self.ended)
        self.disk = disk or MemoryDisk()
        self.server: Server | None = None
        self.life = 0
        self._network = Network(self.clock, self.rng, self.transcript, self)
        self._network.faults = self.plan.network_faults
        self.populate(self._network, checker)
        self.producers = Producers(self.environment, lambda: self.server)

    # The server.

    @property
    def is_up(self) -> bool:
        """Whether the server accepts requests."""
        return self.server is not None

    def start_server(self) -> None:
        """Start a server on the disk of the last one."""
        if self.server is None:
            self.life += 1
            self.note("starts:", f"life {self.life}")
            self.server = Server(
                self.server_environment, self.disk, self.plan.shard_count
            )

    def kill_server(self, why: str) -> None:
        """Kill the server's process; unflushed data is lost."""
        if self.server is None:
            return
        self.note("is killed:", why)
        self.server.loop.die()
        self.server = None
        self.disk = self.disk.reopen()
        self._network.cut()
        self.clock.after(self.rng.randint(0, _DOWN_MS_MAX), self.start_server)

    def serve(self, call: Call, answer: Respond) -> None:
        """Submit a request to the server."""
        assert self.server is not None
        transaction: Transaction | None = None
        if isinstance(call.request, m.TxnOffsetCommitRequest):
            shard = self.server.runtime.shard_of(call.group_id)
            transaction = self.producers.admit(call.request, shard)
            if transaction is None:
                return
        self.checker.serve(self.server, call, answer, transaction)

    def driven(self, group_id: GroupId) -> DrivenShard | None:
        """Return a group's shard while the server is running."""
        if self.server is None:
            return None
        runtime = self.server.runtime
        return runtime.shards[runtime.shard_of(group_id)]

    def broadcast(self, event: object) -> None:
        """Send an event to all shards, as the catalog does."""
        if self.server is not None:
            self.server.runtime.broadcast(event)

    # Time.

    def step(self, until_ms: int) -> bool:
        """Run one event, and all immediate effects of it in the server."""
        try:
            happened = self.clock.step(until_ms)
            server = self.server
            if server is not None:
                server.loop.settle()
                self.checker.check_changes(server)
        except Killed:
            assert self.disk.death is not None
            self.kill_server(self.disk.death.value)
            return True
        self.steps += happened
        return happened
