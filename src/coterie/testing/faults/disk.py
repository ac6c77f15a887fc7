"""A disk without free space."""

from __future__ import annotations

from coterie.broker import Broker
from coterie.errors import LogFull
from coterie.testing.faults.fault import Rule, ServerFault


class DiskFull(ServerFault):
    """A disk without free space: each write of the log fails, until the fault is
    removed or `times` writes have failed. `failed_writes` counts them. Its hits are the
    requests that were refused because of it."""

    name = "disk_full"

    def __init__(self, rule: Rule, broker: Broker) -> None:
        super().__init__(
            rule,
            "KAFKA_STORAGE_ERROR",
            "COORDINATOR_NOT_AVAILABLE",
            "NOT_COORDINATOR",
            "UNKNOWN_SERVER_ERROR",
        )
        self.failed_writes = 0
        self._flusher = broker.flusher
        broker.flusher.before_write = self._fail

    def _fail(self) -> None:
        times = self.rule.times
        if times is None or self.failed_writes < times:
            self.failed_writes += 1
            raise LogFull("no space left on the disk (a fault of the test)")

    def end(self) -> None:
        self._flusher.before_write = None
