"""Matchers of known differences from Kafka: whether a difference is an instance of one,
given the steps until then.

Each names the request, the fields or codes of both answers, and what the group has seen
before.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from coterie.wire.api import ApiKey
from coterie.wire.error_codes import ErrorCode
from tests.differential.generate import TIMED_MS
from tests.differential.play import Found
from tests.differential.servers import ADMIN, SETTINGS
from tests.differential.steps import Step

_BY_ID: Final = {ApiKey.OFFSET_COMMIT: 10, ApiKey.TXN_OFFSET_COMMIT: 6}
"""The versions since which commits name topics by their ids."""
_FENCED: Final = {ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.STALE_MEMBER_EPOCH}
_SUPERSEDED: Final = {ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.UNKNOWN_MEMBER_ID}
_JOINS: Final = {ApiKey.JOIN_GROUP, ApiKey.CONSUMER_GROUP_HEARTBEAT}


def _groups_of(request: Any) -> set[str]:
    """Return the groups that a request of a step names."""
    one = getattr(request, "group_id", None)
    if one is not None:
        return {one}
    several = getattr(request, "groups", None) or getattr(request, "group_ids", None)
    return {getattr(each, "group_id", each) for each in several or ()}


def _earlier(found: Found, steps: Sequence[Step], api: ApiKey) -> list[Step]:
    """Return the requests of an API to a group that the request names."""
    groups = _groups_of(found.step.request)
    return [
        each for each in steps if each.api is api and _groups_of(each.request) & groups
    ]


def _is_mixed(found: Found, steps: Sequence[Step]) -> bool:
    """Return whether members of both protocols have joined the group."""
    return all(_earlier(found, steps, api) for api in _JOINS)


def _codes(found: Found) -> tuple[Any, Any] | None:
    """Return both error codes, if it is these that differ."""
    _, kafka, coterie = found.difference
    return (kafka, coterie) if found.difference.kind.endswith("error_code") else None


def is_repeated(found: Found, _: Sequence[Step]) -> bool:
    """Return whether Kafka's list has a group twice, and nothing else is longer."""
    if found.step.api is ApiKey.DESCRIBE_CONFIGS:
        resources = found.request.resources
        named = [(each.resource_type, each.resource_name) for each in resources]
        counts = [len(each) for each in found.difference[1:]]
        is_results = found.difference.path == ".results"
        return is_results and counts == [len(named), len(set(named))]
    if found.step.api is ApiKey.DESCRIBE_GROUPS:
        names = found.request.groups
    elif found.step.api in {
        ApiKey.CONSUMER_GROUP_DESCRIBE,
        ApiKey.SHARE_GROUP_DESCRIBE,
    }:
        names = found.request.group_ids
    else:
        return False
    path, kafka, coterie = found.difference
    lengths = len(names), len(set(names))
    if path != ".groups" or (len(kafka), len(coterie)) != lengths:
        return False
    codes = [
        {g["group_id"]: g["error_code"] for g in each} for each in (kafka, coterie)
    ]
    return codes[0] == codes[1]


def is_abandoned(found: Found, _: Sequence[Step]) -> bool:
    if found.difference != ("answer", "nothing", "response"):
        return False
    is_waiting = found.step.api in {ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP}
    return is_waiting and found.responses[1].error_code in _SUPERSEDED


def names_topic_twice(found: Found, _: Sequence[Step]) -> bool:
    if found.step.user == ADMIN or found.step.api not in _BY_ID:
        return False
    by_id = found.step.version >= _BY_ID[found.step.api]
    names = [t.topic_id if by_id else t.name for t in found.request.topics]
    return found.difference.path == ".topics" and len(set(names)) < len(names)


def is_resolved_later(found: Found, steps: Sequence[Step]) -> bool:
    has_regex = any(
        step.request.subscribed_topic_regex is not None
        for step in _earlier(found, steps, ApiKey.CONSUMER_GROUP_HEARTBEAT)
    )
    codes = _codes(found)
    if codes is not None:
        return has_regex and bool(_FENCED & set(codes))
    kind = found.difference.kind
    return has_regex and (kind.endswith("epoch") or "assignment" in kind)


