"""The command `coterie` on groups of real consumers. Its output must be equal for
Coterie and for Apache Kafka.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.real_clients.confluent_members import ConfluentGroup

from .conftest import Command
from .consumer_groups import CLIENT_ID, PROTOCOLS, consuming, make_empty_group

pytestmark = pytest.mark.slow

TITLES = ["GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG"]


class Groups:
    """A runner of `coterie groups VERB ... --output json` that parses the output."""

    def __init__(self, command: Command) -> None:
        self._command = command

    def items(self, *words: str, exit_code: int = 0) -> list[dict[str, Any]]:
        return self.document(*words, exit_code=exit_code)["items"]

    def document(self, *words: str, exit_code: int = 0) -> dict[str, Any]:
        output = self._command(
            "groups", *words, "--output", "json", exit_code=exit_code
        )
        found: dict[str, Any] = json.loads(output.stdout)
        return found


@pytest.fixture
def groups(coterie: Command) -> Groups:
    return Groups(coterie)


def only_member(crew: ConfluentGroup) -> str:
    (member,) = crew.members
    return str(member.consumer.memberid())


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_list_shows_protocol_type_and_state_of_each_group(
    groups: Groups, bootstrap: str, group: str, topic: str, protocol: str
) -> None:
    with consuming(bootstrap, group, topic, protocol):
        (item,) = groups.items("list", "--glob", f"{group}*", "--state", "Stable")
    assert item["group_id"] == group
    assert (item["group_type"], item["state"]) == (protocol, "Stable")
    assert item["protocol_type"] == "consumer"


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_description_has_owners_and_lag(
    groups: Groups, bootstrap: str, group: str, topic: str, protocol: str
) -> None:
    with consuming(bootstrap, group, topic, protocol) as crew:
        member = only_member(crew)
        items = groups.items("describe", group, "--wide")
    assert [each["partition"] for each in items] == [0, 1]
    for item in items:
        assert (item["group_id"], item["topic"]) == (group, topic)
        assert (item["committed_offset"], item["log_end_offset"]) == (3, 5)
        assert (item["log_start_offset"], item["margin"]) == (0, 3)
        assert (item["lag"], item["lag_raw"], item["lag_status"]) == (2, 2, "normal")
        assert item["member_id"] == member
        assert (item["client_id"], item["host"]) == (CLIENT_ID, "/127.0.0.1")
        assert item["time_lag_method"] in {"exact", "interpolated"}
        assert item["time_lag_ms"] >= 0
        assert item["error"] is None


def test_the_printed_table_is_equal_for_both_brokers(
    coterie: Command, bootstrap: str, group: str, topic: str
) -> None:
    with consuming(bootstrap, group, topic, "consumer") as crew:
        member = only_member(crew)
        printed = coterie("groups", "describe", group).stdout
    lines = [line.split() for line in printed.replace(member, "MEMBER").splitlines()]
    row = [group, topic, "0", "3", "5", "2", "MEMBER", "/127.0.0.1", CLIENT_ID]
    assert lines[0][:6] == TITLES
    assert lines[1] == row
    assert lines[2] == [*row[:2], "1", *row[3:]]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_lag_is_summed_by_group(
    groups: Groups, bootstrap: str, group: str, topic: str, protocol: str
) -> None:
    with consuming(bootstrap, group, topic, protocol):
        (item,) = groups.items("lag", group)
        groups.items("lag", group, "--fail-if-lag", ">3", exit_code=3)
        groups.items("lag", group, "--fail-if-lag", ">4")
    assert (item["lag"], item["partitions"], item["members"]) == (4, 2, 1)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_members_are_shown_with_their_assigned_partitions_and_lag(
    groups: Groups, bootstrap: str, group: str, topic: str, protocol: str
) -> None:
    with consuming(bootstrap, group, topic, protocol) as crew:
        member = only_member(crew)
        (item,) = groups.items("members", group)
    assert (item["member_id"], item["client_id"]) == (member, CLIENT_ID)
    assert item["assignment"] == {topic: [0, 1]}
    assert item["subscribed_topics"] == [topic]


def test_the_consumers_of_a_topic_are_listed(
    coterie: Command, bootstrap: str, group: str, topic: str
) -> None:
    make_empty_group(bootstrap, f"{group}-a", topic, "classic")
    make_empty_group(bootstrap, f"{group}-b", topic, "consumer")
    printed = coterie("topics", "consumers", topic, "--output", "json").stdout
    assert [each["group_id"] for each in json.loads(printed)["items"]] == [
        f"{group}-a",
        f"{group}-b",
    ]


def test_a_missing_group_fails_the_run_and_the_others_are_shown(
    groups: Groups, bootstrap: str, group: str, topic: str
) -> None:
    make_empty_group(bootstrap, group, topic, "consumer")
    printed = groups.document("describe", group, f"{group}-nobody", exit_code=1)
    assert {each["group_id"] for each in printed["items"]} == {group}
    (error,) = printed["errors"]
    assert (error["id"], error["code"]) == (f"{group}-nobody", "GROUP_ID_NOT_FOUND")
