"""Map errors of the log to the errors that a group API returns.

As in Kafka's `GroupCoordinatorService.handleOperationException`: clients handle
coordinator errors, but would attribute an error of a partition or a disk to one of
their own topics.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from coterie.wire.error_codes import ErrorCode

_CLIENT_ERRORS: Final[Mapping[int, ErrorCode]] = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.INVALID_FETCH_SIZE: ErrorCode.UNKNOWN_SERVER_ERROR,
}


def client_error(code: ErrorCode) -> ErrorCode:
    """Return the error for the client; most errors are returned unchanged."""
    return _CLIENT_ERRORS.get(code, code)
