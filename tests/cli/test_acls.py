"""`coterie acls list`, `add` and `remove`, on a server with an ACL authorizer."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from coterie.auth.acl import (
    ANONYMOUS,
    Operation,
    Principal,
    RequestContext,
    ResourceType,
)
from coterie.auth.authorizer import AclAuthorizer
from tests.broker.server.harness import ThreadServer
from tests.cli.server_shell import ServerShell

ALICE = RequestContext(Principal("User", "alice"), "10.0.0.7")
READ_G = Operation.READ, ResourceType.GROUP, "g"


class Shell(ServerShell):
    """A runner of `coterie acls` commands as a super user."""

    def listed(self, words: str = "") -> list[str]:
        """Return listed ACLs as "group g literal User:alice * allow read"."""
        return [
            " ".join(
                each[key]
                for key in (
                    "resource_type",
                    "name",
                    "pattern",
                    "principal",
                    "host",
                    "permission",
                    "operation",
                )
            )
            for each in self.items(f"list {words}")
        ]


@pytest.fixture
def acls() -> AclAuthorizer:
    return AclAuthorizer(super_users=[ANONYMOUS])


@pytest.fixture
def shell(acls: AclAuthorizer, capsys: pytest.CaptureFixture[str]) -> Iterator[Shell]:
    with ThreadServer(authorizer=acls) as server:
        yield Shell("acls", server, capsys)


def test_nothing_is_added_without_execute(shell: Shell, acls: AclAuthorizer) -> None:
    words = "add --principal User:alice --operation read --group g --topic t"
    shown = shell(words)
    assert "planned" in shown
    assert "nothing was written: use --execute" in shell.error
    assert shell.listed() == []
    [group, topic] = shell.items(f"{words} --execute")
    assert (group["result"], topic["result"]) == ("added", "added")
    assert shell.listed() == [
        "topic t literal User:alice * allow read",
        "group g literal User:alice * allow read",
    ]
    assert acls.authorize(ALICE, *READ_G)


def test_several_acls_are_added_in_one_request_and_selected_by_filters(
    shell: Shell,
) -> None:
    shell(
        "add --principal User:alice --principal User:* --operation read "
        "--operation describe-configs --topic eu- --prefixed --host 10.0.0.7 --execute"
    )
    shell("add --principal User:eve --operation all --cluster --deny --execute")
    assert len(shell.listed()) == 5
    assert shell.listed("--permission deny") == [
        "cluster kafka-cluster literal User:eve * deny all"
    ]
    assert len(shell.listed("--topic eu-orders")) == 0
    assert len(shell.listed("--topic eu-orders --pattern match")) == 4
    assert len(shell.listed("--principal User:* --operation describe-configs")) == 1
    assert len(shell.listed("--host 10.0.0.7 --topic eu-")) == 4
    assert len(shell.listed("--cluster --topic eu- --operation read")) == 2


def test_only_shown_acls_are_removed(shell: Shell, acls: AclAuthorizer) -> None:
    add = "add --principal User:alice --operation read --operation delete"
    shell(f"{add} --group g --group h --execute")
    shown = shell("remove --group g")
    assert shown.count("planned") == 2
    assert acls.authorize(ALICE, *READ_G)
    removed = shell.items("remove --group g --execute")
    assert [each["result"] for each in removed] == ["removed", "removed"]
    assert not acls.authorize(ALICE, *READ_G)
    assert {line.split()[1] for line in shell.listed()} == {"h"}
    shell("remove --group g --execute")
    assert "no ACL is selected" in shell.error
    shell("list --group g")
    assert "no ACL is selected" in shell.error


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "add --principal User:alice --operation read",
            "no resource is named; use --group",
        ),
        ("add --principal User:alice --group g", "for example --operation read"),
        ("add --principal alice --operation read --group g", "for example User:alice"),
        ("remove --principal alice", "for example User:alice"),
        ("list --principal alice", "for example User:alice"),
    ],
)
def test_a_missing_part_of_an_acl_is_a_usage_error(
    shell: Shell, line: str, message: str
) -> None:
    shell(line, code=2)
    assert message in shell.error


def test_an_acl_that_the_server_refuses_is_a_failed_row(shell: Shell) -> None:
    words = "add --principal User:alice --operation read --host= --group g --execute"
    [item] = shell.items(words, code=1)
    assert (item["result"], item["error"]["code"]) == ("failed", "INVALID_REQUEST")


def test_a_server_without_an_acl_authorizer_is_an_error(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with ThreadServer() as server:
        shell = Shell("acls", server, capsys)
        shell("list", code=1)
        assert "SECURITY_DISABLED" in shell.error
        assert "start the server with authorizer=acl" in shell.error


def test_items_have_documented_keys(shell: Shell) -> None:
    words = "add --principal User:alice --operation read --group g --execute"
    keys = [
        "resource_type",
        "name",
        "pattern",
        "principal",
        "host",
        "permission",
        "operation",
    ]
    [added] = shell.items(words)
    [listed] = shell.items("list")
    assert [*added] == [*keys, "result", "error"]
    assert [*listed] == [*keys, "error"]
