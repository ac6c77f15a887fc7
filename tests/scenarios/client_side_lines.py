"""Lines of scenarios about client-side assignment (E13)."""

from __future__ import annotations

from typing import Any

from coterie.wire import messages as m
from tests.broker.coordinator.requests import topic_id
from tests.scenarios.play import _WHO, NEEDS, Act, Play, partitions
from tests.scenarios.players import SHARD, Need

OFFERED = m.ClientAssignor(
    name="mine", minimum_version=0, maximum_version=1, metadata_version=1
)


def joins(play: Play, who: str, topics: str) -> None:
    play.odd = {"client_assignors": [OFFERED]}
    play.joins(who, topics)
    play.odd = {}


def prepares(play: Play, who: str, epoch: str) -> None:
    request = m.ConsumerGroupPrepareAssignmentRequest(
        group_id=play.driver.group_id, member_id=who, member_epoch=int(epoch)
    )
    play.sent = play.driver.send(request)


def installs(play: Play, who: str, epoch: str, group_epoch: str, shares: str) -> None:
    members = []
    for each in shares.split("; "):
        name, share = each.split(" ", 1)
        given: Any = {} if share == "nothing" else partitions(share)
        some = [
            m.TopicPartitions(topic_id=topic_id(topic), partitions=numbers)
            for topic, numbers in given.items()
        ]
        members.append(
            m.InstalledMember(member_id=name, partitions=some, metadata_version=1)
        )
    request = m.ConsumerGroupInstallAssignmentRequest(
        group_id=play.driver.group_id,
        member_id=who,
        member_epoch=int(epoch),
        group_epoch=int(group_epoch),
        members=members,
    )
    play.sent = play.driver.send(request)


# Expectations.


def computes(play: Play, no: str | None = None) -> None:
    assert play.sent is not None
    assert play.sent.response.should_compute_assignment is (no is None)


def handed(play: Play, epoch: str) -> None:
    assert play.sent is not None
    assert not play.sent.error
    assert play.sent.response.group_epoch == int(epoch)


LINES: list[tuple[str, Act]] = [
    (rf"{_WHO} joins (?P<topics>[\w, ]+), with a client-side assignor", joins),
    (rf"{_WHO} prepares at (?P<epoch>\d+)", prepares),
    (
        rf"{_WHO} installs at (?P<epoch>\d+) for (?P<group_epoch>\d+): "
        r"(?P<shares>[\w ,;-]+)",
        installs,
    ),
    (r"-> (computes|(?P<no>does not )compute)", computes),
    (r"-> the input for (?P<epoch>\d+)", handed),
]
"""Lines in the form of `play.LINES`."""
NEEDS[joins] = Need(SHARD, "client-side assignors are private")
