"""Failed flushes and bugs: pending requests fail and the shard is reloaded."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from coterie.broker.coordinator.shard import Shard
from coterie.broker.log.log import LogPartition
from coterie.broker.runtime.shards import Phase
from coterie.errors import LogCorrupt, LogError, LogFull
from coterie.settings import Settings
from coterie.wire import messages as m
from coterie.wire.error_codes import ErrorCode
from coterie.wire.record_batch import decode_records
from tests.broker.runtime.world import (
    TOPIC_ID,
    World,
    commit_error,
    commit_request,
    consumer_join,
    fetch_request,
    join_request,
)
from tests.support.compiled import skip_if_compiled

# A failing disk.


@pytest.mark.fact("H-155", "H-25", "E15-05")
def test_a_join_whose_write_fails_leaves_no_member() -> None:
    world = World(settings=Settings(group_consumer_assignment_interval_ms=0))
    assert world.call(consumer_join("m"), "g", 1).error_code == ErrorCode.NONE
    world.disk_fails = LogError("broken")
    refused = world.call(consumer_join("n"), "g", 1)
    assert refused.error_code == ErrorCode.NOT_COORDINATOR
    assert world.partition("g").phase is Phase.ACTIVE
    group = world.partition("g").shard.state.consumer_groups["g"]
    assert list(group.members) == ["m"]
    assert group.is_refresh_due(world.loop.now_ms)
    world.disk_fails = None
    assert world.call(consumer_join("n"), "g", 1).member_epoch == 2


@pytest.mark.fact("E23-13", "E23-03b")
@pytest.mark.parametrize(
    ("error", "code"),
    [
        (LogError("broken"), ErrorCode.NOT_COORDINATOR),
        (LogFull("full"), ErrorCode.COORDINATOR_NOT_AVAILABLE),
    ],
)
def test_a_failed_flush_fails_requests_and_reloads_the_shard(
    error: LogError, code: int
) -> None:
    world = World()
    world.call(commit_request("g", 5), "g")
    world.disk_fails = error
    assert commit_error(world.call(commit_request("g", 6), "g")) == code
    assert world.partition("g").phase is Phase.ACTIVE
    assert world.offset("g") == 5
    world.disk_fails = None
    assert commit_error(world.call(commit_request("g", 7), "g")) == 0
    assert world.offset("g") == 7


def test_a_full_disk_fails_writes_and_serves_reads() -> None:
    world = World()
    world.call(commit_request("g", 5), "g")
    world.disk_fails = LogFull("full")
    for offset in range(10):
        refused = world.call(commit_request("g", offset), "g")
        assert commit_error(refused) == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert world.offset("g") == 5


def test_a_failed_flush_does_not_reload_shards_without_writes() -> None:
    world = World()
    world.disk_fails = LogError("broken")
    others = [each for each in world.runtime.shards if each is not world.partition("g")]
    before = [each.shard for each in others]
    world.call(commit_request("g", 5), "g")
    assert [each.shard for each in others] == before


@pytest.mark.fact("E23-11")
def test_a_failed_flush_fails_pending_requests() -> None:
    world = World()
    joined = world.submit(join_request("g"), "g", 3)
    world.disk_fails = LogError("broken")
    world.call(commit_request("g", 5), "g")
    assert joined[0].error_code == ErrorCode.NOT_COORDINATOR


def test_a_read_that_waits_for_a_failed_write_fails() -> None:
    world = World()
    world.disk_fails = LogError("broken")
    world.submit(commit_request("g", 5), "g")
    answers = world.submit(fetch_request("g"), "g")
    world.loop.settle()
    assert answers[0].error_code == ErrorCode.NOT_COORDINATOR


@pytest.mark.fact("E23-09")
@pytest.mark.pure
def test_a_slow_write_fails_its_requests_with_a_timeout() -> None:
    world = World()
    skip_if_compiled(world.flusher)
    world.flusher._start = lambda: None  # type: ignore[method-assign]
    answers = world.submit(commit_request("g", 5), "g")
    world.loop.advance(4.9)
    assert answers == []
    world.loop.advance(1.1)
    assert commit_error(answers[0]) == ErrorCode.COORDINATOR_NOT_AVAILABLE


@pytest.mark.fact("H-96")
@pytest.mark.pure
def test_a_stable_fetch_behind_a_slow_write_gets_not_coordinator() -> None:
    world = World()
    skip_if_compiled(world.flusher)
    world.flusher._start = lambda: None  # type: ignore[method-assign]
    world.submit(commit_request("g", 5), "g")
    answers = world.submit(fetch_request("g")._replace(require_stable=True), "g")
    world.loop.advance(6)
    assert answers[0].error_code == ErrorCode.NOT_COORDINATOR


def test_a_slow_write_that_succeeds_gets_one_response() -> None:
    world = World()
    start = world.flusher._start
    skip_if_compiled(world.flusher)
    world.flusher._start = lambda: None  # type: ignore[method-assign]
    answers = world.submit(commit_request("g", 5), "g")
    world.loop.advance(10)
    start()
    world.loop.settle()
    assert len(answers) == 1
    assert world.offset("g") == 5


# Bugs.


class Buggy(Shard):
    """A shard with a bug in one group."""

    def replay_commit(self, commit: Any, offsets: Any) -> None:
        assert commit.group_id != "bug", "a bug"
        super().replay_commit(commit, offsets)


class BuggyWorld(World):
    def make_shard(self) -> Shard:
        return Buggy(self.settings)


@pytest.mark.fact("E23-08")
def test_a_bug_in_a_replay_stops_and_reloads_the_shard(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = BuggyWorld(shard_count=1)
    world.call(commit_request("g", 5), "g")
    with caplog.at_level(logging.ERROR):
        answers = world.submit(commit_request("bug", 1), "bug")
    assert commit_error(answers[0]) == ErrorCode.UNKNOWN_SERVER_ERROR
    assert "a bug" in caplog.text
    refused = world.submit(commit_request("g", 6), "g")
    assert commit_error(refused[0]) in {
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    }
    world.loop.settle()
    assert world.offset("g") == 5
    [batch] = world.log.read(LogPartition(TOPIC_ID, 0), 0, 1 << 20)
    assert len(decode_records(batch)) == 1


def test_writes_before_a_bug_are_kept_and_get_responses(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = BuggyWorld(shard_count=1)
    earlier = world.submit(commit_request("g", 5), "g")
    world.submit(commit_request("bug", 1), "bug")
    world.loop.settle()
    assert commit_error(earlier[0]) == 0
    assert world.offset("g") == 5


@pytest.mark.fact("E23-02b")
def test_a_shard_that_fails_to_load_responds_not_coordinator_and_retries(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World(shard_count=1)
    world.call(commit_request("g", 5), "g")
    broken = world.reopened(starts=False)
    good_read = broken.log.read

    def bad_read(*_: Any) -> Any:
        raise LogError("cannot read")

    skip_if_compiled(broken.log)
    broken.log.read = bad_read  # type: ignore[method-assign,assignment]
    broken.start()
    broken.loop.settle()
    assert broken.phases == {Phase.STOPPED}
    refused = broken.call(commit_request("g", 6), "g")
    assert commit_error(refused) == ErrorCode.NOT_COORDINATOR
    broken.log.read = good_read  # type: ignore[method-assign]
    broken.loop.advance(6)
    assert broken.offset("g") == 5


def test_stored_offsets_that_cannot_be_read_are_an_error_of_their_group(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World(shard_count=1)
    for name in ("g", "h"):
        world.call(commit_request(name, 1), name)
    partition = world.runtime.shards[0]
    list(world.snapshots.write(partition, frozenset(partition.shard.changed)))
    world.flusher.flush()
    reopened = world.reopened()
    get = reopened.log.get

    def broken(space: str, key: bytes) -> bytes | None:
        if key == b"g":
            raise LogCorrupt("coterie.db is damaged")
        return get(space, key)

    skip_if_compiled(reopened.log)
    reopened.log.get = broken  # type: ignore[method-assign]
    for _ in range(2):  # an error each time, never "no offsets"
        answer = reopened.call(fetch_request("g"), "g")
        assert answer.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert reopened.phases == {Phase.ACTIVE}
    assert reopened.offset("h") == 1
    assert len(caplog.records) == 2
    for record in caplog.records:
        assert "coterie.db is damaged" in record.getMessage()
        assert record.exc_info is None


# A coordinator that moves; only the test kit moves one.


@pytest.mark.fact("E19-16", "E19-16a")
def test_a_reloaded_shard_keeps_its_writes_and_fails_pending_requests() -> None:
    world = World(shard_count=1)
    joined = [world.submit(join_request("s"), "s", 3) for _ in range(2)]
    world.loop.advance(10.1)
    ids = {answer.member_id for [answer] in joined} - {joined[0][0].leader}
    request = m.SyncGroupRequest(group_id="s", generation_id=1, member_id=ids.pop())
    syncing = world.submit(request, "s", 3)
    world.call(commit_request("g", 5), "g")
    staged = world.submit(commit_request("g", 6), "g")
    joining = world.submit(join_request("j"), "j", 3)

    world.runtime.reload_shard(0)

    assert joining[0].error_code == ErrorCode.NOT_COORDINATOR
    assert syncing[0].error_code == ErrorCode.NOT_COORDINATOR
    world.loop.settle()
    assert commit_error(staged[0]) == ErrorCode.NONE
    assert world.offset("g") == 6
    assert world.phases == {Phase.ACTIVE}


def test_a_shard_that_is_loading_is_not_loaded_twice() -> None:
    world = World(shard_count=1, starts=False)
    world.start()
    world.runtime.reload_shard(0)
    world.loop.settle()

    assert (world.phases, world.runtime.reloads) == ({Phase.ACTIVE}, 0)
