"""Tables, byte for byte. `tests/interop` compares the golden files with the output of
Apache Kafka's own tool."""

from __future__ import annotations

from dataclasses import replace

import pytest

from coterie.cli.kafka_consumer_groups.tables import (
    OffsetRow,
    StatusRow,
    assigned,
    deleted_offsets,
    group_list,
    members,
    new_offsets,
    offsets,
    state,
)
from coterie.client.admin.groups import (
    GroupDescription,
    GroupListing,
    GroupState,
    GroupType,
    MemberDescription,
    Node,
)
from coterie.types import TopicPartition

from .fake_cluster import is_golden

LONG = "a-group-with-a-name-longer-than-fifteen"


def owned(topic: str, *partitions: int) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition(topic, each) for each in partitions)


CLASSIC = GroupDescription(
    "billing",
    GroupType.CLASSIC,
    GroupState.STABLE,
    "consumer",
    "range",
    Node(1, "127.0.0.1", 9092),
    (
        MemberDescription(
            "one-62eecfee-7210-4e42-bb5f-6aed066f7c8b",
            "one",
            "/127.0.0.1",
            (*owned("orders", 0, 1, 2, 10), *owned("payments", 0)),
            subscribed_topics=("orders", "payments"),
            protocols=("range", "roundrobin"),
        ),
        MemberDescription(
            "two-4288d23d-6182-4d7c-91c2-bbf8a8dfbbf0",
            "a client of two",
            "/10.20.30.40",
            instance_id="two",
            subscribed_topics=("orders",),
        ),
    ),
    generation_id=17,
    leader_id="one-62eecfee-7210-4e42-bb5f-6aed066f7c8b",
)
EMPTY = GroupDescription(
    LONG,
    GroupType.CLASSIC,
    GroupState.EMPTY,
    "consumer",
    "",
    Node(2, "a-broker-with-a-long-name.example", 19092),
)


def modern(*, is_mixed: bool) -> GroupDescription:
    return GroupDescription(
        "modern",
        GroupType.CONSUMER,
        GroupState.RECONCILING,
        "consumer",
        "uniform",
        Node(1, "127.0.0.1", 9092),
        (
            MemberDescription(
                "AaaaAaaaAaaaAaaaAaaaAA",
                "new",
                "/127.0.0.1",
                owned("orders", 0),
                target_assignment=(*owned("orders", 0, 1), *owned("a-long-topic", 2)),
                epoch=4,
                is_classic=False,
                subscribed_topic_regex="ord.*",
            ),
            MemberDescription(
                "BbbbBbbbBbbbBbbbBbbbBB",
                "old",
                "/127.0.0.1",
                target_assignment=(),
                epoch=5,
                is_classic=is_mixed,
                subscribed_topics=("orders",),
            ),
        ),
        group_epoch=6,
        assignment_epoch=5,
    )


LISTED = (
    GroupListing("billing", "consumer", GroupState.STABLE, GroupType.CLASSIC),
    GroupListing(LONG, "", GroupState.EMPTY, GroupType.CONSUMER),
    GroupListing("old-broker", "consumer"),
)


@pytest.mark.fact("E29-06")
@pytest.mark.parametrize(
    ("with_type", "with_state"), [(True, True), (True, False), (False, True)]
)
def test_the_list_is_printed_with_types_and_states(
    with_type: bool, with_state: bool
) -> None:
    text = group_list(LISTED, with_type=with_type, with_state=with_state)
    name = f"list{'-type' * with_type}{'-state' * with_state}"
    assert is_golden(name, text)


def test_an_empty_list_has_a_header_of_the_minimum_width() -> None:
    text = group_list((), with_type=False, with_state=True)
    assert text == f"{'GROUP':<25} {'STATE':<20}\n"


ROWS = (
    OffsetRow("g", "orders", 0, 3, 120, 150, 30, "one-1", "/127.0.0.1", "one"),
    OffsetRow("g", "orders", 10, None, None, 7, None, "one-1", "/127.0.0.1", "one"),
    OffsetRow("g", consumer_id="two-2", host="/h", client_id="two words"),
    OffsetRow("g", "a-topic-with-a-longer-name", 1, None, 5, None, None, "-", "-", "-"),
    OffsetRow("g", "payments", 0, 0, 9, 4, -5, "-", "-", "-"),
)


