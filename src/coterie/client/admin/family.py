"""Families of calls, such as `Topics` and its blocking form `SyncTopics`.

A family is an attribute of the admin clients, as in `admin.topics.create(...)`. Its
module is imported on first use, so that a command does not import the messages of
other families.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

from coterie.client.cluster import Cluster
from coterie.loop_thread import LoopThread

P = ParamSpec("P")
T = TypeVar("T")


class Family:
    """Calls about one kind of thing, over the connections of a cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster


F = TypeVar("F", bound=Family)


class SyncFamily(Generic[F]):
    """The blocking form of a family, whose coroutines run in a thread."""

    def __init__(self, family: F, thread: LoopThread) -> None:
        self._family = family
        self._thread = thread


def blocking(
    call: Callable[Concatenate[F, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[SyncFamily[F], P], T]:
    """Return the blocking method for a coroutine of a family."""

    # ParamSpec keeps names, defaults and types of the parameters for type checkers and
    # editors, `wraps` keeps signature and docstring for help(); so no second
    # declaration or generated stub has to follow the changes of the coroutine.
    @functools.wraps(call)
    def method(self: SyncFamily[F], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._thread.wait(call(self._family, *args, **kwargs))

    return method
