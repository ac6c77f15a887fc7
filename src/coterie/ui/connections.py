"""The open connections of the live page, of which those without a session block nobody.

A connection is unauthenticated until one of its requests had a session, or needed none.
It may stay open without a request, or send one byte by byte: when there are too many, a
new one replaces the oldest. Authenticated connections have a bound of their own, and
none of them is closed for a new one.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import Final, TypeAlias

UNAUTHENTICATED_MAX: Final = 100
AUTHENTICATED_MAX: Final = 200

Client: TypeAlias = "tuple[str, int] | None"
"""The address and port of a client, which differ for each connection."""


class Connections:
    """The open connections, in the event loop of the page."""

    def __init__(self) -> None:
        self._unauthenticated: OrderedDict[Client, asyncio.Transport] = OrderedDict()
        """The connections without a session, the oldest first."""
        self._authenticated: set[Client] = set()

    def open(self, client: Client, transport: asyncio.Transport) -> None:
        """Add a connection; abort the oldest unauthenticated one of too many."""
        self._unauthenticated[client] = transport
        if len(self._unauthenticated) > UNAUTHENTICATED_MAX:
            _, oldest = self._unauthenticated.popitem(last=False)
            oldest.abort()

    def authenticate(self, client: Client) -> bool:
        """Mark a connection as authenticated; return False if there are too many."""
        if (
            client not in self._authenticated
            and len(self._authenticated) >= AUTHENTICATED_MAX
        ):
            return False
        if self._unauthenticated.pop(client, None) is not None:
            self._authenticated.add(client)
        return True

    def close(self, client: Client) -> None:
        """Remove a connection that is closed."""
        self._unauthenticated.pop(client, None)
        self._authenticated.discard(client)
