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

from collections.abc import Iterable, Sequence
from itertools import repeat
from typing import Final

from coterie.broker.coordinator.classic.group import ClassicGroup, GroupState
from coterie.broker.coordinator.classic.timers import commit_timers
from coterie.broker.coordinator.offsets.accepted import AcceptedOffsets, TopicRows
from coterie.broker.coordinator.offsets.member_check import (
    OlderEpoch,
    check_commit,
    check_transactional_commit,
)
from coterie.broker.coordinator.result import Context, Result, Timer, TopicView
from coterie.broker.coordinator.state import State
from coterie.errors import ApiError
from coterie.types import GroupId, TopicId, TopicName
from coterie.wire.commit import (
    Commit,
    CommitResponse,
    CommitTopic,
    ResponseTopic,
    read_metadata,
)
from coterie.wire.error_codes import ErrorCode
from coterie.wire.record_batch import Producer

# Access to an enum's member by name takes 0.1 us in Python 3.11, so the hot path uses
# these names.
_EMPTY: Final = GroupState.EMPTY
_COMPLETING_REBALANCE: Final = GroupState.COMPLETING_REBALANCE
_NONE: Final = int(ErrorCode.NONE)
_NO_CODES: Final[tuple[int, ...]] = ()
_ALL_NONE: Final[Iterable[Sequence[int]]] = repeat(_NO_CODES)
"""For each topic, the codes of partitions without an error."""
_TOO_LARGE: Final = int(ErrorCode.OFFSET_METADATA_TOO_LARGE)
_UNKNOWN: Final = int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
_UNKNOWN_ID: Final = int(ErrorCode.UNKNOWN_TOPIC_ID)


def handle_commit(state: State, request: Commit, context: Context) -> Result:
    """Handle an OffsetCommit or a TxnOffsetCommit."""
    if request.layout.is_transactional:
        return commit_transactional_offsets(state, request, context)
    return commit_offsets(state, request, context)


def refuse_commit(
    request: Commit,
    context: Context,
    code: ErrorCode,
    message: str | None = None,
) -> CommitResponse:
    """Return the response that carries an error for every partition that exists."""
    division = CommitDivision(request, context.environment.topics)
    return division.refuse_all(code)


# ---------------------------------------------------------------- OffsetCommit

GROUP_NOT_FOUND_SINCE: Final = 9
"""The version of OffsetCommit from which GROUP_ID_NOT_FOUND is a possible error."""
DEFAULT_RETENTION: Final = -1
_LATEST_TIMESTAMP_MS: Final = 2**63 - 1


def commit_offsets(state: State, request: Commit, context: Context) -> Result:
    """Write the offsets of the partitions that pass the checks.

    In a classic group a commit refreshes the member's session; in a consumer group
    only a heartbeat does (E17-10). A commit without a generation to an unknown group
    creates a simple group (E17-06).

    Raises:
        ApiError: GROUP_ID_NOT_FOUND, ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID,
            FENCED_INSTANCE_ID, REBALANCE_IN_PROGRESS, STALE_MEMBER_EPOCH,
            UNSUPPORTED_VERSION, POLICY_VIOLATION. The errors of single partitions are
            part of the response.
    """
    division = CommitDivision(request, context.environment.topics)
    if not division.existing:
        return Result(division.response())
    timers: tuple[Timer, ...] = ()
    older: OlderEpoch | None = None
    group = state.classic_groups.get(request.group_id)
    if group is not None:
        check_classic_member(group, request)
        timers = commit_timers(group, request.member_id, context.now_ms)
    else:
        older = _check_other_group(state, request, context)
    wall_ms, expire_ms = context.wall_ms, -1
    if request.retention_time_ms != DEFAULT_RETENTION:
        # The offsets expire then, whatever the state of the group (E17-09).
        expire_ms = min(wall_ms + request.retention_time_ms, _LATEST_TIMESTAMP_MS)
    topics, codes = _accept(division, context, older)
    commit: AcceptedOffsets | None = None
    if topics:
        commit = AcceptedOffsets(request.group_id, topics, wall_ms, expire_ms)
    return Result(division.response(codes), (), (), timers, (), commit)


