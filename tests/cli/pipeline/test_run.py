"""`coterie pipeline run`: what is reported before and after Spark runs."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from coterie.cli import main as cli
from coterie.cli.pipeline import run as command
from coterie.cli.pipeline.run import _gold_settings, _with_retention
from coterie.pipeline.gold.settings import DAY_MS
from coterie.pipeline.jobs import run as job
from coterie.pipeline.jobs.run import RunResult, read_log
from coterie.pipeline.jobs.samples import TakenSamples
from coterie.pipeline.lake.lake import Lake
from coterie.testing.log_generator.generate import GeneratorOptions, generate
from tests.pipeline.sources.logs import plain, write


@pytest.fixture
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    from coterie.pipeline import spark_session

    def fail() -> None:
        raise AssertionError("Spark was started")

    monkeypatch.setattr(spark_session, "start_session", fail)


def _refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert cli.main(["pipeline", "run", *arguments]) == 2
    return capsys.readouterr().err


@pytest.mark.usefixtures("no_spark")
def test_invalid_options_are_refused_before_spark_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    both = ("--from", str(tmp_path), "--to", str(tmp_path / "lake"))
    error = _refused(capsys, *both, "--max-records", "0")
    assert "--max-records must be 1 or more" in error
    error = _refused(capsys, *both, "--max-records", "1", "--follow")
    assert "cannot be used with --follow" in error
    error = _refused(capsys, *both, "--retention-days", "0")
    assert "--retention-days must be more than 0" in error
    error = _refused(capsys, *both, "--keep-hours", "0")
    assert "--keep-hours must be 1 or more" in error
    error = _refused(capsys, *both, "--conf", "spark.executor.memory")
    assert "expected KEY=VALUE" in error
    assert not (tmp_path / "lake").exists()


@pytest.mark.usefixtures("no_spark")
def test_a_directory_of_another_log_or_with_other_files_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "log"
    generate(GeneratorOptions(folder=log, groups=1, commits=1, days=1, partitions=1))
    Lake.create(tmp_path / "lake", "segments:/another")
    error = _refused(capsys, "--from", str(log), "--to", str(tmp_path / "lake"))
    assert "was made from segments:/another, not from segments:" in error
    error = _refused(capsys, "--from", str(log), "--to", str(log))
    assert "is not a lake and not empty" in error
    error = _refused(capsys, "--from", "nowhere", "--to", str(tmp_path / "new"))
    assert "nowhere" in error


@pytest.mark.usefixtures("no_spark")
def test_a_source_that_is_no_log_is_refused_before_a_lake_is_bound_to_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "server.log").write_text("started\n")
    (tmp_path / "empty").mkdir()
    for source, message in (
        (f"segments:{tmp_path}/dmup", "dmup does not exist: is the path right?"),
        (f"segments:{tmp_path}/empty", "empty has no log segments: give a folder"),
        (f"segments:{tmp_path}/notes", "notes has *.log files without record batches"),
    ):
        error = _refused(capsys, "--from", source, "--to", str(tmp_path / "lake"))
        assert message in error
        assert not (tmp_path / "lake").exists()


@pytest.mark.usefixtures("no_spark")
def test_a_cluster_that_is_not_reachable_makes_no_lake(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = ("-X", "default.api.timeout.ms=500", "--to", str(tmp_path / "lake"))
    arguments = ("pipeline", "run", "--from", "kafka:127.0.0.1:1", *settings)
    assert cli.main(list(arguments)) == 1
    assert "127.0.0.1:1 cannot be reached" in capsys.readouterr().err
    assert not (tmp_path / "lake").exists()


@pytest.mark.usefixtures("no_spark")
def test_a_missing_file_of_samples_is_refused_before_a_lake_is_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "log"
    generate(GeneratorOptions(folder=log, groups=1, commits=1, days=1, partitions=1))
    words = ("--from", str(log), "--samples", str(tmp_path / "gone.jsonl"))
    error = _refused(capsys, *words, "--to", str(tmp_path / "lake"))
    assert "gone.jsonl cannot be read: No such file or directory" in error
    assert not (tmp_path / "lake").exists()


def test_a_corrupted_segment_is_reported_and_fails_the_run_that_reads_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "start_spark", lambda engine: None)
    monkeypatch.setattr(
        job, "run_once", lambda job: RunResult(read_log(job), TakenSamples(0, 0), ())
    )
    broken = bytearray(plain(3, 3))
    broken[-1] ^= 1
    log = write(tmp_path / "log", {0: [plain(0, 3), bytes(broken), plain(6)]})
    words = ["pipeline", "run", "--from", f"segments:{log}/__consumer_offsets-0"]
    words += ["--to", str(tmp_path / "lake")]
    assert cli.main(words) == 1
    said = "1 part of the log is unreadable, 1 of them read by this run"
    assert said in capsys.readouterr().err
    assert cli.main(words) == 0
    assert "1 part of the log is unreadable, 0 of them" in capsys.readouterr().err


def test_records_that_cannot_be_decoded_are_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "start_spark", lambda engine: None)
    monkeypatch.setattr(
        job, "run_once", lambda job: RunResult(read_log(job), TakenSamples(0, 0), ())
    )
    # As of a partition of another topic in a folder with the name of this one.
    log = write(tmp_path / "log", {0: [plain(0, 3)]})
    words = ["pipeline", "run", "--from", f"segments:{log}", "--to"]
    assert cli.main([*words, str(tmp_path / "lake")]) == 0
    assert "3 records in quarantine: coterie pipeline show" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("option", "of_cluster", "of_lake", "expected_ms"),
    [
        (2.0, 5, 6, 2 * DAY_MS),
        (None, 5, 6, 5),
        (None, None, 6, 6),
        (None, None, None, 7 * DAY_MS),
    ],
)
def test_the_retention_time_comes_from_the_option_the_cluster_or_the_lake(
    tmp_path: Path,
    option: float | None,
    of_cluster: int | None,
    of_lake: int | None,
    expected_ms: int,
) -> None:
    lake = Lake.create(tmp_path / "lake", "kafka:host:9092")
    recorded = {} if of_lake is None else {"retention_ms": str(of_lake)}
    lake.version = msgspec.structs.replace(lake.version, settings=recorded)
    options = Namespace(retention_days=option, keep=[])
    source: Any = SimpleNamespace(retention_ms=lambda: of_cluster)
    settings = _with_retention(_gold_settings(options), options, lake, source)
    assert settings.retention_ms == expected_ms
