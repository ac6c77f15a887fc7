"""A value that must not be seen."""

from __future__ import annotations

import hmac
from typing import Final

MASK: Final = "********"


class Secret:
    """A password, a key or a token. Printing it, or what holds it, shows a mask; the
    value is had by `reveal` alone, so that a search for that word finds every use."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """The value itself."""
        return self._value

    def __repr__(self) -> str:
        return MASK

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        return hmac.compare_digest(self._value.encode(), other._value.encode())

    def __hash__(self) -> int:
        return hash((Secret, self._value))

    def __reduce__(self) -> str:
        raise TypeError("a secret is not pickled")
