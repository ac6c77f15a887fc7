"""Back-off after failed authentications."""

from __future__ import annotations

import pytest

from coterie.broker.server.failed_attempts import (
    ENTRIES_MAX,
    FORGET_MS,
    FREE_BY_ADDRESS,
    FREE_BY_USER,
    KNOWN_MS,
    FailedAttempts,
    network_of,
)

HERE, THERE = "192.0.2.1", "198.51.100.7"
NOW = 1_000_000


def attempts(
    failures: int = 0, *, user: str = "alice", address: str = HERE
) -> FailedAttempts:
    """Return a table in which a user has failed at an address."""
    table = FailedAttempts(500, 10_000)
    for _ in range(failures):
        table.fail(user, address, NOW)
    return table


def test_typing_errors_are_not_delayed() -> None:
    assert attempts(FREE_BY_USER).wait_ms("alice", HERE, NOW) == 0


def test_each_further_failure_doubles_the_delay_up_to_the_limit() -> None:
    waits = [
        attempts(FREE_BY_USER + more).wait_ms("alice", HERE, NOW)
        for more in (1, 2, 3, 4, 5, 6, 7, 1_000)
    ]
    assert waits == [500, 1_000, 2_000, 4_000, 8_000, 10_000, 10_000, 10_000]


def test_the_delay_ends() -> None:
    table = attempts(FREE_BY_USER + 1)
    assert table.wait_ms("alice", HERE, NOW + 499) == 1
    assert table.wait_ms("alice", HERE, NOW + 500) == 0


def test_a_user_under_attack_is_not_delayed_at_another_address() -> None:
    table = attempts(1_000)
    assert table.wait_ms("alice", HERE, NOW) == 10_000
    assert table.wait_ms("alice", THERE, NOW) == 0


def test_one_address_that_tries_many_users_is_delayed() -> None:
    table = FailedAttempts(500, 10_000)
    for number in range(FREE_BY_ADDRESS + 1):
        assert table.wait_ms("alice", HERE, NOW) == 0
        table.fail(f"user-{number}", HERE, NOW)
    assert table.wait_ms("alice", HERE, NOW) == 500
    assert table.wait_ms("alice", THERE, NOW) == 0


def test_a_known_user_is_not_delayed_by_others_at_the_address() -> None:
    table = FailedAttempts(500, 10_000)
    table.succeed("alice", HERE, NOW)
    for _ in range(100):
        table.fail("mallory", HERE, NOW)
    assert table.wait_ms("alice", HERE, NOW) == 0
    assert table.wait_ms("bob", HERE, NOW) == 10_000
    assert table.wait_ms("alice", HERE, NOW + KNOWN_MS) == 0
    table.fail("mallory", HERE, NOW + KNOWN_MS)


def test_a_known_user_is_delayed_by_own_failures() -> None:
    table = FailedAttempts(500, 10_000)
    table.succeed("alice", HERE, NOW)
    for _ in range(100):
        table.fail("alice", HERE, NOW)
    assert table.wait_ms("alice", HERE, NOW) == 10_000
    assert table.wait_ms("bob", HERE, NOW) == 0


def test_a_success_forgets_the_failures_of_the_user_only() -> None:
    table = attempts(100)
    table.succeed("bob", HERE, NOW)
    assert table.wait_ms("alice", HERE, NOW) == 10_000
    assert table.wait_ms("carol", HERE, NOW) == 10_000
    table.succeed("alice", HERE, NOW)
    assert table.wait_ms("alice", HERE, NOW) == 0


def test_failures_are_forgotten_after_a_quiet_time() -> None:
    table = attempts(100)
    later = NOW + FORGET_MS
    table.fail("alice", HERE, later)
    assert table.wait_ms("alice", HERE, later) == 0


def test_zero_disables_the_delay() -> None:
    table = FailedAttempts(0, 10_000)
    for _ in range(100):
        table.fail("alice", HERE, NOW)
    assert table.wait_ms("alice", HERE, NOW) == 0


def test_the_tables_are_bounded_and_drop_the_oldest() -> None:
    table = attempts(FREE_BY_USER + 1)
    for number in range(ENTRIES_MAX - 1):
        table.fail(
            "x" * 1_000, f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}", 1
        )
    assert table.wait_ms("alice", HERE, NOW) == 500
    table.fail("alice", THERE, NOW)
    assert table.wait_ms("alice", HERE, NOW) == 0
    for size in (len(table._by_user), len(table._by_address)):
        assert size == ENTRIES_MAX
    assert all("x" not in str(key) for key in table._by_user), "names are not kept"


def test_known_users_are_bounded() -> None:
    table = FailedAttempts(500, 10_000)
    for number in range(ENTRIES_MAX + 5):
        table.succeed(f"user-{number}", HERE, NOW)
    assert len(table._known) == ENTRIES_MAX


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("2001:db8:1:2:3:4:5:6", "20010db800010002::/64"),
        ("2001:db8:1:2:ffff::1", "20010db800010002::/64"),
        ("fe80::1%eth0", "fe80000000000000::/64"),
        ("unknown", "unknown"),
    ],
)
def test_the_network_of_an_address(address: str, network: str) -> None:
    assert network_of(address) == network
