"""The history of commits and fetches at the nodes, for a checker of linearizability.

Each partition of a group is a register: a commit writes it, a deletion writes -1, a
fetch reads it. An operation begins when its request arrives at a node, and ends with
the response. One without a response may take effect at any later time, or never, and
so does a commit whose error leaves its outcome open; other refused commits are not in
the history.

A commit in a transaction ends when the owner has replayed the COMMIT marker. One that
is aborted is not in the history: a fetch that returns it has no explanation.

Partitions of deleted topics are left out: no request tells when their offsets go.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Any, Final

from coterie.broker.coordinator.admin import DeleteGroup
from coterie.broker.coordinator.offsets.fetch import FetchOffsets
from coterie.types import GroupId, TopicName
from coterie.wire import messages as m
from coterie.wire.error_codes import ErrorCode
from sim.commits import Place
from sim.topics import Topics
from sim.transactions import Transaction

_NO_OFFSET: Final = -1
_NEVER: Final = -1


@dataclass(eq=False, slots=True)
class _Operation:
    """A read or a write of a register."""

    is_write: bool
    value: int
    began: int
    ended: int = _NEVER
    is_refused: bool = False
    transaction: Transaction | None = None
    shard: int = -1
    is_acknowledged: bool = False

    @property
    def counts(self) -> bool:
        """Whether it is in the history."""
        is_aborted = self.transaction is not None and not self.transaction.commits
        return not (self.is_refused or is_aborted)


Respond = Callable[[Any], None]


class History:
    """The operations on all registers of a world. `uncertain` are the errors of commits
    that may be in the log."""

    def __init__(self, topics: Topics, uncertain: Collection[ErrorCode]) -> None:
        self._topics = topics
        self._uncertain = uncertain
        self._registers: dict[Place, list[_Operation]] = {}
        self._deleted: set[TopicName] = set()
        self._events = 0

    def watch(
        self,
        request: Any,
        answer: Respond,
        transaction: Transaction | None = None,
        shard: int = -1,
    ) -> Respond:
        """Begin the operations of a request; return the callback for its response."""
        settle: Callable[[Any], None] | None = None
        if isinstance(request, m.OffsetCommitRequest | m.TxnOffsetCommitRequest):
            settle = self._commit(request, transaction, shard)
        elif isinstance(request, m.OffsetDeleteRequest):
            settle = self._delete(request)
        elif isinstance(request, DeleteGroup):
            settle = self._delete_group(request.group_id)
        elif isinstance(request, FetchOffsets):
            settle = self._fetch(request.group.group_id, request.group.topics is None)
        if settle is None:
            return answer

        def answered(response: Any) -> None:
            settle(response)
            answer(response)

        return answered

    def topic_deleted(self, topic: TopicName) -> None:
        """Leave the partitions of a topic out."""
        self._deleted.add(topic)

    def transaction_ended(self, transaction: Transaction, shard: int) -> None:
        """End the commits of a transaction whose marker a shard has replayed."""
        at = self._tick()
        for operations in self._registers.values():
            for each in operations:
                if each.transaction is transaction and each.shard == shard:
                    each.ended = at if each.is_acknowledged else _NEVER

    def export(self, seed: int) -> str:
        """Return the history as a line of JSON."""
        registers = {
            f"{place.group_id}/{place.topic}/{place.partition}": [
                [each.is_write, each.value, each.began, each.ended]
                for each in operations
                if each.counts
            ]
            for place, operations in sorted(self._registers.items())
            if place.topic not in self._deleted
        }
        return json.dumps({"seed": seed, "registers": registers})

    # Requests.

    def _commit(
        self,
        request: m.OffsetCommitRequest | m.TxnOffsetCommitRequest,
        transaction: Transaction | None,
        shard: int,
    ) -> Respond:
        began = self._tick()
        writes: dict[tuple[TopicName, int], _Operation] = {}
        for topic in request.topics:
            name = topic.name or self._topics.names[topic.topic_id]
            for part in topic.partitions:
                write = _Operation(True, part.committed_offset, began)
                write.transaction, write.shard = transaction, shard
                place = Place(request.group_id, name, part.partition_index)
                self._add(place, write)
                writes[name, part.partition_index] = write

        def answered(response: Any) -> None:
            for name, partition, code in self._codes(response):
                self._settle(writes[name, partition], code)

        return answered

    def _delete(self, request: m.OffsetDeleteRequest) -> Respond:
        began = self._tick()
        writes: dict[tuple[TopicName, int], _Operation] = {}
        for topic in request.topics:
            for part in topic.partitions:
                write = _Operation(True, _NO_OFFSET, began)
                place = Place(request.group_id, topic.name, part.partition_index)
                self._add(place, write)
                writes[topic.name, part.partition_index] = write

        def answered(response: Any) -> None:
            whole = ErrorCode(response.error_code)
            codes = {(name, at): code for name, at, code in self._codes(response)}
            for key, write in writes.items():
                self._settle(write, whole or codes[key])

        return answered

    def _delete_group(self, group_id: GroupId) -> Respond:
        began = self._tick()
        writes: list[_Operation] = []
        for place, operations in self._registers.items():
            if place.group_id == group_id:
                writes.append(_Operation(True, _NO_OFFSET, began))
                operations.append(writes[-1])

        def answered(response: Any) -> None:
            for write in writes:
                self._settle(write, ErrorCode(response.error_code))

        return answered

    def _fetch(self, group_id: GroupId, is_of_all: bool) -> Respond:
        began = self._tick()
        known = {place for place in self._registers if place.group_id == group_id}

        def answered(response: Any) -> None:
            if response.error_code:
                return
            ended = self._tick()
            for topic in response.topics:
                for part in topic.partitions:
                    place = Place(group_id, topic.name, part.partition_index)
                    known.discard(place)
                    if not part.error_code:
                        value = part.committed_offset
                        self._add(place, _Operation(False, value, began, ended))
            if is_of_all:
                for place in known:
                    self._add(place, _Operation(False, _NO_OFFSET, began, ended))

        return answered

    def _settle(self, write: _Operation, code: ErrorCode) -> None:
        if code is ErrorCode.NONE:
            write.is_acknowledged = True
            if write.transaction is None:
                write.ended = self._tick()
        elif write.transaction is None and code not in self._uncertain:
            write.is_refused = True

    def _codes(self, response: Any) -> Iterator[tuple[TopicName, int, ErrorCode]]:
        for topic in response.topics:
            name = topic.name or self._topics.names[topic.topic_id]
            for part in topic.partitions:
                yield name, part.partition_index, ErrorCode(part.error_code)

    def _add(self, place: Place, operation: _Operation) -> None:
        self._registers.setdefault(place, []).append(operation)

    def _tick(self) -> int:
        self._events += 1
        return self._events
