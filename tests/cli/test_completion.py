"""Completion candidates and scripts."""

from __future__ import annotations

import argparse
import shutil
import subprocess

import pytest

from coterie.cli import connect
from coterie.cli.completion import candidates
from coterie.cli.main import main
from coterie.errors import ConnectionLost, SettingError
from coterie.types import TopicPartition
from tests.operations.fake_admin import FakeLog, group

from .groups.cli_cluster import CliAdmin


@pytest.fixture
def opened_connections(monkeypatch: pytest.MonkeyPatch) -> list[argparse.Namespace]:
    """Return the opened connections, to a cluster with two groups and a topic."""
    opened: list[argparse.Namespace] = []

    def open_admin(options: argparse.Namespace) -> CliAdmin:
        opened.append(options)
        admin = CliAdmin(logs={TopicPartition("payments", 0): FakeLog.of(0, 1)})
        admin.add(group("orders"))
        admin.add(group("audit"))
        return admin

    monkeypatch.setattr(connect, "open_admin", open_admin)
    return opened


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["to"], ["topics"]),
        (["groups", "des"], ["describe"]),
        (["topics", "con"], ["configs", "consumers"]),
        (["nothing", ""], []),
        (["comp"], ["completion"]),
        (["completion", ""], ["bash", "zsh", "fish"]),
        (["groups", "list", "--out"], ["--output"]),
        (["groups", "list", "--output", "js"], ["json", "jsonl"]),
        (["groups", "list", "--file", ""], []),
    ],
)
def test_commands_options_and_choices_are_offered_without_a_cluster(
    words: list[str], offered: list[str], opened_connections: list[argparse.Namespace]
) -> None:
    assert sorted(set(candidates(words))) == sorted(offered)
    assert not opened_connections


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["groups", "describe", ""], ["audit", "orders"]),
        (["groups", "describe", "--wide", "orders", "a"], ["audit"]),
        (["groups", "list", "--topic", "p"], ["payments"]),
        (["topics", "consumers", ""], ["payments"]),
        (["kafka-consumer-groups", "--group", "o"], ["orders"]),
    ],
)
def test_group_and_topic_names_are_fetched_from_the_cluster(
    words: list[str], offered: list[str], opened_connections: list[argparse.Namespace]
) -> None:
    assert candidates(words) == offered
    assert len(opened_connections) == 1


def test_completion_uses_the_cluster_of_the_command_line_and_a_short_timeout(
    opened_connections: list[argparse.Namespace],
) -> None:
    line = ["groups", "describe", "--wide", "--bootstrap-server", "b:1", "x", ""]
    candidates(line)
    (options,) = opened_connections
    assert (options.bootstrap_server, options.timeout) == ("b:1", 1_500)


@pytest.mark.parametrize("error", [ConnectionLost("down"), SettingError("no cluster")])
def test_an_unavailable_cluster_has_no_candidates(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def open_admin(_: argparse.Namespace) -> CliAdmin:
        raise error

    monkeypatch.setattr(connect, "open_admin", open_admin)
    assert candidates(["groups", "describe", ""]) == []


def test_candidates_are_printed_one_per_line(
    opened_connections: list[argparse.Namespace], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["complete", "--", "groups", "lag", ""]) == 0
    assert capsys.readouterr().out == "audit\norders\n"
    assert main(["complete"]) == 0
    assert "complete\n" not in capsys.readouterr().out


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_accepts_its_script(
    shell: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert "coterie complete -- " in script
    if (program := shutil.which(shell)) is not None:
        subprocess.run([program, "-n", "/dev/stdin"], input=script.encode(), check=True)
