"""docs/transcript.md is the current output of the commands."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from examples.plan_apply_undo import TRANSCRIPT, server, transcript


@pytest.mark.slow
def test_the_transcript_in_docs_is_current() -> None:
    with tempfile.TemporaryDirectory() as name, server(Path(name)) as bootstrap:
        text = transcript(bootstrap, Path(name))
    assert text == TRANSCRIPT.read_text(encoding="utf-8"), (
        "regenerate it: python examples/plan_apply_undo.py --write"
    )
