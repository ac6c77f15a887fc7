"""`coterie groups watch`."""

from __future__ import annotations

import asyncio
import json
import re
import signal
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from io import StringIO
from itertools import count
from typing import Any

import pytest

from coterie.cli.command import run_on_cluster
from coterie.cli.groups import watch as watch_module
from coterie.cli.groups.watch import watch
from coterie.cli.output import emit
from coterie.cli.parser import make_parser
from coterie.cli.registry import find_command
from coterie.client.admin.groups import GroupDescription
from coterie.client.admin.results import Results
from coterie.display import cells
from coterie.errors import ApiError, ConnectionLost, SettingError
from coterie.types import TopicPartition
from coterie.wire.error_codes import ErrorCode
from tests.operations.fake_admin import FakeLog, group, member

from .cli_cluster import CliAdmin, Shell, is_golden, make_shell


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


T0 = TopicPartition("t", 0)


class MovingAdmin(CliAdmin):
    """A cluster where, between two measurements, a group reads 20 records and 5 are
    written."""

    before_measurement: Callable[[int], None] = staticmethod(lambda _: None)
    measurements = 0

    async def describe_groups(
        self, *arguments: Any, **options: Any
    ) -> Results[str, GroupDescription]:
        self.measurements += 1
        committed = self.commits["orders"][T0]
        assert committed is not None
        self.commits["orders"] = {T0: committed + 20}
        log = self.known_logs[T0]
        self.known_logs[T0] = FakeLog.of(log.start, log.end + 5)
        self.before_measurement(self.measurements)
        return await super().describe_groups(*arguments, **options)


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    admin = MovingAdmin(known_logs={T0: FakeLog.of(0, 100)})
    admin.add(group("orders", member("m", ("t", 0))), t=0)
    start = datetime(2026, 1, 2, tzinfo=UTC)
    monkeypatch.setattr(
        emit, "wall_clock", lambda: start + timedelta(seconds=10 * admin.measurements)
    )
    return make_shell(admin, monkeypatch, capsys)


def test_tables_are_appended_when_stdout_is_a_pipe(shell: Shell) -> None:
    assert is_golden("watch", shell("groups watch --count 2 --interval 0"))
    assert shell.code == 0


def test_jsonl_has_a_line_for_each_group_and_measurement(shell: Shell) -> None:
    text = shell("groups watch --count 2 --interval 0 --output jsonl")
    first, second = [json.loads(line) for line in text.splitlines()]
    assert (first["observed_at"], first["lag"]) == ("2026-01-02T00:00:00.000Z", 85)
    assert (first["read_per_s"], first["catch_up_ms"]) == (None, None)
    assert (second["observed_at"], second["lag"]) == ("2026-01-02T00:00:10.000Z", 70)
    assert (second["read_per_s"], second["written_per_s"]) == (2.0, 0.5)
    assert second["catch_up_ms"] == 46_667


def test_a_failed_measurement_is_reported_and_the_next_one_is_tried(
    shell: Shell,
) -> None:
    def fail_once(measurements: int) -> None:
        if measurements == 1:
            raise ConnectionLost("broker:9092 hung up")

    assert isinstance(shell.admin, MovingAdmin)
    shell.admin.before_measurement = fail_once
    text = shell("groups watch --count 2 --interval 0 --output jsonl")
    lost, measured = [json.loads(line) for line in text.splitlines()]
    assert (lost["error"]["code"], measured["group_id"]) == ("ConnectionLost", "orders")
    assert shell.code == 0
    assert shell.error.startswith("error: broker:9092 hung up\n")


def test_the_last_measurement_decides_the_exit_code(shell: Shell) -> None:
    shell.admin.log_errors[T0] = ApiError(ErrorCode.LEADER_NOT_AVAILABLE)
    shell("groups watch --count 2 --interval 0")
    assert shell.code == 1


