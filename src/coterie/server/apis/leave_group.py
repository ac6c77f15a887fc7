"""LeaveGroup, key 13: versions 0-5 (KIP-345, KIP-800)."""

from __future__ import annotations

from coterie.auth.authorizer import Operation
from coterie.server.apis.groups import pass_on
from coterie.server.call import Call


def handle(call: Call) -> None:
    """Have the group's coordinator answer (READ on the group, E27)."""
    pass_on(call, Operation.READ)