def owns_after_removal(found: Found, steps: Sequence[Step]) -> bool:
    is_join = found.step.api is ApiKey.JOIN_GROUP and _is_mixed(found, steps)
    codes = (ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID)
    return is_join and bool(found.request.member_id) and _codes(found) == codes


def needs_new_ids(found: Found, _: Sequence[Step]) -> bool:
    codes = (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NONE)
    return found.step.api is ApiKey.INIT_PRODUCER_ID and _codes(found) == codes


def is_tie(found: Found, _: Sequence[Step]) -> bool:
    return found.difference.kind == ".groups.assignor_name"


def joins_without_topics(found: Found, steps: Sequence[Step]) -> bool:
    return "assignment" in found.difference.kind and any(
        step.request.member_epoch == 0 and step.request.subscribed_topic_names == []
        for step in _earlier(found, steps, ApiKey.CONSUMER_GROUP_HEARTBEAT)
    )


def has_protocol_twice(found: Found, steps: Sequence[Step]) -> bool:
    has_twice = any(
        len({protocol.name for protocol in step.request.protocols})
        < len(step.request.protocols)
        for step in _earlier(found, steps, ApiKey.JOIN_GROUP)
    )
    codes = _codes(found) or (None, None)
    is_silent = found.difference == ("answer", "nothing", "response")
    return has_twice and (is_silent or codes[0] == ErrorCode.UNKNOWN_SERVER_ERROR)


def has_no_time(found: Found, _: Sequence[Step]) -> bool:
    is_topics = found.step.api in {ApiKey.CREATE_TOPICS, ApiKey.DELETE_TOPICS}
    is_timeout = (_codes(found) or (0,))[0] == ErrorCode.REQUEST_TIMED_OUT
    return is_topics and found.step.request.timeout_ms <= 0 and is_timeout


def follows_removal(found: Found, steps: Sequence[Step]) -> bool:
    is_leader = found.difference.kind in {".leader", ".members"}
    if found.step.api is not ApiKey.JOIN_GROUP or not is_leader:
        return False
    return bool(_earlier(found, steps, ApiKey.LEAVE_GROUP)) or any(
        step.request.rebalance_timeout_ms == TIMED_MS
        for step in _earlier(found, steps, ApiKey.JOIN_GROUP)
    )


def is_unknown_operation(found: Found, _: Sequence[Step]) -> bool:
    codes = (ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.INVALID_REQUEST)
    is_alter = found.step.api is ApiKey.INCREMENTAL_ALTER_CONFIGS
    return is_alter and _codes(found) == codes


def _joins_again(found: Found) -> bool:
    """Return whether the request is a heartbeat that joins with an instance id."""
    if found.step.api is not ApiKey.CONSUMER_GROUP_HEARTBEAT:
        return False
    return found.request.instance_id is not None and found.request.member_epoch == 0


def becomes_static(found: Found, _: Sequence[Step]) -> bool:
    codes = (ErrorCode.NONE, ErrorCode.INVALID_REQUEST)
    return _joins_again(found) and _codes(found) == codes


def returns_by_its_id(found: Found, _: Sequence[Step]) -> bool:
    codes = (ErrorCode.UNRELEASED_INSTANCE_ID, ErrorCode.NONE)
    return _joins_again(found) and _codes(found) == codes


def fails_in_kafka(found: Found, steps: Sequence[Step]) -> bool:
    codes = (ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.NONE)
    is_mixed = _is_mixed(found, steps)
    return is_mixed and _joins_again(found) and _codes(found) == codes


def is_uniform(found: Found, steps: Sequence[Step]) -> bool:
    return "assignment" in found.difference.kind and any(
        step.request.server_assignor == "uniform"
        for step in _earlier(found, steps, ApiKey.CONSUMER_GROUP_HEARTBEAT)
    )


