"""A gateway node without sockets, whose transactions a fake upstream coordinates."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, cast

from coterie.auth.acl import ANONYMOUS
from coterie.auth.authorizer import AllowAll
from coterie.broker.log.log import LogPartition
from coterie.broker.runtime.shards import CoordinatorPartition, Loaded, ShardStore
from coterie.broker.server.broker import Counts
from coterie.broker.server.call import Call
from coterie.errors import CoterieError
from coterie.gateway.log.shard_log import ShardLog
from coterie.gateway.log.shard_writer import ShardWriter
from coterie.gateway.transactions import GatewayTransactions
from coterie.gateway.upstream.transactions import Application
from coterie.types import ProducerId
from coterie.wire import messages as m
from coterie.wire.commit import as_received, decoded
from coterie.wire.error_codes import ErrorCode
from coterie.wire.record_batch import Producer, read_header
from tests.broker.runtime.world import TOPIC_ID, World
from tests.gateway.log.fake_upstream import FakeUpstream

GROUP = "group"
PRODUCER = Producer(7, 0)
V1, V2 = 4, 5
"""The versions of TxnOffsetCommit of both versions of transactions (KIP-890)."""


class Requests:
    """Upstream's transaction coordinator; `refusals` are its next errors."""

    def __init__(self, world: GatewayWorld) -> None:
        self._world = world
        self.added: list[tuple[Application, int]] = []
        self.refusals: list[CoterieError] = []
        self.lists = 0
        self.list_error: CoterieError | None = None
        self.held: list[Callable[[], None]] | None = None
        """The answers that wait for the test, if it is a list."""

    def add_partition(
        self,
        application: Application,
        shard: int,
        done: Callable[[CoterieError | None], None],
    ) -> None:
        self.added.append((application, shard))
        error = self.refusals.pop(0) if self.refusals else None
        self._world.loop.call_soon(done, error)

    def producers(
        self,
        shard: int,
        done: Callable[[Mapping[ProducerId, Producer] | CoterieError], None],
    ) -> None:
        self.lists += 1
        known = self._world.upstream.partitions[shard].producers
        found: Mapping[ProducerId, Producer] | CoterieError = {
            producer_id: Producer(producer_id, state.epoch, state.next_sequence)
            for producer_id, state in known.items()
        }
        if self.list_error is not None:
            found = self.list_error
        if self.held is None:
            self._world.loop.call_soon(done, found)
        else:
            self.held.append(lambda: done(found))


@dataclass
class GatewayWorld(World):
    """A node that owns all shards; Produce requests wait for the test."""

    starts: bool = False
    shared: FakeUpstream | None = None
    """The upstream cluster of another node."""
    epoch: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        self.upstream = self.shared or FakeUpstream(self.loop)
        self.requests = Requests(self)
        self.authorizer: Any = AllowAll()
        self.lease = True
        self.runtime.lease = lambda: self.lease
        self.transactions = GatewayTransactions(self.runtime, self.requests, self.loop)
        self.broker = SimpleNamespace(
            runtime=self.runtime,
            catalog=self.topics,
            settings=self.settings,
            shard_of=self.runtime.shard_of,
            counts=Counts(),
            admit=None,
        )
        self.runtime.start(self.shard_count)
        for index in range(self.shard_count):
            self.take_over(index)

    def take_over(self, index: int) -> None:
        log_partition = LogPartition(TOPIC_ID, index)
        log = ShardLog(log_partition)
        writer = ShardWriter(
            log, self.upstream, self.loop, self.clock, on_fenced=lambda: None
        )

        def load(partition: CoordinatorPartition, loaded: Loaded, _: Loaded) -> None:
            producer = Producer(1_000_000 + index, self.epoch, 0)
            writer.open(producer, self.upstream.partitions[index].end)
            loaded(partition)

        self.runtime.assign(index, ShardStore(log_partition, log, writer, load))

    def call_handler(
        self, handler: Callable[[Call], None], request: Any, version: int
    ) -> list[Any]:
        """Pass a request to a handler; return the list that gets its response."""
        responses: list[Any] = []
        self.broker.authorizer = self.authorizer
        peer = SimpleNamespace(
            node=SimpleNamespace(broker=self.broker),
            principal=ANONYMOUS,
            client_host="/127.0.0.1",
            send_response=lambda _, response: responses.append(
                decoded(response, version)
            ),
        )
        received = as_received(request, version)
        handler(Call(received, version, "client", cast(Any, peer), None))
        return responses

    def begin_commit(
        self,
        offset: int,
        *,
        producer: Producer = PRODUCER,
        group: str = GROUP,
        version: int = V1,
        partition: int = 0,
        **changes: Any,
    ) -> list[Any]:
        request = m.TxnOffsetCommitRequest(
            transactional_id=f"app-{producer.producer_id}",
            group_id=group,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            topics=[
                m.TxnOffsetCommitRequestTopic(
                    name="t",
                    partitions=[
                        m.TxnOffsetCommitRequestPartition(
                            partition_index=partition, committed_offset=offset
                        )
                    ],
                )
            ],
            **changes,
        )
        found = self.call_handler(self.transactions.txn_offset_commit, request, version)
        self.loop.settle()
        return found

    def commit(self, offset: int, **arguments: Any) -> ErrorCode:
        """Commit an offset, with Produce answered; return the error code."""
        responses = self.begin_commit(offset, **arguments)
        if not responses:
            self.answer()
        return code_of(responses)

    def answer(self) -> None:
        self.upstream.answer()
        self.loop.settle()

    @property
    def shard(self) -> int:
        return self.runtime.shard_of(GROUP)

    @property
    def owned(self) -> CoordinatorPartition:
        return self.runtime.shards[self.shard]

    def end(self, producer: Producer = PRODUCER, *, commit: bool) -> None:
        """Write a marker upstream, and let the shard read it."""
        partition = self.upstream.partitions[self.shard]
        partition.end_transaction(producer, commit=commit)
        self.runtime.replay_marker(self.shard, *producer[:2], commit, partition.end - 1)

    def committed(self, partition: int = 0) -> int | None:
        found = self.owned.shard.state.offsets.stored.get(GROUP, "t", partition)
        return None if found is None else found.offset

    @property
    def is_pending(self) -> bool:
        return self.owned.shard.state.offsets.pending.has_group(GROUP)

    def sequences(self, shard: int | None = None) -> list[tuple[int, int, int]]:
        """Return producer id, epoch and first sequence of each batch upstream."""
        batches = self.upstream.partitions[
            self.shard if shard is None else shard
        ].batches
        headers = map(read_header, batches)
        return [
            (each.producer_id, each.producer_epoch, each.base_sequence)
            for each in headers
            if not each.is_control
        ]


def code_of(responses: list[Any]) -> ErrorCode:
    [response] = responses
    [topic] = response.topics
    [partition] = topic.partitions
    return ErrorCode(partition.error_code)