def test_ctrl_c_returns_exit_code_130(shell: Shell) -> None:
    def interrupt(measurements: int) -> None:
        if measurements == 2:
            signal.raise_signal(signal.SIGINT)

    assert isinstance(shell.admin, MovingAdmin)
    shell.admin.before_measurement = interrupt
    text = shell("groups watch --interval 0 --count 99")
    assert len(text.splitlines()) == 2
    assert shell.code == 130


@pytest.mark.parametrize("form", ["json", "csv", "md"])
def test_watch_refuses_formats_that_are_a_single_document(
    shell: Shell, form: str
) -> None:
    assert shell(f"groups watch --output {form}") == ""
    assert (shell.code, "use table, wide or jsonl" in shell.error) == (2, True)


@pytest.mark.parametrize("value", ["-1", "nan", "inf", "soon"])
def test_an_invalid_interval_is_refused(shell: Shell, value: str) -> None:
    with pytest.raises(SystemExit) as exited:
        shell(f"groups watch --interval={value}")
    assert exited.value.code == 2


def watch_at_terminal(*arguments: str) -> tuple[int, str]:
    """Run `watch` at a terminal; return the exit code and the output."""
    line = ["groups", "watch", "--interval", "0", *arguments]
    options = make_parser(find_command(line)).parse_args(line)
    io = emit.CommandIO(stdout=Terminal(), stderr=StringIO())
    code = run_on_cluster(options, watch, io)
    assert isinstance(io.stdout, StringIO)
    return code, io.stdout.getvalue()


def frames(shown: str) -> list[list[str]]:
    """Return the lines of each drawing of the screen."""
    return [
        re.sub(r"\x1b\[\d*[mKJ]", "", frame).splitlines()
        for frame in shown.split("\x1b[H")[1:]
    ]


@pytest.mark.posix
@pytest.mark.usefixtures("shell")
def test_the_screen_is_redrawn_and_the_last_table_stays() -> None:
    code, shown = watch_at_terminal("--count", "2")
    assert code == 0
    *drawn, last = frames(shown)
    assert drawn[0][1] == "measuring ..."
    assert drawn[-1][1].startswith("measured at ")
    assert any(line.startswith("orders  Stable") for line in drawn[-1])
    assert any(line.startswith("orders  Stable") for line in last)


@pytest.mark.posix
def test_the_screen_says_since_when_the_figures_are_stale(shell: Shell) -> None:
    def fail_second(measurements: int) -> None:
        if measurements == 2:
            raise ConnectionLost("broker:9092 hung up")

    assert isinstance(shell.admin, MovingAdmin)
    shell.admin.before_measurement = fail_second
    code, shown = watch_at_terminal("--count", "3")
    assert code == 0
    stale = next(each for each in frames(shown) if "stale" in each[1])
    assert re.fullmatch(r"stale since ..:..:.. \(broker:9092 hung up\)", stale[1])
    assert any(line.startswith("orders  Stable") for line in stale)


