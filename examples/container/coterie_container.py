"""Coterie in a container, by Testcontainers for Python (`pip install testcontainers`).

with CoterieContainer() as kafka:
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap_servers, ...})
    kafka.send("POST", "/v1/clock/advance", {"days": 8})
"""

from __future__ import annotations

import json
import urllib.request
from typing import Any, Final, Self

from testcontainers.core.container import DockerContainer
from testcontainers.core.waiting_utils import wait_for_logs

KAFKA_PORT: Final = 9092
CONTROL_PORT: Final = 9095
TOKEN: Final = "for-tests-only"  # noqa: S105


class CoterieContainer:
    """A server on free ports of the host."""

    def __init__(self, image: str = "coterie") -> None:
        self._container = DockerContainer(image)
        self._container.with_exposed_ports(KAFKA_PORT, CONTROL_PORT)
        self._container.with_env("COTERIE_CONTROL_TOKEN", TOKEN)

    def __enter__(self) -> Self:
        """Start the container, and advertise the port that the host has mapped."""
        self._container.start()
        wait_for_logs(self._container, "coterie control on")
        host, _, port = self.bootstrap_servers.rpartition(":")
        self.send("PUT", "/v1/advertised", {"host": host, "port": int(port)})
        return self

    def __exit__(self, *_: object) -> None:
        self._container.stop()

    @property
    def bootstrap_servers(self) -> str:
        """The address of the server, on the host."""
        return self._address(KAFKA_PORT)

    def send(self, method: str, path: str, body: object = None) -> Any:
        """Send a request to the control API; return its response."""
        request = urllib.request.Request(
            f"http://{self._address(CONTROL_PORT)}{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={
                "Authorization": f"Bearer {TOKEN}",
                "Content-Type": "application/json",
            },
        )
        with urllib.request.urlopen(request, timeout=60) as response:  # noqa: S310
            return json.load(response)

    def _address(self, port: int) -> str:
        host = self._container.get_container_host_ip()
        return f"{host}:{self._container.get_exposed_port(port)}"
