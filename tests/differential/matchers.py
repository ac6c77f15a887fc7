"""Matchers of known differences from Kafka: whether a difference is an instance of one,
given the steps until then."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from coterie.wire.api import ApiKey
from coterie.wire.error_codes import ErrorCode
from tests.differential.classic import MISLEADING
from tests.differential.generate import TIMED_MS
from tests.differential.play import Found
from tests.differential.servers import ADMIN
from tests.differential.steps import Ref, Step

_COMMITS: Final = {ApiKey.OFFSET_COMMIT, ApiKey.TXN_OFFSET_COMMIT}
_JOINS: Final = {ApiKey.JOIN_GROUP, ApiKey.CONSUMER_GROUP_HEARTBEAT}


def is_repeated(found: Found, _: Sequence[Step]) -> bool:
    if found.step.api is ApiKey.DESCRIBE_GROUPS:
        names = found.request.groups
    elif found.step.api is ApiKey.CONSUMER_GROUP_DESCRIBE:
        names = found.request.group_ids
    else:
        return False
    return len(set(names)) < len(names)


def is_abandoned(found: Found, steps: Sequence[Step]) -> bool:
    if found.difference != ("answer", "nothing", "response"):
        return False
    response = found.responses[1]
    if response.error_code in {
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.UNKNOWN_MEMBER_ID,
    }:
        return True
    return any(
        isinstance(step.request.member_id, Ref)
        and step.request.member_id.of != step.actor
        for step in _joins(found, steps)
    )


def names_topic_twice(found: Found, _: Sequence[Step]) -> bool:
    if found.step.user == ADMIN or found.step.api not in _COMMITS:
        return False
    names = [(topic.name, topic.topic_id) for topic in found.request.topics]
    return found.difference.path == ".topics" and len(set(names)) < len(names)


def is_resolved_later(found: Found, steps: Sequence[Step]) -> bool:
    has_regex = any(
        getattr(step.request, "subscribed_topic_regex", None) is not None
        for step in steps
    )
    path = found.difference.path
    epochs = (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.STALE_MEMBER_EPOCH)
    is_epoch = path.endswith("epoch") or found.difference.kafka in epochs
    return has_regex and (is_epoch or "assignment" in path)


def owns_after_removal(found: Found, steps: Sequence[Step]) -> bool:
    if found.step.api is not ApiKey.JOIN_GROUP:
        return False
    errors = (found.difference.kafka, found.difference.coterie)
    is_mixed = ApiKey.CONSUMER_GROUP_HEARTBEAT in {step.api for step in steps}
    return is_mixed and errors == (ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID)


def needs_new_ids(found: Found, _: Sequence[Step]) -> bool:
    is_loading = found.difference.kafka == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return found.step.api is ApiKey.INIT_PRODUCER_ID and is_loading


def is_tie(found: Found, _: Sequence[Step]) -> bool:
    return found.difference.kind == ".groups.assignor_name"


def joins_without_topics(found: Found, steps: Sequence[Step]) -> bool:
    is_assignment = "assignment" in found.difference.path
    return is_assignment and any(
        step.api is ApiKey.CONSUMER_GROUP_HEARTBEAT
        and step.request.member_epoch == 0
        and step.request.subscribed_topic_names == []
        for step in steps
    )


def _joins(found: Found, steps: Sequence[Step]) -> Sequence[Step]:
    """Return the JoinGroup requests that may have led to a difference."""
    return [each for each in steps if each.api is ApiKey.JOIN_GROUP]


def is_misleading(found: Found, steps: Sequence[Step]) -> bool:
    return any(
        protocol.metadata in MISLEADING
        for step in _joins(found, steps)
        for protocol in step.request.protocols
    )


def has_protocol_twice(found: Found, steps: Sequence[Step]) -> bool:
    return any(
        len({protocol.name for protocol in step.request.protocols})
        < len(step.request.protocols)
        for step in _joins(found, steps)
    )


def has_no_time(found: Found, _: Sequence[Step]) -> bool:
    is_topics = found.step.api in {ApiKey.CREATE_TOPICS, ApiKey.DELETE_TOPICS}
    return is_topics and found.step.request.timeout_ms <= 0


def follows_removal(found: Found, steps: Sequence[Step]) -> bool:
    is_leader = found.difference.kind in {".leader", ".members"}
    if found.step.api is not ApiKey.JOIN_GROUP or not is_leader:
        return False
    return any(
        step.api is ApiKey.LEAVE_GROUP
        or getattr(step.request, "rebalance_timeout_ms", 0) == TIMED_MS
        for step in steps
    )


def is_unknown_operation(found: Found, _: Sequence[Step]) -> bool:
    if found.step.api is not ApiKey.INCREMENTAL_ALTER_CONFIGS:
        return False
    return (found.difference.kafka, found.difference.coterie) == (
        ErrorCode.UNKNOWN_SERVER_ERROR,
        ErrorCode.INVALID_REQUEST,
    )


def _joins_again(found: Found) -> bool:
    """Return whether the request is a heartbeat that joins with an instance id."""
    if found.step.api is not ApiKey.CONSUMER_GROUP_HEARTBEAT:
        return False
    return found.request.instance_id is not None and found.request.member_epoch == 0


def becomes_static(found: Found, _: Sequence[Step]) -> bool:
    return _joins_again(found) and found.difference.coterie == ErrorCode.INVALID_REQUEST


def returns_by_its_id(found: Found, _: Sequence[Step]) -> bool:
    error = found.difference.kafka
    return _joins_again(found) and error == ErrorCode.UNRELEASED_INSTANCE_ID


def fails_in_kafka(found: Found, steps: Sequence[Step]) -> bool:
    fails = found.difference.kafka == ErrorCode.UNKNOWN_SERVER_ERROR
    return fails and _joins_again(found) and bool(_joins(found, steps))


def is_uniform(found: Found, steps: Sequence[Step]) -> bool:
    return "assignment" in found.difference.path and any(
        getattr(step.request, "server_assignor", None) == "uniform" for step in steps
    )


def is_upgrade(found: Found, steps: Sequence[Step]) -> bool:
    """Return whether a heartbeat to a group of classic members differs in its epoch, or
    fails in Kafka."""
    if found.step.api is not ApiKey.CONSUMER_GROUP_HEARTBEAT:
        return False
    has_failed = found.difference.kafka == ErrorCode.UNKNOWN_SERVER_ERROR
    is_epoch = found.difference.kind == ".member_epoch"
    return bool(_joins(found, steps)) and (has_failed or is_epoch)


def is_downgrade(found: Found, steps: Sequence[Step]) -> bool:
    """Return whether a static member may have made a consumer group a classic one."""
    if len({step.api for step in steps} & _JOINS) < len(_JOINS):
        return False
    leads = found.step.api is ApiKey.JOIN_GROUP and found.difference.kind in {
        ".leader",
        ".members",
        ".protocol_name",
        ".skip_assignment",
    }
    state = found.difference.kind.endswith(".group_state")
    return leads or (state and found.difference.kafka == "Stable")


def is_early_rebalance(found: Found, _: Sequence[Step]) -> bool:
    errors = (found.difference.kafka, found.difference.coterie)
    is_heartbeat = found.step.api is ApiKey.HEARTBEAT
    return is_heartbeat and errors == (0, ErrorCode.REBALANCE_IN_PROGRESS)


def is_failed_upgrade(found: Found, steps: Sequence[Step]) -> bool:
    if found.difference != ("answer", "response", "nothing"):
        return False
    failed = found.responses[0].error_code == ErrorCode.REBALANCE_IN_PROGRESS
    return failed and ApiKey.CONSUMER_GROUP_HEARTBEAT in {step.api for step in steps}


def is_permuted(found: Found, steps: Sequence[Step]) -> bool:
    """Return whether members of a group of both protocols have each other's parts."""
    is_mixed = len({step.api for step in steps} & _JOINS) == len(_JOINS)
    if not is_mixed or "assignment" not in found.difference.path:
        return False
    if found.step.api is not ApiKey.CONSUMER_GROUP_DESCRIBE:
        return True
    kafka, coterie = (_parts(response) for response in found.responses)
    return kafka == coterie


def _parts(response: Any) -> list[str]:
    """Return which partitions are together in described groups."""
    return sorted(
        repr((group["group_id"], topic))
        for group in response["groups"]
        for member in group["members"]
        for topic in member["target_assignment"]["topic_partitions"]
    )


def has_only_epoch(found: Found, _: Sequence[Step]) -> bool:
    if found.step.api is not ApiKey.OFFSET_FETCH or found.difference.kafka != -1:
        return False
    return any(
        group.member_id is None and group.member_epoch >= 0
        for group in found.request.groups
    )


def is_lost(found: Found, steps: Sequence[Step]) -> bool:
    not_found = found.difference.kafka == ErrorCode.GROUP_ID_NOT_FOUND
    is_missing = not_found or found.step.api is ApiKey.LIST_GROUPS
    return is_missing and bool(_joins(found, steps))