@pytest.mark.posix
def test_the_screen_says_how_long_no_broker_responds(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = count(step=3)
    start = datetime(2026, 1, 2, tzinfo=UTC)
    monkeypatch.setattr(
        emit, "wall_clock", lambda: start + timedelta(seconds=next(seconds))
    )
    monkeypatch.setattr(watch_module, "_REDRAW_S", 0.0)
    responds = asyncio.Event()
    answer = shell.admin.list_groups

    async def never_first(*arguments: Any, **options: Any) -> Any:
        await asyncio.wait_for(responds.wait(), 60)
        return await answer(*arguments, **options)

    monkeypatch.setattr(shell.admin, "list_groups", never_first)
    frame = watch_module._Redrawn._frame

    def respond_later(screen: watch_module._Redrawn) -> list[str]:
        lines = frame(screen)
        if "no response for" in lines[1]:
            responds.set()
        return lines

    monkeypatch.setattr(watch_module._Redrawn, "_frame", respond_later)
    code, shown = watch_at_terminal("--count", "1")
    assert code == 0
    assert re.search(r"no measurement yet \(no response for \d+ s\)", shown)


@pytest.mark.posix
@pytest.mark.parametrize("width", [20, 60, 80, 120])
@pytest.mark.parametrize("height", [5, 12, 24])
def test_a_screen_fits_the_terminal(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, width: int, height: int
) -> None:
    for number in range(30):
        shell.admin.add(group(f"billing-of-{number}-日本語グループ"), t=number)
    shell.admin.commit_errors["billing-of-7-日本語グループ"] = ApiError(
        ErrorCode.GROUP_AUTHORIZATION_FAILED
    )
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("LINES", str(height))
    _, shown = watch_at_terminal("--count", "2")
    drawn = frames(shown)[:-1]
    assert all(len(frame) < height for frame in drawn)
    assert all(cells(line) <= width for frame in drawn for line in frame)
    if height > 5 and width > 20:
        assert any(re.match(r"\d+ more: use --top", line) for line in drawn[-1])


@pytest.mark.posix
def test_the_screen_follows_the_size_of_the_terminal(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    def shrink(measurements: int) -> None:
        if measurements == 2:
            monkeypatch.setenv("COLUMNS", "30")

    assert isinstance(shell.admin, MovingAdmin)
    shell.admin.before_measurement = shrink
    monkeypatch.setenv("COLUMNS", "100")
    _, shown = watch_at_terminal("--count", "3")
    longest = [max(map(cells, frame)) for frame in frames(shown)]
    assert max(longest) > 30
    assert longest[-2] <= 30


@pytest.mark.posix
def test_ctrl_c_at_a_terminal_ends_the_watch(shell: Shell) -> None:
    def interrupt(measurements: int) -> None:
        if measurements == 2:
            signal.raise_signal(signal.SIGINT)

    assert isinstance(shell.admin, MovingAdmin)
    shell.admin.before_measurement = interrupt
    with pytest.raises(KeyboardInterrupt):
        watch_at_terminal()


@pytest.mark.usefixtures("shell")
def test_a_terminal_without_a_cursor_gets_plain_tables(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TERM", "dumb")
    _, shown = watch_at_terminal("--count", "1")
    assert "orders  Stable" in shown
    assert "\x1b" not in shown


def test_watch_ends_when_stdout_is_closed(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Simulate a pipe that closes stdout, as in `coterie groups watch | head -1`."""
    monkeypatch.setattr(emit, "write", lambda stream, pieces: False)
    shell("groups watch --interval 0 --output jsonl")
    assert shell.code == 0


def test_a_count_of_zero_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exited:
        make_parser(find_command(["groups", "watch"])).parse_args(
            ["groups", "watch", "--count", "0"]
        )
    assert exited.value.code == 2
    assert "'0' is not a count; use a whole number from 1" in capsys.readouterr().err


def test_unknown_columns_end_the_watch(shell: Shell) -> None:
    with pytest.raises(SettingError, match="unknown column 'LAGS'"):
        watch_at_terminal("--columns", "GROUP,LAGS")
    shell("groups watch --columns LAGS --count 1")
    assert shell.code == 2


@pytest.mark.usefixtures("shell")
def test_columns_are_chosen_on_the_screen() -> None:
    _, shown = watch_at_terminal("--columns", "lag,group", "--count", "1")
    assert "LAG  GROUP" in shown
    assert "STATE" not in shown


@pytest.mark.posix
@pytest.mark.usefixtures("shell")
def test_no_progress_bar_overwrites_the_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(emit, "_PROGRESS_DELAY_S", 0.0)
    line = ["groups", "watch", "--interval", "0", "--count", "1"]
    options = make_parser(find_command(line)).parse_args(line)
    io = emit.CommandIO(stdout=Terminal(), stderr=Terminal())
    run_on_cluster(options, watch, io)
    assert isinstance(io.stderr, StringIO)
    assert io.stderr.getvalue() == ""
