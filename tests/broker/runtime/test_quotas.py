"""Rates, token buckets and throttle times, with times as arguments. `make interop`
compares the rates and buckets with Kafka's own classes."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from coterie.broker.catalog.client_quotas import (
    ClientQuotas,
    QuotaChange,
    QuotaKey,
    quota_entity,
)
from coterie.broker.runtime import quotas as quotas_module
from coterie.broker.runtime.quotas import (
    ACCEPT_DELAY_MAX_MS,
    Quotas,
    Rate,
    RateLimit,
    TokenBucket,
)
from coterie.settings import INT32_MAX, Settings

NOW = 1_700_000_000_000
PRODUCE, FETCH, REQUEST, MUTATION, CONNECTION = QuotaKey


def configure(
    configured: ClientQuotas, types: dict[str, str | None], **values: float | None
) -> None:
    change = QuotaChange(quota_entity(types), list(values.items()))
    entries, results = configured.alter([change])
    assert set(results.values()) == {None}
    for entry in entries:
        configured.replay(entry.name, entry.value)


def quotas_of(settings: Settings | None = None) -> Quotas:
    return Quotas(settings or Settings(), ClientQuotas())


def limit_of(bound: float, max_ms: int = INT32_MAX) -> RateLimit:
    return RateLimit(bound, 11, 1_000, max_ms)


def recorded(rate: Rate, values: Iterable[tuple[int, float]]) -> None:
    for after_ms, value in values:
        rate.record(value, NOW + after_ms)


# Rates.


def test_a_new_rate_covers_ten_windows() -> None:
    rate = Rate(11, 1_000)
    assert rate.measure(NOW) == (0, 10_000)
    rate.record(500, NOW)
    assert rate.measure(NOW) == (50, 10_000)
    assert rate.measure(NOW + 600) == (500 * 1_000 / 10_600, 10_600)


def test_a_rate_covers_the_time_since_its_oldest_sample() -> None:
    rate = Rate(11, 1_000)
    recorded(rate, [(second * 1_000, 100) for second in range(11)])
    assert rate.measure(NOW + 10_500) == (1_100 * 1_000 / 10_500, 10_500)


def test_a_sample_is_dropped_when_its_last_value_is_older_than_the_window() -> None:
    rate = Rate(11, 1_000)
    recorded(rate, [(0, 100), (900, 100), (5_000, 7)])
    assert rate.measure(NOW + 11_899)[0] == pytest.approx(207 / 11.899)
    assert rate.measure(NOW + 11_900)[0] == pytest.approx(7 / 10.9)
    assert rate.measure(NOW + 16_000)[0] == 0


def test_a_negative_value_takes_back_what_was_recorded() -> None:
    rate = Rate(11, 1_000)
    recorded(rate, [(0, 300), (0, 100), (10, -100)])
    assert rate.measure(NOW + 10) == (300 * 1_000 / 10_010, 10_010)


def test_the_samples_of_a_rate_are_bounded() -> None:
    rate = Rate(3, 1_000)
    recorded(rate, [(second * 1_000, 1) for second in range(100)])
    value, window_ms = rate.measure(NOW + 99_000)
    assert (value, window_ms) == (1 * 3 / 2, 2_000)


# Throttle times.


def test_a_client_within_its_quota_is_not_throttled() -> None:
    assert limit_of(100).record(1_000, NOW) == 0


def test_the_throttle_time_brings_the_rate_back_to_the_quota() -> None:
    # (observed - bound) / bound * window: 150 instead of 100 per s over 10 s.
    limit = limit_of(100)
    assert limit.record(1_500, NOW) == 5_000
    assert limit.record(0, NOW + 15_000) == 0


def test_a_throttle_time_has_a_maximum() -> None:
    assert limit_of(100, 1_000).record(1_500, NOW) == 1_000
    assert limit_of(100, 1_000).record(1_050, NOW) == 500
    assert limit_of(1e-6).record(1e12, NOW) == INT32_MAX


def test_the_largest_value_that_is_never_throttled() -> None:
    limit = limit_of(100)
    assert limit.largest == 1_000
    assert limit.record(limit.largest, NOW) == 0
    assert limit_of(100).record(limit.largest + 1, NOW) == 10


# Token buckets.


def test_a_bucket_allows_a_burst_and_waits_until_it_is_refilled() -> None:
    bucket = TokenBucket(5, 10)
    assert bucket.take(60, NOW, is_strict=True) == 0
    assert bucket.take(1, NOW, is_strict=True) == 2_000
    assert bucket.take(1, NOW + 1_999, is_strict=True) == 1
    assert bucket.take(1, NOW + 2_000, is_strict=True) == 0


def test_a_lenient_request_takes_tokens_and_waits_for_its_own() -> None:
    bucket = TokenBucket(5, 10)
    assert bucket.take(50, NOW, is_strict=False) == 0
    assert bucket.take(5, NOW, is_strict=False) == 1_000
    assert bucket.take(5, NOW, is_strict=False) == 2_000


def test_a_bucket_is_never_more_than_full() -> None:
    bucket = TokenBucket(5, 10)
    assert bucket.take(10, NOW, is_strict=True) == 0
    assert bucket.take(51, NOW + 3_600_000, is_strict=True) == 0
    assert bucket.take(1, NOW + 3_600_000, is_strict=True) == 200


@pytest.mark.parametrize("bound", [5e-324, 1e-300, 2.0**63, 1.7e308])
def test_every_valid_bound_gives_a_throttle_time(bound: float) -> None:
    bucket, limit = TokenBucket(bound, 11), limit_of(bound)
    for after_ms in (0, 0, 1, 50_000):
        for is_strict in (True, False):
            wait_ms = bucket.take(10_000, NOW + after_ms, is_strict=is_strict)
            assert 0 <= wait_ms <= INT32_MAX
        assert 0 <= limit.record(1 << 40, NOW + after_ms) <= INT32_MAX
    assert limit.largest >= 0


# The limits of clients.


def test_a_client_without_a_quota_has_no_limits() -> None:
    quotas = quotas_of()
    configure(quotas.configured, {"user": "other"}, producer_byte_rate=1)
    assert quotas.limits("u", "c", NOW) == (None, None, None, None)
    assert len(quotas._meters) == 0


def test_the_clients_of_a_user_share_the_users_quota() -> None:
    quotas = quotas_of()
    configure(quotas.configured, {"user": None}, producer_byte_rate=100)
    first, second = (quotas.limits("u", name, NOW).produce for name in "cd")
    assert first is second
    assert first is not None
    assert quotas.limits("v", "c", NOW).produce is not first
    assert (first.record(1_000, NOW), first.record(100, NOW)) == (0, 1_000)


def test_each_client_id_of_a_default_has_its_own_rate() -> None:
    quotas = quotas_of()
    configure(quotas.configured, {"client-id": None}, consumer_byte_rate=100)
    assert quotas.limits("u", "c", NOW).fetch is quotas.limits("v", "c", NOW).fetch
    assert quotas.limits("u", "d", NOW).fetch is not quotas.limits("u", "c", NOW).fetch


def test_a_changed_quota_keeps_what_was_recorded() -> None:
    quotas = quotas_of()
    configure(quotas.configured, {"user": "u"}, producer_byte_rate=100)
    limit = quotas.limits("u", "c", NOW).produce
    assert limit is not None
    assert limit.record(1_000, NOW) == 0
    configure(quotas.configured, {"user": "u"}, producer_byte_rate=50)
    changed = quotas.limits("u", "c", NOW).produce
    assert changed is not None
    assert changed.record(0, NOW) == 10_000
    configure(quotas.configured, {"user": "u"}, producer_byte_rate=None)
    assert quotas.limits("u", "c", NOW).produce is None


def test_the_request_quota_is_throttled_for_at_most_one_window() -> None:
    quotas = quotas_of()
    values = {"request_percentage": 1.0, "producer_byte_rate": 1.0}
    configure(quotas.configured, {"user": "u"}, **values)
    limits = quotas.limits("u", "c", NOW)
    assert limits.request is not None
    assert limits.produce is not None
    assert limits.request.record(1_000, NOW) == 1_000
    assert limits.produce.record(1_000, NOW) == 990_000


def test_the_windows_are_settings() -> None:
    settings = Settings(
        quota_window_num=3,
        quota_window_size_seconds=2,
        controller_quota_window_num=4,
        controller_quota_window_size_seconds=5,
    )
    quotas = quotas_of(settings)
    values = {"producer_byte_rate": 10.0, "controller_mutation_rate": 1.0}
    configure(quotas.configured, {"user": "u"}, **values)
    limits = quotas.limits("u", "c", NOW)
    assert limits.produce is not None
    assert limits.produce.largest == 40
    assert limits.mutation is not None
    assert limits.mutation.take(21, NOW, is_strict=False) == 1_000


def test_idle_clients_are_forgotten() -> None:
    quotas = quotas_of()
    values = {"producer_byte_rate": 1_000.0, "controller_mutation_rate": 1.0}
    configure(quotas.configured, {"client-id": None}, **values)
    busy_at = NOW + 20_000
    for number in range(1_500):
        now = NOW if number < 750 else busy_at
        limits = quotas.limits("u", f"c{number}", now)
        assert limits.produce is not None
        limits.produce.record(1, now)
        assert limits.mutation is not None
        limits.mutation.take(1, now, is_strict=True)
    for number in range(1_500):
        quotas.limits("u", f"d{number}", busy_at + 20_000)
    assert len(quotas._meters) < 3_000
    limit = quotas.limits("u", "c1499", busy_at + 20_000).produce
    assert limit is not None
    assert limit.rate.measure(busy_at + 20_000)[0] == 0


def test_clients_over_the_maximum_share_one_rate(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(quotas_module, "METERS_MAX", 100)
    quotas = quotas_of()
    configure(quotas.configured, {"client-id": None}, producer_byte_rate=100)

    def limit(number: int, now: int) -> RateLimit:
        found = quotas.limits("u", f"c{number}", now).produce
        assert found is not None
        return found

    for number in range(1_000):
        limit(number, NOW).record(1, NOW)
    assert len(quotas._meters) == 101
    assert limit(500, NOW) is limit(999, NOW)
    assert limit(1, NOW) is not limit(2, NOW)
    assert quotas.sweeps == 1, "a sweep for each client would be quadratic"
    later = NOW + 60_000
    assert limit(500, later) is not limit(999, later)


def test_long_client_ids_are_not_kept() -> None:
    quotas = quotas_of()
    configure(quotas.configured, {"client-id": None}, producer_byte_rate=100)
    long = ["x" * 30_000 + str(number) for number in range(2)]
    first, second = (quotas.limits("u", each, NOW).produce for each in long)
    assert first is not second
    assert quotas.limits("u", long[0], NOW).produce is first
    keys = [*quotas._meters, *quotas._limits]
    assert max(len(word) for key in keys for word in key) <= 64


def test_a_quota_of_a_long_client_id_applies() -> None:
    quotas = quotas_of()
    long = "x" * 1_000
    configure(quotas.configured, {"client-id": long}, producer_byte_rate=7)
    limit = quotas.limits("u", long, NOW).produce
    assert limit is not None
    assert limit.bound == 7


# Connections.


def test_connections_of_an_address_are_refused_above_its_rate() -> None:
    quotas = quotas_of()
    assert quotas.record_connection("10.0.0.1", NOW) == 0
    configure(quotas.configured, {"ip": "10.0.0.1"}, connection_creation_rate=1)
    accepted = [quotas.record_connection("10.0.0.1", NOW) for _ in range(12)]
    assert accepted == [0] * 10 + [1_000] * 2, "a refused connection does not count"
    assert quotas.record_connection("10.0.0.2", NOW) == 0
    assert quotas.record_connection("10.0.0.1", NOW + 11_001) == 0
    assert quotas.throttled[CONNECTION].count == 2
    assert quotas.throttled[CONNECTION].total_ms == 2_000


def test_the_limits_of_a_client_are_kept_until_quotas_change() -> None:
    quotas = quotas_of()
    configure(quotas.configured, {"client-id": None}, producer_byte_rate=1_000)
    first = quotas.limits("u", "c", NOW)
    assert quotas.limits("u", "c", NOW) is first
    configure(quotas.configured, {"client-id": None}, producer_byte_rate=2_000)
    changed = quotas.limits("u", "c", NOW)
    assert changed.produce is not None
    assert changed.produce.bound == 2_000
    assert quotas.limits("u", "c", NOW) is changed


def test_idle_addresses_are_forgotten() -> None:
    quotas = quotas_of()
    configure(quotas.configured, {"ip": None}, connection_creation_rate=1)
    for number in range(3_000):
        later = NOW + number * 60_000
        assert (
            quotas.record_connection(f"10.0.{number // 250}.{number % 250}", later) == 0
        )
    assert quotas.sweeps > 0
    assert len(quotas._meters) < 3_000


def test_connections_above_the_brokers_rate_are_accepted_one_after_the_other() -> None:
    quotas = quotas_of(Settings(max_connection_creation_rate=2))
    delays = [quotas.accept_delay_ms(NOW) for _ in range(23)]
    # 20 connections are the rate of the ten seconds of the window; each further one
    # waits until the one before it was accepted.
    assert delays == [0] * 20 + [500, 1_000, 2_000]
    assert quotas.accept_delay_ms(NOW + 60_000) == 0


def test_connections_that_would_wait_too_long_are_refused() -> None:
    quotas = quotas_of(Settings(max_connection_creation_rate=1))
    delays = [quotas.accept_delay_ms(NOW) for _ in range(1_000)]
    waiting = [each for each in delays if each is not None]
    assert ACCEPT_DELAY_MAX_MS <= max(waiting) <= ACCEPT_DELAY_MAX_MS + 1_000
    assert delays[len(waiting) :] == [None] * (1_000 - len(waiting))


def test_without_a_rate_connections_are_accepted_at_once() -> None:
    quotas = quotas_of()
    assert {quotas.accept_delay_ms(NOW) for _ in range(1_000)} == {0}
