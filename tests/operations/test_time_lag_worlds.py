"""The lag in time of random histories of a topic, held against its records.

A history has records with the time of now, older (mirrored) and later ones, committed
and aborted transactions, deleted records, and topics that are deleted and created
again. After each part the command and a long-running exporter, which is the source of
the live page, have to say the age of the first unread record within their stated error.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from itertools import count
from typing import TypeAlias

import pytest

from coterie.client.admin.admin_client import AdminClient
from coterie.client.admin.topics import NewTopic
from coterie.operations import time_lag
from coterie.operations.exporter import log_times
from coterie.operations.exporter.poll import Poller, PollPlan, TopicFilter
from coterie.operations.lag import group_lag, with_time_lags
from coterie.operations.selection import Selection
from coterie.operations.time_lag import TimeLag, TimeLagMethod
from coterie.testing.kafka import Kafka
from coterie.testing.topics import Position
from coterie.types import TopicPartition
from coterie.wire import messages as m
from coterie.wire.record_batch import (
    TRANSACTIONAL,
    LogRecord,
    Producer,
    encode_batch,
)
from tests.broker.server.apis.fake_broker import produce_request

pytestmark = pytest.mark.slow

Step: TypeAlias = Callable[[], Awaitable[None] | None]
GROUPS = ("a", "b")
START_MS = 1_700_000_000_000
INTERVAL_MS = 30_000
HOUR_MS = 3_600_000
WORLDS = int(os.environ.get("COTERIE_TEST_WORLDS", "48"))
"""How many histories are played; 300 take two minutes."""
SHARE = 12
"""Histories of one test."""


@pytest.fixture(scope="module")
def kafka() -> Iterator[Kafka]:
    with Kafka() as kafka:
        yield kafka


class World:
    """A topic of one partition, groups on it, and its history."""

    ids = count()

    def __init__(self, kafka: Kafka, admin: AdminClient, seed: int) -> None:
        self.random = random.Random(seed)
        self.kafka = kafka
        self.admin = admin
        name = f"w{next(self.ids)}"
        self.at = TopicPartition(name, 0)
        self.groups = [f"{name}-{each}" for each in GROUPS]
        self.now_ms = START_MS
        self.mirrored_ms = START_MS - 9 * HOUR_MS
        self.methods: Counter[TimeLagMethod] = Counter()
        self.pollers = {
            committed_only: Poller(
                admin,
                PollPlan(
                    selection=Selection(ids=tuple(self.groups)),
                    topics=TopicFilter(),
                    interval_ms=INTERVAL_MS,
                    committed_only=committed_only,
                ),
                now_ms=lambda: self.now_ms,
            )
            for committed_only in (False, True)
        }

    async def begin(self) -> None:
        (await self.admin.create_topics([NewTopic(self.at.topic, 1, 1)])).all()
        self.produce_now()
        self.commit()

    async def run(self, choices: list[Step], steps: int) -> None:
        """Take random steps; check all lags now and then."""
        await self.begin()
        for _ in range(steps):
            self.now_ms += self.random.choice((0, 1, 700, INTERVAL_MS, HOUR_MS))
            step = self.random.choice([*choices, self.commit, self.create_again])
            if (waiting := step()) is not None:
                await waiting
            if self.random.random() < 0.6:
                for committed_only in (False, True):
                    await self.check(committed_only=committed_only)

    async def create_again(self) -> None:
        end = self.kafka.log_offset(*self.at, Position.LATEST)
        (await self.admin.delete_topics([self.at.topic])).all()
        (await self.admin.create_topics([NewTopic(self.at.topic, 1, 1)])).all()
        for _ in range(self.random.choice((1, end, 2 * end + 1))):
            self.produce_now()
        self.commit()

    def commit(self) -> None:
        first = self.kafka.log_offset(*self.at, Position.EARLIEST)
        end = self.kafka.log_offset(*self.at, Position.LATEST)
        for group in self.groups:
            offset = self.random.choice((end, end - 1, self.random.randint(0, end)))
            offset = max(offset, self.random.choice((0, first)))
            self.kafka.groups[group].commit({self.at: offset})

    def produce_now(self) -> None:
        self.produce(self.now_ms)

    def produce_mirrored(self) -> None:
        self.mirrored_ms += self.random.randint(0, 1_000)
        self.produce(self.mirrored_ms)

    def produce_later(self) -> None:
        self.produce(self.now_ms + self.random.choice((1, HOUR_MS)))

    def produce(self, timestamp_ms: int) -> None:
        for _ in range(self.random.randint(1, 3)):
            self.kafka.produce(
                self.at.topic, ["v"], partition=0, timestamp_ms=timestamp_ms
            )

    def transact(self) -> None:
        """Append a record in a transaction, and commit or abort it."""
        name = f"tx-{self.at.topic}"
        made = self.kafka.request(
            m.InitProducerIdRequest(
                transactional_id=name, transaction_timeout_ms=60_000
            ),
            m.InitProducerIdResponse,
        )
        self.kafka.request(
            m.AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=name,
                v3_and_below_producer_id=made.producer_id,
                v3_and_below_producer_epoch=made.producer_epoch,
                v3_and_below_topics=[
                    m.AddPartitionsToTxnTopic(name=self.at.topic, partitions=[0])
                ],
            ),
            m.AddPartitionsToTxnResponse,
            version=3,
        )
        timestamp_ms = self.random.choice((self.now_ms, self.mirrored_ms))
        batch = encode_batch(
            [LogRecord(each, timestamp_ms, None, b"t") for each in range(2)],
            producer=Producer(made.producer_id, made.producer_epoch, 0),
            attributes=TRANSACTIONAL,
        )
        request = produce_request(batch, topic=self.at.topic)
        request.transactional_id = name
        response = self.kafka.request(request, m.ProduceResponse, version=11)
        assert response.responses[0].partition_responses[0].error_code == 0
        ended = self.kafka.request(
            m.EndTxnRequest(
                transactional_id=name,
                producer_id=made.producer_id,
                producer_epoch=made.producer_epoch,
                committed=self.random.random() < 0.5,
            ),
            m.EndTxnResponse,
            version=4,
        )
        assert ended.error_code == 0

    async def check(self, *, committed_only: bool) -> None:
        truth = self.true_ages(committed_only=committed_only)
        report = await group_lag(self.admin, self.groups, committed_only=committed_only)
        report = await with_time_lags(self.admin, report, now_ms=self.now_ms)
        for row in report.rows:
            assert row.time_lag_method is not None
            said = TimeLag(row.time_lag_ms, row.time_lag_method, row.time_lag_error_ms)
            self.assert_within_error(said, truth[row.group_id])
        poll = await self.pollers[committed_only].poll()
        assert len(poll.groups) == len(self.groups)
        for group in poll.groups:
            [part] = group.partitions
            assert part.time_lag is not None
            self.assert_within_error(part.time_lag, truth[group.lag.group_id])

    def assert_within_error(self, said: TimeLag, true_ms: int) -> None:
        self.methods[said.method] += 1
        if said.method is TimeLagMethod.UNKNOWN:
            return
        assert said.ms is not None
        assert said.error_ms is not None
        assert abs(said.ms - true_ms) <= said.error_ms
        if said.method is TimeLagMethod.EXACT:
            assert said.error_ms == 0

    def true_ages(self, *, committed_only: bool) -> dict[str, int]:
        isolation = "read_committed" if committed_only else "read_uncommitted"
        records = self.kafka.records(self.at.topic, isolation=isolation)  # type: ignore[arg-type]
        ages = {}
        for group in self.groups:
            offset = self.kafka.groups[group].offsets[self.at]
            unread = (each for each in records if each.offset >= offset)
            first = next(unread, None)
            age_ms = 0 if first is None else self.now_ms - first.timestamp_ms
            ages[group] = max(0, age_ms)
        return ages


@pytest.mark.parametrize("first_seed", range(0, WORLDS, SHARE))
def test_each_lag_is_within_its_error(kafka: Kafka, first_seed: int) -> None:
    async def run() -> None:
        async with AdminClient(kafka.bootstrap_servers) as admin:
            for seed in range(first_seed, first_seed + SHARE):
                world = World(kafka, admin, seed)
                produce = [world.produce_now, world.produce_mirrored]
                await world.run([*produce, world.produce_later, world.transact], 12)
                assert {*world.methods} <= {TimeLagMethod.EXACT}

    asyncio.run(run())


@pytest.mark.parametrize("first_seed", range(0, WORLDS, SHARE))
def test_each_estimate_is_within_its_error_while_times_grow(
    kafka: Kafka, first_seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (time_lag, log_times):
        monkeypatch.setattr(module, "FETCHES_MAX", 1)

    methods: Counter[TimeLagMethod] = Counter()

    async def run() -> None:
        async with AdminClient(kafka.bootstrap_servers) as admin:
            for seed in range(first_seed, first_seed + SHARE):
                world = World(kafka, admin, seed)
                await world.run([world.produce_now, world.produce_now], 12)
                methods.update(world.methods)

    asyncio.run(run())
    assert methods[TimeLagMethod.INTERPOLATED] > methods[TimeLagMethod.UNKNOWN]
