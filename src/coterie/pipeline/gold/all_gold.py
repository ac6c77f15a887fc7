"""Every gold table, each after those that it is made from."""

from __future__ import annotations

from typing import Final

from coterie.pipeline.gold import current_offsets, offset_commit_history
from coterie.pipeline.gold.look import Gold

GOLD: Final[tuple[Gold, ...]] = (
    current_offsets.GOLD,
    offset_commit_history.GOLD,
)