def is_upgrade(found: Found, steps: Sequence[Step]) -> bool:
    """Return whether a heartbeat to a group of classic members fails in Kafka, or bumps
    the epoch once more here."""
    if found.step.api is not ApiKey.CONSUMER_GROUP_HEARTBEAT:
        return False
    if not _earlier(found, steps, ApiKey.JOIN_GROUP):
        return False
    _, kafka, coterie = found.difference
    codes = _codes(found) or (0, 0)
    is_epoch = found.difference.kind == ".member_epoch"
    return codes[0] == ErrorCode.UNKNOWN_SERVER_ERROR or (
        is_epoch and coterie == kafka + 1 > 1
    )


def is_downgrade(found: Found, steps: Sequence[Step]) -> bool:
    """Return whether a static member may have made a consumer group a classic one."""
    if not _is_mixed(found, steps):
        return False
    leads = found.step.api is ApiKey.JOIN_GROUP and found.difference.kind in {
        ".leader",
        ".members",
        ".protocol_name",
        ".skip_assignment",
    }
    state = found.difference.kind.endswith(".group_state")
    return leads or (state and found.difference.kafka == "Stable")


def is_early_rebalance(found: Found, steps: Sequence[Step]) -> bool:
    codes = (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS)
    is_heartbeat = found.step.api is ApiKey.HEARTBEAT
    return is_heartbeat and _is_mixed(found, steps) and _codes(found) == codes


def is_failed_upgrade(found: Found, steps: Sequence[Step]) -> bool:
    if found.difference != ("answer", "response", "nothing"):
        return False
    failed = found.responses[0].error_code == ErrorCode.REBALANCE_IN_PROGRESS
    heartbeats = _earlier(found, steps, ApiKey.CONSUMER_GROUP_HEARTBEAT)
    return failed and bool(heartbeats) and steps[-1] is heartbeats[-1]


def is_permuted(found: Found, steps: Sequence[Step]) -> bool:
    """Return whether members of a group of both protocols have each other's parts."""
    if not _is_mixed(found, steps) or "assignment" not in found.difference.kind:
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
    codes = (ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.UNKNOWN_MEMBER_ID)
    if found.step.api is not ApiKey.OFFSET_FETCH or _codes(found) != codes:
        return False
    return any(
        group.member_id is None and group.member_epoch >= 0
        for group in found.request.groups
    )


def is_lost(found: Found, steps: Sequence[Step]) -> bool:
    """Return whether Kafka does not know a consumer group after a JoinGroup."""
    is_mixed = any(
        _groups_of(join.request) & _groups_of(heartbeat.request)
        for join in steps
        for heartbeat in steps
        if join.api is ApiKey.JOIN_GROUP
        and heartbeat.api is ApiKey.CONSUMER_GROUP_HEARTBEAT
    )
    if found.difference.kind == ".groups":  # listed, or one of them described twice
        names = [
            {g["group_id"] for g in each if not g.get("error_code")}
            for each in found.difference[1:]
        ]
        return is_mixed and names[0] < names[1]
    codes = _codes(found) or (0, 0)
    is_fetch = found.step.api is ApiKey.OFFSET_FETCH
    fetched = (ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID)
    return is_mixed and (
        codes[0] == ErrorCode.GROUP_ID_NOT_FOUND or (is_fetch and codes == fetched)
    )


def is_full(found: Found, steps: Sequence[Step]) -> bool:
    """Return whether a group that is full, of four members, completes its rebalance
    here only."""
    if found.difference != ("answer", "nothing", "response"):
        return False
    joined = _earlier(found, steps, ApiKey.JOIN_GROUP)
    most = int(SETTINGS["group.max.size"])
    is_join = found.step.api is ApiKey.JOIN_GROUP and not found.responses[1].error_code
    return is_join and len({each.actor for each in joined}) > most
