"""The catalog of a gateway node over a log in memory, and the events of its topics."""

from __future__ import annotations

import asyncio

from coterie.auth.authorizer import AclAuthorizer
from coterie.broker.catalog.catalog import Catalog, TopicChange
from coterie.broker.log.memory import MemoryLog
from coterie.broker.runtime.data import DataPlane
from coterie.broker.runtime.flusher import Flusher
from coterie.broker.runtime.system import Timekeeping, steady_clock, wall_clock
from coterie.broker.server.config import make_settings


class ReadModel:
    """A catalog and its data plane. `events` has the change of each topic in words."""

    def __init__(self, acls: AclAuthorizer | None = None) -> None:
        loop = asyncio.get_running_loop()
        log = MemoryLog()
        time = Timekeeping(steady_clock(), wall_clock, loop, loop)
        self.catalog = Catalog(make_settings({}), (1,), acls)
        flusher = Flusher(log, loop, threaded=False)
        self.data = DataPlane(
            log, flusher, self.catalog, timekeeping=time, scheduler=loop
        )
        self.data.load()
        self.events: list[str] = []
        self.catalog.watch(self._record)

    def counts(self) -> dict[str, int]:
        """Return the number of partitions of each topic."""
        return {
            name: topic.partition_count for name, topic in self.catalog.topics.items()
        }

    def take_events(self) -> list[str]:
        """Return the events since the last call, sorted."""
        taken, self.events = sorted(self.events), []
        return taken

    def _record(self, change: TopicChange) -> None:
        before, after = change
        if before is None:
            assert after is not None
            self.events.append(f"{after.name} created")
        elif after is None:
            self.events.append(f"{before.name} deleted")
        else:
            self.events.append(f"{after.name} changed")
