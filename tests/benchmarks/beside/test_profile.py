"""The profile of a row's load on a warm server."""

from __future__ import annotations

import pytest

from benchmarks.beside.profile import lines, main, profile
from benchmarks.beside.requests import ROWS
from benchmarks.harness.figures import Skipped


@pytest.mark.slow
def test_a_profile_has_the_handlers_and_not_the_start_of_the_server() -> None:
    (row,) = [row for row in ROWS if row.name.startswith("commits of 50")]
    try:
        stats, requests = profile(row, 0.2)
    except Skipped as reason:
        pytest.skip(str(reason))
    functions = "\n".join(lines(stats, requests, limit=1_000))
    assert "offset_commit (committed_offsets.py" in functions
    assert "import_module" not in functions


def test_an_unknown_row_is_refused_with_the_names_of_all(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        main(["no such row"])
    assert "commits of 50, 20 connections" in capsys.readouterr().err
