"""coterie pipeline run: what it says, and what it refuses before Spark is started."""

from __future__ import annotations

from pathlib import Path

import pytest

from coterie.cli import main as cli
from coterie.pipeline.generator.generate import Order, generate
from coterie.pipeline.lake.lake import Lake


@pytest.fixture
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    from coterie.pipeline.session import session

    def never() -> None:
        raise AssertionError("Spark was started")

    monkeypatch.setattr(session, "start_session", never)


def _refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert cli.main(["pipeline", "run", *arguments]) == 2
    return capsys.readouterr().err


@pytest.mark.usefixtures("no_spark")
def test_options_that_make_no_sense_are_told_before_spark_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    both = ("--from", str(tmp_path), "--to", str(tmp_path / "lake"))
    said = _refused(capsys, *both, "--max-records", "0")
    assert "--max-records must be 1 or more" in said
    said = _refused(capsys, *both, "--max-records", "1", "--follow")
    assert "--follow does not end" in said
    said = _refused(capsys, *both, "--retention-days", "0")
    assert "--retention-days must be more than 0" in said
    said = _refused(capsys, *both, "--publish", "delta")
    assert "--publish FORMAT and --publish-to DIR need each other" in said
    said = _refused(capsys, *both, "--conf", "spark.executor.memory")
    assert "is no KEY=VALUE" in said
    assert not (tmp_path / "lake").exists()


@pytest.mark.usefixtures("no_spark")
def test_a_directory_of_another_log_or_of_other_things_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "log"
    generate(Order(folder=log, groups=1, commits=1, days=1, partitions=1))
    Lake.create(tmp_path / "lake", "store:/another")
    said = _refused(capsys, "--from", str(log), "--to", str(tmp_path / "lake"))
    assert "is of store:/another, not of segments:" in said
    said = _refused(capsys, "--from", str(log), "--to", str(log))
    assert "is no lake and not empty" in said
    said = _refused(capsys, "--from", "nowhere", "--to", str(tmp_path / "new"))
    assert "nowhere" in said
