"""Gold: Who owned each partition, from when until when?

Made by the replay of group records: see `gold/groups/`.
"""

from __future__ import annotations

from typing import Final

from coterie.pipeline.gold.from_history import gold_of
from coterie.pipeline.tables.partition_ownership_history import (
    PARTITION_OWNERSHIP_HISTORY,
)

GOLD: Final = gold_of(PARTITION_OWNERSHIP_HISTORY, "ownership")
