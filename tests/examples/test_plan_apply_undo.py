"""docs/transcript.md shows what really happens."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from examples.plan_apply_undo import TRANSCRIPT, server, tell


@pytest.mark.slow
def test_the_transcript_is_what_happens() -> None:
    with tempfile.TemporaryDirectory() as name, server(Path(name)) as bootstrap:
        text = tell(bootstrap, Path(name))
    assert text == TRANSCRIPT.read_text(encoding="utf-8"), (
        "write it anew: python examples/plan_apply_undo.py --write"
    )
