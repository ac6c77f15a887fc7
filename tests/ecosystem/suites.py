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
class Apache:
    """Programs of Apache Kafka from Maven Central, run by tests of this repository.

    Their version is that of `tests/ecosystem/apache/pom.xml`.
    """

    version: str = "4.3.1"


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

    source: GoModule | Sdist | Checkout | Apache
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
    host: str = "127.0.0.1"
    """The host that the servers advertise."""
    port: int = 0
    """The port of the server, for tests that cannot use another; 0 is a free one."""
    certificates: str = ""
    """The folder of a server's certificate and its authority, for tests that use TLS.
    """
    without: tuple[str, ...] = ()
    """Folders that are left out, so that tests import the installed package."""
    python: str = ""
    """The version of Python, if not Coterie's own."""


SUITES: Final[Mapping[str, Suite]] = {
    "kafka-go": Suite(
        GoModule("github.com/segmentio/kafka-go", "v0.4.51"),
        tests=("./...",),
        within_s=900,
        host="localhost",
        settings={
            "group.initial.rebalance.delay.ms": "0",
            # A test waits at most two minutes for a compaction.
            "log.retention.check.interval.ms": "5000",
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
    # The archive of the package index lacks modules that the tests import.
    "sentry-arroyo": Suite(
        Checkout("https://github.com/getsentry/arroyo", "2.42.2"),
        # The others use no broker.
        tests=("tests/backends", "tests/test_kip848_e2e.py", "tests/test_dlq.py"),
        within_s=900,
        settings={"group.initial.rebalance.delay.ms": "0"},
        environment={"DEFAULT_BROKERS": "127.0.0.1:{port}"},
        requirements=(
            "sentry-arroyo==2.42.2",
            "confluent-kafka==2.16.1",
            "pytest==9.0.3",
            "pytest-benchmark==4.0.0",
        ),
        without=("arroyo",),
    ),
    "aiokafka": Suite(
        Checkout("https://github.com/aio-libs/aiokafka", "v0.14.0"),
        tests=("tests",),
        within_s=2400,
        settings={"num.partitions": "2", "group.initial.rebalance.delay.ms": "0"},
        # The image is not used, but its tag says which tests to run.
        arguments=(
            "--docker-image=kafka:2.13_4.3.1",
            "--no-pull",
            "-p",
            "no:cacheprovider",
        ),
        requirements=(
            "aiokafka==0.14.0",
            "async-timeout==5.0.1",
            "cramjam==2.11.0",
            "docker==7.1.0",
            "pytest==9.0.2",
            "pytest-asyncio==1.3.0",
            "pytest-mock==3.15.1",
        ),
        # The suite starts Kafka in a container; this names a server that runs instead.
        edits=(
            Edit(
                "tests/conftest.py",
                r"(?s)        kafka_host = docker_ip_address\n.*?\n        finally:\n"
                r"            container\.stop\(\)\n",
                '        return KafkaServer("127.0.0.1", {port}, 0, 0, 0, None)\n',
            ),
            Edit(
                "tests/conftest.py",
                r"        client = libdocker\.from_env\(\)\n        yield client\n"
                r"        client\.close\(\)\n",
                "        yield None\n",
            ),
            Edit(
                "tests/conftest.py",
                r"    if ssl_dir\.is_dir\(\):",
                "    ssl_dir.mkdir(exist_ok=True)\n    if ssl_dir.is_dir():",
            ),
            Edit("tests/conftest.py", r"        utils\.create_keytab\(\)\n", ""),
        ),
        without=("aiokafka",),
    ),
    "faststream": Suite(
        Checkout("https://github.com/ag2ai/faststream", "0.7.4"),
        tests=("tests/brokers/kafka", "tests/brokers/confluent"),
        within_s=2400,
        settings={"group.initial.rebalance.delay.ms": "0"},
        arguments=("-m", "(kafka or confluent) and not slow", "-p", "no:rerunfailures"),
        requirements=(
            "faststream[rabbit,kafka,confluent,nats,redis,mqtt,otel,cli,prometheus]==0.7.4",
            "aiokafka==0.14.0",
            "confluent-kafka==2.16.1",
            "dirty-equals==0.11",
            "httpx==0.28.1",
            "pytest==9.0.3",
            "pytest-asyncio==1.3.0",
            "pytest-timeout==2.4.0",
            "freezegun==1.5.5",
            "fastapi==0.140.0",
            "pydantic-settings==2.16.3",
            "PyYAML==6.0.3",
            "email-validator==2.3.0",
            "msgspec==0.22.0",
            "uvicorn==0.54.0",
            "psutil==7.2.2",
        ),
        # Most of its tests use the default address of its broker class.
        port=9092,
        without=("faststream",),
    ),
    "karapace": Suite(
        Checkout("https://github.com/Aiven-Open/karapace", "6.2.0"),
        tests=("tests/integration",),
        within_s=3600,
        settings={"group.initial.rebalance.delay.ms": "0"},
        arguments=("--kafka-bootstrap-servers=127.0.0.1:{port}", "--numprocesses=2"),
        environment={"SETUPTOOLS_SCM_PRETEND_VERSION": "6.2.0"},
        requirements=(
            "{source}",
            "filelock",
            "hypothesis",
            "psutil",
            "pytest==8.4.2",
            "pytest-timeout==2.4.0",
            "pytest-xdist==3.8.0",
            "requests",
        ),
        certificates="certs",
        # No registry has the authors' copies of avro and of buf. The second is a Go
        # module that formats Protobuf schemas; the cases that use it are left out.
        edits=(
            Edit(
                "tests/integration/test_schema_protobuf.py",
                r', \{"config": \{"use_protobuf_formatter": True\}\}',
                "",
            ),
            Edit("pyproject.toml", r'"avro @ [^"]*"', '"avro==1.12.0"'),
            Edit("pyproject.toml", r', "setuptools-golang"', ""),
            Edit("setup.py", r"(?s)setup\(.*\)", "setup()"),
            Edit(
                "src/karapace/core/protobuf/protopace/protopace.py",
                r"(?s)spec = .*?lib\.CheckCompatibility\.restype = [^\n]*",
                "lib = None",
            ),
        ),
        python="3.12",
    ),
    "kafka-streams": Suite(
        Apache(), tests=("tests/ecosystem/apache/test_streams.py",), within_s=900
    ),
    "kafka-connect": Suite(
        Apache(), tests=("tests/ecosystem/apache/test_connect.py",), within_s=900
    ),
    "mirrormaker": Suite(
        Apache(), tests=("tests/ecosystem/apache/test_mirrormaker.py",), within_s=900
    ),
}
