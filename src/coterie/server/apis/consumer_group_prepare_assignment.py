"""ConsumerGroupPrepareAssignment, key 16384: version 0; KIP-848's, our own key."""

from __future__ import annotations

from coterie.server.apis.groups import pass_to_computing
from coterie.server.call import Call


def handle(call: Call) -> None:
    """Have the group's coordinator answer (READ on the group, E27)."""
    pass_to_computing(call)
