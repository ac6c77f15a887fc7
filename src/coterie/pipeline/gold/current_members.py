"""Gold: Who is in each group, and what do they own?

As the coordinator describes the group: a static member that is away is in it, with what
waits for it.
"""

from __future__ import annotations

from typing import Final

from coterie.pipeline.gold.from_history import gold_of
from coterie.pipeline.tables.current_members import CURRENT_MEMBERS

GOLD: Final = gold_of(CURRENT_MEMBERS, "member")
