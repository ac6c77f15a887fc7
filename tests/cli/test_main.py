"""The command `coterie`: which verb is called, what is imported for it, and what
becomes of one that fails."""

from __future__ import annotations

import argparse
import json
import re
import shlex
import subprocess
import sys
from collections.abc import Sequence
from types import ModuleType

import pytest

from coterie.cli import main as cli
from coterie.cli import serve
from coterie.errors import ClientError, SettingError


def test_a_setting_that_cannot_be_is_one_line_and_exit_code_2(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(options: argparse.Namespace) -> int:
        raise SettingError(f"{options.nodes} are too many")

    monkeypatch.setattr(serve, "run", run)
    assert cli.main(["serve", "--nodes", "3"]) == 2
    assert capsys.readouterr().err == "coterie: 3 are too many\n"


@pytest.mark.parametrize(
    ("raised", "code", "said"),
    [
        (KeyboardInterrupt(), 130, ""),
        (ClientError("broker:9092 hung up"), 1, "coterie: broker:9092 hung up\n"),
    ],
)
def test_how_a_command_ends_is_its_exit_code(
    raised: BaseException,
    code: int,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def run(options: argparse.Namespace) -> int:
        raise raised

    monkeypatch.setattr(serve, "run", run)
    assert cli.main(["serve"]) == code
    assert capsys.readouterr().err == said


@pytest.mark.parametrize("family", ["groups", "topics"])
def test_a_family_of_commands_says_which_it_has(
    family: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        cli.main([family, "--help"])
    assert left.value.code == 0
    shown = capsys.readouterr().out
    for verb in cli.VERBS:
        if verb.words[0] == family and not verb.is_hidden:
            assert f"    {verb.words[1]}" in shown
    with pytest.raises(SystemExit) as left:
        cli.main([family])
    assert left.value.code == 2


@pytest.mark.parametrize(
    "line",
    [
        ["a", "b", "--wide"],
        ["a", "--wide", "b"],
        ["--wide", "a", "b"],
        ["--wide", "--", "a", "b"],
    ],
)
def test_groups_may_be_named_before_between_and_after_options(line: list[str]) -> None:
    options = cli.make_parser("groups describe").parse_args(
        ["groups", "describe", *line]
    )
    assert (options.groups, options.wide, options.by) == (["a", "b"], True, "partition")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            "groups list --sate Empty",
            "coterie groups list: there is no --sate (did you mean --state?); see "
            "coterie groups list --help\n",
        ),
        (
            "groups plan p.json reset g --to-latest --qqq=1",
            "coterie groups plan: there is no --qqq=1; see coterie groups plan "
            "--help\n",
        ),
        (
            "groups clone a",
            "coterie groups clone: the following arguments are required: DESTINATION;"
            " see coterie groups clone --help\n",
        ),
    ],
)
def test_a_line_that_is_wrong_is_told_of_in_one_sentence(
    line: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        cli.main(line.split())
    assert left.value.code == 2
    assert capsys.readouterr().err == said


def test_options_are_written_out(capsys: pytest.CaptureFixture[str]) -> None:
    """What is nearly --execute does not write."""
    with pytest.raises(SystemExit):
        cli.main(["groups", "delete", "g", "--exec"])
    assert "there is no --exec (did you mean --execute?)" in capsys.readouterr().err


def test_a_command_that_is_not_there_is_told_with_those_that_people_use(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        cli.main(["group", "list"])
    said = capsys.readouterr().err
    assert "invalid choice: 'group' (choose from 'serve', 'groups'" in said
    assert "'complete'" not in said


VERBS = [each for each in cli.VERBS if not each.has_own_grammar]


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.name)
def test_the_examples_of_a_verb_are_about_it_and_can_be_typed(verb: cli.Verb) -> None:
    examples = [
        line.strip()
        for line in verb.load().EXAMPLES.replace("\\\n", "").splitlines()
        if line.startswith("  coterie ")
    ]
    assert examples
    assert any(each.startswith(f"coterie {verb.name}") for each in examples)
    for example in examples:
        words = shlex.split(re.split(r" [|>&]", example)[0])[1:]
        if words[: len(verb.words)] == verb.words:
            assert cli.make_parser(verb.name).parse_args(words).command == verb.name


@pytest.mark.slow
def test_every_command_and_option_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        cli.main(["--help-json"])
    assert left.value.code == 0
    document = json.loads(capsys.readouterr().out)
    commands = {each["name"]: each for each in document["commands"]}
    assert set(commands) == {each.name for each in cli.VERBS if not each.is_hidden}
    arguments = commands["groups describe"]["arguments"]
    groups, by = arguments[0], next(one for one in arguments if "--by" in one["names"])
    assert (groups["value"], groups["repeatable"]) == ("GROUP", True)
    assert (by["default"], by["choices"][0]) == ("partition", "partition")


_LOADED = """
import sys
from coterie.cli.main import VERBS, main
try:
    main(sys.argv[1:])
except SystemExit:
    pass
names = (".".join(verb.words).replace("-", "_") for verb in VERBS)
print("loaded:", *(name for name in names if f"coterie.cli.{name}" in sys.modules))
"""


def loaded_by(*arguments: str) -> list[str]:
    """The verbs whose modules a command line imports."""
    done = subprocess.run(
        [sys.executable, "-c", _LOADED, *arguments],
        check=True,
        capture_output=True,
        text=True,
        timeout=30,
    )
    return done.stdout.rpartition("loaded:")[2].split()


@pytest.mark.slow
def test_help_imports_no_verb_and_a_verb_only_itself() -> None:
    assert loaded_by("--help") == []
    assert loaded_by("serve", "--help") == ["serve"]
    assert loaded_by("groups", "--help") == []
    assert loaded_by("groups", "list", "--help") == ["groups.list"]


def test_a_verb_with_a_grammar_of_its_own_gets_its_arguments_as_they_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[Sequence[str]] = []

    def take_over(arguments: Sequence[str]) -> int:
        seen.append(arguments)
        return 7

    module = ModuleType("coterie.cli.other_tool")
    module.main = take_over  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "coterie.cli.other_tool", module)
    verb = cli.Verb("other-tool", "another tool", has_own_grammar=True)
    monkeypatch.setattr(cli, "VERBS", (verb,))
    assert cli.main(["other-tool", "--help", "-x", "--", "y"]) == 7
    assert seen == [["--help", "-x", "--", "y"]]
