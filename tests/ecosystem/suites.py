"""The suites that `make ecosystem` runs, and their versions: the one place of the pins.

In settings, environments, edits and arguments, `{address}`, `{port}` and `{sasl_port}`
stand for the server's address, its port, and the port of the server with SASL.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final


@dataclass(frozen=True)
class GoModule:
    """A module of the Go module proxy, whose archive has its tests."""

    path: str
    version: str


@dataclass(frozen=True)
class Sdist:
    """A source distribution of the Python package index that has its tests."""

    package: str
    version: str


@dataclass(frozen=True)
class Checkout:
    """A git repository whose tests no registry has; the user clones it."""

    url: str
    tag: str

    @property
    def version(self) -> str:
        """Return the version in the tag."""
        return self.tag.removeprefix("v")


@dataclass(frozen=True)
class Edit:
    """A change of a suite's files: a regular expression and what replaces it.

    It changes addresses that the suite's authors wrote into the tests.
    """

    files: str
    """A pattern of pathlib, relative to the suite's folder."""
    pattern: str
    text: str


@dataclass(frozen=True)
class Suite:
    """A suite of tests, what it runs on, and how."""

    source: GoModule | Sdist | Checkout
    tests: tuple[str, ...]
    """Folders or files for pytest, packages for Go."""
    within_s: float
    """The time after which the run is ended."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """The server's settings."""
    arguments: tuple[str, ...] = ()
    """More arguments of pytest or `go test`."""
    environment: Mapping[str, str] = field(default_factory=dict)
    requirements: tuple[str, ...] = ()
    """Packages for a suite in Python, with their versions."""
    sasl_users: Mapping[str, str] = field(default_factory=dict)
    """Users and passwords; with one, a second server with SASL_PLAINTEXT runs."""
    edits: tuple[Edit, ...] = ()


SUITES: Final[Mapping[str, Suite]] = {
    "kafka-go": Suite(
        GoModule("github.com/segmentio/kafka-go", "v0.4.51"),
        tests=("./...",),
        within_s=900,
        settings={
            "group.initial.rebalance.delay.ms": "0",
            "authorizer": "acl",
            "super.users": "User:ANONYMOUS;User:adminplain;"
            "User:adminscram256;User:adminscram512",
        },
        # Their CI skips the nettest, too: a topic is no connection between two ends.
        environment={"KAFKA_VERSION": "4.0.0", "KAFKA_SKIP_NETTEST": "1"},
        sasl_users={
            "adminplain": "admin-secret",
            "adminscram256": "admin-secret-256",
            "adminscram512": "admin-secret-512",
        },
        edits=(
            # address_test.go has addresses that nothing connects to.
            Edit("[!a]*_test.go", r"\b9092\b", "{port}"),
            Edit("addoffsetstotxn_test.go", r"\b9092\b", "{port}"),
            Edit("client_test.go", r'TCP\("localhost"\)', 'TCP("localhost:{port}")'),
            Edit("compress/*_test.go", r"\b9092\b", "{port}"),
            Edit("topics/*_test.go", r'TCP\("localhost"\)', 'TCP("localhost:{port}")'),
            Edit("sasl/*_test.go", r"\b9093\b", "{sasl_port}"),
            Edit("conn_test.go", r"127\.0\.0\.1:9093", "127.0.0.1:{sasl_port}"),
        ),
    ),
    "franz-go": Suite(
        GoModule("github.com/twmb/franz-go", "v1.22.3"),
        tests=("./pkg/kgo/...",),
        within_s=1500,
        settings={"group.initial.rebalance.delay.ms": "0"},
        # The suite's own number of records, 500,000, is for a broker with many cores.
        environment={
            "KGO_SEEDS": "127.0.0.1:{port}",
            "KGO_TEST_RF": "1",
            "KGO_TEST_RECORDS": "50000",
            "KGO_TEST_SCRAM": "testuser:testpass",
            "KGO_TEST_SCRAM_SEEDS": "127.0.0.1:{sasl_port}",
            "KGO_LOG_LEVEL": "none",
        },
        sasl_users={"testuser": "testpass"},
    ),
    "franz-go-kadm": Suite(
        GoModule("github.com/twmb/franz-go/pkg/kadm", "v1.20.0"),
        tests=("./...",),
        within_s=300,
    ),
    "kombu": Suite(
        Sdist("kombu", "5.7.0"),
        tests=(
            "t/integration/test_kafka.py",
            "t/unit/transport/test_confluentkafka.py",
        ),
        within_s=600,
        settings={"group.initial.rebalance.delay.ms": "0"},
        # The suite repeats a failed test up to five times; here none is repeated.
        arguments=("-p", "no:rerunfailures", "-W", "ignore"),
        requirements=(
            "kombu==5.7.0",
            "confluent-kafka==2.15.1",
            "pytest==9.1.1",
            "pytest-freezer==0.4.9",
            "hypothesis==6.170.17",
        ),
        edits=(Edit("t/integration/test_kafka.py", r"'9092'", "'{port}'"),),
    ),
    "sentry-arroyo": Suite(
        Sdist("sentry-arroyo", "2.48.0"),
        tests=("tests",),
        within_s=900,
        settings={"group.initial.rebalance.delay.ms": "0"},
        environment={"DEFAULT_BROKERS": "127.0.0.1:{port}"},
        requirements=("sentry-arroyo==2.48.0", "confluent-kafka==2.16.1"),
    ),
}
