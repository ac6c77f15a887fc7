"""Screens of 60, 80 and 120 columns, compared with the files in screens/.

COTERIE_TEST_GOLDEN=write rewrites the files; read the difference before you commit it.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path

import pytest

from coterie.cli.output import emit
from coterie.client.admin.groups import GroupState, GroupType, MemberDescription
from coterie.display import cells
from coterie.errors import ApiError
from coterie.types import TopicPartition
from coterie.wire.error_codes import ErrorCode
from tests.operations.fake_admin import FakeLog, group

from ..groups.cli_cluster import CliAdmin, Shell, is_golden, make_shell

SCREENS = Path(__file__).parents[1] / "screens"
WIDTHS = (60, 80, 120)
LONG_GROUP = "prod.eu-west-1.settlement-service.nightly-reconciliation"
COMMANDS = {
    "list": "groups list",
    "describe": "groups describe orders payments 日本語グループ",
    "describe-long": f"groups describe orders {LONG_GROUP}",
    "describe-columns": "groups describe orders --columns topic,PARTITION,member_id",
    "describe-wide": "groups describe orders --wide",
    "lag": "groups lag",
    "lag-by-host": "groups lag orders --by host",
    "members": "groups members orders payments",
    "reset": f"groups reset 日本語グループ {LONG_GROUP} --to-earliest",
    "consumers": "topics consumers orders",
}


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


def make_member(name: str, number: int, *owned: tuple[str, int]) -> MemberDescription:
    """Return a member with the ids and the address that a Java client has."""
    uuid = f"8f3c3c9e-4f0e-4b0a-9c0e-0123456789{number:02x}"
    return MemberDescription(
        f"consumer-{name}-{number}-{uuid}",
        f"consumer-{name}-{number}",
        f"/10.42.117.{number}",
        tuple(TopicPartition(*each) for each in owned),
    )


@pytest.fixture(scope="module")
def admin() -> CliAdmin:
    partitions = [("orders", 0), ("orders", 1), ("refunds-eu", 0)]
    logs = {
        TopicPartition(*each): FakeLog.of(1_234_000, 1_234_567) for each in partitions
    }
    admin = CliAdmin(known_logs=logs)
    orders = [make_member("orders", 1, *partitions[:2])]
    orders.append(make_member("orders", 2, partitions[2]))
    payments = replace(make_member("payments", 1, partitions[0]), instance_id="pod-7")
    admin.add(group("orders", *orders), **{"orders": 1_234_500, "refunds-eu": 0})
    admin.commits["orders"][TopicPartition("orders", 1)] = 1_234_567
    admin.add(group("payments", payments, type=GroupType.CONSUMER), orders=1_234_100)
    empty = GroupState.EMPTY
    admin.add(group("日本語グループ", state=empty), orders=1_234_567)
    admin.add(group(LONG_GROUP, state=empty), orders=1_234_001, **{"refunds-eu": 1})
    admin.add(group("secret", state=GroupState.COMPLETING_REBALANCE))
    admin.commit_errors["secret"] = ApiError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    return admin


@pytest.fixture
def shell(
    admin: CliAdmin, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Shell:
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setattr(emit, "wall_clock", lambda: datetime(2026, 1, 2, tzinfo=UTC))
    return make_shell(admin, monkeypatch, capsys)


def screen(shell: Shell, monkeypatch: pytest.MonkeyPatch, line: str, width: int) -> str:
    """Return the stdout of a command at a terminal."""
    monkeypatch.setenv("COLUMNS", str(width))
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    shell(line)
    monkeypatch.undo()
    return terminal.getvalue()


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", COMMANDS)
def test_a_screen_is_as_in_its_file(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, name: str, width: int
) -> None:
    text = screen(shell, monkeypatch, COMMANDS[name], width)
    is_whole = name == "describe-wide"
    assert all(cells(line) <= width or is_whole for line in text.splitlines())
    assert is_golden(f"{name}-{width}", text, SCREENS)


@pytest.mark.parametrize("width", [10, 20, 30, 40, 50])
@pytest.mark.parametrize("name", COMMANDS)
def test_names_are_whole_on_any_terminal(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, name: str, width: int
) -> None:
    text = screen(shell, monkeypatch, COMMANDS[name], width)
    named = [each for each in shell.admin.known_groups if each in COMMANDS[name]]
    assert set(named) <= set(text.split())
