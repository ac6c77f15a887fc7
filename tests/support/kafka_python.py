"""Closes the sockets that kafka-python leaves open.

kafka-python 3.0.12 does not always close the socket of a connection that is being made,
or has something to send, while its client closes. The garbage collector would report
that as a ResourceWarning, in whichever test runs then.
"""

from __future__ import annotations

import socket
import sys
from typing import Any, Final

_opened: Final[list[socket.socket]] = []


def keep_sockets() -> None:
    """Keep the sockets of kafka-python, if it was imported, until `close_sockets`."""
    inet = sys.modules.get("kafka.net.inet")
    if inet is None or hasattr(inet.KafkaNetSocket, "coterie_original"):
        return
    original = inet.KafkaNetSocket.socket

    def open_socket(self: Any, *arguments: Any, **named: Any) -> socket.socket:
        opened: socket.socket = original(self, *arguments, **named)
        _opened.append(opened)
        return opened

    inet.KafkaNetSocket.coterie_original = original
    inet.KafkaNetSocket.socket = open_socket


def close_sockets() -> None:
    """Close the kept sockets; those that are closed stay so."""
    for each in _opened:
        each.close()
    _opened.clear()
