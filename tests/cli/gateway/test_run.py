"""The command line of `coterie gateway run`, without a node."""

from __future__ import annotations

from pathlib import Path

import pytest

from coterie.cli.gateway.run import make_plan
from coterie.cli.main import main
from coterie.cli.parser import make_parser
from coterie.cli.registry import find_command
from coterie.errors import SettingError
from coterie.gateway.options import AuthorizerKind, GatewayOptions
from coterie.settings import Settings
from coterie.types import SecurityProtocol

RUN = ["gateway", "run"]


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("COTERIE_PROFILES", str(tmp_path / "none.toml"))
    monkeypatch.delenv("COTERIE_BOOTSTRAP_SERVER", raising=False)


def plan(line: str) -> GatewayOptions:
    words = [*RUN, *line.split()]
    options = make_parser(find_command(words)).parse_args(words)
    return make_plan(options, Settings())


def test_a_node_listens_on_loopback_and_port_9192_by_default() -> None:
    made = plan("--upstream kafka:9092")
    assert (made.bootstrap, made.host, made.port) == ("kafka:9092", "127.0.0.1", 9192)
    assert (made.advertised_host, made.advertised_port) == ("127.0.0.1", None)
    assert made.protocol is SecurityProtocol.PLAINTEXT
    assert made.node.endswith("-9192")
    assert (made.topic, made.partition_count) == ("__coterie_gateway", 50)
    assert made.authorizer is AuthorizerKind.UPSTREAM
    assert (made.mirror_interval_ms, made.metrics_port) == (None, None)


def test_every_option_reaches_the_plan() -> None:
    made = plan(
        "--upstream a:1,b:2 --name eu --node gw-1 --listen SSL://0.0.0.0:9000 "
        "--advertise gw.example:19000 --session-timeout 6s --partitions 7 "
        "--replication-factor 3 --adopt --mirror 1m --authorizer none "
        "--metrics-port 9644 -X client.id=gateway"
    )
    assert made.bootstrap == "a:1,b:2"
    assert (made.name, made.node, made.session_timeout_ms) == ("eu", "gw-1", 6_000)
    assert (made.host, made.port, made.protocol) == ("0.0.0.0", 9000, "SSL")
    assert (made.advertised_host, made.advertised_port) == ("gw.example", 19_000)
    assert (made.partition_count, made.replication_factor) == (7, 3)
    assert made.is_adopting
    assert (made.mirror_interval_ms, made.metrics_port) == (60_000, 9644)
    assert made.authorizer is AuthorizerKind.NONE
    assert made.client.client_id == "gateway"


def test_the_cluster_must_be_named() -> None:
    with pytest.raises(SettingError, match="no cluster is named"):
        plan("")


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("--name a/b", "'a/b' is not a name"),
        ("--node ''", "is not a name"),
        (
            "--partitions 0",
            "'0' is not a number of partitions; use a whole number from 1 to 10000",
        ),
        (
            "--replication-factor x",
            "'x' is not a number of replicas; use a whole number from 1 to 32767",
        ),
        ("--session-timeout 10", "is not a duration in milliseconds"),
        ("--authorizer upstreams", "invalid choice"),
        ("--mirror 0", "is not a duration in seconds"),
        ("--metrics-port 65536", "is not a port"),
    ],
)
def test_a_usage_error_returns_exit_code_2(
    line: str, reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        main([*RUN, "--upstream", "kafka:9092", *line.split()])
    assert left.value.code == 2
    assert reason in capsys.readouterr().err


def test_an_unknown_setting_returns_exit_code_2(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main([*RUN, "--upstream", "kafka:9092", "--set", "group.max.sise=3"]) == 2
    assert "did you mean group.max.size?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "advice"),
    [
        ("--listen 0.0.0.0:9192", "--advertise gateway-1.example"),
        ("--listen SASL_SSL://127.0.0.1:9192", "a listener of upstream with SASL"),
    ],
)
def test_a_plan_that_cannot_work_returns_exit_code_2(
    line: str, advice: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*RUN, "--upstream", "kafka:9092", *line.split()]) == 2
    error = capsys.readouterr().err
    assert error.startswith("coterie gateway run: ")
    assert advice in error


@pytest.mark.slow
def test_an_unreachable_upstream_returns_exit_code_1(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main([*RUN, "--upstream", "127.0.0.1:1", "--timeout", "1ms"]) == 1
    error = capsys.readouterr().err
    assert "upstream 127.0.0.1:1 does not answer" in error
    assert "coterie config check --bootstrap-server 127.0.0.1:1" in error
