"""Adopt the groups of upstream: the first request for a group that this node does not
know fetches its offsets upstream and writes them here, before it is answered.

    broker.admit = Adoption(broker, admin, counts).admit

A group with members upstream is not adopted: its consumers would commit there and here.
Requests for it get a retriable error, so consumers that are moved to the gateway wait
until the last one has stopped upstream. After any failure the error is retriable, too:
without its offsets a consumer would start from `auto.offset.reset`.

Results are remembered while the process runs. A group that upstream does not have is
looked up again after a while. A group that was deleted here and not upstream is adopted
again after its shard has moved: `--mirror` repeats deletions upstream.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

from coterie.broker import Broker
from coterie.client import AdminClient, CommittedOffset, GroupDescription
from coterie.errors import CoterieError, UnsupportedGroupType, code_of
from coterie.types import GroupId, TopicName, TopicPartition
from coterie.wire import messages as m
from coterie.wire.commit import CommitResponse, as_received
from coterie.wire.error_codes import ErrorCode

_LOGGER = logging.getLogger(__name__)

Then: TypeAlias = Callable[[ErrorCode], None]

REFUSAL: Final = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
"""The error while a group cannot be adopted: clients repeat the request here."""
BATCH: Final = 500
"""The most groups of one lookup."""
LOOKUPS_MAX: Final = 4
"""The most lookups at a time."""
ABSENT_MS: Final = 60_000
"""The time after which a group that upstream does not have is looked up again."""
REFUSED_MS: Final = 1_000
"""The same for a group that could not be adopted."""
REMEMBERED_MAX: Final = 200_000
"""The most results that are remembered; the oldest are forgotten."""
_WARNED_MS: Final = 60_000
"""The time between two warnings about one group."""
_FOREVER_MS: Final = 2**62
_COMMIT_VERSION: Final = 9
_DROPPED: Final = frozenset(
    {ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID}
)
"""Codes of an adoption's partitions that need no other try: the topic is deleted."""


class _Adopter:
    """The client of an adoption's commit."""

    api_version = _COMMIT_VERSION
    client_id = "coterie-adopt"
    client_host = "/gateway"

    def may_describe(self, _: TopicName) -> bool:
        """Return True: the commit is the node's own."""
        return True


