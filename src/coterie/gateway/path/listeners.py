"""The listening ports of a gateway node: coordination, and one for each broker.

    addresses = Addresses(view, own)
    addresses.learn(brokers)
    path = DataPath(node, connections, addresses, options, topic="__coterie_gateway")
    listeners = Listeners(path, host, port)
    await listeners.start()

Whenever upstream's brokers are listed, `addresses.learn` opens the ports of new ones.
"""

from __future__ import annotations

import asyncio
import logging
import os
from functools import partial

from coterie.broker import Listener
from coterie.gateway.path.connection import ClientSide
from coterie.gateway.path.data_path import DataPath
from coterie.types import PORT_MAX

_LOGGER = logging.getLogger(__name__)


class Listeners:
    """The sockets of a node."""

    def __init__(self, path: DataPath, host: str, port: int) -> None:
        self.path = path
        self._host = host
        self._port = port
        self._listener = Listener(path.connections)
        self._opened = 0
        self._opening: asyncio.Task[None] | None = None
        self._loop = asyncio.get_running_loop()

    async def start(self) -> None:
        """Open the ports. Raises OSError when one is unavailable."""
        await self._listen(None, self._port)
        await self._open_new()
        self.path.addresses.on_new = self._schedule_opening

    def log_ports(self) -> None:
        """Log which ports clients need to reach."""
        brokers = len(self.path.addresses.ids)
        _LOGGER.info(
            "listening on %s, port %d for coordination, %d to %d for the brokers of "
            "upstream",
            self._host,
            self._port,
            self._port + 1,
            self._port + brokers,
        )

    async def stop_accepting(self) -> None:
        """Accept no more connections, and let those that are accepted begin."""
        self.path.addresses.on_new = None
        if self._opening is not None:
            self._opening.cancel()
        await self._listener.stop_accepting()

    def close(self) -> None:
        """Close every connection after the responses that are expected."""
        self._listener.close()
        self.path.connections.close()

    def abort(self) -> None:
        """Close every connection at once, also those to upstream that have something
        to send though their client has gone."""
        self.path.connections.abort()
        for upstream in tuple(self.path.connected):
            upstream.abort()

    def _schedule_opening(self) -> None:
        if self._opening is None or self._opening.done():
            self._opening = self._loop.create_task(self._open_new())

    async def _open_new(self) -> None:
        """Open the ports of brokers that are new.

        A port serves the broker at its place in the order of the ids. New connections
        are tied to another broker after one with a smaller id appeared.
        """
        while self._opened < len(self.path.addresses.ids):
            at = self._opened
            try:
                await self._listen(at, self._port + 1 + at)
            except OSError as error:
                if self.path.addresses.on_new is None:
                    raise
                _LOGGER.error("clients cannot reach an upstream broker: %s", error)
                return
            self._opened += 1

    async def _listen(self, at: int | None, port: int) -> None:
        try:
            if port > PORT_MAX:  # asyncio would listen on a free port
                raise OSError(f"the largest port is {PORT_MAX}")
            await self._listener.listen(partial(self._accept, at), self._host, port)
        except OSError as error:
            raise OSError(self._explain(at, port, error)) from error

    def _explain(self, at: int | None, port: int, error: OSError) -> str:
        addresses = self.path.addresses
        use = "coordination" if at is None else f"broker {addresses.ids[at]}"
        return (
            f"cannot listen on {self._host}:{port}, the port of {use}: "
            f"{reason_of(error)}; the node needs the ports {self._port} to "
            f"{self._port + len(addresses.ids)}, the first from --listen"
        )

    def _accept(self, at: int | None) -> ClientSide:
        broker_id = None if at is None else self.path.addresses.ids[at]
        return ClientSide(self.path, broker_id, self._loop)


def reason_of(error: OSError) -> str:
    """Return why a port is unavailable, without asyncio's words about it."""
    number = error.errno or 0  # negative for a name that does not resolve
    reason = os.strerror(number) if number > 0 else error.strerror or str(error)
    return reason.lower()
