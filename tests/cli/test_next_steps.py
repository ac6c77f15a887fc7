"""A failure of the command line is followed by what to do next."""

from __future__ import annotations

import pytest

from coterie.errors import ConnectionLost
from tests.cli.groups.cli_cluster import CliAdmin, Shell, make_shell
from tests.operations.fake_admin import group


@pytest.fixture
def shell(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Shell:
    admin = CliAdmin()
    admin.add(group("orders"), t=1)
    return make_shell(admin, monkeypatch, capsys)


def test_a_misspelt_group_is_followed_by_a_similar_one(shell: Shell) -> None:
    shell("groups describe ordres")
    assert shell.code == 1
    assert "there is no group 'ordres': did you mean 'orders'?\n" in shell.error


def test_a_space_at_the_end_of_a_group_id_is_visible(shell: Shell) -> None:
    shell("groups describe 'orders '")
    assert "group 'orders ': GROUP_ID_NOT_FOUND" in shell.error
    assert "there is no group 'orders ': did you mean 'orders'?\n" in shell.error


def test_a_group_like_no_other_leads_to_the_list(shell: Shell) -> None:
    shell("groups describe payments")
    assert "there is no group 'payments': `coterie groups list` shows" in shell.error


def test_groups_are_listed_only_when_one_is_missing(shell: Shell) -> None:
    shell("groups describe orders")
    assert "list_groups" not in shell.admin.calls
    shell("groups describe a b c d")
    assert "list_groups" not in shell.admin.calls


def test_a_commit_for_a_deleted_topic_is_no_typing_error(shell: Shell) -> None:
    shell("groups describe orders")
    assert "UNKNOWN_TOPIC_OR_PARTITION" in shell.error + str(
        shell.json("groups describe orders")
    )
    assert "there is no topic" not in shell.error
    assert "describe_topics" not in shell.admin.calls


def test_options_of_other_commands_get_no_hint_about_groups(shell: Shell) -> None:
    with pytest.raises(SystemExit):
        shell("topics list --dry-run")
    assert "a preview is the default" not in shell.capture.readouterr().err


def test_a_broker_that_is_not_reached_leads_to_the_check_of_connections(
    shell: Shell,
) -> None:
    shell.admin.run_error = ConnectionLost("b:9 cannot be reached: connection refused")
    shell("groups list")
    assert "`coterie config check` tries each step of a connection\n" in shell.error


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("groups describe --group orders", "group ids need no option"),
        ("groups lag --all-groups", "it is --all here"),
        ("groups reset orders --to-latest --dry-run", "a preview is the default"),
    ],
)
def test_an_option_of_apaches_tool_is_answered_with_ours(
    shell: Shell, line: str, hint: str
) -> None:
    with pytest.raises(SystemExit) as exited:
        shell(line)
    assert exited.value.code == 2
    assert f"({hint})" in shell.capture.readouterr().err
