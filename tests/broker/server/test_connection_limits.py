"""`max.connections.per.ip` and its overrides."""

from __future__ import annotations

import logging

import pytest

from coterie.broker.server.config import make_settings
from coterie.broker.server.connection_limits import ConnectionLimits, parse_override
from coterie.errors import SettingError
from tests.broker.server.harness import ThreadServer


def limits(**values: object) -> ConnectionLimits:
    return ConnectionLimits(
        make_settings({key.replace("_", "."): value for key, value in values.items()})
    )


def test_an_address_has_at_most_its_number_of_connections() -> None:
    counted = limits(max_connections_per_ip=2)
    assert [counted.add("10.0.0.1") for _ in range(3)] == [True, True, False]
    assert counted.add("10.0.0.2")
    assert (counted.open_count, counted.refused_count) == (3, 1)
    counted.remove("10.0.0.1")
    assert counted.add("10.0.0.1")


@pytest.mark.parametrize(
    ("overrides", "host", "limit"),
    [
        ("10.0.0.1:3", "10.0.0.1", 3),
        ("10.0.0.1:3", "10.0.0.2", 1),
        ("10.0.0.1:0", "10.0.0.1", 0),
        ("10.0.0.9:9, 10.0.0.1:3", "::ffff:10.0.0.1", 3),
        ("::1:3", "::1", 3),
        ("[::1]:3", "::1", 3),
        ("0:0:0:0:0:0:0:1:3", "::1", 3),
        ("localhost:3", "127.0.0.1", 3),
    ],
)
def test_an_override_is_the_limit_of_its_address(
    overrides: str, host: str, limit: int
) -> None:
    counted = limits(
        max_connections_per_ip=1, max_connections_per_ip_overrides=overrides
    )
    assert sum(counted.add(host) for _ in range(5)) == limit


def test_max_connections_is_the_limit_of_all_addresses() -> None:
    counted = limits(max_connections=2, max_connections_per_ip=5)
    assert [counted.add(f"10.0.0.{at}") for at in range(3)] == [True, True, False]


def test_refusals_are_logged_once_until_a_connection_closes(
    caplog: pytest.LogCaptureFixture,
) -> None:
    counted = limits(max_connections_per_ip=1)
    with caplog.at_level(logging.WARNING):
        for _ in range(10):
            counted.add("10.0.0.1")
            counted.add("10.0.0.2")
        assert len(caplog.records) == 2
        assert "1 are open from 10.0.0.1 (max.connections.per.ip)" in caplog.text
        counted.remove("10.0.0.1")
        counted.add("10.0.0.1")
        counted.add("10.0.0.1")
        counted.add("10.0.0.2")
    assert len(caplog.records) == 3


def test_an_unknown_host_name_is_an_error() -> None:
    with pytest.raises(SettingError, match=r"a\.\.b has no address"):
        limits(max_connections_per_ip_overrides="a..b:3")


@pytest.mark.parametrize("text", [":3", "host", "host:", "host:-1", "host:x"])
def test_an_override_is_a_host_and_a_number(text: str) -> None:
    with pytest.raises(ValueError, match=text):
        parse_override(text)


def test_a_server_refuses_connections_over_the_limit_of_an_address() -> None:
    with ThreadServer(
        max_connections_per_ip=0, max_connections_per_ip_overrides=("127.0.0.1:1",)
    ) as server:
        with server.client() as first, server.client() as second:
            assert second.is_closed()
            first.close()
        listener = server.server._listener
        assert listener is not None
        assert listener.connections.limits.refused_count == 1
