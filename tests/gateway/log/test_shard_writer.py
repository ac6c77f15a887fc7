"""The writer of a shard: order, repetition, fencing and failures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from coterie.broker.log.log import LogPartition
from coterie.errors import ApiError, CoterieError, LogError
from coterie.gateway.log.shard_log import ShardLog
from coterie.gateway.log.shard_writer import IN_FLIGHT_MAX, ShardWriter
from coterie.wire.error_codes import ErrorCode
from coterie.wire.record_batch import (
    TRANSACTIONAL,
    LogRecord,
    Producer,
    encode_batch,
    read_header,
)
from tests.broker.runtime.world import Loop
from tests.gateway.log.fake_upstream import FakeUpstream, ProducerState

WHERE = LogPartition(b"coterie-topic-id", 3)
PRODUCER = Producer(1_000, 0, 0)
APPLICATION = Producer(9, 4, 0)


@dataclass
class World:
    """A writer on a fake upstream; `outcomes` are those of `write`, by value."""

    loop: Loop = field(default_factory=Loop)
    outcomes: dict[bytes, LogError | None] = field(default_factory=dict)
    failures: list[LogError] = field(default_factory=list)
    fenced: int = 0

    def __post_init__(self) -> None:
        self.upstream = FakeUpstream(self.loop)
        self.upstream.partitions[3].producers[PRODUCER.producer_id] = ProducerState(0)
        self.log = ShardLog(WHERE)

        def fenced() -> None:
            self.fenced += 1

        self.writer = ShardWriter(
            self.log, self.upstream, self.loop, self.loop.clock, on_fenced=fenced
        )
        self.writer.on_failure(self.failures.append)
        self.writer.open(PRODUCER, 0)

    def write(self, *values: bytes) -> int:
        """Stage one batch; return the number of its write."""
        base = self.log.next_offset(WHERE)
        now_ms = self.loop.now_ms
        batch = encode_batch(
            [LogRecord(base + i, now_ms, b"k", each) for i, each in enumerate(values)]
        )
        self.log.append(WHERE, batch)
        number = self.writer.next_sequence

        def done(error: LogError | None) -> None:
            for value in values:
                assert value not in self.outcomes, "called twice"
                self.outcomes[value] = error

        self.writer.when_durable(done)
        return number

    def write_each(self, *values: bytes) -> None:
        """Stage batches in one loop iteration each, and send what may be sent."""
        for value in values:
            self.write(value)
            self.loop.settle()

    @property
    def stored(self) -> list[bytes | None]:
        return [each.value for each in self.upstream.partitions[3].records()]

    def is_durable(self, value: bytes) -> bool:
        return self.outcomes.get(value, "none") is None

    def retry(self) -> None:
        self.loop.advance(2)


@pytest.fixture
def world() -> World:
    return World()


def test_a_large_write_has_no_more_batches_in_flight(world: World) -> None:
    values = [bytes([65 + at]) * 200_000 for at in range(IN_FLIGHT_MAX + 2)]
    for value in values:
        world.write(value)
    world.loop.settle()
    assert len(world.upstream.requests) == IN_FLIGHT_MAX
    world.upstream.answer(2)
    world.loop.settle()
    assert len(world.upstream.requests) == IN_FLIGHT_MAX
    world.upstream.answer(IN_FLIGHT_MAX)
    assert world.stored == values


def test_batches_of_one_loop_iteration_are_one_batch(world: World) -> None:
    first = world.write(b"a", b"b")
    assert world.write(b"c") == first
    world.loop.settle()
    assert len(world.upstream.requests) == 1
    assert world.writer.durable_sequence < first
    assert world.outcomes == {}
    world.upstream.answer()
    assert world.stored == [b"a", b"b", b"c"]
    assert world.outcomes == {b"a": None, b"b": None, b"c": None}
    assert world.writer.durable_sequence == first
    assert world.writer.is_idle


def test_sequences_count_records(world: World) -> None:
    world.write_each(b"a")
    world.write(b"b", b"c")
    world.write_each(b"d")
    world.write_each(b"e")
    headers = [read_header(each.batch) for each in world.upstream.requests]
    assert [(each.base_sequence, each.record_count) for each in headers] == [
        (0, 1),
        (1, 3),
        (4, 1),
    ]
    assert {each[9:11] for each in headers} == {PRODUCER[:2]}
    world.upstream.answer(3)
    assert world.stored == [b"a", b"b", b"c", b"d", b"e"]


def test_the_sequence_wraps_at_int32(world: World) -> None:
    world.writer.close(LogError("test"))
    world.writer.open(PRODUCER._replace(base_sequence=2**31 - 1), 0)
    world.write_each(b"a", b"b")
    sequences = [
        read_header(each.batch).base_sequence for each in world.upstream.requests
    ]
    assert sequences == [2**31 - 1, 0]


def test_five_batches_are_in_flight_and_the_rest_is_merged(world: World) -> None:
    world.write_each(*[b"%d" % i for i in range(9)])
    assert len(world.upstream.requests) == IN_FLIGHT_MAX
    world.upstream.answer()
    world.loop.settle()
    assert len(world.upstream.requests) == IN_FLIGHT_MAX
    assert read_header(world.upstream.requests[-1].batch).record_count == 4
    world.upstream.answer(5)
    assert world.stored == [b"%d" % i for i in range(9)]
    assert all(world.is_durable(b"%d" % i) for i in range(9))


def test_a_write_of_several_batches_is_durable_with_its_last(world: World) -> None:
    large = [bytes([65 + i]) * 200_000 for i in range(3)]
    for each in large:
        number = world.write(each)
    world.loop.settle()
    assert len(world.upstream.requests) == 3
    world.upstream.answer(2)
    assert world.outcomes == {}
    assert world.writer.durable_sequence < number
    world.upstream.answer()
    assert all(world.is_durable(each) for each in large)


@pytest.mark.parametrize("is_appended", [False, True])
def test_a_batch_is_sent_again_after_an_unknown_outcome(
    world: World, is_appended: bool
) -> None:
    world.write_each(b"a")
    sent = world.upstream.requests[0].batch
    world.upstream.lose(is_appended=is_appended)
    world.retry()
    assert world.upstream.requests[0].batch == sent
    assert world.writer.counts.produce_retries == 1
    world.upstream.answer()
    assert world.stored == [b"a"]
    assert world.is_durable(b"a")


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ],
)
def test_nothing_overtakes_a_batch_that_is_sent_again(
    world: World, code: ErrorCode
) -> None:
    world.write_each(b"a", b"b", b"c")
    world.upstream.refuse(code)
    world.write_each(b"d")
    world.retry()
    assert len(world.upstream.requests) == 2, "nothing is sent meanwhile"
    world.upstream.answer(2)  # refused: out of order
    world.write_each(b"e")
    assert not world.upstream.requests
    world.retry()
    assert len(world.upstream.requests) == 3
    world.upstream.answer(3)
    world.loop.settle()
    world.upstream.answer()
    assert world.stored == [b"a", b"b", b"c", b"d", b"e"]
    assert not world.failures
    assert all(world.is_durable(each) for each in (b"a", b"b", b"c", b"d", b"e"))


def test_a_later_batch_is_not_durable_before_an_earlier_one(world: World) -> None:
    world.write_each(b"a", b"b")
    world.upstream.lose(is_appended=True)
    world.upstream.answer()
    assert world.outcomes == {}
    world.retry()
    assert len(world.upstream.requests) == 1, "the second one is acknowledged"
    world.upstream.answer()
    assert world.stored == [b"a", b"b"]
    assert world.is_durable(b"a")
    assert world.is_durable(b"b")


def test_a_duplicate_is_a_success(world: World) -> None:
    world.write_each(b"a")
    world.upstream.lose(is_appended=True)
    world.retry()
    world.upstream.refuse(ErrorCode.DUPLICATE_SEQUENCE_NUMBER)
    assert world.is_durable(b"a")
    assert world.writer.upstream_end == 1


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ],
)
def test_an_error_that_repetition_cannot_solve_fails_everything(
    world: World, code: ErrorCode
) -> None:
    world.write_each(b"a", b"b")
    world.upstream.lose(is_appended=False)
    world.upstream.lose(is_appended=False)
    world.write(b"c")
    world.retry()
    world.upstream.refuse(code)
    assert len(world.failures) == 1
    assert world.fenced == 0
    assert {type(each) for each in world.outcomes.values()} == {LogError}
    assert set(world.outcomes) == {b"a", b"b", b"c"}
    world.upstream.answer()  # the outcome of "b" is of no interest any more
    assert world.writer.producer.producer_id < 0
    assert world.log.next_offset(WHERE) == 0


@pytest.mark.parametrize("step", ["settle", "take"])
def test_a_bug_fails_the_shard_instead_of_leaving_writes_without_an_outcome(
    world: World, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(world.log, step, fail)
    world.write(b"a")
    world.loop.settle()
    if world.upstream.requests:
        world.upstream.answer()
    assert len(world.failures) == 1
    assert isinstance(world.outcomes[b"a"], LogError)
    assert world.writer.producer.producer_id < 0


def test_a_closed_writer_refuses_what_is_staged(world: World) -> None:
    world.writer.close(LogError("released"))
    world.write(b"a")
    world.loop.settle()
    assert not world.upstream.requests
    assert isinstance(world.outcomes[b"a"], LogError)


def test_the_listener_runs_before_the_callbacks(world: World) -> None:
    events: list[str] = []
    world.writer.on_failure(lambda _: events.append("listener"))
    world.write(b"a")
    world.writer.when_durable(lambda _: events.append("callback"))
    world.loop.settle()
    world.upstream.refuse(ErrorCode.MESSAGE_TOO_LARGE)
    assert events == ["listener", "callback"]


def test_numbers_of_failed_writes_are_not_used_again(world: World) -> None:
    failed = world.write(b"a")
    world.loop.settle()
    world.upstream.refuse(ErrorCode.MESSAGE_TOO_LARGE)
    assert world.writer.durable_sequence < failed
    world.writer.open(PRODUCER._replace(producer_epoch=1), 0)
    later = world.write(b"b")
    assert later > failed
    world.loop.settle()
    world.upstream.answer()
    assert world.writer.durable_sequence == later
    assert world.stored == [b"b"]


@pytest.mark.parametrize(
    "code", [ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED]
)
def test_a_fenced_writer_calls_no_failure_listener(
    world: World, code: ErrorCode
) -> None:
    world.write_each(b"a", b"b")
    world.upstream.refuse(code)
    assert world.fenced == 1
    assert world.failures == []
    assert {type(each) for each in world.outcomes.values()} == {LogError}
    assert set(world.outcomes) == {b"a", b"b"}


def test_an_older_epoch_is_fenced_by_the_batch_of_a_newer_one(world: World) -> None:
    world.write_each(b"a")
    world.upstream.answer()
    newer = Producer(PRODUCER.producer_id, 1, 0)
    barrier = encode_batch([LogRecord(0, 0, b"k", b"barrier")], producer=newer)
    world.upstream.partitions[3].append(barrier)
    world.write_each(b"b")
    world.upstream.answer()
    assert world.fenced == 1
    assert world.stored == [b"a", b"barrier"]


def test_a_write_fails_after_its_deadline(world: World) -> None:
    world.write_each(b"a")
    tries = 0
    while not world.failures:
        tries += 1
        world.upstream.lose(is_appended=False)
        world.retry()
        assert tries < 100
    assert tries > 3
    assert isinstance(world.outcomes[b"a"], LogError)
    assert not world.upstream.requests


def application_batch(*values: bytes, sequence: int = 0) -> bytes:
    return encode_batch(
        [LogRecord(i, 0, b"k", each) for i, each in enumerate(values)],
        producer=APPLICATION._replace(base_sequence=sequence),
        attributes=TRANSACTIONAL,
    )


def produce(
    world: World, batch: bytes, count: int
) -> Callable[[], list[int | CoterieError]]:
    outcomes: list[int | CoterieError] = []
    world.writer.produce_transactional(batch, count, "app", outcomes.append)
    return lambda: outcomes


def test_an_applications_batch_keeps_its_place(world: World) -> None:
    world.write(b"a")
    outcome = produce(world, application_batch(b"t", b"u"), 2)
    world.write_each(b"b")
    world.write_each(b"c")
    assert len(world.upstream.requests) == 1, "it is alone in flight"
    world.upstream.answer()
    world.loop.settle()
    assert [each.transactional_id for each in world.upstream.requests] == ["app"]
    assert outcome() == []
    world.upstream.answer()
    world.loop.settle()
    assert outcome() == [1], "after a, before b"
    assert world.is_durable(b"a")
    assert not world.is_durable(b"b")
    world.upstream.answer()
    assert world.stored == [b"a", b"t", b"u", b"b", b"c"]
    assert world.log.bounds(WHERE).next_offset == 5


def test_an_applications_batch_is_sent_again(world: World) -> None:
    outcome = produce(world, application_batch(b"t"), 1)
    world.loop.settle()
    world.upstream.lose(is_appended=True)
    world.retry()
    world.upstream.answer()
    world.loop.settle()
    assert outcome() == [0]
    assert world.stored == [b"t"]


@pytest.mark.parametrize(
    "code", [ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_TXN_STATE]
)
def test_a_refused_application_does_not_stop_the_shard(
    world: World, code: ErrorCode
) -> None:
    outcome = produce(world, application_batch(b"t", b"u"), 2)
    world.write(b"a")
    world.loop.settle()
    world.upstream.refuse(code)
    world.loop.settle()
    (error,) = outcome()
    assert isinstance(error, ApiError)
    assert error.code is code
    assert world.fenced == 0
    assert world.failures == []
    world.upstream.answer()
    assert world.is_durable(b"a")


def test_places_have_the_order_of_writes_whatever_upstream_appends(
    world: World,
) -> None:
    partition = world.upstream.partitions[3]
    world.write_each(b"a")
    refused = produce(world, application_batch(b"t", b"u"), 2)
    world.upstream.answer()
    world.loop.settle()
    world.upstream.refuse(ErrorCode.INVALID_PRODUCER_EPOCH)
    partition.end_transaction(APPLICATION, commit=True)
    outcome = produce(world, application_batch(b"v", b"w"), 2)
    world.loop.settle()
    world.write_each(b"b")
    world.upstream.answer()
    world.loop.settle()
    world.upstream.answer()
    assert isinstance(refused()[0], ApiError)
    (first,) = outcome()
    assert isinstance(first, int)
    assert first >= 1
    assert first + 2 <= world.log.next_offset(WHERE) - 1, "the place of b"
    assert world.is_durable(b"b")
    assert world.writer.upstream_end == partition.end


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.DUPLICATE_SEQUENCE_NUMBER,  # without the offset
        ErrorCode.INVALID_TXN_STATE,  # a late EndTxn may have committed the batch
    ],
)
def test_a_batch_that_may_be_anywhere_in_the_log_loads_the_shard_again(
    world: World, code: ErrorCode
) -> None:
    outcome = produce(world, application_batch(b"t"), 1)
    world.loop.settle()
    world.upstream.lose(is_appended=True)
    world.retry()
    world.upstream.refuse(code)
    assert isinstance(outcome()[0], LogError)
    assert len(world.failures) == 1


def test_an_unknown_outcome_of_an_application_fails_the_shard_in_the_end(
    world: World,
) -> None:
    outcome = produce(world, application_batch(b"t"), 1)
    world.loop.settle()
    while not world.failures:
        world.upstream.lose(is_appended=False)
        world.retry()
    assert isinstance(outcome()[0], LogError)


def test_a_write_waits_for_those_in_flight(world: World) -> None:
    called: list[LogError | None] = []
    world.writer.when_durable(called.append)
    assert called == [None], "nothing is staged"
    world.write_each(b"a")
    world.writer.when_durable(called.append)
    assert called == [None]
    assert world.writer.is_writing
    world.upstream.answer()
    assert called == [None, None]
    assert not world.writer.is_writing


def test_places_begin_at_the_end_of_the_loaded_log(world: World) -> None:
    world.writer.close(LogError("test"))
    world.writer.open(PRODUCER, 40)
    assert world.log.bounds(WHERE).next_offset == 40
