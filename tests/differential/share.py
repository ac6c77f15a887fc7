"""Steps of members of share groups (KIP-932)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from coterie.wire import messages as m
from tests.differential.steps import Step, ref

if TYPE_CHECKING:
    from tests.differential.generate import Draw

_SETTLE_MS = 200
"""The time in which both servers initialize share partitions."""


def draw(draw: Draw) -> Step:
    """Draw a heartbeat, most often a join or a short one, or a description."""
    chance = draw.chance
    if chance.random() < 0.15:
        groups = chance.choice(([draw.group], ["%g1", "%g2", "%none"], [""]))
        describe = m.ShareGroupDescribeRequest(
            group_ids=groups, include_authorized_operations=chance.random() < 0.1
        )
        return Step(draw.actor, describe, 1)
    kind = chance.choices(
        ("join", "short", "subscribe", "leave", "odd"),
        (2 if draw.known("epoch") else 12, 6, 2, 1, 1),
    )[0]
    request = m.ShareGroupHeartbeatRequest(
        **{
            "group_id": draw.group,
            "member_id": f"member-of-{draw.some_actor()}",
            "member_epoch": ref("epoch", draw.actor),
            **_BUILD[kind](draw),
        }
    )
    # Any heartbeat may begin an initialization.
    return Step(draw.actor, request, 1, _SETTLE_MS)


def _topics(draw: Draw) -> list[str]:
    """Return topics whose assignment does not depend on the order of hash maps."""
    chance = draw.chance
    if len(draw.cast.groups) == 1:
        return chance.sample(("t1", "t2", "t3", "none"), chance.randint(1, 4))
    return chance.choice((["t3"], ["t3"], ["none", "t3"], ["none"]))


def _join(draw: Draw) -> dict[str, Any]:
    chance = draw.chance
    rack = chance.choice(("r1", "r2", "")) if chance.random() < 0.1 else None
    return {
        "member_id": f"member-of-{draw.actor}",
        "member_epoch": 0,
        "subscribed_topic_names": _topics(draw),
        "rack_id": rack,
    }


def _short(draw: Draw) -> dict[str, Any]:
    return {}


def _subscribe(draw: Draw) -> dict[str, Any]:
    return {"subscribed_topic_names": draw.chance.choice((_topics(draw), []))}


def _leave(draw: Draw) -> dict[str, Any]:
    return {"member_epoch": -1}


def _odd(draw: Draw) -> dict[str, Any]:
    """Return a heartbeat of a member that is behind, ahead or unknown."""
    chance = draw.chance
    return {
        "member_id": chance.choice((f"member-of-{draw.other_actor()}", "nobody", "")),
        "member_epoch": chance.choice(
            (draw.stale(draw.actor), ref("epoch", draw.actor, 1), 0, -2)
        ),
        "subscribed_topic_names": chance.choice((None, None, ["t3"])),
    }


_BUILD = {
    "join": _join,
    "short": _short,
    "subscribe": _subscribe,
    "leave": _leave,
    "odd": _odd,
}
