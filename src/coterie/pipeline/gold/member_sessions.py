"""Gold: Who came and went, and what did that cost?

Made by the replay of group records: see `gold/groups/`.
"""

from __future__ import annotations

from typing import Final

from coterie.pipeline.gold.from_history import gold_of
from coterie.pipeline.tables.member_sessions import MEMBER_SESSIONS

GOLD: Final = gold_of(MEMBER_SESSIONS, "session")
