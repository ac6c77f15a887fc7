"""What a caller may do to something, as brokers tell it: a bit for each (KIP-430)."""

from __future__ import annotations

from typing import Final

from coterie.auth.authorizer import Operation

NOT_TOLD: Final = -(2**31)
"""The broker was not asked, or is too old to answer."""


def operations(bits: int) -> frozenset[Operation] | None:
    """The operations of a bit field; None when there is none. Those that this build
    does not know are left out."""
    if bits == NOT_TOLD:
        return None
    return frozenset(each for each in Operation if bits >> each & 1)
