"""The shards of a node: taking over, releasing, and the lease."""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pytest

from coterie.broker.log.log import LogPartition
from coterie.broker.log.memory import MemoryLog
from coterie.broker.runtime.flusher import Flusher
from coterie.broker.runtime.loader import Loader
from coterie.broker.runtime.shards import CoordinatorPartition, Loaded, Phase
from coterie.broker.runtime.snapshots import Snapshots
from coterie.errors import LogError
from coterie.gateway.counts import GatewayCounts
from coterie.gateway.ownership import (
    RETRY_MAX_MS,
    RETRY_MIN_MS,
    OpenedShard,
    Ownership,
)
from coterie.wire.error_codes import ErrorCode
from tests.broker.runtime.world import (
    TOPIC_ID,
    World,
    commit_error,
    commit_request,
    join_request,
)

LEASE_MS = 8_000


@dataclass
class Node(World):
    """A node whose shards have a log in memory each."""

    starts: bool = False
    counts: GatewayCounts = field(default_factory=GatewayCounts)
    opened: list[int] = field(default_factory=list)
    closed: list[int] = field(default_factory=list)
    logs: dict[int, MemoryLog] = field(default_factory=dict)
    flushers: dict[int, Flusher] = field(default_factory=dict)
    loads_fail: bool = False
    takeovers: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.counts.observe_takeover = self.takeovers.append
        self.ownership = Ownership(
            self.runtime,
            self.open_shard,
            clock=self.loop.clock,
            scheduler=self.loop,
            lease_ms=LEASE_MS,
            counts=self.counts,
        )
        self.runtime.start(self.shard_count)

    def open_shard(self, index: int) -> OpenedShard:
        self.opened.append(index)
        log_partition = LogPartition(TOPIC_ID, index)
        log = self.logs.get(index)
        if log is None:
            log = self.logs[index] = MemoryLog()
            log.create(log_partition)
            log.flush()
        flusher = self.flushers[index] = Flusher(log, self.loop, threaded=False)
        store = Loader(log, flusher, Snapshots(log), self.loop).store(log_partition)
        if self.loads_fail:
            store = store._replace(load=_fail)
        return OpenedShard(store, lambda: self.close_shard(index))

    def close_shard(self, index: int) -> None:
        """Fail what is staged, as the writer of a shard does."""
        self.closed.append(index)
        flusher = self.flushers[index]
        flusher.before_write = _refuse
        with suppress(LogError):
            flusher.flush()

    def heartbeat(self, age_ms: int = 0) -> None:
        self.ownership.heartbeat_answered(self.loop.clock() - age_ms)
        self.loop.settle()

    def assigned(self, *shards: int) -> None:
        self.ownership.assigned(frozenset(shards))
        self.loop.settle()

    @property
    def active(self) -> list[int]:
        return [
            each.index for each in self.runtime.shards if each.phase is Phase.ACTIVE
        ]

    def pause(self, ms: int) -> None:
        """Let time pass in which the process does not run."""
        self.loop.now_ms += ms


def _refuse() -> None:
    raise LogError("the shard was released")


def _fail(partition: CoordinatorPartition, loaded: Loaded, failed: Loaded) -> None:
    failed(partition)


def started(*shards: int) -> Node:
    node = Node()
    node.heartbeat()
    node.assigned(*shards)
    return node


def errors(answers: list[Any]) -> list[int]:
    return [commit_error(answer) for answer in answers]


def test_assigned_shards_are_taken_over_and_others_released() -> None:
    node = started(0, 1)
    assert node.active == [0, 1]
    node.assigned(1, 2)
    assert node.active == [1, 2]
    assert (node.opened, node.closed) == ([0, 1, 2], [0])
    assert node.ownership.shards == {1, 2}
    assert node.counts.takeovers == len(node.takeovers) == 3


def test_a_line_is_logged_once_all_assigned_shards_are_active(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.INFO):
        node = started(0, 1)
        node.assigned(1, 2, 3)
        node.ownership.fenced(2)
        node.loop.advance(RETRY_MIN_MS / 1000)
    assert caplog.messages == [
        f"all {count} shards of this node are active" for count in (2, 3, 3)
    ]


