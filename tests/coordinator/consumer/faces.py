"""Members of the classic protocol beside, before and after those of the new one."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any

from coterie.wire.codec import decode, encode
from coterie.wire.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartitions,
)
from coterie.wire.messages.join_group import JoinGroupRequestProtocol
from tests.coordinator.classic.members import join, sync
from tests.coordinator.consumer.groups import GroupDriver, Owned
from tests.coordinator.driver import Sent


def subscribes(
    *topics: str, owned: Owned | None = None, version: int = 1, **said: Any
) -> bytes:
    """A subscription as a member embeds it in its join."""
    value = ConsumerProtocolSubscription(
        topics=list(topics), owned_partitions=_named(owned or {}), **said
    )
    return struct.pack(">h", version) + encode(value, version)


def assigns(owned: Owned, *, user_data: bytes | None = None) -> bytes:
    """An assignment as a leader embeds it in its sync."""
    value = ConsumerProtocolAssignment(
        assigned_partitions=_named(owned), user_data=user_data
    )
    return struct.pack(">h", 1) + encode(value, 1)


def assigned(data: bytes) -> dict[str, list[int]]:
    """What an embedded assignment gives."""
    version = struct.unpack_from(">h", data)[0]
    value, end = decode(ConsumerProtocolAssignment, version, data, 2)
    assert end == len(data)
    return {each.topic: each.partitions for each in value.assigned_partitions}


def _named(owned: Owned) -> list[TopicPartitions]:
    return [
        TopicPartitions(topic=topic, partitions=list(some))
        for topic, some in owned.items()
    ]


def offers(
    *topics: str, names: Sequence[str] = ("range",), **said: Any
) -> list[JoinGroupRequestProtocol]:
    """The protocols of a join, all with the same subscription."""
    data = subscribes(*topics, **said)
    return [JoinGroupRequestProtocol(name=name, metadata=data) for name in names]


def classic_group(
    driver: GroupDriver, shares: Mapping[str, Owned], **fields: Any
) -> list[str]:
    """A stable classic group, each member with its share; member ids, the leader's
    first. The keys of `shares` are instance ids, or begin with a dash."""
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
    generation = driver.groups["g"].generation
    given = {m: assigns(share) for m, share in zip(ids, shares.values(), strict=True)}
    syncs = [sync(driver, m, generation) for m in ids[1:]]
    syncs.append(sync(driver, ids[0], generation, assignments=given))
    assert [sent.error for sent in syncs] == [0] * len(shares)
    return ids


def rejoined(driver: GroupDriver, member_id: str, **fields: Any) -> Sent:
    """A classic member joins again, subscribed to foo unless said otherwise."""
    fields.setdefault("protocols", offers("foo", owned=fields.pop("owned", {})))
    return join(driver, member_id, **fields)
