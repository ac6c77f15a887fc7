"""Steps of members of the consumer protocol (KIP-848)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from coterie.wire import messages as m
from tests.differential.steps import Ref, Step, ref

if TYPE_CHECKING:
    from tests.differential.generate import Draw

_REGEXES = ("t[12]", "t.*", "none.*", "t3|t1", "", "(", "t1")
_REGEX_SETTLE_MS = 60


def draw(draw: Draw) -> Step:
    """Draw a heartbeat: a join, most often a full or a short one, or a leave."""
    epoch = draw.known("epoch")
    kind = draw.chance.choices(
        ("join", "short", "full", "owned", "subscribe", "leave", "odd"),
        (2 if epoch else 12, 3, 4, 4, 2, 1, 1),
    )[0]
    values = _BUILD[kind](draw)
    request = m.ConsumerGroupHeartbeatRequest(group_id=draw.group, **values)
    if isinstance(request.member_id, Ref) and not draw.known("member"):
        request.member_id = _name(draw.actor)
    version = draw.version(m.ConsumerGroupHeartbeatRequest)
    if version == 0 and request.member_epoch == 0 and len(draw.cast.groups) == 1:
        # The server makes the member id; among others, its order would be random.
        request.member_id = ""
    settle_ms = _REGEX_SETTLE_MS if request.subscribed_topic_regex is not None else 0
    return Step(draw.actor, request, version, settle_ms)


def _name(actor: str) -> str:
    return f"member-of-{actor}"


def _member(draw: Draw) -> dict[str, Any]:
    actor = draw.some_actor()
    return {"member_id": ref("member", actor), "member_epoch": ref("epoch", actor)}


def _join(draw: Draw) -> dict[str, Any]:
    chance = draw.chance
    values = {
        "member_id": ref("member", draw.actor),
        "member_epoch": 0,
        "rebalance_timeout_ms": draw.timeout_ms,
        "topic_partitions": [],
        **_subscription(draw),
    }
    assignor = draw.cast.assignors[draw.group]
    if assignor == "uniform" or chance.random() < 0.8:
        values["server_assignor"] = assignor
    if chance.random() < 0.25:
        values["instance_id"] = f"i-{draw.some_actor()}"
    if chance.random() < 0.1:
        values["rack_id"] = chance.choice(("r1", "r2", ""))
    return values


def _subscription(draw: Draw) -> dict[str, Any]:
    chance = draw.chance
    is_uniform = draw.cast.assignors[draw.group] == "uniform"
    if not is_uniform and chance.random() < 0.15:
        regex = chance.choice(_REGEXES)
        return {
            "subscribed_topic_names": chance.choice((None, [], ["t2"])),
            "subscribed_topic_regex": regex,
        }
    # With subscriptions that differ, `uniform` may assign differently: see known.py.
    if is_uniform:
        return {"subscribed_topic_names": list(draw.topics)}
    count = chance.randint(0, len(draw.topics)) if chance.random() < 0.3 else 1
    return {"subscribed_topic_names": chance.sample(draw.topics, count)}


def _short(draw: Draw) -> dict[str, Any]:
    return _member(draw)


def _full(draw: Draw) -> dict[str, Any]:
    return {
        **_member(draw),
        "rebalance_timeout_ms": draw.timeout_ms,
        "topic_partitions": ref("assigned", draw.actor),
        **_subscription(draw),
    }


def _owned(draw: Draw) -> dict[str, Any]:
    return {**_member(draw), "topic_partitions": ref("assigned", draw.actor)}


def _subscribe(draw: Draw) -> dict[str, Any]:
    return {**_member(draw), **_subscription(draw)}


def _leave(draw: Draw) -> dict[str, Any]:
    chance = draw.chance
    values: dict[str, Any] = {"member_id": ref("member", draw.some_actor())}
    values["member_epoch"] = chance.choice((-1, -1, -2))
    if values["member_epoch"] == -2 or chance.random() < 0.2:
        values["instance_id"] = f"i-{draw.some_actor()}"
    return values


def _odd(draw: Draw) -> dict[str, Any]:
    """Return a heartbeat of a member that is behind, ahead, unknown or another."""
    chance = draw.chance
    actor = draw.some_actor()
    other = draw.other_actor()
    partitions = chance.choice(([0], [0, 1], [7], []))
    topic = chance.choice(("t1", "t2", "none"))
    owned = [m.TopicPartitions(topic_id=ref("topic", topic), partitions=partitions)]
    return {
        "member_id": chance.choice(
            (ref("member", actor), ref("member", other), "nobody")
        ),
        "member_epoch": chance.choice(
            (draw.stale(actor), ref("epoch", actor, 1), ref("epoch", other), 0)
        ),
        "topic_partitions": chance.choice((None, owned, ref("assigned", other))),
        "instance_id": chance.choice((None, None, f"i-{other}", "i-none")),
        "server_assignor": chance.choice((None, None, "range", "none")),
        "rebalance_timeout_ms": chance.choice((-1, 60_000)),
    }


_BUILD = {
    "join": _join,
    "short": _short,
    "full": _full,
    "owned": _owned,
    "subscribe": _subscribe,
    "leave": _leave,
    "odd": _odd,
}
