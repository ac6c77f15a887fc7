"""Runs of tests on a changed copy: hanging tests end, and the copy is restored."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

from mutation.sandbox import Edit, Report, own_sandbox, pool_of_sandboxes

HANGS = "import time\n\ndef test_hangs() -> None:\n    time.sleep(600)\n"
PASSES = "import coterie.types\n\ndef test_passes() -> None:\n    pass\n"


def run_tests(path: str, edit: Edit | None = None, limit_s: float = 60.0) -> Report:
    return own_sandbox().run_tests([path], edit=edit, limit_s=limit_s)


@pytest.fixture(scope="module")
def pool() -> Iterator[ProcessPoolExecutor]:
    with pool_of_sandboxes(1) as opened:
        yield opened


@pytest.mark.slow
def test_a_test_that_hangs_ends_at_the_time_limit(
    pool: ProcessPoolExecutor, tmp_path: Path
) -> None:
    test = tmp_path / "test_hangs.py"
    test.write_text(HANGS)
    assert pool.submit(run_tests, str(test), None, 2.0).result() == Report(hung=True)


@pytest.mark.slow
def test_only_the_chosen_tests_of_a_file_run(
    pool: ProcessPoolExecutor, tmp_path: Path
) -> None:
    test = "tests/scenarios/test_scenarios.py::test_scenario[offsets: "
    test += "H-94a H-94b A-40 A-41 Fetching from an unknown group is not an error]"
    report = pool.submit(run_tests, test).result()
    assert report.passed
    assert list(report.seconds) == [test]


@pytest.mark.slow
def test_a_change_that_breaks_an_import_is_unusable_and_is_undone(
    pool: ProcessPoolExecutor, tmp_path: Path
) -> None:
    test = tmp_path / "test_passes.py"
    test.write_text(PASSES)
    edit = Edit("src/coterie/types.py", "import gone_forever\n")
    report = pool.submit(run_tests, str(test), edit).result()
    assert not report.passed
    assert "gone_forever" in report.unusable
    assert pool.submit(run_tests, str(test)).result().passed
