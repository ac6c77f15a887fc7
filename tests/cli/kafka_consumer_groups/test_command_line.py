"""Tests for the options of the command: parsing as by jopt-simple, and refusals."""

from __future__ import annotations

from contextlib import nullcontext

import pytest

from coterie.broker.coordinator.consumer.subscriptions import check_regex
from coterie.cli.kafka_consumer_groups.command_line import (
    CommandLine,
    UsageError,
    check_actions,
    check_combinations,
    parse,
)
from coterie.errors import ApiError

from .in_process import run_in_process

SERVER = ("--bootstrap-server", "x:1")


@pytest.mark.fact("C-49b")
def test_options_are_parsed_as_by_jopt_simple() -> None:
    line = parse(
        ["--group", "a", "--group=b", "-group", "--c", "x", "--group", "a", "-list"]
    )
    assert line.all("group") == ("a", "b", "--c")
    assert line.has("list")
    assert not line.has("describe")


def test_an_optional_argument_is_the_next_argument_without_a_hyphen() -> None:
    assert parse(["--list", "--state", "stable,empty"]).one("state") == "stable,empty"
    line = parse(["--list", "--state", "--type", "classic"])
    assert line.one("state") is None
    assert line.one("type") == "classic"
    assert parse(["--list", "--state="]).one("state") == ""
    assert parse(["--list", "--state"]).one("state") is None


