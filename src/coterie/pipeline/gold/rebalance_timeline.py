"""Gold: When did each group rebalance, why, and what did it move?

Made by the replay of group records: see `gold/groups/`.
"""

from __future__ import annotations

from typing import Final

from coterie.pipeline.gold.from_history import gold_of
from coterie.pipeline.tables.rebalance_timeline import REBALANCE_TIMELINE

GOLD: Final = gold_of(REBALANCE_TIMELINE, "rebalance")
