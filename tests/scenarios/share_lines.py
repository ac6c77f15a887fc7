"""Lines of scenarios about share groups and their members."""

from __future__ import annotations

from typing import Any

from coterie.broker.coordinator.share.admin import DescribeShareGroup
from coterie.wire import messages as m
from tests.scenarios.play import _WHO, Act, Play, partitions, words


def _send(play: Play, who: str, epoch: int, **fields: Any) -> None:
    fields = {**fields, **play.odd}
    request = m.ShareGroupHeartbeatRequest(
        **{"group_id": play.driver.group_id, "member_id": who, **fields},
        member_epoch=epoch,
    )
    play.sent = play.driver.send(request, version=1)


def joins(play: Play, who: str, topics: str) -> None:
    _send(play, who, 0, subscribed_topic_names=words(topics))


def heartbeats(
    play: Play,
    who: str,
    epoch: str,
    rack: str | None = None,
    topics: str | None = None,
) -> None:
    names = None if topics is None else words(topics)
    _send(play, who, int(epoch), rack_id=rack, subscribed_topic_names=names)


def leaves(play: Play, who: str) -> None:
    _send(play, who, -1)


def are_initialized(play: Play) -> None:
    play.driver.await_share_state()


def _described(play: Play) -> Any:
    request = DescribeShareGroup(play.driver.group_id)
    return play.driver.send(request, version=1).response


# Expectations.


def group(play: Play, state: str, epoch: str, target: str | None = None) -> None:
    described = _described(play)
    assert not described.error_code, described
    found = described.group_state, described.group_epoch, described.assignment_epoch
    assert found == (state, int(epoch), int(target or epoch)), found
    assert described.assignor_name == "simple"


def is_refused(play: Play, code: str) -> None:
    play.sent = play.driver.send(DescribeShareGroup(play.driver.group_id), version=1)
    play.refused(code)


def member(play: Play, who: str, epoch: str, owns: str, topics: str) -> None:
    (found,) = (each for each in _described(play).members if each.member_id == who)
    assert found.member_epoch == int(epoch), found
    assigned = {
        each.topic_name: sorted(each.partitions)
        for each in found.assignment.topic_partitions
    }
    assert assigned == ({} if owns == "nothing" else partitions(owns)), assigned
    assert sorted(found.subscribed_topic_names) == words(topics), found


_TOPICS = r"(?P<topics>[\w, ]+?)"
LINES: list[tuple[str, Act]] = [
    (rf"share {_WHO} joins {_TOPICS}", joins),
    (
        rf"share {_WHO} heartbeats at (?P<epoch>\d+)( in rack (?P<rack>\w+))?"
        rf"(; subscribes to {_TOPICS})?",
        heartbeats,
    ),
    (rf"share {_WHO} leaves", leaves),
    (r"the partitions are initialized", are_initialized),
    (
        r"the share group is (?P<state>\w+) at (?P<epoch>\d+)"
        r"( with target (?P<target>\d+))?",
        group,
    ),
    (r"ShareGroupDescribe gets (?P<code>[A-Z_]+)", is_refused),
    (
        rf"share {_WHO} is described at (?P<epoch>\d+): owns (?P<owns>[\w ,-]+?); "
        rf"subscribes to {_TOPICS}",
        member,
    ),
]
"""Lines in the form of `play.LINES`."""
