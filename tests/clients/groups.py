"""What a coordinator says of a group, and how to speak for one of its members."""

from __future__ import annotations

from confluent_kafka import ConsumerGroupType
from confluent_kafka.admin import ConsumerGroupDescription

from coterie.wire.error_codes import ErrorCode
from coterie.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from tests.server.harness import WireClient

from .admin import ANSWER_S, admin_of

LEAVES = -1


def describe(bootstrap: str, group: str) -> ConsumerGroupDescription:
    """The group as its coordinator describes it."""
    admin = admin_of(bootstrap)  # held: its futures die with it
    return admin.describe_consumer_groups([group])[group].result(ANSWER_S)


def member_ids(bootstrap: str, group: str) -> set[str]:
    """Who is in the group."""
    return {member.member_id for member in describe(bootstrap, group).members}


def is_classic(bootstrap: str, group: str) -> bool:
    """Whether it is a classic group, and not one of KIP-848."""
    return describe(bootstrap, group).type == ConsumerGroupType.CLASSIC


def make_forget(bootstrap: str, group: str, member_id: str) -> None:
    """Say good-bye in the name of a member of a consumer group, who is not told."""
    host, _, port = bootstrap.partition(":")
    request = ConsumerGroupHeartbeatRequest(
        group_id=group, member_id=member_id, member_epoch=LEAVES
    )
    with WireClient(host, int(port)) as client:
        assert client.call(request).error_code == ErrorCode.NONE
