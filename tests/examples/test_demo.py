"""The demo of `make demo` succeeds, and its errors name the cause."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from examples import demo

SCRIPT = Path(demo.__file__)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_demo_shows_owners_before_and_after_and_ends_in_a_report(
    tmp_path: Path,
) -> None:
    run = subprocess.run(
        [sys.executable, str(SCRIPT), str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=580,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert "Three members of the group billing share it" in run.stdout
    assert "ada has left: 2 of 6 partitions moved" in run.stdout
    assert "The offsets that billing has committed" in run.stdout
    assert "Where to go next" in run.stdout
    _, _, tables = run.stdout.partition("becomes tables")
    owned, _, stale = tables.partition("Stale groups")
    assert "left: ada" in owned
    assert "billing" in stale
    page = (tmp_path / "report.html").read_text("utf-8")
    assert page.startswith("<!doctype html>")
    assert "margaret" in page
    assert (tmp_path / "report.html").as_uri() in run.stdout.replace("\n", "")


def test_packages_of_the_pipeline_are_announced_before_they_are_installed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    output = io.StringIO()
    printed: list[str] = []

    def install(command: list[str], **_: object) -> subprocess.CompletedProcess[bytes]:
        printed.append(output.getvalue())
        assert command[-1] == "pipeline"
        return subprocess.CompletedProcess(command, 1)

    monkeypatch.setattr(demo, "PIPELINE", ("no_such_module",))
    monkeypatch.setattr(subprocess, "run", install)
    with pytest.raises(demo.DemoFailed, match="could not be installed"):
        demo.install_pipeline(Console(file=output, width=200))
    assert "1.3 GB" in printed[0]


def test_packages_of_the_pipeline_that_exist_are_not_installed_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(subprocess, "run", pytest.fail)
    output = io.StringIO()
    demo.install_pipeline(Console(file=output))
    assert not output.getvalue()


@pytest.mark.slow
def test_the_error_of_a_server_that_fails_to_start_has_its_log(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(demo, "SERVER_SETTINGS", ("no.such.setting=1",))
    with (
        pytest.raises(demo.DemoFailed, match=r"(?s)ended at once.*no\.such\.setting"),
        demo.server(tmp_path),
    ):
        raise AssertionError("it must not start")


def test_a_condition_that_is_never_met_is_named_in_the_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(demo, "WAIT_S", 0.01)
    with pytest.raises(demo.DemoFailed, match="the sun did not rise within"):
        demo.wait_until(lambda: False, "the sun did not rise")
