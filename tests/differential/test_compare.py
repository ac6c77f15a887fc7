"""What the comparison with Kafka regards as equal, and as different."""

from __future__ import annotations

from typing import Any

from coterie.wire import messages as m
from tests.differential.compare import Epochs, canonical, differences
from tests.differential.known import KNOWN
from tests.differential.page import PAGE, page
from tests.differential.steps import Bindings, ref, resolved

PLAY = "d1-1-"


def found(kafka: Any, coterie: Any, epochs: Epochs | None = None) -> list[str]:
    """Return the paths at which two responses differ."""
    shifts = epochs or Epochs()
    return [each.path for each in differences(kafka, coterie, shifts, "g")]


def test_below_a_different_error_only_the_error_is_reported() -> None:
    kafka = {"error_code": 25, "members": []}
    coterie = {"error_code": 0, "members": [1]}
    assert found({"groups": [kafka]}, {"groups": [coterie]}) == [
        ".groups[0].error_code"
    ]


def test_each_different_field_is_reported() -> None:
    assert found({"a": 1, "b": [1, 2]}, {"a": 2, "b": [1, 3]}) == [".a", ".b[1]"]
    assert found({"b": [1]}, {"b": [1, 2]}) == [".b"]


def test_epochs_of_a_group_may_be_one_lower_than_kafkas_and_stay_so() -> None:
    epochs = Epochs()
    assert epochs.are_equal("g", 2, 1)
    assert epochs.are_equal("g", 5, 4)
    assert not epochs.are_equal("g", 6, 4)
    assert not epochs.are_equal("g", 5, 5)
    assert epochs.are_equal("h", 5, 5)
    assert not epochs.are_equal("h", 5, 4)
    assert not Epochs().are_equal("g", 1, 2)
    assert not Epochs().are_equal("g", 0, 1)
    assert not Epochs().are_equal("g", 1, 0)
    assert Epochs().are_equal("g", -1, -1)


def test_the_epoch_of_a_described_group_is_its_own() -> None:
    groups = [{"group_id": name, "group_epoch": 3} for name in "gh"]
    others = [{"group_id": name, "group_epoch": 2} for name in "gh"]
    epochs = Epochs({"h": 0})
    assert found({"groups": groups}, {"groups": others}, epochs) == [
        ".groups[1].group_epoch"
    ]


def test_ids_have_the_names_of_their_actors() -> None:
    bindings = Bindings()
    bindings.bind("member", "a1", "a1.001-x")
    bindings.bind("member", "a1", "a1.002-y")
    assert canonical("a1.002-y", bindings, PLAY) == "<member a1.2>"
    unknown = "a2.003-01234567-89ab-cdef-0123-456789abcdef"
    assert canonical(unknown, bindings, PLAY) == "<member a2.003.?>"
    assert canonical("range", bindings, PLAY) == "range"


def test_the_order_of_groups_and_foreign_groups_mean_nothing() -> None:
    def listed(*names: str) -> Any:
        groups = [m.ListedGroup(group_id=name) for name in names]
        return canonical(m.ListGroupsResponse(groups=groups), Bindings(), PLAY)

    assert listed("d1-1-a", "d1-1-b", "other") == listed("d1-1-b", "d1-1-a")
    assert found(listed("d1-1-a"), listed("d1-1-a", "d1-1-b")) == [".groups"]


def test_a_message_is_not_compared_and_a_field_is() -> None:
    def described(**values: Any) -> Any:
        group = m.DescribedConsumerGroup(group_id="d1-1-a", **values)
        response = m.ConsumerGroupDescribeResponse(groups=[group])
        return canonical(response, Bindings(), PLAY)

    assert not found(described(error_message="x"), described(error_message="y"))
    assert found(described(group_state="x"), described(group_state="y")) == [
        ".groups[0].group_state"
    ]


def test_topics_of_an_embedded_assignment_have_no_order() -> None:
    first, second = b"\0\1a\0\0\0\0", b"\0\1b\0\0\0\1\0\0\0\7"

    def synced(data: bytes) -> Any:
        return canonical(m.SyncGroupResponse(assignment=data), Bindings(), PLAY)

    head, tail = b"\0\1\0\0\0\2", b"\xff\xff\xff\xff"
    assert synced(head + first + second + tail) == synced(head + second + first + tail)
    assert synced(head + first + second + tail) != synced(head + first + first + tail)
    assert found(synced(b"\0"), synced(b"\1")) == [".assignment"]


def test_references_have_the_values_of_each_server() -> None:
    bindings = Bindings()
    bindings.bind("epoch", "a1", 7)
    request = m.ConsumerGroupHeartbeatRequest(
        group_id="%g1",
        member_id=ref("member", "a1"),
        member_epoch=ref("epoch", "a1", -1),
    )
    sent = resolved(request, bindings, PLAY)
    assert (sent.group_id, sent.member_id, sent.member_epoch) == ("d1-1-g1", "", 6)


def test_the_page_of_differences_is_written_from_the_list() -> None:
    assert PAGE.read_text(encoding="utf-8") == page()
    assert all(each.reason for each in KNOWN)
