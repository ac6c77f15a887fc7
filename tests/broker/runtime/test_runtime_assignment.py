"""Shards that are assigned and released at run time, and the lease of the process."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from coterie.broker.log.log import LogPartition
from coterie.broker.log.memory import MemoryLog
from coterie.broker.runtime.flusher import Flusher
from coterie.broker.runtime.loader import Loader
from coterie.broker.runtime.shards import DrivenShard, Loaded, Phase, ShardStore
from coterie.broker.runtime.snapshots import Snapshots
from coterie.errors import LogError
from coterie.wire import messages as m
from coterie.wire.error_codes import ErrorCode
from tests.broker.runtime.world import (
    TOPIC_ID,
    World,
    commit_error,
    commit_request,
    consumer_join,
    fetch_request,
    join_request,
)

_NOT_COORDINATOR = ErrorCode.NOT_COORDINATOR


@dataclass
class Node(World):
    """A runtime whose shards each have a log and a flusher of their own."""

    starts: bool = False
    leased: bool = True
    flushers: dict[int, Flusher] = field(default_factory=dict)
    logs: dict[int, MemoryLog] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.runtime.lease = lambda: self.leased
        self.runtime.start(self.shard_count, "__coterie_test")

    def store(self, index: int) -> ShardStore:
        where = LogPartition(TOPIC_ID, index)
        log = self.logs.get(index)
        if log is None:
            log = self.logs[index] = MemoryLog()
            log.create(where)
            log.flush()
        flusher = self.flushers[index] = Flusher(log, self.loop, threaded=False)
        return Loader(log, flusher, Snapshots(log), self.loop).store(where)

    def assign(self, *indexes: int) -> None:
        for index in indexes:
            self.runtime.assign(index, self.store(index))


def refused(answers: list[Any]) -> bool:
    return [commit_error(answer) for answer in answers] == [_NOT_COORDINATOR]


def test_an_unassigned_shard_is_not_coordinated_here() -> None:
    node = Node()
    assert node.phases == {Phase.UNASSIGNED}
    assert refused(node.submit(commit_request("g", 1), "g"))
    assert node.runtime.readable_shard(node.runtime.shard_of("g")) is None


def test_an_assigned_shard_is_loaded_and_served() -> None:
    node = Node()
    shard = node.runtime.shard_of("g")
    node.assign(shard)
    assert node.runtime.shards[shard].phase is Phase.LOADING
    loading = node.submit(commit_request("g", 1), "g")
    assert commit_error(loading[0]) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    node.loop.settle()
    assert commit_error(node.call(commit_request("g", 7), "g")) == 0
    assert node.offset("g") == 7


def test_released_and_assigned_again_a_shard_has_what_was_durable() -> None:
    node = Node()
    shard = node.runtime.shard_of("g")
    node.assign(shard)
    node.loop.settle()
    node.call(commit_request("g", 7), "g")
    node.runtime.release(shard)
    assert refused(node.submit(commit_request("g", 8), "g"))
    node.assign(shard)
    node.loop.settle()
    assert node.offset("g") == 7


def test_a_release_fails_requests_that_wait_for_a_write() -> None:
    node = Node()
    shard = node.runtime.shard_of("g")
    node.assign(shard)
    node.loop.settle()
    answers = node.submit(commit_request("g", 7), "g")
    assert not answers
    node.runtime.release(shard)
    assert refused(answers)
    node.loop.settle()
    assert len(answers) == 1, "the write has become durable, and changes nothing"


def test_a_release_fails_joins_that_wait_for_members() -> None:
    node = Node()
    shard = node.runtime.shard_of("g")
    node.assign(shard)
    node.loop.settle()
    answers = node.submit(join_request("g"), "g", 2)
    node.loop.settle()
    assert not answers
    node.runtime.release(shard)
    assert [answer.error_code for answer in answers] == [_NOT_COORDINATOR]
    node.loop.advance(60)
    assert len(answers) == 1, "the timers of the shard are gone"


def test_a_release_of_a_loading_shard_ends_the_load() -> None:
    node = Node()
    loads: list[Loaded] = []

    def load(driven: DrivenShard, loaded: Loaded, failed: Loaded) -> None:
        loads.append(loaded)

    node.runtime.assign(0, node.store(0)._replace(load=load))
    node.runtime.release(0)
    driven = node.runtime.shards[0]
    loads[0](driven)
    assert driven.phase is Phase.UNASSIGNED
    node.runtime.assign(0, node.store(0)._replace(load=load))
    loads[0](driven)
    assert driven.phase is Phase.LOADING, "the first load is not the second's"
    loads[1](driven)
    assert driven.phase is Phase.ACTIVE


def test_a_shard_waits_only_for_its_own_writes() -> None:
    node = Node()
    node.assign(*range(node.shard_count))
    node.loop.settle()
    first = node.submit(commit_request("g0", 1), "g0")
    other = next(each for each in _groups() if _differs(node, each))
    second = node.submit(commit_request(other, 1), other)
    node.flushers[node.runtime.shard_of(other)].flush()
    assert (len(first), len(second)) == (0, 1)


def test_a_failed_write_reloads_only_its_shard() -> None:
    node = Node()
    node.assign(*range(node.shard_count))
    node.loop.settle()
    shard = node.runtime.shard_of("g")
    for other in _groups():
        if node.runtime.shard_of(other) != shard:
            node.call(commit_request(other, 1), other)
    recovered: list[int] = []
    node.runtime.recover = recovered.append
    node.flushers[shard].before_write = _fail
    answers = node.submit(commit_request("g", 1), "g")
    node.loop.settle()
    assert refused(answers)
    assert recovered == [shard]
    assert [each.index for each in node.runtime.shards if each.phase is Phase.STOPPED]


def test_after_the_lease_nothing_is_answered_from_state() -> None:
    node = Node()
    shard = node.runtime.shard_of("g")
    node.assign(shard)
    node.loop.settle()
    node.call(commit_request("g", 7), "g")
    node.leased = False
    assert refused(node.submit(commit_request("g", 8), "g"))
    fetched = node.call(fetch_request("g"), "g", 5)
    assert fetched.error_code == _NOT_COORDINATOR
    assert node.runtime.readable_shard(shard) is None


def test_a_write_that_ends_after_the_lease_is_not_acknowledged() -> None:
    node = Node()
    node.assign(node.runtime.shard_of("g"))
    node.loop.settle()
    answers = node.submit(commit_request("g", 7), "g")
    node.leased = False
    node.loop.settle()
    assert refused(answers)


def test_no_timer_fires_after_the_lease() -> None:
    node = Node()
    node.assign(node.runtime.shard_of("g"))
    node.loop.settle()
    answers = node.submit(join_request("g"), "g", 2)
    node.loop.settle()
    node.leased = False
    node.loop.advance(60)
    assert not answers


def test_no_session_is_renewed_after_the_lease() -> None:
    node = Node()
    node.assign(node.runtime.shard_of("g"))
    node.loop.settle()
    joined = node.call(consumer_join("m"), "g", 1)
    repeated = m.ConsumerGroupHeartbeatRequest(
        group_id="g", member_id="m", member_epoch=joined.member_epoch
    )
    node.call(repeated, "g", 1)
    renew = node.runtime.session_renewal(repeated)
    assert renew is not None
    assert renew(node.clock())
    node.leased = False
    assert not renew(node.clock())
    assert node.runtime.session_renewal(repeated) is None


def test_no_session_is_renewed_after_a_release() -> None:
    node = Node()
    shard = node.runtime.shard_of("g")
    node.assign(shard)
    node.loop.settle()
    joined = node.call(consumer_join("m"), "g", 1)
    repeated = m.ConsumerGroupHeartbeatRequest(
        group_id="g", member_id="m", member_epoch=joined.member_epoch
    )
    renew = node.runtime.session_renewal(repeated)
    assert renew is not None
    node.runtime.release(shard)
    assert not renew(node.clock())
    node.assign(shard)
    node.loop.settle()
    assert not renew(node.clock())


def test_events_are_kept_for_shards_that_load_only() -> None:
    node = Node()
    node.assign(0)
    node.runtime.broadcast(object())
    assert [len(each.events) for each in node.runtime.shards] == [1, 0, 0, 0]
    node.runtime.release(0)
    assert not node.runtime.shards[0].events


def _groups() -> list[str]:
    return [f"g{at}" for at in range(1, 50)]


def _differs(node: Node, group: str) -> bool:
    return node.runtime.shard_of(group) != node.runtime.shard_of("g0")


def _fail() -> None:
    raise LogError("the upstream cluster refused the write")
