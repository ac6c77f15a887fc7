"""Rates and token buckets, compared with Kafka's own classes value by value."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from coterie.broker.runtime.quotas import Rate, TokenBucket

from .kafka import JARS, run_tool

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(JARS not in os.environ, reason="needs the jars of Apache Kafka"),
]
SOURCE = Path(__file__).with_name("QuotaMeters.java")


@pytest.mark.parametrize(("samples", "seconds", "bound"), [(11, 1, 50.0), (3, 2, 7.0)])
def test_rates_and_buckets_are_those_of_kafka(
    samples: int, seconds: int, bound: float
) -> None:
    chance = random.Random(samples)
    now = 1_700_000_000_000
    lines = []
    for _ in range(3_000):
        now += chance.choice([0, 1, 40, 333, 900, 1_000, 2_500, 30_000 * seconds])
        lines.append((now, float(chance.choice([0, 0, 5, 40, 700, -5]))))
    words = [str(samples), str(seconds), str(bound)]
    given = "".join(f"{at} {value}\n" for at, value in lines)
    jars = Path(os.environ[JARS])
    output = run_tool(jars, str(SOURCE), *words, stdin=given).stdout.splitlines()
    assert len(output) == len(lines)
    rate = Rate(samples, seconds * 1_000)
    bucket = TokenBucket(bound, samples * seconds)
    for (at, value), line in zip(lines, output, strict=True):
        if value:
            rate.record(value, at)
        measured, window_ms = rate.measure(at)
        wait_ms = bucket.take(value, at, is_strict=False)
        theirs, their_window_ms, tokens = map(float, line.split())
        assert measured == pytest.approx(theirs)
        assert window_ms == their_window_ms
        assert wait_ms == pytest.approx(max(-tokens / bound * 1_000, 0), abs=0.51)
