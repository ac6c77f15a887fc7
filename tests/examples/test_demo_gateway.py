"""The demo of `make demo-gateway` says what is missing where it cannot run."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from examples import demo_gateway


def test_without_java_the_demo_says_what_it_needs_and_starts_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    output = io.StringIO()
    console = Console(file=output, width=400)
    assert demo_gateway.main([str(tmp_path / "jars")], console) == 1
    text = output.getvalue()
    assert text.startswith("The demo cannot run here: java is not installed.")
    assert "Java 17" in text
    assert "make demo needs neither" in text
    assert not (tmp_path / "jars").exists()
