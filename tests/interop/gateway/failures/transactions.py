"""Commits of offsets in transactions, of groups that have plain commits as well.

Every third transaction is aborted: its offset must never be returned. Every second
group has transactions of KIP-890. A request without a response is not repeated: the
first one could arrive late, in the next transaction, which only KIP-890 refuses.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final, TypeVar

from coterie.client.cluster import (
    TRANSACTION,
    find_coordinator_request,
    read_find_coordinator,
)
from coterie.errors import ApiError, CoterieError
from coterie.types import GroupId
from coterie.wire import messages as m
from coterie.wire.error_codes import ErrorCode
from coterie.wire.record_batch import Producer
from coterie.wire.schema import Message, Versions

from .load import FETCH_VERSIONS, TOPIC, GroupsLoad, fetch_request, until

M = TypeVar("M", bound=Message)

_PARTITION: Final = 2
"""Plain commits use 0 and 1."""
_OLDER: Final = Versions(0, 4)
"""The versions before KIP-890: AddOffsetsToTxn comes first, and a producer keeps its
epoch."""
_NEWER: Final = Versions(5, 5)
_INIT: Final = Versions(0, 5)
_TIMEOUT_MS: Final = 20_000
_RETRY_S: Final = 0.1
_ABORTED_EVERY: Final = 3
_CALL_S: Final = 30.0
_RETRIED: Final = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.CONCURRENT_TRANSACTIONS,
    }
)


class TransactionLoad(GroupsLoad):
    """One producer for each of some groups, which commits one offset in each
    transaction."""

    def __init__(
        self, bootstrap: str, groups: Sequence[GroupId], pace_s: float
    ) -> None:
        super().__init__(bootstrap, groups, pace_s)
        self._newer = frozenset(groups[::2])
        self._coordinators: dict[GroupId, int] = {}

    async def wait_for_commits(self, within_s: float) -> None:
        """Wait until every group has committed once more. Raises TimeoutError."""
        before = {group: each.acknowledged for group, each in self.histories.items()}
        await until(
            lambda: all(
                each.acknowledged > before[group]
                for group, each in self.histories.items()
            ),
            within_s,
        )

    async def _run(self, group: GroupId) -> None:
        producer = await self._producer(group)
        while True:
            history = self.histories[group]
            offset = history.begin()
            try:
                producer = await self._transact(group, producer, offset)
            except CoterieError as error:
                history.unanswered(offset)
                history.refused(str(error))
                # It ends the transaction, one way or the other.
                producer = await self._producer(group)
            await self._check(group)
            await asyncio.sleep(self._pace_s)

    async def _transact(
        self, group: GroupId, producer: Producer, offset: int
    ) -> Producer:
        """Commit an offset in a transaction, or abort it; return the producer for the
        next one. Raises CoterieError when the outcome is not known."""
        history = self.histories[group]
        is_committed = offset % _ABORTED_EVERY != 0
        clock = asyncio.get_running_loop().time
        began_s = clock()
        pid, epoch = producer.producer_id, producer.producer_epoch
        if group not in self._newer:
            added = m.AddOffsetsToTxnRequest(
                transactional_id=group,
                producer_id=pid,
                producer_epoch=epoch,
                group_id=group,
            )
            await self._call(group, added, m.AddOffsetsToTxnResponse)
        partition = m.TxnOffsetCommitRequestPartition(
            partition_index=_PARTITION, committed_offset=offset, committed_metadata=""
        )
        commit = m.TxnOffsetCommitRequest(
            transactional_id=group,
            group_id=group,
            producer_id=pid,
            producer_epoch=epoch,
            topics=[m.TxnOffsetCommitRequestTopic(name=TOPIC, partitions=[partition])],
        )
        await self._call(group, commit, m.TxnOffsetCommitResponse)
        ended = m.EndTxnRequest(
            transactional_id=group,
            producer_id=pid,
            producer_epoch=epoch,
            committed=is_committed,
        )
        response = await self._call(group, ended, m.EndTxnResponse)
        if is_committed:
            history.succeeded(offset, began_s, clock())
        else:
            history.aborted.add(offset)
        if group not in self._newer:
            return producer
        return Producer(response.producer_id, response.producer_epoch, 0)

    async def _producer(self, group: GroupId) -> Producer:
        request = m.InitProducerIdRequest(
            transactional_id=group, transaction_timeout_ms=_TIMEOUT_MS
        )
        while True:
            try:
                made = await self._call(group, request, m.InitProducerIdResponse)
                return Producer(made.producer_id, made.producer_epoch, 0)
            except CoterieError:
                await asyncio.sleep(_RETRY_S)

    async def _call(self, group: GroupId, request: Message, response: type[M]) -> M:
        """Call the coordinator of the transaction, or of the group; repeat it after
        retriable refusals. Raises CoterieError."""
        clock = asyncio.get_running_loop().time
        until_s = clock() + _CALL_S
        while True:
            try:
                return await self._call_once(group, request, response)
            except ApiError as error:
                if error.code not in _RETRIED or clock() > until_s:
                    raise
            await asyncio.sleep(_RETRY_S)

    async def _call_once(
        self, group: GroupId, request: Message, response: type[M]
    ) -> M:
        try:
            if isinstance(request, m.TxnOffsetCommitRequest):
                answer = await self._cluster.call_coordinator(
                    group, request, response, wanted=self._versions(group)
                )
                code = answer.topics[0].partitions[0].error_code  # type: ignore[attr-defined]
            else:
                connection = await self._cluster.connection(
                    await self._coordinator(group)
                )
                is_init = isinstance(request, m.InitProducerIdRequest)
                wanted = _INIT if is_init else self._versions(group)
                answer = await connection.call(request, response, wanted=wanted)
                code = answer.error_code  # type: ignore[attr-defined]
            read = ErrorCode.read(code)
            if read is not ErrorCode.NONE:
                raise ApiError(read, f"{type(request).__name__}: {read.name}")
        except CoterieError:
            self._coordinators.pop(group, None)
            self._cluster.forget_coordinator(group)
            raise
        return answer

    def _versions(self, group: GroupId) -> Versions:
        return _NEWER if group in self._newer else _OLDER

    async def _coordinator(self, group: GroupId) -> int:
        """Return the coordinator of a transactional id, which is the group's."""
        if group not in self._coordinators:
            connection = await self._cluster.connection()
            version = connection.version_of(m.FindCoordinatorRequest)
            request = find_coordinator_request([group], version, TRANSACTION)
            response = await connection.call(request, m.FindCoordinatorResponse)
            [found] = read_find_coordinator(response, [group], version).values()
            if found.code:
                raise ApiError(ErrorCode.read(found.code), "FindCoordinator")
            self._coordinators[group] = found.node_id
        return self._coordinators[group]

    async def _check(self, group: GroupId) -> bool:
        """Fetch the stable offset; return whether a coordinator answered."""
        history = self.histories[group]
        request = fetch_request([group], [_PARTITION])
        request.require_stable = True
        try:
            response = await self._cluster.call_coordinator(
                group, request, m.OffsetFetchResponse, wanted=FETCH_VERSIONS
            )
        except CoterieError:
            self._cluster.forget_coordinator(group)
            return False
        [each] = response.groups
        if each.error_code or each.topics[0].partitions[0].error_code:
            self._cluster.forget_coordinator(group)
            return False
        fetched = max(0, each.topics[0].partitions[0].committed_offset)
        if not history.is_possible(fetched, history.acknowledged):
            self.lost.append(
                f"transactions of {group}: fetched {fetched}, acknowledged "
                f"{history.acknowledged}, {'aborted' * (fetched in history.aborted)}"
            )
        return True
