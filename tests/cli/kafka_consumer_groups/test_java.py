"""Hash codes, HashMap orders and exception names of Java; hash codes are from a JVM."""

from __future__ import annotations

import pytest

from coterie.cli.kafka_consumer_groups.java import (
    as_exception,
    hash_map_order,
    message_of,
    partition_hash,
    string_hash,
)
from coterie.errors import (
    ApiError,
    CoterieError,
    RequestTimedOut,
    UnsupportedByBroker,
)
from coterie.types import TopicPartition
from coterie.wire.error_codes import ErrorCode


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", 0),
        ("a", 97),
        ("orders", 3286196965),
        ("a-long-group-name-of-several-words", 2299314801),
        ("\N{GRINNING FACE}", 1772899),
    ],
)
def test_strings_hash_as_in_java(text: str, code: int) -> None:
    assert string_hash(text) == code


def test_partitions_hash_as_in_java() -> None:
    assert partition_hash(TopicPartition("orders", 7)) == 3286198143


def test_keys_have_the_order_of_a_resized_hash_map() -> None:
    groups = [f"group-{number}" for number in range(14)]
    order = [10, 12, 11, 7, 6, 9, 8, 3, 2, 5, 4, 13, 1, 0]
    assert hash_map_order(groups, string_hash) == [groups[each] for each in order]
    partitions = [TopicPartition("orders", number) for number in range(14)]
    order = [*range(7, 14), *range(7)]
    assert hash_map_order(partitions, partition_hash) == [
        partitions[each] for each in order
    ]


_PACKAGE = "org.apache.kafka.common.errors."


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (
            ApiError(ErrorCode.NON_EMPTY_GROUP, "our words"),
            "GroupNotEmptyException: The group is not empty.",
        ),
        (
            ApiError(ErrorCode.TRANSACTION_ABORTABLE),
            "ApiException: TRANSACTION_ABORTABLE",
        ),
        (RequestTimedOut("too late"), "TimeoutException: too late"),
        (UnsupportedByBroker("too old"), "UnsupportedVersionException: too old"),
    ],
)
def test_errors_have_the_class_names_of_java_exceptions(
    error: CoterieError, text: str
) -> None:
    assert as_exception(error) == _PACKAGE + text


def test_an_error_message_of_kafka_is_preferred() -> None:
    known = ApiError(ErrorCode.GROUP_ID_NOT_FOUND, "our words")
    assert message_of(known) == "The group id does not exist."
    assert (
        message_of(ApiError(ErrorCode.TRANSACTION_ABORTABLE, "our words"))
        == "our words"
    )
    assert message_of(RequestTimedOut("too late")) == "too late"
