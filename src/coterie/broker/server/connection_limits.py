"""The number of open connections: `max.connections` for the server,
`max.connections.per.ip` and its overrides for one address.

Kafka waits with `accept` while `max.connections` are open; here the connection is
closed, as Kafka does at the limit of an address. Refused connections are counted, and
logged once until a connection of the same kind closes: a client reconnects at once.
"""

from __future__ import annotations

import ipaddress
import logging
import socket
from collections import Counter
from collections.abc import Iterable

from coterie.errors import SettingError
from coterie.settings import Settings

_LOGGER = logging.getLogger(__name__)


class ConnectionLimits:
    """The open connections by address.

    Raises SettingError when a host name of `max.connections.per.ip.overrides` has no
    address.
    """

    def __init__(self, settings: Settings) -> None:
        self.open_count = 0
        self.refused_count = 0
        self._max = settings.max_connections
        self._max_per_ip = settings.max_connections_per_ip
        self._overrides = _by_address(settings.max_connections_per_ip_overrides)
        self._open: Counter[str] = Counter()
        self._logged: set[str] = set()

    def add(self, host: str) -> bool:
        """Count a connection; return False when it has to be refused."""
        host = _without_mapping(host)
        per_ip = self._overrides.get(host, self._max_per_ip)
        if self.open_count >= self._max:
            self._refuse("", f"max.connections ({self._max}) are open")
            return False
        if self._open[host] >= per_ip:
            reason = f"{per_ip} are open from {host} (max.connections.per.ip)"
            self._refuse(host, reason)
            return False
        self.open_count += 1
        self._open[host] += 1
        return True

    def remove(self, host: str) -> None:
        """Subtract a connection that was added."""
        host = _without_mapping(host)
        assert self._open[host] > 0
        self.open_count -= 1
        self._open[host] -= 1
        if not self._open[host]:
            del self._open[host]
        self._logged -= {"", host}

    def _refuse(self, kind: str, reason: str) -> None:
        self.refused_count += 1
        if kind not in self._logged:
            self._logged.add(kind)
            _LOGGER.warning("connections are refused: %s", reason)


def parse_override(text: str) -> tuple[str, int]:
    """Return host and limit of "HOST:LIMIT". Raises ValueError."""
    host, colon, limit = text.rpartition(":")
    if not (host and colon and limit.isascii() and limit.isdigit()):
        raise ValueError(text)
    return host.strip("[]"), int(limit)


def _by_address(overrides: Iterable[str]) -> dict[str, int]:
    limits = {}
    for text in overrides:
        host, limit = parse_override(text)
        for address in _addresses(host):
            limits[address] = limit
    return limits


def _addresses(host: str) -> set[str]:
    try:
        return {str(ipaddress.ip_address(host))}
    except ValueError:
        pass  # a host name
    try:
        found = socket.getaddrinfo(host, None)
    except (OSError, UnicodeError) as error:
        raise SettingError(
            f"max.connections.per.ip.overrides: {host} has no address: {error}"
        ) from error
    return {_without_mapping(str(info[4][0])) for info in found}


def _without_mapping(host: str) -> str:
    """Return the IPv4 address of a socket that accepts IPv4 and IPv6."""
    return host.removeprefix("::ffff:")
