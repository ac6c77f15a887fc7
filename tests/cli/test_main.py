"""The entry point `coterie`: choice of the command, its imports and its exit codes."""

from __future__ import annotations

import argparse
import json
import re
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from coterie.cli import registry, serve
from coterie.cli.main import main
from coterie.cli.parser import make_parser
from coterie.cli.registry import COMMANDS, Entry, find_command
from coterie.errors import ClientError, SettingError
from coterie.extras import describe_missing


def test_an_invalid_setting_prints_one_line_and_returns_exit_code_2(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(options: argparse.Namespace) -> int:
        raise SettingError(f"{options.nodes} are too many")

    monkeypatch.setattr(serve, "SERVE", serve.SERVE._replace(run=run))
    assert main(["serve", "--nodes", "3"]) == 2
    assert capsys.readouterr().err == "coterie: 3 are too many\n"


@pytest.mark.parametrize(
    ("raised", "code", "message"),
    [
        (KeyboardInterrupt(), 130, ""),
        (ClientError("broker:9092 hung up"), 1, "coterie: broker:9092 hung up\n"),
        (
            ModuleNotFoundError(name="pyarrow.dataset"),
            2,
            f"coterie: {describe_missing('pyarrow')}\n",
        ),
    ],
)
def test_interrupts_failures_and_missing_libraries_have_their_own_exit_codes(
    raised: BaseException,
    code: int,
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def run(options: argparse.Namespace) -> int:
        raise raised

    monkeypatch.setattr(serve, "SERVE", serve.SERVE._replace(run=run))
    assert main(["serve"]) == code
    assert capsys.readouterr().err == message


def test_a_missing_module_of_no_extra_is_a_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(options: argparse.Namespace) -> int:
        raise ModuleNotFoundError(name="coterie.broker.absent")

    monkeypatch.setattr(serve, "SERVE", serve.SERVE._replace(run=run))
    with pytest.raises(ModuleNotFoundError):
        main(["serve"])


def test_control_characters_of_an_error_are_escaped(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(options: argparse.Namespace) -> int:
        raise ClientError("no group \x1b[2J")

    monkeypatch.setattr(serve, "SERVE", serve.SERVE._replace(run=run))
    assert main(["serve"]) == 1
    assert capsys.readouterr().err == "coterie: no group \\x1b[2J\n"


def start(*arguments: str, **streams: Any) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "coterie.cli.main", *arguments]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, **streams)


@pytest.mark.slow
@pytest.mark.skipif(
    not Path("/dev/full").exists(), reason="the system has no full disk"
)
@pytest.mark.parametrize("line", ["completion bash", "config explain -X acks=1"])
def test_a_full_disk_is_one_line_and_exit_code_1(line: str) -> None:
    with Path("/dev/full").open("w") as full:
        process = start(*line.split(), stdout=full)
        _, error = process.communicate(timeout=300)
    assert process.returncode == 1
    assert re.fullmatch(r"coterie: .*No space left on device\n", error)


@pytest.mark.slow
@pytest.mark.parametrize("line", ["--help", "--help-json", "completion bash"])
def test_a_closed_pipe_is_no_error(line: str) -> None:
    process = start(*line.split(), stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.close()
    _, error = process.communicate(timeout=300)
    assert (process.returncode, error) == (0, "")


@pytest.mark.parametrize("family", ["groups", "topics"])
def test_the_help_of_a_command_family_lists_its_commands(
    family: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exited:
        main([family, "--help"])
    assert exited.value.code == 0
    shown = capsys.readouterr().out
    for entry in COMMANDS:
        if entry.words[0] == family:
            assert f"    {entry.words[1]}" in shown
    with pytest.raises(SystemExit) as exited:
        main([family])
    assert exited.value.code == 2


@pytest.mark.parametrize(
    "line",
    [
        ["a", "b", "--wide"],
        ["a", "--wide", "b"],
        ["--wide", "a", "b"],
        ["--wide", "--", "a", "b"],
    ],
)
def test_group_ids_may_stand_before_between_and_after_options(line: list[str]) -> None:
    words = ["groups", "describe", *line]
    options = make_parser(find_command(words)).parse_args(words)
    assert (options.groups, options.wide, options.by) == (["a", "b"], True, "partition")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "groups list --sate Empty",
            "coterie groups list: unknown argument --sate (did you mean --state?); see "
            "coterie groups list --help\n",
        ),
        (
            "groups plan p.json reset g --to-latest --qqq=1",
            "coterie groups plan: unknown argument --qqq=1; see coterie groups plan "
            "--help\n",
        ),
        (
            "groups clone a",
            "coterie groups clone: the following arguments are required: DESTINATION;"
            " see coterie groups clone --help\n",
        ),
    ],
)
def test_a_usage_error_is_one_sentence(
    line: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exited:
        main(line.split())
    assert exited.value.code == 2
    assert capsys.readouterr().err == message


def test_options_cannot_be_abbreviated(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["groups", "delete", "g", "--exec"])
    assert (
        "unknown argument --exec (did you mean --execute?)" in capsys.readouterr().err
    )


def test_the_error_of_an_unknown_command_lists_the_commands(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        main(["group", "list"])
    message = capsys.readouterr().err
    assert (
        "invalid choice: 'group' (choose from 'serve', 'gateway', 'groups'" in message
    )


PARSED = [each for each in COMMANDS if not each.parses_itself]


@pytest.mark.parametrize("entry", PARSED, ids=lambda entry: entry.name)
def test_the_examples_of_a_command_call_it_and_can_be_parsed(entry: Entry) -> None:
    examples = [
        line.strip()
        for line in entry.load().examples.replace("\\\n", "").splitlines()
        if line.startswith("  coterie ")
    ]
    assert examples
    assert any(each.startswith(f"coterie {entry.name}") for each in examples)
    for example in examples:
        words = shlex.split(re.split(r" [|<>&]", example)[0])[1:]
        if find_command(words) == entry:
            assert make_parser(entry).parse_args(words).command == entry.name


@pytest.mark.slow
def test_every_command_and_option_is_printed_as_json(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as exited:
        main(["--help-json"])
    assert exited.value.code == 0
    document = json.loads(capsys.readouterr().out)
    commands = {each["name"]: each for each in document["commands"]}
    assert set(commands) == {each.name for each in COMMANDS}
    arguments = commands["groups describe"]["arguments"]
    groups, by = arguments[0], next(one for one in arguments if "--by" in one["names"])
    assert (groups["value"], groups["repeatable"]) == ("GROUP", True)
    assert (by["default"], by["choices"][0]) == ("partition", "partition")


_LOADED = """
import sys
from coterie.cli.main import main
from coterie.cli.registry import COMMANDS
try:
    main(sys.argv[1:])
except SystemExit:
    pass
names = sorted({entry.place.partition(":")[0] for entry in COMMANDS})
print("loaded:", *(name for name in names if f"coterie.cli.{name}" in sys.modules))
"""


def loaded_by(*arguments: str) -> list[str]:
    """Return the modules of commands that a command line imports."""
    done = subprocess.run(
        [sys.executable, "-c", _LOADED, *arguments],
        check=True,
        capture_output=True,
        text=True,
        timeout=300,
    )
    return done.stdout.rpartition("loaded:")[2].split()


@pytest.mark.slow
def test_help_imports_no_command_and_each_command_only_its_module() -> None:
    assert loaded_by("--help") == []
    assert loaded_by("serve", "--help") == ["serve"]
    assert loaded_by("groups", "--help") == []
    assert loaded_by("groups", "list", "--help") == ["groups.list"]


def test_a_command_with_its_own_parser_gets_unchanged_arguments(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    received: list[Sequence[str]] = []

    def run(arguments: Sequence[str]) -> int:
        received.append(arguments)
        return 7

    module = ModuleType("coterie.cli.other_tool")
    module.run = run  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "coterie.cli.other_tool", module)
    entry = Entry(
        "other-tool", "Run another tool", "other_tool:run", parses_itself=True
    )
    monkeypatch.setattr(registry, "COMMANDS", (entry,))
    assert main(["other-tool", "--help", "-x", "--", "y"]) == 7
    assert received == [["--help", "-x", "--", "y"]]
