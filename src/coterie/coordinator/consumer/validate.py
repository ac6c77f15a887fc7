"""Whether the fields of a ConsumerGroupHeartbeat make sense, in Kafka's order (E7.4).

Looks at the request alone, before any group is looked up. Which topics and groups the
client may use is asked elsewhere.
"""

from __future__ import annotations

from collections.abc import Collection

from coterie.coordinator.consumer.member import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    STATIC_LEAVE_EPOCH,
)
from coterie.errors import ApiError
from coterie.wire.error_codes import ErrorCode
from coterie.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
)

MEMBER_MAKES_ITS_ID_SINCE = 1
"""The version from which a member comes with an id of its own (KIP-1082)."""


def check_heartbeat(
    request: ConsumerGroupHeartbeatRequest,
    *,
    api_version: int,
    assignors: Collection[str],
) -> None:
    """Refuse a request whose fields cannot be meant; `assignors` are those on offer.

    Raises:
        ApiError: INVALID_REQUEST (E7-05 to E7-13, E7-15), or UNSUPPORTED_ASSIGNOR,
            which names those on offer (E7-14).
    """
    assert assignors, "a server offers one assignor at least"
    epoch = request.member_epoch
    is_known = epoch > 0 or epoch == LEAVE_EPOCH
    if is_known or api_version >= MEMBER_MAKES_ITS_ID_SINCE:
        _refuse_blank(request.member_id, "MemberId")
    _refuse_blank(request.group_id, "GroupId")
    _refuse_blank(request.instance_id, "InstanceId")
    _refuse_blank(request.rack_id, "RackId")
    _check_epoch(request)
    assignor = request.server_assignor
    if assignor is not None and assignor not in assignors:
        raise ApiError(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {assignor} is not supported. Supported assignors: "
            f"{', '.join(assignors)}.",
        )


def _check_epoch(request: ConsumerGroupHeartbeatRequest) -> None:
    epoch = request.member_epoch
    if epoch == JOIN_EPOCH:
        _check_join(request)
    elif epoch == STATIC_LEAVE_EPOCH:
        _refuse_blank(request.member_id, "MemberId")
        _refuse_if(request.instance_id is None, "InstanceId can't be null.")
    else:
        _refuse_if(epoch < STATIC_LEAVE_EPOCH, "MemberEpoch is invalid.")


def _check_join(request: ConsumerGroupHeartbeatRequest) -> None:
    _refuse_if(
        request.rebalance_timeout_ms == -1,
        "RebalanceTimeoutMs must be provided in first request.",
    )
    _refuse_if(
        request.topic_partitions != [],
        "TopicPartitions must be empty when (re-)joining.",
    )
    _refuse_if(
        request.subscribed_topic_names is None
        and request.subscribed_topic_regex is None,
        "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when "
        "(re-)joining.",
    )


def _refuse_blank(value: str | None, name: str) -> None:
    """What is not set may be right; what is set must say something."""
    _refuse_if(value is not None and not value.strip(), f"{name} can't be empty.")


def _refuse_if(is_wrong: bool, message: str) -> None:
    if is_wrong:
        raise ApiError(ErrorCode.INVALID_REQUEST, message)
