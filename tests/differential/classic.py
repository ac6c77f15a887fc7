"""Steps of members of the classic protocol."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from coterie.wire import messages as m
from coterie.wire.codec import encode
from tests.differential.steps import Step, ref

if TYPE_CHECKING:
    from tests.differential.generate import Draw

MISLEADING = (b"\0\1\xff\xff\xff\xff", b"\0\x09rest", b"\xff" * 8)
"""Subscriptions with a list that is longer than their bytes."""


def draw(draw: Draw) -> Step:
    """Draw a join, a sync, a heartbeat or a leave."""
    last = next(
        (step for step, _ in reversed(draw.play.responses) if step.actor == draw.actor),
        None,
    )
    weights = {"join": 5, "sync": 3, "heartbeat": 4, "leave": 1}
    if isinstance(last, Step) and isinstance(last.request, m.JoinGroupRequest):
        weights = {"join": 5, "sync": 20, "heartbeat": 1, "leave": 1}
    if draw.known("member") is None:
        weights = {"join": 20, "sync": 1, "heartbeat": 1, "leave": 1}
    kind = draw.chance.choices(list(weights), list(weights.values()))[0]
    request = _BUILD[kind](draw)
    return Step(draw.actor, request, draw.version(type(request)))


def _instance(draw: Draw) -> str | None:
    """Return an instance id, the same for most steps of an actor."""
    static = draw.actor in {"a2", "a4"}
    if draw.chance.random() < 0.07:
        return f"i-{draw.some_actor()}" if not static else None
    return f"i-{draw.actor}" if static and draw.play.name[-2] in "02468" else None


def _epoch(draw: Draw) -> Any:
    actor = draw.some_actor()
    now, later = ref("epoch", actor), ref("epoch", actor, 1)
    return draw.chance.choices((now, later, draw.stale(actor)), (20, 1, 1))[0]


def _join(draw: Draw) -> Any:
    chance = draw.chance
    names = chance.choices(
        (["range"], ["range", "roundrobin"], ["roundrobin", "range"], ["sticky"], []),
        (12, 4, 2, 1, 0.3),
    )[0]
    is_rejoining = chance.random() < 0.9
    return m.JoinGroupRequest(
        group_id=draw.group,
        session_timeout_ms=chance.choices((draw.timeout_ms, 1, 10**9), (40, 1, 1))[0],
        rebalance_timeout_ms=draw.timeout_ms,
        member_id=ref("member", draw.some_actor()) if is_rejoining else "",
        group_instance_id=_instance(draw),
        protocol_type=chance.choices(("consumer", "connect", ""), (40, 1, 0.5))[0],
        protocols=[
            m.JoinGroupRequestProtocol(name=name, metadata=_metadata(draw))
            for name in names
        ],
        reason=None,
    )


def _metadata(draw: Draw) -> bytes:
    chance = draw.chance
    if chance.random() < 0.03:
        return chance.choice((b"", b"\0", *MISLEADING[:2]))
    version = chance.randint(0, 3)
    owned = []
    # An upgrade counts owned partitions here and not in Kafka: see known.py.
    if chance.random() < 0.2 and set(draw.cast.protocols.values()) == {"classic"}:
        partitions = chance.choice(([0], [0, 1], [9]))
        owned = [m.ConsumerProtocolTopicPartitions(topic="t1", partitions=partitions)]
    topics = list(draw.topics)
    if draw.cast.assignors[draw.group] == "range":
        topics = chance.sample(draw.topics, chance.randint(1, len(draw.topics)))
    subscription = m.ConsumerProtocolSubscription(
        topics=topics,
        user_data=chance.choices((None, b"data"), (6, 1))[0],
        owned_partitions=owned,
        generation_id=-1,
    )
    return version.to_bytes(2, "big") + encode(subscription, version)


def _sync(draw: Draw) -> Any:
    chance = draw.chance
    actors = list(draw.cast.groups)
    assignments = []
    if chance.random() < 0.75:
        assignments = [
            m.SyncGroupRequestAssignment(
                member_id=ref("member", each), assignment=_assignment(number)
            )
            for number, each in enumerate(actors)
            if draw.cast.groups[each] == draw.group
        ]
    return m.SyncGroupRequest(
        group_id=draw.group,
        generation_id=_epoch(draw),
        member_id=ref("member", draw.some_actor()),
        group_instance_id=_instance(draw),
        protocol_type=chance.choices(("consumer", "connect", None), (30, 1, 1))[0],
        protocol_name=chance.choices(("range", "roundrobin", None), (30, 1, 1))[0],
        assignments=assignments,
    )


def _assignment(number: int) -> bytes:
    partitions = [m.ConsumerProtocolTopicPartitions(topic="t1", partitions=[number])]
    return b"\0\1" + encode(
        m.ConsumerProtocolAssignment(assigned_partitions=partitions), 1
    )


def _heartbeat(draw: Draw) -> Any:
    return m.HeartbeatRequest(
        group_id=draw.group,
        generation_id=_epoch(draw),
        member_id=ref("member", draw.some_actor()),
        group_instance_id=_instance(draw),
    )


def _leave(draw: Draw) -> Any:
    members = [draw.some_actor() for _ in range(draw.chance.choice((1, 1, 1, 2)))]
    return m.LeaveGroupRequest(
        group_id=draw.group,
        member_id=ref("member", draw.some_actor()),
        members=[
            m.MemberIdentity(
                member_id=draw.chance.choice((ref("member", each), "")),
                group_instance_id=_instance(draw),
                reason=draw.chance.choice((None, "done")),
            )
            for each in members
        ],
    )


_BUILD = {"join": _join, "sync": _sync, "heartbeat": _heartbeat, "leave": _leave}
