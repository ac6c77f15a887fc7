"""A minimal asyncio server: it parses the header and sends a constant response.

Its cost is the lower bound of the cost of a request. It reads the size, API key,
version, correlation id and client id of every frame, and responds with a Heartbeat v4
response without an error. It runs as a process.
"""

from __future__ import annotations

import asyncio
import struct
from typing import Final

HEADER: Final = struct.Struct(">ihhih")
RESPONSE: Final = struct.Struct(">ii8s")
RESPONSE_BYTES: Final = 12
NO_ERROR: Final = bytes(8)
"""Header tags, throttle time, error code, body tags."""


class Floor(asyncio.Protocol):
    """A connection, with one write for the responses to all frames of a read."""

    def __init__(self) -> None:
        self._rest = b""
        self._client_id = ""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the transport."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Respond to every complete frame; buffer an incomplete frame."""
        if self._rest:
            data = self._rest + data
        at, end, responses = 0, len(data), []
        while end - at >= HEADER.size:
            size, _key, _version, correlation_id, name = HEADER.unpack_from(data, at)
            if end - at < 4 + size:
                break
            client_id_at = at + HEADER.size
            self._client_id = data[client_id_at : client_id_at + name].decode()
            responses.append(RESPONSE.pack(RESPONSE_BYTES, correlation_id, NO_ERROR))
            at += 4 + size
        self._rest = data[at:]
        self._transport.write(b"".join(responses))


async def main() -> None:
    """Serve until killed."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Floor, "127.0.0.1", 0, backlog=1_024)
    host, port = server.sockets[0].getsockname()
    print(f"floor ready on {host}:{port}", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
