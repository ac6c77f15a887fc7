"""Lines of scenarios about admin requests: describe, list and delete groups."""

from __future__ import annotations

from coterie.broker.coordinator.admin import (
    DeleteGroup,
    DescribeConsumerGroup,
)
from coterie.wire import messages as m
from tests.scenarios.play import _WHO, Act, Play, partitions, words


def deletes(play: Play) -> None:
    request = DeleteGroup(play.driver.group_id)
    play.sent = play.driver.send(request, version=2)


# Expectations.


def is_listed(play: Play, state: str) -> None:
    answer = play.driver.send(m.ListGroupsRequest(), version=5).response
    found = [
        (each.group_id, each.group_state, each.group_type) for each in answer.groups
    ]
    assert found == [(play.driver.group_id, *state.split())], found


def are_listed(
    play: Play, groups: str, state: str | None = None, kind: str | None = None
) -> None:
    request = m.ListGroupsRequest(
        states_filter=[state] if state else [], types_filter=[kind] if kind else []
    )
    answer = play.driver.send(request, version=5).response
    found = sorted(each.group_id for each in answer.groups)
    assert found == ([] if groups == "none" else words(groups)), found


def member_described(play: Play, who: str, owns: str, target: str) -> None:
    request = DescribeConsumerGroup(play.driver.group_id)
    described = play.driver.send(request, version=1).response
    (member,) = [each for each in described.members if each.member_id == who]
    for assignment, wanted in (
        (member.assignment, owns),
        (member.target_assignment, target),
    ):
        found = {
            each.topic_name: sorted(each.partitions)
            for each in assignment.topic_partitions
        }
        assert found == ({} if wanted == "nothing" else partitions(wanted)), found


def described(
    play: Play, state: str, protocol: str | None = None, without: str | None = None
) -> None:
    """Use version 5, which has no error for an unknown group."""
    group = play.driver.describe(play.driver.group_id, 5)
    assert not group.error_code
    assert (group.group_state, group.protocol_data) == (state, protocol or "")
    for member in group.members:
        assert bool(member.member_metadata) is (without is None)
        assert member.member_assignment


LINES: list[tuple[str, Act]] = [
    (r"an admin deletes the group", deletes),
    (r"listed as (?P<state>\w+ \w+)", is_listed),
    (r"groups that are (?P<state>\w+): (?P<groups>[\w, ]+)", are_listed),
    (r"groups of type (?P<kind>\w+): (?P<groups>[\w, ]+)", are_listed),
    (
        rf"{_WHO} is described: owns (?P<owns>[\w ,-]+?), "
        r"target (?P<target>[\w ,-]+)",
        member_described,
    ),
    (
        r"described as (?P<state>\w+)( by (?P<protocol>\w+))?"
        r"(?P<without>, without member metadata)?",
        described,
    ),
]
"""Lines in the form of `play.LINES`."""
