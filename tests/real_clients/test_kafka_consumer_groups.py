"""`coterie kafka-consumer-groups` on groups of a real client's consumers."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from tests.cli.kafka_consumer_groups.in_process import CommandResult, run_in_process
from tests.interop.consumer_groups import PROTOCOLS, consuming, make_empty_group

from .confluent_admin import FOREIGN_BROKER

pytestmark = pytest.mark.slow


@pytest.fixture
def topic(new_topic: Callable[[str, int], str]) -> str:
    """A topic of two partitions."""
    return new_topic("two", 2)


def row(result: CommandResult, number: int = 0) -> dict[str, str]:
    """Return a row of the printed table, by column."""
    text = result.stdout.strip().replace("COORDINATOR (ID)", "COORDINATOR ID")
    header, *rows = (line.split() for line in text.splitlines())
    return dict(zip(header, rows[number], strict=True))


@pytest.mark.skipif(FOREIGN_BROKER in os.environ, reason="only Coterie tells these")
@pytest.mark.fact("C-05", "C-30", "C-31", "C-32")
def test_describe_groups_has_generation_leader_and_subscriptions_of_a_classic_group(
    bootstrap: str, group: str, topic: str
) -> None:
    describe = ("--bootstrap-server", bootstrap, "--describe", "--group", group)
    with consuming(bootstrap, group, topic, "classic", members=2):
        state = row(run_in_process(*describe, "--state"))
        members = run_in_process(*describe, "--members", "--verbose")
    ids = {row(members, each)["CONSUMER-ID"] for each in range(2)}
    assert state["LEADER-ID"] in ids
    assert int(state["GENERATION-ID"]) >= 1
    for each in range(2):
        member = row(members, each)
        assert member["SUBSCRIPTION"] == topic
        assert "range" in member["ASSIGNMENT-STRATEGY"].split(",")


@pytest.mark.fact("C-13")
def test_a_consumer_group_is_described_without_a_leader(
    bootstrap: str, group: str, topic: str
) -> None:
    describe = ("--bootstrap-server", bootstrap, "--describe", "--group", group)
    with consuming(bootstrap, group, topic, "consumer"):
        state = row(run_in_process(*describe, "--state", "--verbose"))
        member = row(run_in_process(*describe, "--members", "--verbose"))
    assert (state["GENERATION-ID"], state["LEADER-ID"]) == ("-", "-")
    assert int(state["GROUP-EPOCH"]) >= int(state["TARGET-ASSIGNMENT-EPOCH"]) >= 1
    assert member["CURRENT-ASSIGNMENT"] == member["TARGET-ASSIGNMENT"]
    assert member["SUBSCRIPTION"] == topic


@pytest.mark.fact("C-61", "D-40")
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_group_with_members_is_described_but_not_reset_or_deleted(
    bootstrap: str, group: str, topic: str, protocol: str
) -> None:
    on = ("--bootstrap-server", bootstrap, "--group", group)
    with consuming(bootstrap, group, topic, protocol):
        owned = row(run_in_process(*on, "--describe", "--topic", f"{topic}:1"))
        reset = ("--reset-offsets", "--all-topics", "--to-earliest", "--execute")
        refused = (run_in_process(*on, *reset), run_in_process(*on, "--delete"))
    assert (owned["CURRENT-OFFSET"], owned["LOG-END-OFFSET"]) == ("3", "5")
    assert owned["LAG"] == "2"
    assert [result.exit_code for result in refused] == [1, 1]
    assert "is inactive, but the current state is Stable." in refused[0].stderr
    assert "GroupNotEmptyException" in refused[1].stdout


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_empty_group_is_reset_and_deleted(
    bootstrap: str, group: str, topic: str, protocol: str
) -> None:
    on = ("--bootstrap-server", bootstrap, "--group", group)
    make_empty_group(bootstrap, group, topic, protocol)
    reset = ("--reset-offsets", "--all-topics", "--to-offset", "1", "--execute")
    assert row(run_in_process(*on, *reset), 1)["NEW-OFFSET"] == "1"
    assert row(run_in_process(*on, "--describe"))["LAG"] == "4"
    cleared = run_in_process(*on, "--delete-offsets", "--topic", f"{topic}:0")
    assert cleared.exit_code == 0
    assert row(run_in_process(*on, "--describe"))["PARTITION"] == "1"
    assert run_in_process(*on, "--delete").exit_code == 0
    gone = run_in_process(*on, "--describe")
    assert gone == ("", f"\nError: Consumer group '{group}' does not exist.\n", 1)
