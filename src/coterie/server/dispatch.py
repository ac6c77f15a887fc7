"""Which module serves which API: the table, loaded at the start of a server.

A module of `server/apis` has the API's name and a function `handle(call)`, which
answers the call once, now or later. No task is made for a request.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from types import MappingProxyType
from typing import TypeAlias

from coterie.server.call import Call
from coterie.wire.api import KNOWN

Handler: TypeAlias = Callable[[Call], None]


def load_handlers() -> Mapping[int, Handler]:
    """The handler of every API that is known, by its key."""
    return MappingProxyType(
        {
            int(key): import_module(f"coterie.server.apis.{key.name.lower()}").handle
            for key in KNOWN
        }
    )