def _check_other_group(
    state: State, request: Commit, context: Context
) -> OlderEpoch | None:
    """Check a commit to a consumer group or to an unknown group."""
    group = state.consumer_groups.get(request.group_id)
    if group is not None:
        return check_commit(group, request)
    check_no_share_group(state, request.group_id)
    if request.generation_id_or_member_epoch < 0:
        state.check_room(request.group_id, context.environment.settings)
        return None
    if context.api_version >= GROUP_NOT_FOUND_SINCE:
        message = f"Group {request.group_id} not found."
        raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, message)
    raise ApiError(ErrorCode.ILLEGAL_GENERATION)


def check_no_share_group(state: State, group_id: GroupId) -> None:
    """Raise ApiError GROUP_ID_NOT_FOUND for a share group, which has no offsets."""
    if group_id in state.share_groups:
        message = f"Group {group_id} is not a consumer group."
        raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, message)


# ------------------------------------------------------------- TxnOffsetCommit

TXN_GROUP_NOT_FOUND_SINCE: Final = 6
_SINCE_V6: Final = (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.STALE_MEMBER_EPOCH)
"""The errors that TxnOffsetCommit returns only since version 6 (KIP-1319)."""


def commit_transactional_offsets(
    state: State, request: Commit, context: Context
) -> Result:
    """Write offsets that are pending until the producer's transaction ends (E17-15).

    Raises:
        ApiError: GROUP_ID_NOT_FOUND, ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID,
            FENCED_INSTANCE_ID, INVALID_PRODUCER_EPOCH, STALE_MEMBER_EPOCH. The errors
            of single partitions are part of the response.
    """
    division = CommitDivision(request, context.environment.topics)
    if not division.existing:
        return Result(division.response())
    older = _check_transaction(state, request, context)
    if older is not None:
        older = older._replace(error=_error_of_version(older.error, context))
    topics, codes = _accept(division, context, older)
    commit = AcceptedOffsets(
        request.group_id,
        topics,
        context.wall_ms,
        producer=Producer(request.producer_id, request.producer_epoch),
    )
    return Result(division.response(codes), commit=commit if topics else None)


def _check_transaction(
    state: State, request: Commit, context: Context
) -> OlderEpoch | None:
    transaction = state.offsets.pending.transactions.get(request.producer_id)
    if transaction and request.producer_epoch < transaction.producer_epoch:
        raise ApiError(ErrorCode.INVALID_PRODUCER_EPOCH)
    group = state.classic_groups.get(request.group_id)
    if group is not None:
        check_classic_member(group, request)
        return None
    consumer_group = state.consumer_groups.get(request.group_id)
    try:
        if consumer_group is not None:
            return check_transactional_commit(consumer_group, request)
        check_no_share_group(state, request.group_id)
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


# ------------------------------------------------------ checks and rows of both


def check_classic_member(group: ClassicGroup, request: Commit) -> None:
    """Check a commit to a classic group, with or without a member (E17-11, E17-12).

    The order is that of Kafka's `ClassicGroup.validateOffsetCommit`.

    Raises:
        ApiError: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION,
            REBALANCE_IN_PROGRESS.
    """
    generation = request.generation_id_or_member_epoch
    if generation < 0 and group.state is _EMPTY:
        return  # an admin client, or a consumer that assigns partitions itself
    transactional = request.layout.is_transactional
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


