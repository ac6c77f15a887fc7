"""A lake: its versions, its Delta tables, and concurrent writers."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from deltalake import DeltaTable

from coterie.errors import LogError, SettingError
from coterie.pipeline.gold.settings import LogHead
from coterie.pipeline.lake import delta
from coterie.pipeline.lake import lake as lake_module
from coterie.pipeline.lake.lake import Lake
from coterie.pipeline.lake.manifest import Change, Version, decode, path_of
from coterie.pipeline.lake.writer import TableWriter
from coterie.pipeline.tables.all_tables import TABLES
from coterie.pipeline.tables.ingested import LOG_GAPS
from tests.pipeline.lakes import commit_rows

FILE_SCHEMA = TABLES["offset_commits"].file_schema
TODAY = datetime(2026, 11, 21, 10, 0, tzinfo=UTC)


def gaps(*offsets: int) -> Any:
    rows = [
        {"log_partition": 1, "from_offset": at, "until_offset": at + 1, "reason": "x"}
        for at in offsets
    ]
    return pa.Table.from_pylist(rows, schema=LOG_GAPS.schema)


def written(lake: Lake, *offsets: int) -> Change:
    """Write a file of log_gaps, and return the change that adds it."""
    writer = TableWriter(lake.storage, LOG_GAPS, lake.next_step())
    writer.add(gaps(*offsets))
    return Change("log_gaps", writer.close())


def add(lake: Lake, *offsets: int) -> None:
    heads = (LogHead(1, max(offsets), 0, 9, 9),)
    change = written(lake, *offsets)
    lake.commit([change], lambda version: msgspec.structs.replace(version, heads=heads))


def offsets_of(lake: Lake, **how: Any) -> list[int]:
    found: list[int] = lake.read("log_gaps", **how)["from_offset"].to_pylist()
    return sorted(found)


def delta_of(lake: Lake, name: str = "log_gaps") -> DeltaTable:
    return DeltaTable(f"{lake.storage.root}/{TABLES[name].layer.value}/{name}")


def delta_offsets(lake: Lake) -> list[int]:
    """Return the rows that a reader of the Delta table sees."""
    rows = pa.table(delta_of(lake).to_pyarrow_table())
    found: list[int] = rows["from_offset"].to_pylist()
    return sorted(found)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake.create(tmp_path / "lake", "segments:/log", "abc")


def test_a_new_lake_is_private(lake: Lake) -> None:
    assert Path(lake.storage.root).stat().st_mode & 0o777 == 0o700


def test_a_lake_in_a_directory_open_to_others_logs_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tmp_path.chmod(0o755)
    Lake.create(tmp_path, "segments:/log", "abc")
    assert f"other users can read the lake {tmp_path}" in caplog.text
    assert tmp_path.stat().st_mode & 0o777 == 0o755


def test_every_table_of_a_new_lake_is_an_empty_delta_table(lake: Lake) -> None:
    for name, table in TABLES.items():
        delta = delta_of(lake, name)
        assert delta.count() == 0
        declared = [each.name for each in table.all_columns]
        assert [field.name for field in delta.schema().fields] == declared
        assert delta.metadata().partition_columns == (["day"] if table.day_of else [])


def test_a_reopened_lake_has_the_committed_versions(lake: Lake) -> None:
    add(lake, 1, 2)
    add(lake, 3)
    again = Lake.open(lake.storage.root)
    assert again.version == lake.version
    assert again.version.positions == {1: 3}
    assert offsets_of(again) == delta_offsets(again) == [1, 2, 3]
    assert again.rows("log_gaps") == 3


def test_a_read_selects_rows_and_columns(lake: Lake) -> None:
    add(lake, 1, 2, 3)
    some = lake.read("log_gaps", ["reason"], ds.field("from_offset") > 1)
    assert some.to_pylist() == [{"reason": "x"}] * 2


def test_a_table_that_was_never_built_is_empty(lake: Lake) -> None:
    assert not lake.has("current_offsets")
    assert lake.read("current_offsets").num_rows == 0
    assert lake.read("log_gaps", ["reason"]).column_names == ["reason"]


def test_rows_are_in_the_partition_of_their_day(lake: Lake) -> None:
    days = [TODAY, TODAY - timedelta(days=3), None, TODAY + timedelta(hours=1)]
    rows = [
        {**dict.fromkeys(TABLES["offset_commits"].schema.names), "append_ts": at}
        for at in days
    ]
    commit_rows(lake, {"offset_commits": pa.Table.from_pylist(rows, FILE_SCHEMA)})
    delta = delta_of(lake, "offset_commits")
    assert sorted(each["day"] for each in delta.partitions() if each["day"]) == [
        "2026-11-18",
        "2026-11-21",
    ]
    assert len(delta.file_uris()) == 3
    read = lake.read("offset_commits", ["append_ts", "day"]).to_pylist()
    assert {each["append_ts"]: each["day"] for each in read} == {
        at: at and at.date() for at in days
    }
    only = lake.dataset("offset_commits").filter(ds.field("append_ts") >= TODAY)
    assert only.count_rows() == 2


def test_statistics_bound_the_values_of_a_file(lake: Lake) -> None:
    at = TODAY.replace(microsecond=123_456)
    row = {"append_ts": at, "group_id": "g" * 100, "log_offset": 7}
    whole = {**dict.fromkeys(FILE_SCHEMA.names), **row}
    commit_rows(lake, {"offset_commits": pa.Table.from_pylist([whole], FILE_SCHEMA)})
    stats = pa.table(delta_of(lake, "offset_commits").get_add_actions(flatten=True))
    [found] = stats.to_pylist()
    assert (found["min.log_offset"], found["max.log_offset"]) == (7, 7)
    assert found["min.append_ts"] <= at <= found["max.append_ts"]
    assert found["max.append_ts"] - found["min.append_ts"] == timedelta(milliseconds=1)
    assert found["min.group_id"] == "g" * 64
    assert found.get("max.group_id") is None
    assert found["null_count.topic"] == 1


def test_files_that_no_commit_added_are_not_read(lake: Lake) -> None:
    written(lake, 7)
    assert offsets_of(Lake.open(lake.storage.root)) == []
    assert delta_offsets(lake) == []


def test_a_version_is_found_when_its_pointer_was_not_updated(lake: Lake) -> None:
    add(lake, 1)
    pointer = lake.storage.read("manifests/current.json")
    assert pointer is not None
    add(lake, 2)
    lake.storage.replace("manifests/current.json", pointer)
    assert Lake.open(lake.storage.root).version == lake.version


def test_a_decided_commit_is_completed_by_the_next_writer(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(lake, 1)

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(delta, "apply", die)
        with pytest.raises(KeyboardInterrupt):
            add(lake, 2)
    where = lake.storage.root
    assert offsets_of(Lake.open(where)) == delta_offsets(lake) == [1]
    completed = Lake.open_to_write(where)
    assert completed.version.number == 2
    assert offsets_of(Lake.open(where)) == delta_offsets(lake) == [1, 2]


def test_a_commit_to_delta_tables_is_not_repeated(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(lake_module, "publish", die)
        with pytest.raises(KeyboardInterrupt):
            add(lake, 1)
    where = lake.storage.root
    assert (offsets_of(Lake.open(where)), delta_offsets(lake)) == ([], [1])
    assert offsets_of(Lake.open_to_write(where)) == delta_offsets(lake) == [1]
    assert Lake.open(where).version.positions == {1: 1}


def test_an_earlier_version_is_opened_by_number_or_time(lake: Lake) -> None:
    add(lake, 1)
    first = lake.version
    add(lake, 2)
    where = lake.storage.root
    assert offsets_of(Lake.open(where, 1)) == [1]
    assert first.committed_ts is not None
    assert Lake.open(where, first.committed_ts).version == first
    assert offsets_of(Lake.open(where, datetime.now(UTC))) == [1, 2]
    with pytest.raises(LogError, match="no version 3; it has 1 to 2"):
        Lake.open(where, 3)
    with pytest.raises(LogError, match="no version of 2020-01-01"):
        Lake.open(where, datetime(2020, 1, 1, tzinfo=UTC))


def test_the_second_of_two_concurrent_commits_fails(lake: Lake) -> None:
    other = Lake.open_to_write(lake.storage.root)
    add(other, 1)
    with pytest.raises(LogError, match="another run writes"):
        add(lake, 2)
    assert offsets_of(Lake.open(lake.storage.root)) == delta_offsets(lake) == [1]


@pytest.mark.slow
def test_a_change_of_another_program_is_undone(
    lake: Lake, caplog: pytest.LogCaptureFixture
) -> None:
    add(lake, 1)
    add(lake, 2)
    delta = delta_of(lake)
    delta.optimize.compact()
    assert len(delta.file_uris()) == 1
    again = Lake.open_to_write(lake.storage.root)
    assert "log_gaps of" in caplog.text
    assert "changed by another program" in caplog.text
    assert len(again.files("log_gaps")) == len(delta_of(lake).file_uris()) == 2
    add(again, 3)
    assert offsets_of(again) == delta_offsets(lake) == [1, 2, 3]


@pytest.mark.slow
def test_a_column_of_a_later_coterie_is_added(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    fewer = replace(LOG_GAPS, columns=LOG_GAPS.columns[:-1])
    where = Path(lake.storage.root).with_name("older")
    monkeypatch.setitem(TABLES, "log_gaps", fewer)
    older = Lake.create(where, "segments:/log")
    commit_rows(older, {"log_gaps": gaps(1).select(fewer.schema.names)})
    monkeypatch.setitem(TABLES, "log_gaps", LOG_GAPS)
    assert Lake.open(where).read("log_gaps")["reason"].to_pylist() == [None]
    newer = Lake.open_to_write(where)
    add(newer, 2)
    reasons = newer.read("log_gaps")["reason"].to_pylist()
    assert sorted(reasons, key=str) == [None, "x"]
    table = pa.table(delta_of(newer).to_pyarrow_table())
    assert sorted(table["reason"].to_pylist(), key=str) == [None, "x"]


def test_a_directory_with_other_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine").touch()
    with pytest.raises(SettingError, match="not empty"):
        Lake.open_or_create(tmp_path, "segments:/log")
    with pytest.raises(SettingError, match="there is no lake"):
        Lake.open(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_a_lake_has_one_source_and_one_cluster(lake: Lake) -> None:
    where = lake.storage.root
    assert Lake.open_or_create(where, "segments:/log", "abc").identity == lake.identity
    with pytest.raises(
        SettingError, match=r"was made from segments:/log, not from segments:/x"
    ):
        Lake.open_or_create(where, "segments:/x")
    other_brokers = Lake.open_or_create(where, "kafka:other:9092", "abc")
    assert other_brokers.identity == lake.identity
    with pytest.raises(SettingError, match=r"cluster abc.* is cluster xyz"):
        Lake.open_or_create(where, "segments:/log", "xyz")


@pytest.mark.parametrize("version", [1, 2, 4])
def test_a_lake_of_another_schema_version_is_refused(lake: Lake, version: int) -> None:
    path = Path(lake.storage.root, "lake.json")
    identity = {"schema": "coterie.pipeline.lake", "schema_version": version}
    path.write_text(json.dumps(identity))
    for open_lake in (Lake.open, Lake.open_to_write):
        with pytest.raises(SettingError, match=f"another .* version {version}, supp"):
            open_lake(lake.storage.root)
    path.write_text("{}")
    with pytest.raises(SettingError, match="does not describe a Coterie lake"):
        Lake.open(lake.storage.root)


def test_the_error_of_a_damaged_manifest_contains_its_path(lake: Lake) -> None:
    add(lake, 1)
    Path(lake.storage.root, path_of(1)).write_text("{")
    with pytest.raises(LogError, match=r"manifests/000001.json is damaged"):
        Lake.open(lake.storage.root)


def test_the_error_of_a_missing_file_contains_the_table(lake: Lake) -> None:
    add(lake, 1)
    [file] = lake.files("log_gaps")
    lake.storage.delete(f"silver/log_gaps/{file.path}")
    with pytest.raises(LogError, match=r"log_gaps of .* cannot be read"):
        lake.read("log_gaps")


def test_a_manifest_is_small(lake: Lake) -> None:
    commit_rows(
        lake, {name: table.schema.empty_table() for name, table in TABLES.items()}
    )
    heads = tuple(LogHead(each, 10**9, 10**9, 10**9, 10**9) for each in range(50))
    lake.commit((), lambda version: msgspec.structs.replace(version, heads=heads))
    data = lake.storage.read(path_of(lake.version.number))
    assert data is not None
    assert len(data) < 16 * 1024
    assert decode(lake.storage, "", data, Version) == lake.version