def test_nothing_is_taken_over_before_the_first_heartbeat() -> None:
    node = Node()
    node.assigned(0)
    assert not node.opened
    node.heartbeat()
    assert node.active == [0]


def test_a_release_fails_waiting_requests() -> None:
    node = started(*range(4))
    join = node.submit(join_request("g"), "g", 2)
    commit = node.submit(commit_request("h", 1), "h")
    node.ownership.assigned(frozenset())
    assert errors(commit) == [ErrorCode.NOT_COORDINATOR]
    assert [each.error_code for each in join] == [ErrorCode.NOT_COORDINATOR]


def test_the_lease_ends_without_heartbeats_and_every_shard_stops() -> None:
    node = started(0, 1)
    node.loop.advance(LEASE_MS / 1000)
    assert node.active == []
    assert node.closed == [0, 1]
    assert node.counts.lapsed_leases == 1
    assert node.ownership.shards == {0, 1}


def test_heartbeats_extend_the_lease_from_the_time_they_were_sent() -> None:
    node = started(0)
    node.loop.advance(5)
    node.heartbeat(age_ms=1_000)
    node.loop.advance(6.999)
    assert node.active == [0]
    node.loop.advance(0.001)
    assert node.active == []


def test_an_answer_to_an_older_heartbeat_does_not_shorten_the_lease() -> None:
    node = started(0)
    node.heartbeat()
    node.heartbeat(age_ms=5_000)
    assert node.ownership.lease.remaining_ms == LEASE_MS


def test_a_process_that_was_paused_answers_nothing_from_old_state() -> None:
    node = started(*range(4))
    waiting = node.submit(commit_request("g", 1), "g")
    node.pause(LEASE_MS)
    # The requests in the sockets are read before any timer has run.
    assert errors(node.submit(commit_request("g", 2), "g")) == [
        ErrorCode.NOT_COORDINATOR
    ]
    node.loop.settle()
    assert errors(waiting) == [ErrorCode.NOT_COORDINATOR]


def test_a_heartbeat_after_the_lease_takes_every_shard_over_again() -> None:
    node = started(0)
    state = node.runtime.shards[0].shard
    node.pause(LEASE_MS)
    node.heartbeat()
    assert node.active == [0]
    assert node.runtime.shards[0].shard is not state, "another owner may have written"
    assert (node.opened, node.closed) == ([0, 0], [0])


def test_a_heartbeat_that_was_sent_before_a_pause_begins_no_lease() -> None:
    node = started(0)
    node.pause(LEASE_MS)
    node.heartbeat(age_ms=LEASE_MS)
    assert node.active == []
    assert node.opened == [0]


def test_a_fenced_shard_stops_and_is_taken_over_again() -> None:
    node = started(0, 1)
    node.ownership.fenced(0)
    assert node.active == [1]
    assert (node.counts.fenced, node.counts.failed_takeovers) == (1, 0)
    node.loop.advance(RETRY_MIN_MS / 1000)
    assert node.active == [0, 1]


def test_a_fenced_shard_that_is_not_assigned_any_more_stays_released() -> None:
    node = started(0)
    node.ownership.fenced(0)
    node.assigned()
    node.loop.advance(1)
    assert node.opened == [0]


def test_a_failed_write_takes_the_shard_over_again() -> None:
    node = started(*range(4))
    shard = node.runtime.shard_of("g")

    def fail() -> None:
        raise LogError("upstream refuses")

    node.flushers[shard].before_write = fail
    answers = node.submit(commit_request("g", 1), "g")
    node.loop.settle()
    assert errors(answers) == [ErrorCode.NOT_COORDINATOR]
    assert node.ownership.is_failed(shard)
    node.loop.advance(RETRY_MIN_MS / 1000)
    assert node.active == [0, 1, 2, 3]
    assert not node.ownership.is_failed(shard)


