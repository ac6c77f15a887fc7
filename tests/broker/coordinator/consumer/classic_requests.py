"""Requests of classic members to consumer groups and to groups under conversion."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any

from coterie.wire import messages as m
from coterie.wire.codec import decode, encode
from tests.broker.coordinator.classic.members import join, sync
from tests.broker.coordinator.consumer.groups import GroupDriver
from tests.broker.coordinator.driver import Sent
from tests.broker.coordinator.requests import Owned


def subscribes(
    *topics: str,
    owned: Owned | None = None,
    version: int = 1,
    **subscription_fields: Any,
) -> bytes:
    """Return an encoded subscription, as in the metadata of a JoinGroup request."""
    value = m.ConsumerProtocolSubscription(
        topics=list(topics), owned_partitions=_named(owned or {}), **subscription_fields
    )
    return struct.pack(">h", version) + encode(value, version)


def assigns(owned: Owned, *, user_data: bytes | None = None) -> bytes:
    """Return an encoded assignment, as a leader sends it in a SyncGroup request."""
    value = m.ConsumerProtocolAssignment(
        assigned_partitions=_named(owned), user_data=user_data
    )
    return struct.pack(">h", 1) + encode(value, 1)


def assigned(data: bytes) -> dict[str, list[int]]:
    """Return the partitions of an encoded assignment by topic name."""
    version = struct.unpack_from(">h", data)[0]
    value, end = decode(m.ConsumerProtocolAssignment, version, data, 2)
    assert end == len(data)
    return {each.topic: each.partitions for each in value.assigned_partitions}


def _named(owned: Owned) -> list[m.ConsumerProtocolTopicPartitions]:
    return [
        m.ConsumerProtocolTopicPartitions(topic=topic, partitions=list(some))
        for topic, some in owned.items()
    ]


def offers(
    *topics: str, names: Sequence[str] = ("range",), **subscription_fields: Any
) -> list[m.JoinGroupRequestProtocol]:
    """Return the protocols of a JoinGroup request, all with the same subscription."""
    data = subscribes(*topics, **subscription_fields)
    return [m.JoinGroupRequestProtocol(name=name, metadata=data) for name in names]


def classic_group(
    driver: GroupDriver, shares: Mapping[str, Owned], **fields: Any
) -> list[str]:
    """Create a stable classic group with these assignments; return the member ids,
    leader first. The keys of `shares` are instance ids; a key with a
    leading dash stands for a dynamic member.
    """
    fields.setdefault("protocols", offers("foo"))
    joins = [
        join(
            driver,
            group_instance_id=None if name.startswith("-") else name,
            **fields,
        )
        for name in shares
    ]
    driver.advance(2 * driver.settings.group_initial_rebalance_delay_ms)
    assert [sent.error for sent in joins] == [0] * len(shares)
    ids: list[str] = [sent.response.member_id for sent in joins]
    generation = joins[0].response.generation_id
    given = {
        one: assigns(share) for one, share in zip(ids, shares.values(), strict=True)
    }
    chosen: dict[str, Any] = {
        "protocol_type": joins[0].response.protocol_type,
        "protocol_name": joins[0].response.protocol_name,
    }
    syncs = [sync(driver, one, generation, **chosen) for one in ids[1:]]
    syncs.append(sync(driver, ids[0], generation, assignments=given, **chosen))
    assert [sent.error for sent in syncs] == [0] * len(shares)
    return ids


def rejoined(driver: GroupDriver, member_id: str, **fields: Any) -> Sent:
    """Send another join of a classic member, by default with a subscription to foo."""
    fields.setdefault("protocols", offers("foo", owned=fields.pop("owned", {})))
    return join(driver, member_id, **fields)
