"""Java's exceptions in the output of kafka-consumer-groups.sh.

Scripts search for `GroupNotEmptyException`, so messages contain these names.
"""

from __future__ import annotations

from typing import Final

from coterie.errors import ApiError, CoterieError, UnsupportedByBroker
from coterie.wire.error_codes import ErrorCode

_PACKAGE: Final = "org.apache.kafka.common.errors."

_ERRORS: Final = {
    ErrorCode.UNKNOWN_SERVER_ERROR: (
        "UnknownServerException",
        "The server experienced an unexpected error when processing the request.",
    ),
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: (
        "UnknownTopicOrPartitionException",
        "This server does not host this topic-partition.",
    ),
    ErrorCode.LEADER_NOT_AVAILABLE: (
        "LeaderNotAvailableException",
        "There is no leader for this topic-partition as we are in the middle of a "
        "leadership election.",
    ),
    ErrorCode.REQUEST_TIMED_OUT: ("TimeoutException", "The request timed out."),
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: (
        "CoordinatorLoadInProgressException",
        "The coordinator is loading and hence can't process requests.",
    ),
    ErrorCode.COORDINATOR_NOT_AVAILABLE: (
        "CoordinatorNotAvailableException",
        "The coordinator is not available.",
    ),
    ErrorCode.NOT_COORDINATOR: (
        "NotCoordinatorException",
        "This is not the correct coordinator.",
    ),
    ErrorCode.INVALID_TOPIC_EXCEPTION: (
        "InvalidTopicException",
        "The request attempted to perform an operation on an invalid topic.",
    ),
    ErrorCode.INVALID_GROUP_ID: ("InvalidGroupIdException", "The group id is invalid."),
    ErrorCode.UNKNOWN_MEMBER_ID: (
        "UnknownMemberIdException",
        "The coordinator is not aware of this member.",
    ),
    ErrorCode.REBALANCE_IN_PROGRESS: (
        "RebalanceInProgressException",
        "The group is rebalancing, so a rejoin is needed.",
    ),
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: (
        "TopicAuthorizationException",
        "Topic authorization failed.",
    ),
    ErrorCode.GROUP_AUTHORIZATION_FAILED: (
        "GroupAuthorizationException",
        "Group authorization failed.",
    ),
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: (
        "ClusterAuthorizationException",
        "Cluster authorization failed.",
    ),
    ErrorCode.UNSUPPORTED_VERSION: (
        "UnsupportedVersionException",
        "The version of API is not supported.",
    ),
    ErrorCode.SASL_AUTHENTICATION_FAILED: (
        "SaslAuthenticationException",
        "SASL Authentication failed.",
    ),
    ErrorCode.NON_EMPTY_GROUP: ("GroupNotEmptyException", "The group is not empty."),
    ErrorCode.GROUP_ID_NOT_FOUND: (
        "GroupIdNotFoundException",
        "The group id does not exist.",
    ),
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: (
        "GroupSubscribedToTopicException",
        "Deleting offsets of a topic is forbidden while the consumer group is actively "
        "subscribed to it.",
    ),
    ErrorCode.UNSTABLE_OFFSET_COMMIT: (
        "UnstableOffsetCommitException",
        "There are unstable offsets that need to be cleared.",
    ),
}


def message_of(error: CoterieError) -> str:
    """Return Apache's message for an error code, or the message of a client error."""
    if not isinstance(error, ApiError):
        return str(error)
    if error.code in _ERRORS:
        return _ERRORS[error.code][1]
    return str(error)


def as_exception(error: CoterieError) -> str:
    """Return an error as Java prints an exception: class, colon, message."""
    if isinstance(error, ApiError):
        name, text = _ERRORS.get(error.code, ("ApiException", error.code.name))
        return f"{_PACKAGE}{name}: {text}"
    unsupported = isinstance(error, UnsupportedByBroker)
    name = "UnsupportedVersionException" if unsupported else "TimeoutException"
    return f"{_PACKAGE}{name}: {error}"
