"""Exception names of Java."""

from __future__ import annotations

import pytest

from coterie.cli.kafka_consumer_groups.java import as_exception, message_of
from coterie.errors import (
    ApiError,
    CoterieError,
    RequestTimedOut,
    UnsupportedByBroker,
)
from coterie.wire.error_codes import ErrorCode

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
