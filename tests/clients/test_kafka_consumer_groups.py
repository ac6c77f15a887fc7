"""`coterie kafka-consumer-groups` on groups that a real client's consumers made."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from tests.cli.kafka_consumer_groups.running import Ran, run_here
from tests.interop.groups import PROTOCOLS, consuming, make_empty_group

from .conftest import FOREIGN_BROKER

pytestmark = pytest.mark.slow


@pytest.fixture
def topic(new_topic: Callable[[str, int], str]) -> str:
    """A topic of two partitions, as `consuming` wants it."""
    return new_topic("two", 2)


def row(ran: Ran, number: int = 0) -> dict[str, str]:
    """A row of a table by its columns."""
    text = ran.stdout.strip().replace("COORDINATOR (ID)", "COORDINATOR ID")
    header, *rows = (line.split() for line in text.splitlines())
    return dict(zip(header, rows[number], strict=True))


@pytest.mark.skipif(FOREIGN_BROKER in os.environ, reason="only Coterie tells these")
@pytest.mark.fact("C-05", "C-30", "C-31", "C-32")
def test_a_classic_group_tells_its_generation_its_leader_and_what_members_want(
    bootstrap: str, group: str, topic: str
) -> None:
    describe = ("--bootstrap-server", bootstrap, "--describe", "--group", group)
    with consuming(bootstrap, group, topic, "classic", members=2):
        state = row(run_here(*describe, "--state"))
        members = run_here(*describe, "--members", "--verbose")
    ids = {row(members, each)["CONSUMER-ID"] for each in range(2)}
    assert state["LEADER-ID"] in ids
    assert int(state["GENERATION-ID"]) >= 1
    for each in range(2):
        member = row(members, each)
        assert member["SUBSCRIPTION"] == topic
        assert "range" in member["ASSIGNMENT-STRATEGY"].split(",")


@pytest.mark.fact("C-13")
def test_a_group_of_kip_848_has_no_leader(
    bootstrap: str, group: str, topic: str
) -> None:
    describe = ("--bootstrap-server", bootstrap, "--describe", "--group", group)
    with consuming(bootstrap, group, topic, "consumer"):
        state = row(run_here(*describe, "--state", "--verbose"))
        member = row(run_here(*describe, "--members", "--verbose"))
    assert (state["GENERATION-ID"], state["LEADER-ID"]) == ("-", "-")
    assert int(state["GROUP-EPOCH"]) >= int(state["TARGET-ASSIGNMENT-EPOCH"]) >= 1
    assert member["CURRENT-ASSIGNMENT"] == member["TARGET-ASSIGNMENT"]
    assert member["SUBSCRIPTION"] == topic


@pytest.mark.fact("C-61", "D-40")
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_group_with_members_is_described_and_neither_reset_nor_deleted(
    bootstrap: str, group: str, topic: str, protocol: str
) -> None:
    on = ("--bootstrap-server", bootstrap, "--group", group)
    with consuming(bootstrap, group, topic, protocol):
        owned = row(run_here(*on, "--describe", "--topic", f"{topic}:1"))
        reset = ("--reset-offsets", "--all-topics", "--to-earliest", "--execute")
        refused = (run_here(*on, *reset), run_here(*on, "--delete"))
    assert (owned["CURRENT-OFFSET"], owned["LOG-END-OFFSET"]) == ("3", "5")
    assert owned["LAG"] == "2"
    assert [ran.exit_code for ran in refused] == [1, 1]
    assert "is inactive, but the current state is Stable." in refused[0].stderr
    assert "GroupNotEmptyException" in refused[1].stdout


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_group_without_members_is_reset_cleared_and_deleted(
    bootstrap: str, group: str, topic: str, protocol: str
) -> None:
    on = ("--bootstrap-server", bootstrap, "--group", group)
    make_empty_group(bootstrap, group, topic, protocol)
    reset = ("--reset-offsets", "--all-topics", "--to-offset", "1", "--execute")
    assert row(run_here(*on, *reset), 1)["NEW-OFFSET"] == "1"
    assert row(run_here(*on, "--describe"))["LAG"] == "4"
    cleared = run_here(*on, "--delete-offsets", "--topic", f"{topic}:0")
    assert cleared.exit_code == 0
    assert row(run_here(*on, "--describe"))["PARTITION"] == "1"
    assert run_here(*on, "--delete").exit_code == 0
    gone = run_here(*on, "--describe")
    assert gone == ("", f"\nError: Consumer group '{group}' does not exist.\n", 1)