def test_arguments_without_an_option_are_ignored() -> None:
    line = parse(["--list=x", "what", "-", "--", "--describe"])
    assert line.has("list")
    assert not line.has("describe")


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("--lis", "lis is not a recognized option"),
        ("--describ --group g", "describ is not a recognized option"),
        ("-x", "x is not a recognized option"),
        ("--list --group", "Option group requires an argument"),
        ("--to-offset 1x", "Cannot parse argument '1x' of option to-offset"),
        (
            "--list --timeout 1 --timeout 2",
            "Found multiple arguments for option timeout, but you asked for only one",
        ),
        (
            "--list --members --verbose",
            "Option(s) [members, verbose] are unavailable given other options on the "
            "command line",
        ),
    ],
)
def test_invalid_options_are_refused(words: str, why: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse(words.split())
    assert str(refused.value) == why


DESCRIBE = "--bootstrap-server x:1 --describe"
RESET = "--bootstrap-server x:1 --reset-offsets"


@pytest.mark.parametrize(
    ("words", "why"),
    [
        pytest.param(
            "--list",
            'Missing required argument "[bootstrap-server]"',
            marks=pytest.mark.fact("C-49a", "C-49b"),
        ),
        (
            DESCRIBE,
            "Option [describe] takes one of these options: [group], [all-groups]",
        ),
        pytest.param(
            f"{DESCRIBE} --group g --members --state",
            "Option [describe] takes at most one of these options: [members], "
            "[offsets], [state]",
            marks=pytest.mark.fact("C-40"),
        ),
        pytest.param(
            f"{DESCRIBE} --group g --state stable",
            "Option [describe] does not take a value for [state]",
            marks=pytest.mark.fact("C-47a"),
        ),
        (
            f"{DESCRIBE} --group g --topic t --members",
            "Option [topic] selects rows of the table of offsets only",
        ),
        pytest.param(
            "--bootstrap-server x:1 --delete --group g --topic t",
            "The consumer does not support topic-specific offset deletion from a "
            "consumer group.",
            marks=pytest.mark.fact("D-42"),
        ),
        (
            "--bootstrap-server x:1 --delete",
            "Option [delete] takes one of these options: [group], [all-groups]",
        ),
        pytest.param(
            "--bootstrap-server x:1 --delete-offsets --group g",
            "Option [delete-offsets] takes the following options: [group], [topic]",
            marks=pytest.mark.fact("C-65a"),
        ),
        pytest.param(
            f"{RESET} --group g --all-topics --to-latest --dry-run --execute",
            "Option [reset-offsets] only accepts one of [execute] and [dry-run]",
            marks=pytest.mark.fact("C-60b", "C-60d"),
        ),
        pytest.param(
            f"{RESET} --group g --all-topics --to-latest --to-offset 3",
            'Option "[to-offset]" can\'t be used with option "[to-latest]"',
            marks=pytest.mark.fact("C-60b", "C-60d"),
        ),
        (
            f"{RESET} --group g --to-latest",
            "One of the reset scopes should be defined: --all-topics, --topic.",
        ),
        (
            f"{RESET} --group g --all-topics",
            "Option '[reset-offsets]' requires one of the following scenarios: "
            "[[to-offset], [shift-by], [to-datetime], [by-duration], [to-earliest], "
            "[to-latest], [to-current], [from-file]]",
        ),
        pytest.param(
            f"{DESCRIBE} --group g --all-groups",
            'Option "[group]" can\'t be used with option "[all-groups]"',
            marks=pytest.mark.fact("C-49a", "C-49b"),
        ),
        (
            "--bootstrap-server x:1 --list --group g",
            'Option "[group]" can\'t be used with option "[list]"',
        ),
        (
            "--bootstrap-server x:1 --list --topic t",
            'Option "[topic]" can\'t be used with option "[list]"',
        ),
        *(
            pytest.param(
                words,
                "Command must include exactly one action: --list, --describe, "
                "--delete, --reset-offsets, --delete-offsets, --validate-regex",
                marks=pytest.mark.fact("C-50"),
            )
            for words in (
                "--bootstrap-server x:1",
                "--bootstrap-server x:1 --list --delete --all-groups",
                "--bootstrap-server x:1 --list --validate-regex x",
            )
        ),
        (
            "--bootstrap-server x:1 --list --timeout 0",
            "Option [timeout] takes a number of milliseconds, at least 1",
        ),
        (
            "--bootstrap-server x:1 --delete-offsets --group g --group h --topic t",
            "Found multiple arguments for option group, but you asked for only one",
        ),
    ],
)
def test_invalid_combinations_of_options_are_refused(words: str, why: str) -> None:
    line = parse(words.split())
    with pytest.raises(UsageError) as refused:
        _check(line)
    assert str(refused.value) == why


def _check(line: CommandLine) -> None:
    check_actions(line)
    check_combinations(line)


def test_a_usage_error_is_printed_to_stderr_before_the_usage_with_exit_code_1() -> None:
    for words in ([], ["--fly"], ["--list"]):
        result = run_in_process(*words)
        assert result.exit_code == 1
        assert result.stdout == ""
        assert "--bootstrap-server HOST:PORT" in result.stderr
    assert run_in_process("--fly").stderr.startswith("fly is not a recognized option\n")


def test_help_is_printed_to_stdout_with_additions_and_examples() -> None:
    result = run_in_process("--help", "--members")
    assert result.exit_code == 0
    assert result.stderr == ""
    additions = result.stdout.partition("additions of Coterie:")[2]
    assert "GENERATION-ID" in additions.partition("examples:")[0]
    assert "--reset-offsets" in additions.partition("examples:")[2]


def test_the_version_is_that_of_coterie() -> None:
    assert run_in_process("--version").stdout.startswith("0.")


@pytest.mark.fact("E14-14")
@pytest.mark.parametrize(
    ("regex", "exit_code", "verdict"),
    [
        ("a.*b", 0, "valid"),
        ("a(b", 1, "invalid: missing closing )"),
        ("a)b", 1, "invalid: regexp/syntax: internal error"),
        ("[a", 1, "invalid: missing closing ]"),
        ("*a", 1, "invalid: missing argument to repetition operator"),
        ("a**", 1, "invalid: invalid nested repetition operator"),
        ("a{2000}", 1, "invalid: invalid repeat count"),
        ("[z-a]", 1, "invalid: invalid character class range"),
        ("a\\q", 1, "invalid: invalid escape sequence"),
        ("a\\", 1, "invalid: trailing backslash at end of expression"),
        ("(?P<n", 1, "invalid: invalid named capture"),
        ("(?=a)", 1, "invalid: invalid or unsupported Perl syntax"),
    ],
)
def test_a_regular_expression_is_checked_with_the_messages_of_re2j(
    regex: str, exit_code: int, verdict: str
) -> None:
    result = run_in_process("--validate-regex", regex)
    assert result.stdout == f"The regular expression `{regex}` is {verdict}.\n"
    assert result.exit_code == exit_code
    assert result.stderr == ""
    with pytest.raises(ApiError) if exit_code else nullcontext():
        check_regex(regex)  # the coordinator gives the same verdict


def test_a_reset_without_execute_is_warned_about_before_other_checks() -> None:
    result = run_in_process(*SERVER, "--reset-offsets")
    assert result.stderr.startswith("WARN: No action will be performed")
    assert "Option [reset-offsets] takes one of these options" in result.stderr
