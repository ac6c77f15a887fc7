"""Back-off after failed authentications, against guessing passwords.

Failures are counted by address, and by user and address, never by user alone: a client
at another address cannot delay a user. After some free failures each further one
doubles the time until the next password is checked, up to a limit. Attempts that arrive
earlier wait; parallel connections wait for the same time, and after each failure again.

A user who has authenticated from an address is not delayed by the failures of other
users there, so that one client with a wrong password does not delay the others of its
machine or network.

Every table has a bounded number of entries of bounded size, and drops the one that was
used least recently. The time is an argument.
"""

from __future__ import annotations

from collections import OrderedDict
from ipaddress import IPv6Address, ip_address
from typing import Final, TypeAlias

ENTRIES_MAX: Final = 10_000
"""The largest number of entries of each table."""
FREE_BY_USER: Final = 3
"""Failures of a user at an address without back-off: typing errors."""
FREE_BY_ADDRESS: Final = 10
FORGET_MS: Final = 15 * 60_000
"""Time without a failure after which failures are forgotten."""
KNOWN_MS: Final = 24 * 3_600_000
"""Time after a success in which the failures of others at the address do not matter."""
_DOUBLINGS_MAX: Final = 30
_NETWORK_BITS: Final = 64

_Key: TypeAlias = "str | tuple[str, int]"


class _Failures:
    __slots__ = ("count", "last_ms", "next_ms")

    def __init__(self) -> None:
        self.count = 0
        self.last_ms = 0
        self.next_ms = 0


class FailedAttempts:
    """The failed authentications of a listener.

    `backoff_ms` is the first delay, 0 for none at all; `backoff_max_ms` is the largest.
    """

    def __init__(self, backoff_ms: int, backoff_max_ms: int) -> None:
        assert 0 <= backoff_ms <= backoff_max_ms
        self._backoff_ms = backoff_ms
        self._backoff_max_ms = backoff_max_ms
        self._by_user: OrderedDict[_Key, _Failures] = OrderedDict()
        self._by_address: OrderedDict[_Key, _Failures] = OrderedDict()
        self._known: OrderedDict[_Key, int] = OrderedDict()
        """The time of the last success by user and address."""

    def wait_ms(self, user: str, address: str, now_ms: int) -> int:
        """Return the time until a password of the user may be checked."""
        network = network_of(address)
        pair = (network, hash(user))
        wait_ms = _remaining_ms(self._by_user.get(pair), now_ms)
        if not self._is_known(pair, now_ms):
            at_address = _remaining_ms(self._by_address.get(network), now_ms)
            wait_ms = max(wait_ms, at_address)
        return wait_ms

    def fail(self, user: str, address: str, now_ms: int) -> None:
        """Count a failed authentication."""
        network = network_of(address)
        pair = (network, hash(user))
        self._count(self._by_user, pair, FREE_BY_USER, now_ms)
        if not self._is_known(pair, now_ms):
            self._count(self._by_address, network, FREE_BY_ADDRESS, now_ms)

    def succeed(self, user: str, address: str, now_ms: int) -> None:
        """Forget the failures of the user at the address.

        Those of the address stay: otherwise a client with one valid password could
        guess others without delay.
        """
        pair = (network_of(address), hash(user))
        self._by_user.pop(pair, None)
        self._known[pair] = now_ms
        self._known.move_to_end(pair)
        if len(self._known) > ENTRIES_MAX:
            self._known.popitem(last=False)

    def _count(
        self, table: OrderedDict[_Key, _Failures], key: _Key, free: int, now_ms: int
    ) -> None:
        failures = table.get(key)
        if failures is None or now_ms - failures.last_ms >= FORGET_MS:
            failures = table[key] = _Failures()
        table.move_to_end(key)
        if len(table) > ENTRIES_MAX:
            table.popitem(last=False)
        failures.count += 1
        failures.last_ms = now_ms
        doublings = failures.count - free - 1
        if doublings >= 0:
            delay_ms = self._backoff_ms << min(doublings, _DOUBLINGS_MAX)
            failures.next_ms = now_ms + min(delay_ms, self._backoff_max_ms)
        assert len(table) <= ENTRIES_MAX

    def _is_known(self, pair: _Key, now_ms: int) -> bool:
        succeeded_ms = self._known.get(pair)
        return succeeded_ms is not None and now_ms - succeeded_ms < KNOWN_MS


def _remaining_ms(failures: _Failures | None, now_ms: int) -> int:
    return 0 if failures is None else max(0, failures.next_ms - now_ms)


def network_of(address: str) -> str:
    """Return the network that failures of an address count for.

    For IPv6 it is the /64 network, since a client can use any address in its own.
    """
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if not isinstance(parsed, IPv6Address):
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return f"{int(parsed) >> _NETWORK_BITS:x}::/64"