class CommitDivision:
    """The topics of a commit, divided into those that exist and the response for
    others.

    Kafka's broker (`KafkaApis`) responds for what does not exist, and for what the
    principal may not access, before the group's coordinator sees the rest. So an error
    of the group is only for partitions that exist; if there are none, the group is not
    looked at. A topic that exists and is requested without partitions has no part in
    the response (E17-08).
    """

    __slots__ = ("_errors", "_layout", "existing", "metadata_bytes_max")

    def __init__(self, request: Commit, topics: TopicView) -> None:
        self.metadata_bytes_max = 0
        """The size of the largest metadata of `existing`, as encoded."""
        self._layout = request.layout
        self._errors: dict[
            str | bytes, tuple[TopicName, TopicId, list[int], list[int]]
        ] = {}
        self.existing: list[TopicRows] = []
        for topic in request.topics:
            if topic.error_code:
                self._refuse(topic, topic.error_code)
            else:
                self._take(topic, topics)

    def _take(self, topic: CommitTopic, topics: TopicView) -> None:
        by_id, rows = self._layout.by_id, topic.rows
        name: TopicName | None = topic.name
        topic_id: TopicId | None = topic.topic_id
        if by_id:
            name = topics.topic_name(topic.topic_id)
        else:
            topic_id = topics.topic_id(topic.name)
        count = None if name is None else topics.partition_count(name)
        if name is None or topic_id is None or count is None:
            self._refuse(topic, _UNKNOWN_ID if by_id else _UNKNOWN)
            return
        partitions = rows.partitions
        if not partitions:
            return
        if min(partitions) < 0 or max(partitions) >= count:
            unknown = [each for each in partitions if not 0 <= each < count]
            self._add((name, topic_id, unknown, [_UNKNOWN] * len(unknown)))
            rows = rows.only([0 <= each < count for each in partitions])
        if not rows.partitions:
            return
        self.existing.append(TopicRows(name, topic_id, rows))
        size = len(rows.metadata[0])
        if not rows.is_uniform:
            size = max(map(len, rows.metadata))
        self.metadata_bytes_max = max(self.metadata_bytes_max, size)

    def _refuse(self, topic: CommitTopic, code: int) -> None:
        partitions = topic.rows.partitions
        codes = [code] * len(partitions)
        self._add((topic.name, topic.topic_id, partitions, codes))

    def _add(self, topic: ResponseTopic) -> None:
        name, topic_id, partitions, codes = topic
        key = topic_id if self._layout.by_id else name
        present = self._errors.get(key)
        if present is None:
            present = self._errors[key] = (name, topic_id, [], [])
        # A client may name a topic many times: the lists grow in place.
        present[2].extend(partitions)
        present[3].extend(codes or [_NONE] * len(partitions))

    def response(self, codes: Iterable[Sequence[int]] = _ALL_NONE) -> CommitResponse:
        """Return the response with the codes of each topic of `existing`, by default
        without an error.

        As in the builders of Kafka's responses, errors come first. If there are any,
        each topic is there once.
        """
        topics: list[ResponseTopic] = [
            (topic.name, topic.topic_id, topic.rows.partitions, of_topic)
            for topic, of_topic in zip(self.existing, codes, strict=False)
        ]
        if self._errors:
            for topic in topics:
                self._add(topic)
            topics = [*self._errors.values()]
        return CommitResponse(self._layout, topics)

    def refuse_all(self, code: ErrorCode) -> CommitResponse:
        """Return the response with an error for all partitions that exist."""
        return self.response(
            [[code] * len(topic.rows.partitions) for topic in self.existing]
        )


def _accept(
    division: CommitDivision, context: Context, older: OlderEpoch | None
) -> tuple[list[TopicRows], Iterable[Sequence[int]]]:
    """Return the rows to write, and the codes of all rows.

    Raises:
        ApiError: The member has not owned a partition since the epoch of its commit
            (E17-05).
    """
    limit = context.environment.settings.offset_metadata_max_bytes
    # The size in bytes is never less than the length that is limited.
    if older is None and division.metadata_bytes_max <= limit:
        return division.existing, _ALL_NONE
    accepted: list[TopicRows] = []
    codes: list[list[int]] = []
    for topic in division.existing:
        rows = topic.rows
        of_topic = [
            _code_of(partition, metadata, limit, topic.topic_id, older)
            for partition, metadata in zip(rows.partitions, rows.metadata, strict=True)
        ]
        codes.append(of_topic)
        rows = rows.only([not code for code in of_topic])
        if rows.partitions:
            accepted.append(topic._replace(rows=rows))
    return accepted, codes


def _code_of(
    partition: int,
    metadata: bytes,
    limit: int,
    topic_id: TopicId,
    older: OlderEpoch | None,
) -> int:
    """Return the error code of a row, or NONE for one that is written."""
    text = read_metadata(metadata)
    # With a negative limit even empty metadata are too long, as in Kafka.
    if text is not None and _is_too_long(text, limit):
        return _TOO_LARGE
    if older is not None and not older.covers(topic_id, partition):
        # One stale partition refuses the whole commit, as in Kafka's
        # `OffsetMetadataManager.commitOffset`.
        raise ApiError(older.error)
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
