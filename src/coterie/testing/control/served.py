"""The server of `coterie serve --control`, until a signal stops it."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

from coterie.broker import ServerOptions
from coterie.errors import SettingError
from coterie.files import decode_text
from coterie.http_endpoint import is_loopback
from coterie.portable_os import STOP_SIGNALS
from coterie.testing.control.api import ControlApi, ServedKafka
from coterie.testing.control.http import ControlServer

TOKEN_VARIABLE: Final = "COTERIE_CONTROL_TOKEN"  # noqa: S105


def control_token(token_file: Path | None) -> str | None:
    """Return the token of a file or of the environment; None without one.

    Raises OSError.
    """
    if token_file is not None:
        return decode_text(token_file.read_bytes()).strip() or None
    return os.environ.get(TOKEN_VARIABLE) or None


def serve_controlled(
    options: ServerOptions,
    address: tuple[str, int],
    token: str | None,
    ready: Callable[[str, str], None],
) -> None:
    """Serve until SIGTERM or SIGINT; call `ready` with the addresses of the nodes and
    of the control API.

    Raises SettingError for an address of other machines without a token, and LogError
    and OSError for an address in use.
    """
    host, port = address
    if token is None and not is_loopback(host):
        raise SettingError(
            f"--control {host}:{port}: other machines could control this server; set "
            f"{TOKEN_VARIABLE} or --control-token-file, or use 127.0.0.1"
        )
    stopped = threading.Event()
    for number in STOP_SIGNALS:
        signal.signal(number, lambda *_: stopped.set())
    with ServedKafka(options) as kafka:
        api = ControlApi(kafka)
        control = ControlServer(api.routes(), host, port, token)
        control.start()
        try:
            ready(kafka.server.addresses, control.address)
            while not stopped.wait(1.0):
                pass  # a signal is handled when the wait ends
        finally:
            control.close()
