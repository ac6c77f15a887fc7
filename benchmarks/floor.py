"""The least a server can do in asyncio: parse the header, answer a constant.

Run as a process by heartbeat_floor. It reads the size, key, version, correlation id
and client id of every frame, and answers what a Heartbeat v4 without error answers.
"""

from __future__ import annotations

import asyncio
import struct
from typing import Final

HEADER: Final = struct.Struct(">ihhih")
ANSWER: Final = struct.Struct(">ii8s")
ANSWER_BYTES: Final = 12
NO_ERROR: Final = bytes(8)
"""Tags of the header, throttle time, error code, tags of the body."""


class Floor(asyncio.Protocol):
    """One connection: all frames of a read, one write for all answers."""

    def __init__(self) -> None:
        self._held = b""
        self._client_id = ""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport to answer on."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Answer every whole frame, keep the rest."""
        if self._held:
            data = self._held + data
        at, end, answers = 0, len(data), []
        while end - at >= HEADER.size:
            size, _key, _version, correlation_id, name = HEADER.unpack_from(data, at)
            if end - at < 4 + size:
                break
            client_id_at = at + HEADER.size
            self._client_id = data[client_id_at : client_id_at + name].decode()
            answers.append(ANSWER.pack(ANSWER_BYTES, correlation_id, NO_ERROR))
            at += 4 + size
        self._held = data[at:]
        self._transport.write(b"".join(answers))


async def main() -> None:
    """Serve until killed."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Floor, "127.0.0.1", 0, backlog=1_024)
    host, port = server.sockets[0].getsockname()
    print(f"floor ready on {host}:{port}", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
