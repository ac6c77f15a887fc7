"""An upstream cluster in memory, with the rules of a Kafka broker for producers.

Requests are kept in order until a test answers them: `answer`, `refuse`, `lose`.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from coterie.broker.runtime.system import Scheduler
from coterie.errors import ApiError, ConnectionLost, CoterieError
from coterie.gateway.upstream.upstream import (
    FetchDone,
    Fetched,
    Initialized,
    Produced,
)
from coterie.wire.error_codes import ErrorCode
from coterie.wire.record_batch import (
    INT32_MAX,
    BatchHeader,
    LogRecord,
    Producer,
    decode_records,
    encode_marker,
    read_header,
    with_base_offset,
)

REMEMBERED_BATCHES = 5


class Appended(NamedTuple):
    sequence: int
    base_offset: int


@dataclass
class ProducerState:
    epoch: int
    recent: deque[Appended] = field(
        default_factory=lambda: deque(maxlen=REMEMBERED_BATCHES)
    )
    next_sequence: int = 0


@dataclass
class Partition:
    """A partition of the topic and what its leader knows of producers."""

    batches: list[bytes] = field(default_factory=list)
    end: int = 0
    log_start: int = 0
    producers: dict[int, ProducerState] = field(default_factory=dict)

    def append(self, batch: bytes) -> int:
        """Append a batch as a Kafka broker does; return its base offset."""
        header = read_header(batch)
        if header.producer_id >= 0 and not header.is_control:
            known = self._check(header)
            if known is not None:
                return known
        base, self.end = self.end, self.end + header.record_count
        self.batches.append(with_base_offset(batch, base))
        if header.producer_id >= 0 and not header.is_control:
            state = self.producers[header.producer_id]
            state.recent.append(Appended(header.base_sequence, base))
            state.next_sequence = (header.last_sequence + 1) & INT32_MAX
        return base

    def _check(self, header: BatchHeader) -> int | None:
        state = self.producers.get(header.producer_id)
        if state is None:
            state = ProducerState(header.producer_epoch)
            self.producers[header.producer_id] = state
            state.next_sequence = header.base_sequence
        if header.producer_epoch < state.epoch:
            raise ApiError(ErrorCode.INVALID_PRODUCER_EPOCH)
        if header.producer_epoch > state.epoch:
            if header.base_sequence:
                raise ApiError(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
            state = ProducerState(header.producer_epoch)
            self.producers[header.producer_id] = state
        for each in state.recent:
            if each.sequence == header.base_sequence:
                return each.base_offset
        if header.base_sequence != state.next_sequence:
            raise ApiError(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
        return None

    def records(self) -> list[LogRecord]:
        return [
            record
            for batch in self.batches
            for record in decode_records(batch)
            if not read_header(batch).is_control
        ]

    def end_transaction(self, producer: Producer, *, commit: bool) -> None:
        marker = encode_marker(
            0, 0, producer.producer_id, producer.producer_epoch, commit=commit
        )
        self.append(marker)


@dataclass(eq=False)
class Request:
    partition: int
    batch: bytes
    done: Produced
    transactional_id: str | None


class FakeUpstream:
    """The topic's partitions and the requests without an answer."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self.partitions: defaultdict[int, Partition] = defaultdict(Partition)
        self.producers: dict[str, Producer] = {}
        self.requests: deque[Request] = deque()
        self.fetches = 0
        self.answers_produce = False
        """Whether Produce is answered without the test."""
        self.fails: Callable[[str], CoterieError | None] = lambda _: None
        """Returns the error of a call by its name, or None."""

    def init_producer_id(self, transactional_id: str, done: Initialized) -> None:
        error = self.fails("init_producer_id")
        if error is not None:
            self._scheduler.call_soon(done, error)
            return
        known = self.producers.get(transactional_id)
        if known is None:
            known = Producer(1_000 + len(self.producers), -1, 0)
        known = known._replace(producer_epoch=known.producer_epoch + 1)
        self.producers[transactional_id] = known
        self._scheduler.call_soon(done, known)

    def produce(
        self,
        partition: int,
        batch: bytes,
        done: Produced,
        *,
        transactional_id: str | None = None,
    ) -> None:
        self.requests.append(Request(partition, batch, done, transactional_id))
        if self.answers_produce:
            self._scheduler.call_soon(self.answer)

    def fetch(
        self, partition: int, offset: int, done: FetchDone, *, wait_ms: int = 0
    ) -> None:
        self.fetches += 1
        error = self.fails("fetch")
        part = self.partitions[partition]
        if error is None and not part.log_start <= offset <= part.end:
            error = ApiError(ErrorCode.OFFSET_OUT_OF_RANGE)
        if error is not None:
            self._scheduler.call_soon(done, error)
            return
        if offset == part.end and wait_ms:
            self._scheduler.call_later(
                wait_ms / 1000, lambda: done(self._fetched(part, offset))
            )
        else:
            self._scheduler.call_soon(lambda: done(self._fetched(part, offset)))

    @staticmethod
    def _fetched(part: Partition, offset: int) -> Fetched:
        batches = [
            each for each in part.batches if read_header(each).last_offset >= offset
        ]
        return Fetched(b"".join(batches[:10]), part.end)

    # What a test decides.

    def answer(self, count: int = 1) -> None:
        """Append the oldest requests' batches, and answer them."""
        for _ in range(count):
            request = self.requests.popleft()
            request.done(self._append(request))

    def refuse(self, code: ErrorCode) -> None:
        """Answer the oldest request with an error; nothing is appended."""
        self.requests.popleft().done(ApiError(code))

    def lose(self, *, is_appended: bool) -> None:
        """Lose the connection of the oldest request."""
        request = self.requests.popleft()
        if is_appended:
            self._append(request)
        request.done(ConnectionLost("the connection was lost"))

    def forget_transactional_ids(self) -> None:
        """Give other producer ids from now on."""
        self.producers = {
            each: Producer(known.producer_id + 1_000, -1, 0)
            for each, known in self.producers.items()
        }

    def _append(self, request: Request) -> int | CoterieError:
        try:
            return self.partitions[request.partition].append(request.batch)
        except ApiError as error:
            return error
