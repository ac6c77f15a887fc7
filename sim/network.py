"""The network between members and their server.

Requests of one member over one connection stay in order, as TCP keeps them; between
members anything may overtake anything. A request or its answer may be lost, may take
long, and may be handled twice in a row, as by a client that asks again.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, NamedTuple

from coterie.types import GroupId
from sim.clock import Clock
from sim.server import Server


class Weather(NamedTuple):
    """How bad the network is; chances from 0 to 1."""

    lost: float
    doubled: float
    slow: float
    delay_max_ms: int
    slow_max_ms: int


CALM = Weather(0.0, 0.0, 0.0, 5, 5)


class Network:
    """Carries requests and answers."""

    def __init__(self, clock: Clock, server: Server, dice: random.Random) -> None:
        self.weather = CALM
        self._clock = clock
        self._server = server
        self._dice = dice
        self._free_ms: dict[str, int] = {}
        self.handled: Callable[[GroupId, Any], None] = lambda group_id, request: None
        """Called when the server has looked at a request."""

    def ask(
        self,
        connection: str,
        group_id: GroupId,
        request: Any,
        version: int,
        answer: Callable[[Any], None],
    ) -> None:
        """Send a request; its answer comes, or never does."""
        weather, dice = self.weather, self._dice
        if dice.random() < weather.lost:
            return
        times = 2 if dice.random() < weather.doubled else 1

        def arrive() -> None:
            for _ in range(times):
                self._server.submit(group_id, request, version, come_back)
                self.handled(group_id, request)

        def come_back(response: Any) -> None:
            if dice.random() >= weather.lost:
                self._deliver(f"<{connection}", lambda: answer(response))

        self._deliver(connection, arrive)

    def _deliver(self, connection: str, callback: Callable[[], object]) -> None:
        """After everything that was sent on this connection before."""
        weather, dice = self.weather, self._dice
        is_slow = dice.random() < weather.slow
        most = weather.slow_max_ms if is_slow else weather.delay_max_ms
        at_ms = self._clock.now_ms + dice.randint(1, most)
        at_ms = max(at_ms, self._free_ms.get(connection, 0))
        self._free_ms[connection] = at_ms
        self._clock.after(at_ms - self._clock.now_ms, callback)
