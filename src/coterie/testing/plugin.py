"""Fixtures of pytest: a Kafka server for the session, topics and groups for tests.

Installing Coterie registers the plugin. The server is imported when a fixture is used
first, so other runs of pytest do not pay for it. Each worker of pytest-xdist has its
own server. See docs/testing/fixtures.md.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Generator, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import pytest

if TYPE_CHECKING:
    from coterie.testing import AsyncKafka, Group, Kafka

MARKER: Final = "kafka"
_SHOWN_MAX: Final = 200
"""The number of requests in the report of a failed test, the latest ones."""
_NAME_MAX: Final = 80
_AHEAD_MS_MAX: Final = 5_000
"""The distance from the system's time that no test has made."""
_FIXTURES: Final = frozenset({"kafka", "kafka_cluster"})


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the options for pyproject.toml, and their like for the command line."""
    parser.addini("kafka_nodes", "number of nodes of the kafka fixture", default="1")
    parser.addini(
        "kafka_settings",
        "Kafka's settings for the server, one NAME=VALUE a line",
        type="linelist",
    )
    parser.addini("kafka_act_as", "Kafka release to act as, such as 3.9", default="")
    parser.addini(
        "kafka_show_requests",
        "when to report the requests that Kafka received: never or failed",
        default="never",
    )
    parser.getgroup("kafka").addoption(
        "--kafka-show-requests",
        choices=("never", "failed"),
        help="when to report the requests that Kafka received during a test",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker, and check the options."""
    config.addinivalue_line(
        "markers",
        f"{MARKER}(nodes=1, settings=None, act_as=None): the server of the fixture "
        "kafka_cluster",
    )
    if config.getini("kafka_show_requests") not in {"never", "failed"}:
        raise pytest.UsageError("kafka_show_requests is never or failed")
    _settings(config)
    _exempt_from_rewriting(config)


@pytest.fixture(scope="session")
def kafka(pytestconfig: pytest.Config) -> Iterator[Kafka]:
    """Run a Kafka server for all tests of the session.

    It keeps its topics and groups. After each test its faults are removed, recorded
    requests are forgotten, and a server that the test has paused, killed or closed runs
    again. After a test that moved the clock, the server starts again without topics.
    """
    yield from _serve(pytestconfig, {})


@pytest.fixture(scope="session")
def async_kafka(kafka: Kafka) -> AsyncKafka:
    """Return the server of `kafka` for coroutines, in any event loop."""
    from coterie.testing import AsyncKafka

    return AsyncKafka(kafka)


@pytest.fixture
def kafka_topic(kafka: Kafka, request: pytest.FixtureRequest) -> str:
    """Create a topic with one partition, and return its name, which no other test
    has."""
    return kafka.topic(_unique_name(request))


@pytest.fixture
def kafka_group(kafka: Kafka, request: pytest.FixtureRequest) -> Group:
    """Return a group that no other test has; `kafka_group.group_id` is its id."""
    return kafka.groups[_unique_name(request)]


@pytest.fixture
def kafka_cluster(
    request: pytest.FixtureRequest, pytestconfig: pytest.Config
) -> Iterator[Kafka]:
    """Run a Kafka server for one test, with the parameters of its marker, as in
    `@pytest.mark.kafka(nodes=3)`."""
    marker = request.node.get_closest_marker(MARKER)
    yield from _serve(pytestconfig, marker.kwargs if marker is not None else {})


def _serve(config: pytest.Config, parameters: Mapping[str, Any]) -> Iterator[Kafka]:
    """Run a server with the options of the session, which `parameters` replace."""
    from coterie.testing import Kafka

    wanted = dict(parameters)
    wanted.setdefault("nodes", int(config.getini("kafka_nodes")))
    wanted["settings"] = {**_settings(config), **(wanted.get("settings") or {})}
    act_as = wanted.get("act_as") or config.getini("kafka_act_as")
    if act_as:
        wanted["act_as"] = act_as
    with Kafka(**wanted) as server:
        yield server


def _exempt_from_rewriting(config: pytest.Config) -> None:
    """Import Coterie as it is: pytest rewrites the assertions of all modules of a
    distribution with a plugin, which triples the time of a server's first import.

    There is no public way, so this does nothing with a pytest that works otherwise.
    """
    names = getattr(config.pluginmanager.rewrite_hook, "_must_rewrite", None)
    if isinstance(names, set):
        names.discard("coterie")


def _settings(config: pytest.Config) -> dict[str, str]:
    settings = {}
    for line in config.getini("kafka_settings"):
        name, found, value = line.partition("=")
        if not found:
            raise pytest.UsageError(f"kafka_settings: {line!r} is not NAME=VALUE")
        settings[name.strip()] = value.strip()
    return settings


def _unique_name(request: pytest.FixtureRequest) -> str:
    """Return a name with the test's, for people, and characters that Kafka permits."""
    test = re.sub(r"[^a-zA-Z0-9._-]+", "-", request.node.name)[:_NAME_MAX]
    return f"{test.strip('-')}-{uuid4().hex[:8]}"


# Between tests.


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Refuse a marker that has no effect."""
    used = getattr(item, "fixturenames", ())
    if item.get_closest_marker(MARKER) is not None and "kafka_cluster" not in used:
        pytest.fail(
            "the marker kafka is for the fixture kafka_cluster, which this test does "
            "not use; kafka_nodes and kafka_settings in pyproject.toml are for kafka",
            pytrace=False,
        )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the requests to the report of a failed test, if an option asks for them."""
    report = yield
    config = item.config
    when = config.getoption("--kafka-show-requests") or config.getini(
        "kafka_show_requests"
    )
    if when == "failed" and report.failed and report.when == "call":
        for name, server in _servers(item):
            from coterie.testing.recorder import render

            requests = list(server.requests)
            table = render(requests[-_SHOWN_MAX:], server.rebalances)
            report.sections.append((f"requests of {name}", table))
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(
    item: pytest.Item,
) -> Generator[None, object, object]:
    """After a test and its fixtures, undo what it did to the server of the session."""
    servers = dict(_servers(item))
    try:
        return (yield)
    finally:
        if "kafka" in servers:
            _reset(servers["kafka"])


def _servers(item: pytest.Item) -> list[tuple[str, Kafka]]:
    """Return the running or stopped servers that the test used, by fixture."""
    if "coterie.testing.kafka" not in sys.modules:
        return []
    from coterie.testing import Kafka

    values: Mapping[str, object] = getattr(item, "funcargs", {})
    return [
        (name, value)
        for name, value in values.items()
        if name in _FIXTURES and isinstance(value, Kafka)
    ]


def _reset(kafka: Kafka) -> None:
    from coterie.testing.clock import Clock

    kafka.resume()
    kafka.clock.run()
    kafka.faults.clear()
    ahead_ms = kafka.clock.now_ms - time.time_ns() // 1_000_000
    if abs(ahead_ms) > _AHEAD_MS_MAX:
        # Time does not go back: records and offsets have times of the future.
        kafka.close()
        kafka.clock = Clock()
    if not kafka.is_running:
        kafka.start()
    kafka.requests.clear()
    kafka.rebalances.clear()
