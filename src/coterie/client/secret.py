"""Secret values that print as a mask."""

from __future__ import annotations

import hmac
from typing import Final

MASK: Final = "********"


class Secret:
    """A password, a key or a token that prints as a mask.

    `reveal` is the only access to the value, so a search for it finds every use.
    """

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """Return the value."""
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
        raise TypeError("a Secret cannot be pickled")
