"""Ports for programs that cannot be told to take a free one."""

from __future__ import annotations

import socket
from contextlib import ExitStack
from random import Random
from typing import Final

_RANGE: Final = range(15_000, 32_000)
"""Below the ports that Linux gives to outgoing connections: one of those may be taken
between here and the start of the program."""
_RANDOM: Final = (
    Random()
)  # not the random module: its seed is the same in all processes


def free_ports(count: int) -> range:
    """Return consecutive loopback ports that are free."""
    while True:
        first = _RANDOM.choice(_RANGE)
        ports = range(first, first + count)
        with ExitStack() as held:
            try:
                for port in ports:
                    held.enter_context(socket.create_server(("127.0.0.1", port)))
            except OSError:
                continue
        return ports
