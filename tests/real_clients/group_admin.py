"""The coordinator's description of a group, and requests on behalf of a member."""

from __future__ import annotations

from confluent_kafka import ConsumerGroupType

from coterie.wire import messages as m
from coterie.wire.error_codes import ErrorCode
from tests.broker.server.harness import WireClient
from tests.real_clients.confluent_admin import admin_client, describe_group

LEAVE_GROUP_EPOCH = -1


def member_ids(bootstrap: str, group: str) -> set[str]:
    """Return the ids of a group's members."""
    admin = admin_client(bootstrap)  # keep it alive: its futures need it
    return {member.member_id for member in describe_group(admin, group).members}


def is_classic(bootstrap: str, group: str) -> bool:
    """Return whether a group is a classic group rather than a consumer group."""
    admin = admin_client(bootstrap)
    return describe_group(admin, group).type == ConsumerGroupType.CLASSIC


def leave_on_behalf_of(bootstrap: str, group: str, member_id: str) -> None:
    """Send the leave heartbeat of a consumer group member from another connection.

    Each address gets it; a node that does not coordinate the group refuses it.
    """
    request = m.ConsumerGroupHeartbeatRequest(
        group_id=group, member_id=member_id, member_epoch=LEAVE_GROUP_EPOCH
    )
    codes = []
    for address in bootstrap.split(","):
        host, _, port = address.partition(":")
        with WireClient(host, int(port)) as client:
            codes.append(client.call(request).error_code)
    assert ErrorCode.NONE in codes, codes
