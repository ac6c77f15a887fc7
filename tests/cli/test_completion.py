"""Completion candidates and scripts."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from argcomplete.finders import CompletionFinder

from coterie.cli import connect
from coterie.cli.completion import FINDING, _command_start, parser_for
from coterie.cli.main import main
from coterie.errors import ConnectionLost, SettingError
from coterie.operations.plan_files import Action
from coterie.operations.snapshots import SnapshotGroup, SnapshotHead, SnapshotWriter
from coterie.types import TopicPartition
from tests.cli.settings_home import SettingsHome
from tests.operations.fake_admin import FakeLog, group

from .groups.cli_cluster import CliAdmin


def candidates(words: list[str]) -> list[str]:
    """Return the candidates for the last word of a line."""
    *before, typed = words
    finder = CompletionFinder(parser_for(before), **FINDING)
    found = finder._get_completions(["coterie", *before], typed, "", None)
    return sorted(each.rstrip(" ") for each in found)


@pytest.fixture
def opened_connections(monkeypatch: pytest.MonkeyPatch) -> list[argparse.Namespace]:
    """Return the opened connections, to a cluster with two groups and a topic."""
    opened: list[argparse.Namespace] = []

    def open_admin(options: argparse.Namespace) -> CliAdmin:
        opened.append(options)
        admin = CliAdmin(known_logs={TopicPartition("payments", 0): FakeLog.of(0, 1)})
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
        (["comp"], ["completion"]),
        (["completion", ""], ["bash", "zsh", "fish"]),
        (["groups", "list", "--out"], ["--output"]),
        (["groups", "list", "--output", "js"], ["json", "jsonl"]),
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


def test_names_with_control_characters_are_no_candidates(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def open_admin(_: argparse.Namespace) -> CliAdmin:
        admin = CliAdmin()
        for each in ("\x1b[2Jorders", "a\nb", "orders"):
            admin.add(group(each))
        return admin

    monkeypatch.setattr(connect, "open_admin", open_admin)
    assert candidates(["groups", "lag", ""]) == ["orders"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_accepts_its_script(
    shell: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert "_ARGCOMPLETE" in script
    if (program := shutil.which(shell)) is not None:
        subprocess.run([program, "-n", "/dev/stdin"], input=script.encode(), check=True)


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("groups list --state S", ["Stable"]),
        ("groups list --type c", ["classic", "consumer"]),
        ("groups lag --protocol s", ["share", "simple", "streams"]),
        (
            "groups describe --sort time_lag",
            ["time_lag_error_ms", "time_lag_method", "time_lag_ms"],
        ),
        ("groups describe --sort lag_m", []),
        ("groups describe --by topic --sort lag_m", ["lag_max"]),
        ("groups lag --sort lag_m", ["lag_max"]),
        ("groups watch --sort ca", ["catch_up_ms"]),
        ("groups lag --columns lag_m", ["lag_max"]),
        ("groups plan p.json cl", ["clone"]),
        ("groups plan p.json reset --to-e", ["--to-earliest"]),
        ("kafka-consumer-groups --reset", ["--reset-offsets"]),
        ("kafka-consumer-groups --list --ty", ["--type"]),
        ("kafka-consumer-groups --list --type c", ["classic", "consumer"]),
        ("kafka-consumer-groups --state S", ["Stable"]),
    ],
)
def test_values_are_offered_without_a_cluster(
    line: str, offered: list[str], opened_connections: list[argparse.Namespace]
) -> None:
    assert candidates(line.split(" ")) == offered
    assert not opened_connections


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("groups clone a", ["audit"]),
        ("groups clone audit o", ["orders"]),
        ("groups reset --partitions p", ["payments"]),
        ("groups plan p.json reset o", ["orders"]),
        ("groups plan p.json clone audit o", ["orders"]),
        ("groups offsets set o", ["orders"]),
        ("kafka-consumer-groups --describe --topic p", ["payments"]),
    ],
)
def test_names_are_offered_for_every_argument_that_takes_one(
    line: str, offered: list[str], opened_connections: list[argparse.Namespace]
) -> None:
    assert candidates(line.split(" ")) == offered


@pytest.mark.usefixtures("home_in_environment")
def test_profiles_are_offered(home: SettingsHome) -> None:
    home.profiles('[prod]\nclient.id = "a"\n[staging]\nclient.id = "b"\n')
    assert candidates(["groups", "list", "--profile", ""]) == ["prod", "staging"]
    home.profiles("not TOML")
    assert candidates(["groups", "list", "--profile", ""]) == []


def test_snapshots_are_offered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert candidates(["groups", "undo", ""]) == []
    for directory in ("coterie/snapshots", "other"):
        SnapshotWriter(
            tmp_path / directory, SnapshotHead(f"id-of-{directory[:5]}", "now", None)
        ).add([SnapshotGroup("g", Action.RESET, True, (), ())])
    assert candidates(["groups", "undo", ""]) == ["id-of-coter"]
    there = ["groups", "undo", "--snapshots", str(tmp_path / "other"), "id"]
    assert candidates(there) == ["id-of-other"]


def completed_by(shell: str, line: str) -> list[str]:
    """Return what a shell offers for a line, with its script loaded."""
    command = Path(sys.executable).with_name("coterie")
    script = subprocess.run(
        [command, "completion", shell], capture_output=True, check=True, text=True
    ).stdout
    if shell == "fish":
        program = f"{script}\ncomplete -C '{line}'"
    else:
        program = f"""
            {script}
            COMP_LINE='{line}' COMP_POINT={len(line)} COMP_WORDBREAKS=' =:'
            _python_argcomplete coterie
            printf '%s\\n' "${{COMPREPLY[@]}}"
        """
    path = f"{command.parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [shell, "-c", program],
        capture_output=True,
        check=True,
        text=True,
        env={**os.environ, "PATH": path},
    )
    return [each.split("\t")[0].rstrip() for each in done.stdout.splitlines()]


@pytest.mark.parametrize(
    ("line", "index"),
    [
        ("coterie groups", 0),
        ("true; coterie groups", 1),
        ("true && sudo coterie groups", 3),
        ("A=b /usr/bin/coterie groups", 1),
        ("coterie groups list | coterie groups", 4),
        ("coterie groups describe coterie", 0),
    ],
)
def test_a_command_may_follow_other_words_of_its_line(line: str, index: int) -> None:
    assert _command_start(line.split()) == index


@pytest.mark.slow
@pytest.mark.parametrize("shell", ["bash", "fish"])
@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("coterie groups des", "describe"),
        ("coterie groups list --state S", "Stable"),
        ("coterie groups list --state=S", "Stable"),
    ],
)
def test_shells_complete_with_the_script(shell: str, line: str, offered: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    [found] = completed_by(shell, line)
    assert found.removeprefix("--state=") == offered


@pytest.mark.slow
@pytest.mark.usefixtures("home_in_environment")
def test_nothing_is_printed_about_settings(
    home: SettingsHome, capsys: pytest.CaptureFixture[str]
) -> None:
    # The file causes a warning, and no broker listens there.
    home.profiles(
        '[default]\nbootstrap.servers="127.0.0.1:1"\nsasl.password="x"', 0o644
    )
    assert candidates(["groups", "describe", ""]) == []
    assert candidates(["groups", "list", "--profile", "none", "--group", ""]) == []
    assert capsys.readouterr() == ("", "")
