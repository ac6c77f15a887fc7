"""`coterie groups export`, on a server over TCP."""

from __future__ import annotations

import asyncio
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from coterie.cli.main import main
from coterie.client import AdminClient
from coterie.client.admin.group_offsets import CommittedOffset
from coterie.client.admin.topics import NewTopic
from coterie.errors import ApiError
from coterie.types import TopicPartition
from coterie.wire.error_codes import ErrorCode
from tests.broker.server.apis.fake_broker import batch_of, produce_request
from tests.broker.server.harness import ThreadServer
from tests.client.scripted_broker import OPTIONS
from tests.operations.exporter.exported import Samples
from tests.operations.fake_admin import FakeLog, group
from tests.support.server_process import ServerProcess
from tests.support.waiting import eventually

from .cli_cluster import CliAdmin, Shell, make_shell

GROUP = "kafka_consumergroup_group_"
BY_NAME = 12


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Return the address of a server with ten records and two groups."""
    with ThreadServer() as server:
        host, port = server.addresses[0]
        asyncio.run(_fill(server, f"{host}:{port}"))
        yield f"{host}:{port}"


async def _fill(server: ThreadServer, address: str) -> None:
    async with AdminClient(address, OPTIONS) as admin:
        (await admin.topics.create([NewTopic("orders", 2, 1)])).all()
        with server.client() as client:
            batch = batch_of(b"v", timestamp_ms=time.time_ns() // 1_000_000)
            for _ in range(10):
                client.call(produce_request(batch, topic="orders"), BY_NAME)
        for name, offset in (("billing", 4), ("audit", 10)):
            at = {TopicPartition("orders", 0): CommittedOffset(offset)}
            (await admin.group_offsets.alter(name, at)).all()


def once(address: str, capsys: pytest.CaptureFixture[str], *words: str) -> Samples:
    command = ["groups", "export", "--once", "--bootstrap-server", address, *words]
    assert main(command) == 0
    return Samples.read(capsys.readouterr().out.encode())


def test_once_prints_the_metrics_of_a_poll(
    address: str, capsys: pytest.CaptureFixture[str]
) -> None:
    samples = once(address, capsys)
    at = {"group": "billing", "topic": "orders", "partition": "0"}
    assert samples.of(f"{GROUP}lag", **at) == 6
    assert samples.of(f"{GROUP}offset", **at) == 4
    assert samples.of(f"{GROUP}lag_seconds", **at) is not None
    assert samples.of(f"{GROUP}lag_seconds", group="audit", partition="0") == 0
    assert samples.of(f"{GROUP}info", group="audit", state="Empty", type="classic") == 1
    assert "process_cpu_seconds_total" not in samples


def test_options_select_groups_topics_and_names(
    address: str, capsys: pytest.CaptureFixture[str]
) -> None:
    samples = once(address, capsys, "--exclude", "aud*", "--by", "group")
    assert {dict(each)["group"] for each in samples[f"{GROUP}sum_lag"]} == {"billing"}
    assert f"{GROUP}lag" not in samples
    assert f"{GROUP}info" not in once(address, capsys, "--topic", "other")
    assert f"{GROUP}info" in once(address, capsys, "--topic", "orders")
    assert f"{GROUP}info" not in once(address, capsys, "--exclude-topic", "ord*")
    samples = once(address, capsys, "--names", "kminion", "--glob", "bil*")
    name = "kminion_kafka_consumer_group_topic_partition_lag"
    assert samples.of(name, group_id="billing", topic_name="orders") == 6
    samples = once(address, capsys, "--cluster-name", "prod", "--no-time-lag")
    assert samples.of(f"{GROUP}sum_lag", cluster_name="prod", group="billing") == 6
    assert f"{GROUP}lag_seconds" not in samples


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    admin = CliAdmin(known_logs={TopicPartition("t", 0): FakeLog.of(0, 100)})
    admin.add(group("orders"), t=40)
    admin.add(group("hidden"), t=40)
    return make_shell(admin, monkeypatch, capsys)


def test_once_with_an_item_that_fails_prints_the_others_and_exits_with_1(
    shell: Shell,
) -> None:
    refused = ApiError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    shell.admin.group_errors["hidden"] = refused
    samples = Samples.read(shell("groups export --once").encode())
    assert shell.code == 1
    assert samples.of(f"{GROUP}lag", group="orders") == 60
    assert samples.of("coterie_exporter_failed_items", kind="group") == 1
    assert "1 nodes, groups or partitions could not be read" in shell.error


def test_once_says_which_named_groups_do_not_exist_and_exits_with_1(
    shell: Shell,
) -> None:
    samples = Samples.read(shell("groups export orders ordres --once").encode())
    assert samples.of(f"{GROUP}lag", group="orders") == 60
    note = "coterie: there is no group 'ordres': `coterie groups list` shows all\n"
    assert (shell.code, shell.error) == (1, note)


def test_once_with_a_cluster_that_is_down_prints_nothing_and_exits_with_1(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refused(*_: object, **__: object) -> None:
        raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "no\nrights")

    monkeypatch.setattr(shell.admin, "list_groups", refused)
    assert shell("groups export --once") == ""
    assert (shell.code, shell.error) == (1, "coterie: no\\nrights\n")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("--interval 1", "is not a duration"),
        ("--interval 10ms", "is not a duration in milliseconds"),
        ("--listen 9308", "is not HOST:PORT"),
        ("--listen x:99999", "is not HOST:PORT"),
        ("--names datadog", "invalid choice"),
    ],
)
def test_an_invalid_option_is_a_usage_error(
    line: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        main(["groups", "export", "--once", *line.split()])
    assert end.value.code == 2
    assert message in capsys.readouterr().err


def test_an_address_in_use_ends_the_command(
    address: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as used:
        listen = f"127.0.0.1:{used.getsockname()[1]}"
        words = ["groups", "export", "--listen", listen, "--bootstrap-server", address]
        assert main(words) == 1
    assert f"cannot listen on {listen}" in capsys.readouterr().err


class ExporterProcess:
    """An exporter as a process, ready when constructed."""

    def __init__(self, directory: Path, *words: str) -> None:
        self.log = directory / "log"
        command = [sys.executable, "-m", "coterie.cli.main", "groups", "export"]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [*command, "--listen", "127.0.0.1:0", *words],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        assert self.process.stdout is not None
        self.url = self.process.stdout.readline().split()[-1]

    def get(self, path: str) -> str:
        with urllib.request.urlopen(self.url + path, timeout=60) as response:
            text: str = response.read().decode()
            return text

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        assert self.process.stdout is not None
        self.process.send_signal(number)
        self.process.stdout.close()
        return self.process.wait(60)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_the_exporter(
    address: str, tmp_path: Path, number: signal.Signals
) -> None:
    exporter = ExporterProcess(tmp_path, "--bootstrap-server", address)
    lag = f'{GROUP}sum_lag{{cluster_name="'
    eventually(lambda: lag in exporter.get("/metrics"), expected="the first poll")
    assert '"status": "ok"' in exporter.get("/health")
    assert exporter.stop(number) == 0
    log = exporter.log.read_text()
    assert "polled 2 groups" in log
    assert "Traceback" not in log


@pytest.mark.slow
def test_an_outage_from_the_start_is_reported_without_secrets(tmp_path: Path) -> None:
    config = tmp_path / "client.properties"
    config.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        "sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule "
        'required username="alice" password="dont-log-me";\n'
    )
    with socket.create_server(("127.0.0.1", 0)) as closed:
        nobody = f"127.0.0.1:{closed.getsockname()[1]}"
    exporter = ExporterProcess(
        tmp_path,
        *("--command-config", str(config), "--timeout", "500"),
        *("--interval", "1s", "--bootstrap-server", nobody),
    )

    def failures() -> float | None:
        samples = Samples.read(exporter.get("/metrics").encode())
        assert samples.of("coterie_exporter_up") == 0
        return samples.of("coterie_exporter_poll_failures_total")

    eventually(failures, expected="a failed poll")
    metrics = exporter.get("/metrics")
    assert exporter.stop() == 0
    log = exporter.log.read_text()
    assert "the poll failed" in log
    assert "dont-log-me" not in metrics + log


@pytest.mark.slow
def test_an_exporter_recovers_when_the_cluster_is_back(tmp_path: Path) -> None:
    data = ("--data", str(tmp_path / "data"))

    def up(exporter: ExporterProcess) -> float | None:
        samples = Samples.read(exporter.get("/metrics").encode())
        return samples.of("coterie_exporter_up")

    with ServerProcess(*data) as server:
        bootstrap = server.bootstrap
        exporter = ExporterProcess(
            tmp_path,
            *("--timeout", "2000", "--interval", "1s", "--bootstrap-server", bootstrap),
        )
        eventually(lambda: up(exporter) == 1, expected="a poll")
    eventually(lambda: up(exporter) == 0, expected="a failed poll")
    with ServerProcess(*data, listen=bootstrap):
        eventually(lambda: up(exporter) == 1, expected="a poll of the new server")
        assert '"status": "ok"' in exporter.get("/health")
    assert exporter.stop() == 0
