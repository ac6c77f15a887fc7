"""Clients of a Kafka cluster, for asyncio: Coterie's or any other."""

from coterie.client.admin.admin_client import AdminClient
from coterie.client.assignor import AssignorMember, ClientAssignor
from coterie.client.group_member import GroupMember, MemberOptions
from coterie.client.member_offsets import OffsetAndMetadata
from coterie.client.member_states import MemberState
from coterie.client.options import ClientOptions

__all__ = [
    "AdminClient",
    "AssignorMember",
    "ClientAssignor",
    "ClientOptions",
    "GroupMember",
    "MemberOptions",
    "MemberState",
    "OffsetAndMetadata",
]