@pytest.mark.fact("C-41a", "C-45", "C-46a", "A-71", "A-73a", "A-73b")
def test_offsets_are_printed() -> None:
    assert is_golden("offsets", offsets(ROWS))


@pytest.mark.fact("C-41b")
def test_verbose_offsets_are_printed() -> None:
    assert is_golden("offsets-verbose", offsets(ROWS, verbose=True))


@pytest.mark.fact("C-31", "C-42", "C-45")
def test_members_are_printed() -> None:
    assert is_golden("members", members(CLASSIC))


@pytest.mark.fact("C-32", "C-43a", "C-43c")
def test_verbose_members_are_printed() -> None:
    assert is_golden("members-verbose", members(CLASSIC, verbose=True))
    assert is_golden("members-modern", members(modern(is_mixed=False), verbose=True))


@pytest.mark.fact("C-43b")
def test_upgraded_is_shown_only_for_groups_with_both_kinds_of_members() -> None:
    text = members(modern(is_mixed=True), verbose=True)
    assert is_golden("members-mixed", text)
    assert "UPGRADED" not in members(modern(is_mixed=False), verbose=True)
    [_, classic] = modern(is_mixed=True).members
    only_classic = replace(modern(is_mixed=True), members=(classic,))
    assert "UPGRADED" not in members(only_classic, verbose=True)


@pytest.mark.fact("C-42")
def test_instance_ids_have_a_column_only_when_there_are_any() -> None:
    assert "GROUP-INSTANCE-ID" in members(CLASSIC)
    assert "GROUP-INSTANCE-ID" not in members(modern(is_mixed=True))


@pytest.mark.fact("C-51a")
def test_a_group_without_members_has_only_a_header() -> None:
    cells = ["GROUP", "CONSUMER-ID", "HOST", "CLIENT-ID", "#PARTITIONS"]
    header = " ".join(f"{cell:<15}" for cell in cells)
    assert members(EMPTY) == f"\n{header} ASSIGNMENT-STRATEGY\n"


@pytest.mark.fact("C-30", "C-44a")
def test_the_state_of_a_group_is_printed() -> None:
    assert is_golden("state", state(CLASSIC))
    assert is_golden("state-empty", state(EMPTY))


@pytest.mark.fact("C-13", "C-44b")
def test_the_verbose_state_of_a_group_is_printed() -> None:
    assert is_golden("state-verbose", state(modern(is_mixed=False), verbose=True))
    assert is_golden("state-verbose-classic", state(CLASSIC, verbose=True))


def test_new_offsets_are_printed() -> None:
    planned = {
        LONG: {TopicPartition("orders", 0): 5, TopicPartition("orders", 10): 2**40},
        "active": {},
        "g": {TopicPartition("payments", 1): 0},
    }
    assert is_golden("reset", new_offsets(planned))


def test_new_offsets_without_rows_are_an_empty_line_or_a_header() -> None:
    assert new_offsets({}) == "\n"
    line = f"{'GROUP':<15} {'TOPIC':<15} {'PARTITION':<10} NEW-OFFSET"
    assert new_offsets({"g": {}}) == f"\n{line}\n"


@pytest.mark.fact("C-65b")
def test_deleted_offsets_are_printed() -> None:
    rows = (
        StatusRow("a-topic-with-a-longer-name", 10, "Successful"),
        StatusRow("nope", -1, "Error: org.apache.kafka.common.errors.X: no"),
    )
    assert is_golden("delete-offsets", deleted_offsets(rows))


def test_an_assignment_lists_topics_with_partitions_in_numerical_order() -> None:
    partitions = (*owned("t", 10, 2, 0), *owned("a", 1))
    assert assigned(partitions) == "a:1;t:0,2,10"
    assert assigned(()) == "-"


def test_widths_are_counted_as_java_counts() -> None:
    smile = "\N{GRINNING FACE}" * 10
    line = offsets([OffsetRow(smile, "t", 0)]).splitlines()[1]
    assert line.startswith(f"{'GROUP':<20} TOPIC")
