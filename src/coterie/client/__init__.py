"""Asyncio clients of Kafka clusters, of Coterie's brokers or any other.

Each name is imported on first use, so that a command of the admin client does not
import the group member.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from coterie.client.admin.admin_client import AdminClient
    from coterie.client.client_assignors import AssignorMember, ClientAssignor
    from coterie.client.group_member import GroupMember, MemberOptions
    from coterie.client.member_offsets import OffsetAndMetadata
    from coterie.client.member_states import MemberState
    from coterie.client.options import ClientOptions
    from coterie.client.sasl import OAuthBearer, Plain, Scram
    from coterie.client.secret import Secret
    from coterie.client.sync import SyncAdmin

_WHERE = {
    "AdminClient": "admin.admin_client",
    "AssignorMember": "client_assignors",
    "ClientAssignor": "client_assignors",
    "ClientOptions": "options",
    "GroupMember": "group_member",
    "MemberOptions": "group_member",
    "MemberState": "member_states",
    "OAuthBearer": "sasl",
    "OffsetAndMetadata": "member_offsets",
    "Plain": "sasl",
    "Scram": "sasl",
    "Secret": "secret",
    "SyncAdmin": "sync",
}

__all__ = [
    "AdminClient",
    "AssignorMember",
    "ClientAssignor",
    "ClientOptions",
    "GroupMember",
    "MemberOptions",
    "MemberState",
    "OAuthBearer",
    "OffsetAndMetadata",
    "Plain",
    "Scram",
    "Secret",
    "SyncAdmin",
]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_WHERE[name]}"), name)
