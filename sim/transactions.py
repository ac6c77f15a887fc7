"""Producers that commit offsets in transactions, and their transaction coordinator: a
commit is handled only in an open transaction, and a transaction that ends writes its
markers until they are durable. Only then does the producer's next one begin.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from coterie.broker.coordinator.offsets.fetch import FetchOffsets
from coterie.errors import LogError
from coterie.types import GroupId
from coterie.wire import messages as m
from sim.members.member import REQUEST_TIMEOUT_MS, Member, MemberEnvironment
from sim.network import Call, Caller
from sim.server import Server

_PRODUCERS: Final = 3
_FETCH_VERSION: Final = 9
_TOPIC_IDS_SINCE: Final = 6
_RETRY_MS: Final = 700
_LASTS_MS: Final = 6_000


class Transaction:
    """A transaction of a producer."""

    def __init__(self, producer_id: int, producer_epoch: int) -> None:
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.commits: bool | None = None
        """Whether it ends with COMMIT; None while it is open."""
        self.shards: set[int] = set()
        """The shards without a durable marker."""

    @property
    def is_open(self) -> bool:
        """Whether offsets may be added to it."""
        return self.commits is None

    @property
    def is_over(self) -> bool:
        """Whether all its markers are durable."""
        return not self.is_open and not self.shards


class Producers:
    """All producers, with at most one transaction each that is not over."""

    def __init__(
        self, environment: MemberEnvironment, server: Callable[[], Server | None]
    ) -> None:
        self._environment = environment
        self._server = server
        self._current: dict[int, Transaction] = {}
        self._epochs = 0

    def admit(
        self, request: m.TxnOffsetCommitRequest, shard: int
    ) -> Transaction | None:
        """Return the open transaction of a commit, or None if it is refused."""
        transaction = self._current.get(request.producer_id)
        if (
            transaction is None
            or not transaction.is_open
            or transaction.producer_epoch != request.producer_epoch
        ):
            return None
        transaction.shards.add(shard)
        return transaction

    def transact(self, groups: Sequence[GroupId], members: Sequence[Member]) -> None:
        """Run a transaction of an idle producer, with commits to some groups, as some
        member or without one.
        """
        rng, clock = self._environment.rng, self._environment.clock
        producer_id = rng.randrange(_PRODUCERS)
        current = self._current.get(producer_id)
        if current is not None and not current.is_over:
            return
        self._epochs += 1
        transaction = Transaction(producer_id, self._epochs)
        self._current[producer_id] = transaction
        for _ in range(rng.randint(1, 4)):
            group_id = rng.choice(groups)
            mine = [each for each in members if each.group_id == group_id]
            member = rng.choice(mine) if mine and rng.random() < 0.5 else None
            commit = partial(self._commit, transaction, group_id, member)
            clock.after(rng.randint(0, _LASTS_MS), commit)
            fetch = partial(self.fetch, group_id)
            clock.after(rng.randint(0, 2 * _LASTS_MS), fetch)
        end = partial(self._end, transaction, rng.random() < 0.6)
        clock.after(rng.randint(0, 2 * _LASTS_MS), end)

    def end_all(self) -> None:
        """End all open transactions."""
        for transaction in self._current.values():
            self._end(transaction, self._environment.rng.random() < 0.5)

    def fetch(self, group_id: GroupId) -> None:
        """Fetch offsets of a group, stable ones or not."""
        rng = self._environment.rng
        topics = [
            m.OffsetFetchRequestTopics(
                name=name, partition_indexes=[*range(topic.partition_count)]
            )
            for name, topic in self._environment.topics.known.items()
        ]
        group = m.OffsetFetchRequestGroup(
            group_id=group_id, topics=None if rng.random() < 0.3 else topics
        )
        request = FetchOffsets(group, require_stable=rng.random() < 0.7)
        self._call("fetcher", group_id, request, _FETCH_VERSION)

    def _commit(
        self, transaction: Transaction, group_id: GroupId, member: Member | None
    ) -> None:
        environment = self._environment
        if not transaction.is_open or not environment.topics.known:
            return
        version = environment.rng.choice((5, _TOPIC_IDS_SINCE))
        request = self._commit_request(transaction, group_id, member, version)
        self._call(request.transactional_id, group_id, request, version)

    def _commit_request(
        self,
        transaction: Transaction,
        group_id: GroupId,
        member: Member | None,
        version: int,
    ) -> m.TxnOffsetCommitRequest:
        """Return a commit to some partitions of a topic, as a member or as none."""
        rng, topics = self._environment.rng, self._environment.topics
        name = rng.choice(sorted(topics.known))
        topic_id, count = topics.known[name]
        request = m.TxnOffsetCommitRequest(
            transactional_id=f"p{transaction.producer_id}",
            group_id=group_id,
            producer_id=transaction.producer_id,
            producer_epoch=transaction.producer_epoch,
            topics=[
                m.TxnOffsetCommitRequestTopic(
                    partitions=[
                        m.TxnOffsetCommitRequestPartition(
                            partition_index=partition,
                            committed_offset=rng.getrandbits(40),
                            committed_metadata="",
                        )
                        for partition in range(rng.randint(1, count))
                    ]
                )
            ],
        )
        if version >= _TOPIC_IDS_SINCE:
            request.topics[0].topic_id = topic_id
        else:
            request.topics[0].name = name
        if member is not None and member.member_id:
            request.member_id = member.member_id
            request.group_instance_id = member.instance_id
            request.generation_id_or_member_epoch = member.epoch_or_generation
        return request

    def _call(self, who: str, group_id: GroupId, request: Any, version: int) -> None:
        caller = Caller(version, who)
        call = Call(who, group_id, request, caller, lambda _: None, lambda: None)
        self._environment.network.call(call, REQUEST_TIMEOUT_MS)

    def _end(self, transaction: Transaction, commits: bool) -> None:
        if not transaction.is_open:
            return
        transaction.commits = commits
        self._environment.transcript.add(
            self._environment.clock.now_ms,
            f"p{transaction.producer_id}",
            "commits" if commits else "aborts",
        )
        for shard in sorted(transaction.shards):
            self._write_marker(transaction, shard)

    def _write_marker(self, transaction: Transaction, shard: int) -> None:
        """Write a marker, again and again until it is durable."""
        if shard not in transaction.shards:
            return
        again = partial(self._write_marker, transaction, shard)
        self._environment.clock.after(_RETRY_MS, again)
        server = self._server()
        if server is None:
            return
        assert transaction.commits is not None
        server.runtime.end_transaction(
            shard,
            transaction.producer_id,
            transaction.producer_epoch,
            transaction.commits,
        )

        def written(error: LogError | None) -> None:
            if error is None:
                transaction.shards.discard(shard)

        server.flusher.when_durable(written)
