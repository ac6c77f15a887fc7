"""The demo that `make demo` runs ends well, or says why not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

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
    _, _, told = run.stdout.partition("becomes tables")
    owned, _, stale = told.partition("Which groups may go?")
    assert "left: ada" in owned
    assert "billing" in stale
    page = (tmp_path / "report.html").read_text("utf-8")
    assert page.startswith("<!doctype html>")
    assert "margaret" in page
    assert (tmp_path / "report.html").as_uri() in run.stdout.replace("\n", "")


@pytest.mark.slow
def test_a_server_that_dies_at_start_is_told_in_its_own_words(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(demo, "SERVER_SETTINGS", ("no.such.setting=1",))
    with (
        pytest.raises(demo.DemoFailed, match=r"(?s)ended at once.*no\.such\.setting"),
        demo.server(tmp_path),
    ):
        raise AssertionError("it must not start")


def test_what_never_happens_is_said_in_a_sentence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(demo, "WAIT_S", 0.01)
    with pytest.raises(demo.DemoFailed, match="the sun did not rise within"):
        demo.wait_until(lambda: False, "the sun did not rise")
