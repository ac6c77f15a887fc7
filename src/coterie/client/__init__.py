"""Clients of a Kafka cluster, for asyncio: Coterie's or any other."""

from coterie.client.group_member import GroupMember, MemberOptions
from coterie.client.member_offsets import OffsetAndMetadata
from coterie.client.member_states import MemberState
from coterie.client.options import ClientOptions

__all__ = [
    "ClientOptions",
    "GroupMember",
    "MemberOptions",
    "MemberState",
    "OffsetAndMetadata",
]
