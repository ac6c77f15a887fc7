"""The decoder of `__consumer_offsets`."""

from __future__ import annotations

import pytest

from coterie.records import Unreadable, decode, to_json
from tests.pipeline.codec.golden import GOLDEN


def test_a_commit_has_names_and_json_values() -> None:
    found = to_json(*GOLDEN["offset-commit-v3"])
    assert (found.record_type, found.kind, found.value_version) == (
        *(1, "offset_commit"),
        3,
    )
    assert found.key is not None
    assert list(found.key) == ["group", "topic", "partition"]
    assert found.value is not None
    assert list(found.value) == [
        *("offset", "leader_epoch", "metadata", "commit_timestamp"),
    ]


@pytest.mark.parametrize(
    ("record_type", "message"),
    [
        (9, "share groups"),
        (17, "streams groups"),
        (-1, "no type"),
    ],
)
def test_types_of_other_coordinators_are_named(record_type: int, message: str) -> None:
    found = decode(record_type.to_bytes(2, "big", signed=True), b"")
    assert isinstance(found, Unreadable)
    assert (found.reason, found.record_type) == ("unknown_type", record_type)
    assert message in found.message