class Adoption:
    """The adoption of groups. `broker` is this node's group server, `admin` a client of
    upstream, and `counts` the groups by outcome; the broker's clock gives ms."""

    def __init__(
        self, broker: Broker, admin: AdminClient, counts: Counter[str]
    ) -> None:
        self._counts = counts
        self._broker = broker
        self._admin = admin
        self._waiting: dict[GroupId, list[Then]] = {}
        self._queue: list[GroupId] = []
        self._lookups: set[asyncio.Task[None]] = set()
        self._until_ms: dict[GroupId, int] = {}
        """The times until which groups need no lookup, the oldest result first."""
        self._refused_until_ms: dict[GroupId, int] = {}
        self._warned_ms: dict[GroupId, int] = {}

    def admit(self, shard: int, group_id: GroupId, then: Then) -> None:
        """Call `then` with NONE once requests for a group of a shard may be handled, or
        with the error to respond with."""
        if (waiting := self._waiting.get(group_id)) is not None:
            waiting.append(then)
            return
        partition = self._broker.runtime.readable_shard(shard)
        if partition is None:  # the runtime responds with the reason
            then(ErrorCode.NONE)
        elif partition.shard.state.group(group_id) is not None:
            if self._until_ms.get(group_id) != _FOREVER_MS:
                self._remember(group_id, _FOREVER_MS)
            then(ErrorCode.NONE)
        elif self._until_ms.get(group_id, 0) > (now_ms := self._broker.clock()):
            then(ErrorCode.NONE)
        elif self._refused_until_ms.get(group_id, 0) > now_ms:
            then(REFUSAL)
        else:
            self._waiting[group_id] = [then]
            self._queue.append(group_id)
            self._start_lookups()

    async def close(self) -> None:
        """Stop all lookups; requests that wait for them get the refusal."""
        for task in self._lookups:
            task.cancel()
        await asyncio.gather(*self._lookups, return_exceptions=True)
        for group_id in list(self._waiting):
            self._release(group_id, REFUSAL)

    # Lookups.

    def _start_lookups(self) -> None:
        if len(self._lookups) < LOOKUPS_MAX:
            task = asyncio.get_running_loop().create_task(self._look_up())
            self._lookups.add(task)
            task.add_done_callback(self._lookups.discard)

    async def _look_up(self) -> None:
        while self._queue:
            # The other requests of this iteration of the loop join the lookup.
            await asyncio.sleep(0)
            group_ids, self._queue = self._queue[:BATCH], self._queue[BATCH:]
            if not group_ids:
                return
            try:
                await self._adopt_all(group_ids)
            except CoterieError as error:
                self._refuse_all(group_ids, f"upstream cannot be asked: {error}")
            except Exception:
                _LOGGER.exception("a lookup of groups upstream failed")
                self._refuse_all(group_ids, "of a bug")

    async def _adopt_all(self, group_ids: Sequence[GroupId]) -> None:
        found, refused = await self._inactive(group_ids)
        results = await self._admin.group_offsets.fetch_many(
            dict.fromkeys(found), require_stable=True
        )
        offsets: dict[GroupId, Mapping[TopicPartition, CommittedOffset]] = {}
        for group_id in found:
            try:
                offsets[group_id] = {
                    partition: offset
                    for partition, offset in results.one(group_id).all().items()
                    if offset is not None
                }
            except CoterieError as error:
                refused[group_id] = f"its offsets cannot be fetched upstream: {error}"
        for group_id, reason in refused.items():
            self._refuse(group_id, reason)
        newer = await self._newer_topics(
            [each for one in offsets.values() for each in one]
        )
        for group_id, of_group in offsets.items():
            missing = sorted(newer & {each.topic for each in of_group})
            if missing:
                reason = f"topic {missing[0]} is newer than this node's list of topics"
                self._refuse(group_id, reason)
            elif of_group:
                self._write(group_id, of_group)
            else:
                self._counts["absent"] += 1
                self._remember(group_id, self._broker.clock() + ABSENT_MS)
                self._release(group_id, ErrorCode.NONE)

    async def _inactive(
        self, group_ids: Sequence[GroupId]
    ) -> tuple[list[GroupId], dict[GroupId, str]]:
        """Return the groups without members upstream, and why not the others."""
        described = await self._admin.groups.describe(group_ids)
        found: list[GroupId] = []
        refused: dict[GroupId, str] = {}
        for group_id in group_ids:
            outcome: GroupDescription | CoterieError | None
            outcome = described.values.get(group_id) or described.errors.get(group_id)
            if isinstance(outcome, GroupDescription):
                if outcome.state.is_active:
                    refused[group_id] = (
                        f"it has {len(outcome.members)} members upstream (state "
                        f"{outcome.state.value}): stop them there"
                    )
                    continue
            elif not _is_absent(outcome):
                refused[group_id] = f"upstream does not describe it: {outcome}"
                continue
            found.append(group_id)
        return found, refused

    async def _newer_topics(self, partitions: list[TopicPartition]) -> set[TopicName]:
        """Return the topics with a partition that exists upstream and that the catalog
        lacks yet: it would refuse the offset."""
        catalog = self._broker.catalog
        unknown: dict[TopicName, int] = {}
        for topic, partition in partitions:
            if partition >= (catalog.partition_count(topic) or 0):
                unknown[topic] = min(partition, unknown.get(topic, partition))
        if not unknown:
            return set()
        described = await self._admin.cluster.metadata(unknown)
        return {
            topic.name
            for topic in described.topics
            if topic.name
            and topic.error_code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            and (topic.error_code or len(topic.partitions) > unknown[topic.name])
        }

    # Results.

    def _write(
        self, group_id: GroupId, offsets: Mapping[TopicPartition, CommittedOffset]
    ) -> None:
        """Commit the offsets here, as one batch: a part of them would be taken for the
        whole group."""
        request = m.OffsetCommitRequest(group_id=group_id, topics=_topics(offsets))

        def respond(response: CommitResponse) -> None:
            codes = {
                ErrorCode.read(code)
                for _, _, _, of_topic in response.topics
                for code in of_topic
            }
            if refusals := sorted(codes - _DROPPED):
                self._refuse(group_id, f"writing its offsets: {refusals[0].name}")
                return
            _LOGGER.info("group %s: adopted %d offsets", group_id, len(offsets))
            self._counts["adopted"] += 1
            self._remember(group_id, _FOREVER_MS)
            self._release(group_id, ErrorCode.NONE)

        shard = self._broker.shard_of(group_id)
        commit = as_received(request, _COMMIT_VERSION)
        self._broker.runtime.submit(shard, commit, _Adopter(), respond)

    def _refuse_all(self, group_ids: Sequence[GroupId], reason: str) -> None:
        for group_id in group_ids:
            if group_id in self._waiting:
                self._refuse(group_id, reason)

    def _refuse(self, group_id: GroupId, reason: str) -> None:
        now_ms = self._broker.clock()
        self._counts["refused"] += 1
        _bound(self._refused_until_ms)
        self._refused_until_ms[group_id] = now_ms + REFUSED_MS
        if now_ms >= self._warned_ms.get(group_id, 0):
            _bound(self._warned_ms)
            self._warned_ms[group_id] = now_ms + _WARNED_MS
            _LOGGER.warning(
                "group %s is not adopted, its clients wait: %s", group_id, reason
            )
        self._release(group_id, REFUSAL)

    def _remember(self, group_id: GroupId, until_ms: int) -> None:
        _bound(self._until_ms)
        self._until_ms.pop(group_id, None)
        self._until_ms[group_id] = until_ms

    def _release(self, group_id: GroupId, code: ErrorCode) -> None:
        for then in self._waiting.pop(group_id, ()):
            then(code)


def _is_absent(error: CoterieError | None) -> bool:
    """Return whether upstream has no group with that name whose offsets could be
    adopted; share groups have none."""
    if isinstance(error, UnsupportedGroupType):
        return True
    return code_of(error) is ErrorCode.GROUP_ID_NOT_FOUND


def _bound(remembered: dict[GroupId, int]) -> None:
    """Forget the oldest entry when there are too many."""
    if len(remembered) >= REMEMBERED_MAX:
        del remembered[next(iter(remembered))]


def _topics(
    offsets: Mapping[TopicPartition, CommittedOffset],
) -> list[m.OffsetCommitRequestTopic]:
    topics: dict[TopicName, list[m.OffsetCommitRequestPartition]] = {}
    for (topic, partition), offset in offsets.items():
        epoch = -1 if offset.leader_epoch is None else offset.leader_epoch
        topics.setdefault(topic, []).append(
            m.OffsetCommitRequestPartition(
                partition_index=partition,
                committed_offset=offset.offset,
                committed_leader_epoch=epoch,
                committed_metadata=offset.metadata,
            )
        )
    return [
        m.OffsetCommitRequestTopic(name=topic, partitions=partitions)
        for topic, partitions in topics.items()
    ]
