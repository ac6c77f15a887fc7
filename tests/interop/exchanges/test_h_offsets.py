"""Commits, fetches and deletions of offsets, of members, producers and admins."""

from __future__ import annotations

from typing import Any

import pytest

from coterie.wire import messages as m
from tests.broker.server.harness import WireClient

from .members import (
    Beating,
    commit_errors,
    join_request,
    subscription,
)
from .transactions import fetch, offsets

ILLEGAL_GENERATION = 22


@pytest.mark.fact("H-87b")
def test_a_classic_member_of_a_consumer_group_commits_with_its_generation(
    wire: WireClient, group: str, topic: str
) -> None:
    Beating(wire, group, topic)
    protocols = [m.JoinGroupRequestProtocol(name="range", metadata=subscription(topic))]
    joined = wire.call(join_request(group, topic, protocols=protocols), 3)
    assert joined.error_code == 0
    zero = (topic, 0)
    by: dict[str, Any] = {"member_id": joined.member_id, "version": 8}
    generation = joined.generation_id
    errors = commit_errors(wire, group, {zero: 5}, epoch=generation + 1, **by)
    assert errors == {zero: ILLEGAL_GENERATION}
    assert commit_errors(wire, group, {zero: 5}, epoch=generation, **by) == {zero: 0}


@pytest.mark.fact("H-94a", "H-94b")
def test_an_unknown_group_has_no_offsets(
    wire: WireClient, group: str, topic: str
) -> None:
    assert offsets(wire, group, {topic: [0, 99]}) == {(topic, 0): -1, (topic, 99): -1}
    answer = fetch(wire, group)
    assert (answer.error_code, answer.topics) == (0, [])
