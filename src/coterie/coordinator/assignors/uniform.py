"""The `uniform` assignor: sizes that differ by one at most, and few moves (E11-40)."""

from __future__ import annotations

from coterie.coordinator.assignors.range import assign

__all__ = ["assign"]
