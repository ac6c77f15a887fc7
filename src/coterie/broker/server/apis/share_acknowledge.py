"""ShareAcknowledge, key 79: versions 1-2, and the acknowledgements in a ShareFetch.

A partition is refused as a whole; the others go on. The response waits until the
acknowledgements are durable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final, NamedTuple, TypeAlias

from coterie.auth.acl import Operation
from coterie.broker.coordinator.share_partition.acknowledge import (
    GAP,
    REJECT,
    RENEW,
    Acknowledgement,
)
from coterie.broker.coordinator.share_partition.state import ShareKey
from coterie.broker.runtime.share_sessions import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    PartitionId,
    SessionKey,
)
from coterie.broker.server.apis.routing import LEADER_EPOCH, find_partition, leader_of
from coterie.broker.server.call import Call
from coterie.errors import ApiError
from coterie.wire import messages as m
from coterie.wire.error_codes import ErrorCode

MEMBER_ID_LENGTH_MAX: Final = 36
_RENEW_SINCE: Final = 2


class Outcome(NamedTuple):
    """The result of a partition's acknowledgements."""

    code: ErrorCode
    message: str | None = None


Outcomes: TypeAlias = dict[PartitionId, Outcome]
Batches: TypeAlias = dict[PartitionId, list[m.ShareAcknowledgementBatch]]


def share_acknowledge(call: Call) -> None:
    """Acknowledge records. Requires READ on the group and on each topic."""
    request: m.ShareAcknowledgeRequest = call.request
    sessions = call.node.broker.share_sessions
    epoch = request.share_session_epoch
    try:
        key = check_member(call, request.group_id, request.member_id)
        if epoch == INITIAL_EPOCH:
            raise ApiError(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
        session = sessions.advance(key, epoch)
    except ApiError as error:
        call.respond(m.ShareAcknowledgeResponse(error_code=error.code))
        return
    batches = batches_of(
        (
            PartitionId(topic.topic_id, part.partition_index),
            part.acknowledgement_batches,
        )
        for topic in request.topics
        for part in topic.partitions
    )

    def done(outcomes: Outcomes) -> None:
        call.respond(_response(call, key, outcomes))

    acknowledge_all(call, key, batches, is_renew=request.is_renew_ack, done=done)
    if epoch == FINAL_EPOCH:
        sessions.close(session)


def check_member(call: Call, group_id: str | None, member_id: str | None) -> SessionKey:
    """Return the session key of a request's member.

    Raises ApiError INVALID_REQUEST or GROUP_AUTHORIZATION_FAILED.
    """
    if group_id is None:
        raise ApiError(ErrorCode.INVALID_REQUEST)
    if not call.authorize_group(Operation.READ, group_id):
        raise ApiError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if not member_id or len(member_id) > MEMBER_ID_LENGTH_MAX:
        raise ApiError(ErrorCode.INVALID_REQUEST)
    return SessionKey(call.node.node_id, group_id, member_id)


def batches_of(
    parts: Iterable[tuple[PartitionId, Sequence[m.ShareAcknowledgementBatch]]],
) -> Batches:
    """Return the acknowledgements of each partition. librdkafka names a topic once for
    each of its partitions."""
    batches: Batches = {}
    for partition, acknowledgements in parts:
        batches.setdefault(partition, []).extend(acknowledgements)
    return batches


def acknowledge_all(
    call: Call,
    key: SessionKey,
    batches: Batches,
    *,
    is_renew: bool,
    done: Callable[[Outcomes], None],
) -> None:
    """Acknowledge the records of all partitions; call `done` once all is durable."""
    outcomes: Outcomes = {}
    missing = len(batches)
    if not missing:
        done(outcomes)
        return

    def take(partition: PartitionId, code: ErrorCode, message: str | None) -> None:
        nonlocal missing
        assert partition not in outcomes, "a partition has one outcome"
        outcomes[partition] = Outcome(code, message)
        missing -= 1
        if not missing:
            done({each: outcomes[each] for each in batches})

    shares = call.node.broker.share_partitions
    for partition, acknowledgements in batches.items():
        try:
            accepted = _checked(call, acknowledgements, is_renew=is_renew)
            _check_partition(call, partition)
        except ApiError as error:
            take(partition, error.code, error.message)
            continue
        if not accepted:
            take(partition, ErrorCode.NONE, None)
            continue
        share = ShareKey(key.group_id, *partition)
        shares.acknowledge(share, key.member_id, accepted, partial(take, partition))


def _check_partition(call: Call, partition: PartitionId) -> None:
    """Raise ApiError unless the member may read the partition, and this node leads
    it."""
    topic = call.node.broker.catalog.topic_name(partition.topic_id)
    if topic is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID)
    if not call.authorize_topic(Operation.READ, topic):
        raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    find_partition(call, topic, partition.partition)


def _checked(
    call: Call, batches: Sequence[m.ShareAcknowledgementBatch], *, is_renew: bool
) -> list[Acknowledgement]:
    """Return the acknowledgements of a partition.

    Raises ApiError INVALID_REQUEST (KafkaApis.validateAcknowledgementBatches).
    """
    highest = RENEW if call.api_version >= _RENEW_SINCE else REJECT
    last_offset = -1
    accepted: list[Acknowledgement] = []
    for batch in batches:
        types = batch.acknowledge_types
        count = batch.last_offset - batch.first_offset + 1
        if (
            count < 1
            or batch.first_offset < last_offset
            or not types
            or (len(types) > 1 and len(types) != count)
            or min(types) < GAP
            or max(types) > highest
            or (RENEW in types and not is_renew)
        ):
            raise ApiError(
                ErrorCode.INVALID_REQUEST,
                "The acknowledgement batches of the partition are invalid.",
            )
        last_offset = batch.last_offset
        accepted.append(Acknowledgement(batch.first_offset, last_offset, types))
    return accepted


def _response(
    call: Call, key: SessionKey, outcomes: Outcomes
) -> m.ShareAcknowledgeResponse:
    topics: dict[bytes, m.ShareAcknowledgedTopic] = {}
    hints = LeaderHints(call)
    for partition, (code, message) in outcomes.items():
        topic = topics.get(partition.topic_id)
        if topic is None:
            topic = m.ShareAcknowledgedTopic(topic_id=partition.topic_id)
            topics[partition.topic_id] = topic
        topic.partitions.append(
            m.ShareAcknowledgedPartition(
                partition_index=partition.partition,
                error_code=code,
                error_message=message,
                current_leader=hints.of(partition, code),
            )
        )
    configs = call.node.broker.share_partitions.configs(key.group_id)
    return m.ShareAcknowledgeResponse(
        acquisition_lock_timeout_ms=configs.record_lock_duration_ms,
        responses=list(topics.values()),
        node_endpoints=list(hints.endpoints.values()),
    )


class LeaderHints:
    """The leaders that a response names to clients that sent it to another node."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self.endpoints: dict[int, m.ShareNodeEndpoint] = {}

    def of(self, partition: PartitionId, code: ErrorCode) -> m.ShareLeader:
        """Return the leader of a partition, for an error that needs it."""
        if code is not ErrorCode.NOT_LEADER_OR_FOLLOWER:
            return m.ShareLeader()
        leader = leader_of(self._call, partition.partition)
        self.endpoints[leader.node_id] = m.ShareNodeEndpoint(
            node_id=leader.node_id,
            host=leader.host,
            port=leader.port,
            rack=leader.rack,
        )
        return m.ShareLeader(leader_id=leader.node_id, leader_epoch=LEADER_EPOCH)
