"""Partial results: values beside errors, raised on request."""

from __future__ import annotations

import typing
from collections.abc import Mapping

import pytest

from coterie.client.admin.group_offsets import CommittedOffset, GroupOffsets
from coterie.client.admin.groups import GroupListing, GroupListings
from coterie.client.admin.results import Partial, Results
from coterie.errors import ClientError, ConnectionLost
from coterie.operations.lag import GroupLag, GroupLagReport
from coterie.types import TopicPartition

FIRST, SECOND = ConnectionLost("node 1 is unreachable"), ClientError("no node 2")
ORDERS, BILLS = TopicPartition("orders", 0), TopicPartition("bills", 0)
LISTED = GroupListing("billing", "consumer", None, None, 1)
WHOLE: Mapping[str, Partial[typing.Any]] = {
    "results": Results({"a": 1}),
    "listings": GroupListings((LISTED,)),
    "offsets": GroupOffsets({ORDERS: CommittedOffset(7)}),
    "lag": GroupLagReport((GroupLag(group_id="billing"),)),
}
PARTIAL: Mapping[str, Partial[typing.Any]] = {
    "results": Results({"a": 1}, {"b": FIRST, "c": SECOND}),
    "listings": GroupListings((LISTED,), {1: FIRST, 2: SECOND}),
    "offsets": GroupOffsets({}, {ORDERS: FIRST, BILLS: SECOND}),
    "lag": GroupLagReport(
        (GroupLag(group_id="a", error=FIRST), GroupLag(group_id="b", error=SECOND))
    ),
}


@pytest.mark.parametrize("kind", WHOLE)
def test_a_result_without_errors_is_ok_and_raises_nothing(kind: str) -> None:
    result = WHOLE[kind]
    assert result.ok
    assert not result.errors
    result.raise_any()


@pytest.mark.parametrize("kind", PARTIAL)
def test_a_result_with_errors_raises_the_first_and_counts_the_others(kind: str) -> None:
    result = PARTIAL[kind]
    assert not result.ok
    assert list(result.errors.values()) == [FIRST, SECOND]
    for _ in range(2):
        with pytest.raises(ConnectionLost, match="node 1") as raised:
            result.raise_any()
        assert raised.value.__notes__ == [
            "1 more of the same call: see `errors` of its result"
        ]


def test_all_returns_the_values_or_raises() -> None:
    assert Results({"a": 1}).all() == {"a": 1}
    assert GroupListings((LISTED,)).all() == (LISTED,)
    assert GroupOffsets({ORDERS: None}).all() == {ORDERS: None}
    broken: tuple[Results[str, int] | GroupListings | GroupOffsets, ...] = (
        Results({"a": 1}, {"b": SECOND}),
        GroupListings((), {1: SECOND}),
        GroupOffsets({}, {ORDERS: SECOND}),
    )
    for each in broken:
        with pytest.raises(ClientError, match="no node 2"):
            each.all()


def test_one_key_that_was_not_requested_is_a_key_error() -> None:
    with pytest.raises(KeyError):
        Results({"a": 1}).one("b")
