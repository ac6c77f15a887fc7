"""OffsetCommit, key 8, and TxnOffsetCommit, key 28: a group commits offsets.

OffsetCommit v2-4 have a retention time; from v5 on the server's setting applies
(KIP-211). v6 has leader epochs, v7 static members. v9 is the first that members of the
consumer protocol may use, and returns GROUP_ID_NOT_FOUND where older versions return
ILLEGAL_GENERATION. v10 identifies topics by id (KIP-848). In every version the records
have the topic's id, except those with a retention time, whose version of the record has
no field for it.

TxnOffsetCommit v2 has leader epochs, v3 the committing member (KIP-447). v6 identifies
topics by id and has separate errors for an unknown group and a stale member epoch
(KIP-1319). Its records are part of the producer's transaction: they are pending until
the transaction's marker (E17-16). Whether the producer may write in the transaction is
checked before, by the transaction coordinator.

The cost of a commit depends on its partitions alone, not on the size of the group.
Whether a topic and its partitions exist is decided by the `TopicView` (E17-08).
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple, TypeAlias

from coterie.broker.coordinator.classic.group import ClassicGroup, GroupState
from coterie.broker.coordinator.classic.timers import commit_timers
from coterie.broker.coordinator.offsets.committed import value_version
from coterie.broker.coordinator.offsets.division import (
    Division,
    Existing,
    ResponseTypes,
)
from coterie.broker.coordinator.offsets.member_check import (
    OlderEpoch,
    check_commit,
    check_transactional_commit,
)
from coterie.broker.coordinator.records import OffsetCommitKey, OffsetCommitValue
from coterie.broker.coordinator.result import Context, Record, Result, Timer
from coterie.broker.coordinator.state import State
from coterie.errors import ApiError
from coterie.types import GroupId
from coterie.wire import messages as m
from coterie.wire.error_codes import ErrorCode
from coterie.wire.plain_commit import PlainCommit
from coterie.wire.schema import ZERO_UUID

# Access to an enum's member by name takes 0.1 us in Python 3.11, so the hot path uses
# these names.
_NONE: Final = ErrorCode.NONE
_DEAD: Final = GroupState.DEAD
_EMPTY: Final = GroupState.EMPTY
_COMPLETING_REBALANCE: Final = GroupState.COMPLETING_REBALANCE

_Request: TypeAlias = m.OffsetCommitRequest | m.TxnOffsetCommitRequest
_RequestPartition: TypeAlias = (
    m.OffsetCommitRequestPartition | m.TxnOffsetCommitRequestPartition
)


class _Api(NamedTuple):
    """The response classes of an API, and the version from which topics have ids."""

    types: ResponseTypes
    topic_ids_since: int


COMMIT_TYPES: Final = ResponseTypes(
    m.OffsetCommitResponseTopic, m.OffsetCommitResponsePartition
)
TXN_COMMIT_TYPES: Final = ResponseTypes(
    m.TxnOffsetCommitResponseTopic, m.OffsetCommitResponsePartition
)
_OFFSET_COMMIT: Final = _Api(COMMIT_TYPES, topic_ids_since=10)
_TXN_OFFSET_COMMIT: Final = _Api(TXN_COMMIT_TYPES, topic_ids_since=6)

# ---------------------------------------------------------------- OffsetCommit

GROUP_NOT_FOUND_SINCE: Final = 9
"""The version of OffsetCommit from which GROUP_ID_NOT_FOUND is a possible error."""
DEFAULT_RETENTION: Final = -1
_LATEST_TIMESTAMP_MS: Final = 2**63 - 1


def commit_offsets(
    state: State, request: m.OffsetCommitRequest, context: Context
) -> Result:
    """Write the offsets of the partitions that pass the checks.

    In a classic group a commit refreshes the member's session; in a consumer group
    only a heartbeat does (E17-10). A commit without a generation to an unknown group
    creates a simple group (E17-06).

    Raises:
        ApiError: GROUP_ID_NOT_FOUND, ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID,
            FENCED_INSTANCE_ID, REBALANCE_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE,
            STALE_MEMBER_EPOCH, UNSUPPORTED_VERSION, POLICY_VIOLATION. The errors of
            single partitions are part of the response.
    """
    division = _divide(request, context, _OFFSET_COMMIT)
    if not division.existing:
        return Result(m.OffsetCommitResponse(topics=division.merge(())))
    timers: tuple[Timer, ...] = ()
    older: OlderEpoch | None = None
    group = state.classic_groups.get(request.group_id)
    if group is not None:
        check_classic_member(group, request, transactional=False)
        timers = commit_timers(group, request.member_id, context.now_ms)
    else:
        older = _check_other_group(state, request, context)
    commit = _Commit(request.group_id, context, older, request.retention_time_ms)
    topics = [commit.add_topic(each, COMMIT_TYPES) for each in division.existing]
    return Result(
        m.OffsetCommitResponse(topics=division.merge(topics)),
        records=tuple(commit.records),
        timers=timers,
    )


def refuse_commit(
    request: m.OffsetCommitRequest | PlainCommit,
    context: Context,
    code: ErrorCode,
    message: str | None = None,
) -> m.OffsetCommitResponse:
    """Return the response that carries an error for every partition that exists."""
    if isinstance(request, PlainCommit):
        request = request.general()
    division = _divide(request, context, _OFFSET_COMMIT)
    return m.OffsetCommitResponse(topics=division.refuse_all(code))


def _check_other_group(
    state: State, request: m.OffsetCommitRequest, context: Context
) -> OlderEpoch | None:
    """Check a commit to a consumer group or to an unknown group."""
    group = state.consumer_groups.get(request.group_id)
    if group is not None:
        return check_commit(group, request, context.api_version)
    if request.generation_id_or_member_epoch < 0:
        state.check_room(request.group_id, context.environment.settings)
        return None
    if context.api_version >= GROUP_NOT_FOUND_SINCE:
        message = f"Group {request.group_id} not found."
        raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, message)
    raise ApiError(ErrorCode.ILLEGAL_GENERATION)


# ------------------------------------------------------------- TxnOffsetCommit

TXN_GROUP_NOT_FOUND_SINCE: Final = 6
_SINCE_V6: Final = (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.STALE_MEMBER_EPOCH)
"""The errors that TxnOffsetCommit returns only since version 6 (KIP-1319)."""


def commit_transactional_offsets(
    state: State, request: m.TxnOffsetCommitRequest, context: Context
) -> Result:
    """Write offsets that are pending until the producer's transaction ends (E17-15).

    Raises:
        ApiError: GROUP_ID_NOT_FOUND, ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID,
            FENCED_INSTANCE_ID, INVALID_PRODUCER_EPOCH, COORDINATOR_NOT_AVAILABLE,
            STALE_MEMBER_EPOCH. The errors of single partitions are part of the
            response.
    """
    division = _divide(request, context, _TXN_OFFSET_COMMIT)
    if not division.existing:
        return Result(m.TxnOffsetCommitResponse(topics=division.merge(())))
    older = _check_transaction(state, request, context)
    if older is not None:
        older = older._replace(error=_error_of_version(older.error, context))
    # As in Kafka's `OffsetAndMetadata.fromRequest`: no topic id.
    by_id = context.api_version >= _TXN_OFFSET_COMMIT.topic_ids_since
    commit = _Commit(request.group_id, context, older, omits_topic_id=not by_id)
    topics = [commit.add_topic(each, TXN_COMMIT_TYPES) for each in division.existing]
    return Result(
        m.TxnOffsetCommitResponse(topics=division.merge(topics)),
        records=tuple(commit.records),
        producer_id=request.producer_id,
        producer_epoch=request.producer_epoch,
    )


def refuse_transactional_commit(
    request: m.TxnOffsetCommitRequest,
    context: Context,
    code: ErrorCode,
    message: str | None = None,
) -> m.TxnOffsetCommitResponse:
    """Return the response that carries an error for every partition that exists."""
    division = _divide(request, context, _TXN_OFFSET_COMMIT)
    return m.TxnOffsetCommitResponse(topics=division.refuse_all(code))


def _check_transaction(
    state: State, request: m.TxnOffsetCommitRequest, context: Context
) -> OlderEpoch | None:
    transaction = state.offsets.pending.transactions.get(request.producer_id)
    if transaction and request.producer_epoch < transaction.producer_epoch:
        raise ApiError(ErrorCode.INVALID_PRODUCER_EPOCH)
    group = state.classic_groups.get(request.group_id)
    if group is not None:
        check_classic_member(group, request, transactional=True)
        return None
    consumer_group = state.consumer_groups.get(request.group_id)
    try:
        if consumer_group is not None:
            return check_transactional_commit(consumer_group, request)
        if request.generation_id_or_member_epoch >= 0:
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND)
    except ApiError as error:
        code = _error_of_version(error.code, context)
        raise ApiError(code, error.message) from None
    state.check_room(request.group_id, context.environment.settings)
    return None


def _error_of_version(code: ErrorCode, context: Context) -> ErrorCode:
    """Return the error, or its replacement below v6 (E17-15f)."""
    if code in _SINCE_V6 and context.api_version < TXN_GROUP_NOT_FOUND_SINCE:
        return ErrorCode.ILLEGAL_GENERATION
    return code


# -------------------------------------------------- checks and records of both


def check_classic_member(
    group: ClassicGroup, request: _Request | PlainCommit, *, transactional: bool
) -> None:
    """Check a commit to a classic group, with or without a member (E17-11, E17-12).

    The order is that of Kafka's `ClassicGroup.validateOffsetCommit`.

    Raises:
        ApiError: COORDINATOR_NOT_AVAILABLE, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID,
            ILLEGAL_GENERATION, REBALANCE_IN_PROGRESS.
    """
    generation = request.generation_id_or_member_epoch
    if group.state is _DEAD:
        raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    if generation < 0 and group.state is _EMPTY:
        return  # an admin client, or a consumer that assigns partitions itself
    instance_id = request.group_instance_id
    if generation >= 0 or request.member_id or instance_id is not None:
        group.checked_member(request.member_id, instance_id)
        if generation != group.generation:
            raise ApiError(ErrorCode.ILLEGAL_GENERATION)
    elif not transactional:
        # A transactional commit from a producer older than KIP-447 has no member id and
        # is accepted.
        raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
    if group.state is _COMPLETING_REBALANCE and not transactional:
        raise ApiError(ErrorCode.REBALANCE_IN_PROGRESS)


def _divide(request: _Request, context: Context, api: _Api) -> Division:
    """Divide the topics into those that exist and the response for others (E17-08)."""
    by_id = context.api_version >= api.topic_ids_since
    division = Division(context.environment.topics, api.types, by_id=by_id)
    for topic in request.topics:
        division.take(topic)
    return division


class _Commit:
    """A collector of one request's records, partition by partition."""

    __slots__ = (
        "_expire_timestamp_ms",
        "_group_id",
        "_metadata_max",
        "_older",
        "_omits_topic_id",
        "_wall_ms",
        "records",
    )

    def __init__(
        self,
        group_id: GroupId,
        context: Context,
        older: OlderEpoch | None,
        retention_time_ms: int = DEFAULT_RETENTION,
        *,
        omits_topic_id: bool = False,
    ) -> None:
        environment = context.environment
        self._group_id = group_id
        self._wall_ms = context.wall_ms
        self._metadata_max = environment.settings.offset_metadata_max_bytes
        self._older = older
        self._expire_timestamp_ms = -1
        if retention_time_ms != DEFAULT_RETENTION:
            # The offsets expire then, whatever the state of the group (E17-09).
            self._expire_timestamp_ms = min(
                self._wall_ms + retention_time_ms, _LATEST_TIMESTAMP_MS
            )
        self._omits_topic_id = omits_topic_id or self._expire_timestamp_ms != -1
        self.records: list[Record] = []

    def add_topic(self, topic: Existing, types: ResponseTypes) -> Any:
        """Add the records of a topic; return its part of the response."""
        partitions = [
            types.partition(
                partition_index=each.partition_index, error_code=self._add(topic, each)
            )
            for each in topic.partitions
        ]
        return types.topic(
            name=topic.name, topic_id=topic.topic_id, partitions=partitions
        )

    def _add(self, topic: Existing, requested: _RequestPartition) -> ErrorCode:
        """Add the record of one partition; return its error code.

        Raises:
            ApiError: The member has not owned the partition since the epoch of its
                commit (E17-05).
        """
        index = requested.partition_index
        metadata = requested.committed_metadata
        # With a negative limit even empty metadata are too long, as in Kafka.
        if metadata is not None and _is_too_long(metadata, self._metadata_max):
            return ErrorCode.OFFSET_METADATA_TOO_LARGE
        older = self._older
        if older is not None and not older.covers(topic.topic_id, index):
            # One stale partition refuses the whole commit, as in Kafka's
            # `OffsetMetadataManager.commitOffset`.
            raise ApiError(older.error)
        expires = self._expire_timestamp_ms != -1
        value = OffsetCommitValue(
            offset=requested.committed_offset,
            # Version 1, the only one with an expire timestamp, has no leader epoch and
            # no topic id.
            leader_epoch=-1 if expires else requested.committed_leader_epoch,
            metadata=metadata or "",
            commit_timestamp=self._wall_ms,
            expire_timestamp=self._expire_timestamp_ms,
            topic_id=ZERO_UUID if self._omits_topic_id else topic.topic_id,
        )
        key = OffsetCommitKey(group=self._group_id, topic=topic.name, partition=index)
        version = value_version(self._expire_timestamp_ms)
        self.records.append(Record(key, value, version))
        return _NONE


def _is_too_long(metadata: str, limit: int) -> bool:
    # Kafka compares the number of UTF-16 code units (String.length()), not bytes, with
    # `offset.metadata.max.bytes` (H-88).
    if len(metadata) > limit:
        return True
    return (
        2 * len(metadata) > limit
        and not metadata.isascii()
        and len(metadata.encode("utf-16-le")) // 2 > limit
    )
