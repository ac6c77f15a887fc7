"""The command line of the benchmarks, with a benchmark that measures nothing."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Iterator
from types import ModuleType

import pytest

import benchmarks.__main__ as command
from benchmarks.harness.figures import Figure, Rounds


def measure(rounds: Rounds) -> Iterator[Figure]:
    for row, value in (("good", 2.0), ("bad", 0.5)):
        if rounds.includes(row):
            yield Figure(name=row, value=value, bar=1.0, build="pure", cpu_us=7.5)


@pytest.fixture(autouse=True)
def only_benchmark(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    module = ModuleType("fake_benchmark", "Measure nothing.")
    module.__dict__["measure"] = measure
    monkeypatch.setitem(sys.modules, "fake_benchmark", module)
    monkeypatch.setattr(command, "find_benchmarks", lambda: {"fake": "fake_benchmark"})
    handlers = {sign: signal.getsignal(sign) for sign in (15, 1)}
    yield
    for sign, handler in handlers.items():
        signal.signal(sign, handler)


def test_a_missed_bar_is_the_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["--rows", "good"]) == 0
    assert "MISSED" not in capsys.readouterr().out
    assert command.main(["fake"]) == 1
    assert "0.50 MISSED" in capsys.readouterr().out


def test_json_is_the_only_output_on_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    command.main(["--json"])
    good, bad = json.loads(capsys.readouterr().out)
    assert (good["name"], good["build"], good["verdict"]) == ("good", "pure", "met")
    assert (bad["bar"], bad["side"], bad["verdict"]) == (1.0, ">=", "MISSED")


def test_markdown_is_the_only_output_on_stdout(
    capsys: pytest.CaptureFixture[str],
) -> None:
    command.main(["--markdown"])
    lines = capsys.readouterr().out.splitlines()
    assert all(line.startswith("|") for line in lines)
    assert len(lines) == 4


def test_the_cpu_view_is_printed_on_request(capsys: pytest.CaptureFixture[str]) -> None:
    command.main([])
    assert "us a request" not in capsys.readouterr().out
    command.main(["--cpu"])
    assert "us a request" in capsys.readouterr().out
