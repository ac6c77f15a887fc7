"""A mapping that looks changed while the one below it stays as it is.

Every operation costs the same whatever the size of the mapping below, but walking it
and `clear`. The order is that of a dict with the same history, so that a draft and the
group it becomes elect the same leader.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Overlay(MutableMapping[K, V]):
    """Reads through to `below`; writes stay here."""

    __slots__ = ("_added", "_below", "_gone", "_put")

    def __init__(self, below: Mapping[K, V]) -> None:
        self._below = below
        self._put: dict[K, V] = {}
        self._gone: set[K] = set()
        self._added: dict[K, None] = {}

    def __getitem__(self, key: K) -> V:
        if key in self._put:
            return self._put[key]
        if key in self._gone:
            raise KeyError(key)
        return self._below[key]

    def __setitem__(self, key: K, value: V) -> None:
        if key not in self._below or key in self._gone:
            self._added[key] = None
        self._put[key] = value

    def __delitem__(self, key: K) -> None:
        if key not in self:
            raise KeyError(key)
        self._put.pop(key, None)
        self._added.pop(key, None)
        if key in self._below:
            self._gone.add(key)

    def __contains__(self, key: object) -> bool:
        if key in self._put:
            return True
        return key not in self._gone and key in self._below

    def __iter__(self) -> Iterator[K]:
        if self._gone:
            yield from (key for key in self._below if key not in self._gone)
        else:
            yield from self._below
        yield from self._added

    def __len__(self) -> int:
        return len(self._below) - len(self._gone) + len(self._added)

    def clear(self) -> None:
        """Look empty."""
        self.__init__({})  # type: ignore[misc]
