"""The command lines of `coterie` and `coterie serve`, without starting a server."""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest

from coterie.cli.connect import parse_address
from coterie.cli.main import main
from coterie.cli.parser import make_parser
from coterie.cli.registry import find_command
from coterie.cli.serve import configure_logging, parse_listener, run_loop
from coterie.wire.codec import COMPILED


def test_help_ends_with_worked_examples(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["--help"], ["serve", "--help"]):
        with pytest.raises(SystemExit) as left:
            main(arguments)
        assert left.value.code == 0
        assert "coterie serve" in capsys.readouterr().out.partition("examples:")[2]


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["--version"])
    assert left.value.code == 0
    build = "compiled" if COMPILED else "pure Python"
    assert capsys.readouterr().out == f"coterie {version('coterie')} ({build})\n"


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["fly"],
        ["serve", "--memory", "--data", "x"],
        ["serve", "--nodes", "65"],
        ["serve", "--listen", "127.0.0.1:65536"],
        ["serve", "--loop", "trio"],
    ],
)
def test_a_usage_error_of_serve_returns_exit_code_2(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        main(arguments)
    assert left.value.code == 2
    assert "see coterie" in capsys.readouterr().err


def test_uvloop_is_needed_only_when_it_is_chosen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    started = []

    async def main() -> None:
        started.append(type(asyncio.get_running_loop()).__module__)

    monkeypatch.setitem(sys.modules, "uvloop", None)
    with pytest.raises(ModuleNotFoundError, match="uvloop"):
        run_loop("uvloop", main)
    assert started == []
    run_loop("auto", main)
    assert started[0].startswith("asyncio")


def test_an_unknown_setting_returns_exit_code_2_and_one_sentence(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["serve", "--memory", "--set", "num.partition=3"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("coterie serve: unknown setting 'num.partition'")


def test_an_unknown_release_returns_exit_code_2_and_the_known_ones(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["serve", "--memory", "--act-as", "5.0"]) == 2
    error = capsys.readouterr().err
    assert error.startswith(
        "coterie serve: unknown Kafka release '5.0'; known are 0.11"
    )


@pytest.mark.slow
def test_an_unknown_assignor_returns_exit_code_2_and_one_sentence(
    capsys: pytest.CaptureFixture[str],
) -> None:
    setting = "group.consumer.assignors=uniform,none"
    listen = ["--listen", "127.0.0.1:0"]
    assert main(["serve", "--memory", *listen, "--set", setting]) == 2
    error = capsys.readouterr().err
    assert "coterie serve: group.consumer.assignors: 'none' is unknown" in error


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:9092", ("127.0.0.1", 9092)),
        (":0", ("127.0.0.1", 0)),
        ("[::1]:9092", ("::1", 9092)),
        ("kafka.example:1", ("kafka.example", 1)),
    ],
)
def test_an_address_is_host_and_port(text: str, address: tuple[str, int]) -> None:
    assert parse_address(text) == address


@pytest.mark.parametrize(
    ("text", "listener"),
    [
        ("127.0.0.1:9092", ("PLAINTEXT", "127.0.0.1", 9092)),
        ("sasl_ssl://:0", ("SASL_SSL", "127.0.0.1", 0)),
        ("SSL://[::1]:9092", ("SSL", "::1", 9092)),
    ],
)
def test_a_listener_may_have_a_security_protocol(
    text: str, listener: tuple[str, str, int]
) -> None:
    assert parse_listener(text) == listener


def test_an_unknown_security_protocol_is_refused() -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="SASL_PLAINTEXT, SASL_SSL"):
        parse_listener("TLS://:0")


@pytest.mark.parametrize("text", ["", "9092", "host:", "host:x", "host:-1", "host:٣"])
def test_a_malformed_address_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="HOST:PORT"):
        parse_address(text)


def test_serve_listens_on_loopback_and_port_9092_by_default() -> None:
    options = make_parser(find_command(["serve"])).parse_args(["serve"])
    assert options.listen == ("PLAINTEXT", "127.0.0.1", 9092)
    assert str(options.data) == "coterie-data"
    assert not options.memory
    assert options.nodes == 1


@pytest.fixture
def _loggers() -> Iterator[None]:
    root, audit = logging.getLogger(), logging.getLogger("coterie.audit")
    level, handlers = root.level, list(root.handlers)
    yield
    root.setLevel(level)
    root.handlers[:] = handlers
    for handler in audit.handlers:
        handler.close()
    audit.handlers.clear()
    audit.propagate = True


@pytest.mark.usefixtures("_loggers")
def test_the_audit_log_has_a_private_file_of_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "audit.log"
    logging.getLogger().handlers.clear()
    configure_logging("json", file)
    logging.getLogger("coterie.audit").info("a write")
    logging.getLogger("coterie.other").info("something else")
    assert json.loads(file.read_text())["message"] == "a write"
    assert file.stat().st_mode & 0o777 == 0o600
    assert json.loads(capsys.readouterr().err)["message"] == "something else"


@pytest.mark.usefixtures("_loggers")
def test_the_audit_log_is_part_of_the_log_by_default(
    capsys: pytest.CaptureFixture[str],
) -> None:
    logging.getLogger().handlers.clear()
    configure_logging("text", None)
    logging.getLogger("coterie.audit").info("a write")
    assert "INFO coterie.audit: a write" in capsys.readouterr().err


def test_an_audit_log_that_cannot_be_written_returns_exit_code_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = ["serve", "--memory", "--audit-log", str(tmp_path / "none" / "audit.log")]
    assert main(line) == 1
    assert "--audit-log" in capsys.readouterr().err
