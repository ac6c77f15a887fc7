"""The conversion of a lake of the first format."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from coterie.errors import LogError, SettingError
from coterie.pipeline.lake import convert as convert_module
from coterie.pipeline.lake.lake import Lake
from coterie.pipeline.tables.all_tables import TABLES

pytestmark = pytest.mark.slow
DAYS = (20, 20, 21)


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A lake of the first format: two versions, three tables, and a stray file."""
    where = tmp_path / "lake"
    tables: dict[str, Any] = {}
    for name in ("offset_commits", "log_gaps", "current_offsets"):
        table = TABLES[name]
        folder = where / table.layer.value / name
        folder.mkdir(parents=True)
        for number, day in enumerate(DAYS, 1):
            rows = {each.name: pa.nulls(1, each.type) for each in table.schema}
            if "append_ts" in rows:
                at = datetime(2026, 11, day, tzinfo=UTC)
                rows["append_ts"] = pa.array([at], pa.timestamp("us", "UTC"))
            pq.write_table(pa.table(rows), folder / f"{number:06}-abc.parquet")
        path = f"{table.layer.value}/{name}"
        files = [
            {
                "path": f"{path}/{number:06}-abc.parquet",
                "rows": 1,
                "size_bytes": 9,
                "version": number,
            }
            for number in (1, 2, 3)
        ]
        tables[name] = {"files": files, "changed": 3}
    (where / "silver/log_gaps/000009-stray.parquet").write_bytes(b"")
    (where / "versions").mkdir()
    for number in (1, 2):
        version = {
            "number": number,
            "heads": [[0, 7, 0, 9, 9]],
            "tables": tables if number == 2 else {},
            "as_of_ts": "2026-11-21T00:00:00Z",
            "moved": number,
        }
        (where / f"versions/{number:06}.json").write_text(json.dumps(version))
    (where / "current.json").write_text('{"number": 2}')
    identity = {"schema": "coterie.pipeline.lake", "schema_version": 1, "source": "s:x"}
    (where / "lake.json").write_text(json.dumps(identity))
    return where


def check(where: Path) -> None:
    lake = Lake.open(where)
    assert lake.version.positions == {0: 7}
    assert lake.version.as_of_ts == datetime(2026, 11, 21, tzinfo=UTC)
    days = lake.read("offset_commits", ["day"])["day"].to_pylist()
    assert sorted(day.day for day in days) == list(DAYS)
    assert lake.rows("log_gaps") == lake.read("log_gaps").num_rows == 3
    assert not lake.has("current_offsets")
    names = {path.name for path in where.rglob("*") if path.is_file()}
    assert not any("abc" in name or "stray" in name for name in names)
    assert not (where / "current.json").exists()


def test_a_lake_of_the_first_format_is_converted_once(
    old: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(SettingError, match="the next `coterie pipeline run`"):
        Lake.open(old)
    Lake.open_or_create(old, "s:x")
    assert "converted to Delta tables" in caplog.text
    check(old)
    caplog.clear()
    Lake.open_to_write(old)
    assert not caplog.text


def test_a_killed_conversion_starts_again(
    old: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(convert_module, "publish", die)
        with pytest.raises(KeyboardInterrupt):
            Lake.open_to_write(old)
    Lake.open_to_write(old)
    check(old)


def test_a_damaged_file_leaves_the_old_lake(old: Path) -> None:
    damaged = old / "silver/offset_commits/000002-abc.parquet"
    whole = damaged.read_bytes()
    damaged.write_bytes(b"PAR1")
    with pytest.raises(LogError, match=r"offset_commits of .* cannot be read"):
        Lake.open_to_write(old)
    damaged.write_bytes(whole)
    Lake.open_to_write(old)
    check(old)