def test_a_failed_takeover_is_tried_again_less_and_less_often() -> None:
    node = Node(loads_fail=True)
    node.heartbeat()
    node.assigned(0)
    for tries in range(1, 5):
        assert len(node.opened) == len(node.closed) == tries
        node.loop.advance((RETRY_MIN_MS << (tries - 1)) / 1000)
    assert node.counts.failed_takeovers == 5
    node.heartbeat()
    node.loads_fail = False
    node.loop.advance((RETRY_MIN_MS << 4) / 1000)
    assert node.active == [0]


def test_a_retry_waits_for_the_next_lease() -> None:
    node = Node(loads_fail=True)
    node.heartbeat()
    node.assigned(0)
    node.loop.advance(LEASE_MS / 1000)
    tries = len(node.opened)
    node.loop.advance(2 * RETRY_MAX_MS / 1000)
    assert len(node.opened) == tries
    node.loads_fail = False
    node.heartbeat()
    assert node.active == [0]


def test_a_lost_membership_releases_everything() -> None:
    node = started(0, 1)
    node.ownership.lost()
    assert node.active == []
    assert node.ownership.shards == frozenset()
    node.heartbeat()
    assert node.active == []


def test_a_lost_membership_ends_the_lease() -> None:
    node = started(0)
    node.ownership.lost()
    node.assigned(0)
    assert node.active == [], "before the next heartbeat"


def test_a_take_over_that_was_closed_does_not_end() -> None:
    node = started()
    loads: list[tuple[CoordinatorPartition, Loaded]] = []

    def hold(partition: CoordinatorPartition, loaded: Loaded, failed: Loaded) -> None:
        loads.append((partition, loaded))

    open_shard = node.open_shard
    node.ownership._open_shard = lambda index: OpenedShard(
        open_shard(index).store._replace(load=hold), lambda: None
    )
    node.assigned(0)
    node.assigned()
    node.assigned(0)
    partition, loaded = loads[0]
    loaded(partition)
    assert node.counts.takeovers == 0
    assert node.active == []
    partition, loaded = loads[1]
    loaded(partition)
    assert node.counts.takeovers == 1


def wait(node: Node, ms: int) -> None:
    """Let time pass in which heartbeats are answered."""
    for _ in range(0, ms, 1_000):
        node.heartbeat()
        node.loop.advance(1)


def test_the_delay_before_another_try_has_a_bound() -> None:
    node = Node(loads_fail=True)
    node.heartbeat()
    node.assigned(0)
    wait(node, 60_000)
    tries = len(node.opened)
    wait(node, RETRY_MAX_MS)
    assert len(node.opened) == tries + 1


def test_a_success_resets_the_delay_before_another_try() -> None:
    node = Node(loads_fail=True)
    node.heartbeat()
    node.assigned(0)
    wait(node, 2_000)
    node.loads_fail = False
    wait(node, RETRY_MAX_MS)
    assert node.active == [0]
    node.ownership.fenced(0)
    node.loop.advance(RETRY_MIN_MS / 1000)
    assert node.active == [0]


def test_a_drain_lets_writes_finish_first() -> None:
    node = started(*range(4))
    answers = node.submit(commit_request("g", 1), "g")
    drained: list[list[int]] = []
    node.ownership.drain(lambda: drained.append(errors(answers)))
    assert not drained
    node.loop.settle()
    assert drained == [[0]]
    assert node.active == []


def test_a_lease_that_ends_during_a_drain_ends_the_drain() -> None:
    node = started(*range(4))
    answers = node.submit(commit_request("d", 1), "d")
    drained: list[bool] = []
    node.ownership.drain(lambda: drained.append(True))
    node.pause(LEASE_MS)
    node.heartbeat()  # releases the shard of the group first
    assert drained == [True]
    assert errors(answers) == [ErrorCode.NOT_COORDINATOR]
    assert node.active == []


def test_a_drain_without_shards_is_done_at_once() -> None:
    node = Node()
    drained: list[bool] = []
    node.ownership.drain(lambda: drained.append(True))
    assert drained == [True]
