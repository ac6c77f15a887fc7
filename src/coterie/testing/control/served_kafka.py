"""A `Kafka` with all parameters of `coterie serve`."""

from __future__ import annotations

from dataclasses import replace

from coterie.broker import Server, ServerOptions
from coterie.testing.kafka import Kafka


class ServedKafka(Kafka):
    """A `Kafka` with all parameters of `coterie serve`."""

    def __init__(self, options: ServerOptions) -> None:
        super().__init__()
        self._options = options

    @property
    def options(self) -> ServerOptions:
        """The parameters of the server."""
        return self._options

    def advertise(self, host: str, port: int) -> None:
        """Set the address that clients connect to, now and after a restart: node 1 has
        `port`, further nodes have the ports after it."""
        self._options = replace(
            self._options, advertised_host=host, advertised_port=port
        )

        def change(server: Server) -> None:
            for at, node in enumerate(server.nodes):
                node.host, node.port = host, port + at

        if self.is_running:
            self.call(change)
