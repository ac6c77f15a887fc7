"""A lake: its versions, their files, and concurrent writers."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from pyarrow.fs import _MockFileSystem

from coterie.errors import LogError, SettingError
from coterie.pipeline.gold.settings import LogHead
from coterie.pipeline.lake import storage
from coterie.pipeline.lake.lake import File, Lake, TableFiles, Version
from coterie.pipeline.tables.silver import LOG_GAPS


def _rows(*offsets: int) -> Any:
    import pyarrow as pa

    rows = [
        {"log_partition": 1, "from_offset": at, "until_offset": at + 1, "reason": "x"}
        for at in offsets
    ]
    return pa.Table.from_pylist(rows, schema=LOG_GAPS.schema)


def _next_version(lake: Lake, *offsets: int) -> Version:
    """Write a file and return the version that names it, without a commit."""
    number = lake.version.number + 1
    path = f"silver/log_gaps/{number}-{offsets[0]}.parquet"
    lake.storage.make_folder("silver/log_gaps")
    whole = lake.storage.at(path)
    pq.write_table(_rows(*offsets), whole, filesystem=lake.storage.filesystem)
    file = File(path, len(offsets), 1, number, (1,))
    files = (*lake.version.of("log_gaps").files, file)
    return Version(
        number=number,
        tables={"log_gaps": TableFiles(files)},
        heads=(LogHead(1, number, 0, 9, 9),),
        as_of_ts=datetime(2026, 1, 1, tzinfo=UTC),
    )


def _offsets(lake: Lake, **how: Any) -> list[int]:
    found: list[int] = lake.read("log_gaps", **how)["from_offset"].to_pylist()
    return found


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


def test_a_reopened_lake_has_the_committed_versions(lake: Lake) -> None:
    lake.commit(_next_version(lake, 1, 2))
    lake.commit(_next_version(lake, 3))
    again = Lake.open(lake.storage.root)
    assert again.version == lake.version
    assert again.version.positions == {1: 2}
    assert _offsets(again) == [1, 2, 3]
    assert again.version.of("log_gaps").rows == 3


def test_a_read_selects_rows_and_columns(lake: Lake) -> None:
    lake.commit(_next_version(lake, 1, 2, 3))
    some = lake.read("log_gaps", ["reason"], ds.field("from_offset") > 1)
    assert some.to_pylist() == [{"reason": "x"}] * 2


def test_a_table_that_was_never_built_is_empty(lake: Lake) -> None:
    assert lake.read("current_offsets").num_rows == 0
    assert lake.read("log_gaps", ["reason"]).column_names == ["reason"]


def test_files_that_no_version_references_are_not_read(lake: Lake) -> None:
    _next_version(lake, 7)
    assert _offsets(Lake.open(lake.storage.root)) == []


def test_a_version_is_found_when_its_pointer_was_not_updated(
    lake: Lake,
) -> None:
    lake.commit(_next_version(lake, 1))
    second = _next_version(lake, 2)
    assert lake.storage.create("versions/000002.json", msgspec.json.encode(second))
    assert _offsets(Lake.open(lake.storage.root)) == [1, 2]
    assert Lake.open(lake.storage.root).version == second


def test_an_earlier_version_is_readable_until_it_is_deleted(lake: Lake) -> None:
    lake.commit(_next_version(lake, 1))
    first = lake.version
    lake.commit(_next_version(lake, 2))
    assert lake.at(1) == first
    assert lake.at(2) == lake.version
    lake.storage.delete("versions/000001.json")
    with pytest.raises(LogError, match="version 1 was deleted"):
        lake.at(1)


def test_the_second_of_two_concurrent_commits_fails(lake: Lake) -> None:
    other = Lake.open(lake.storage.root)
    other.commit(_next_version(other, 1))
    with pytest.raises(LogError, match="another run writes"):
        lake.commit(_next_version(lake, 2))
    assert _offsets(Lake.open(lake.storage.root)) == [1]


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
        SettingError, match=r"was made from segments:/log, not from store:/x"
    ):
        Lake.open_or_create(where, "store:/x")
    other_brokers = Lake.open_or_create(where, "kafka:other:9092", "abc")
    assert other_brokers.identity == lake.identity
    with pytest.raises(SettingError, match=r"cluster abc.* is cluster xyz"):
        Lake.open_or_create(where, "segments:/log", "xyz")


def test_a_lake_of_a_later_schema_version_is_refused(lake: Lake) -> None:
    path = Path(lake.storage.root, "lake.json")
    path.write_text('{"schema": "coterie.pipeline.lake", "schema_version": 2}')
    with pytest.raises(SettingError, match=r"a later version of Coterie.*update"):
        Lake.open(lake.storage.root)
    path.write_text("{}")
    with pytest.raises(SettingError, match="does not describe a Coterie lake"):
        Lake.open(lake.storage.root)


def test_the_error_of_a_damaged_manifest_contains_its_path(lake: Lake) -> None:
    lake.commit(_next_version(lake, 1))
    Path(lake.storage.root, "versions", "000001.json").write_text("{")
    with pytest.raises(LogError, match=r"versions/000001.json is damaged"):
        Lake.open(lake.storage.root)


def test_the_error_of_a_missing_file_contains_the_table(lake: Lake) -> None:
    lake.commit(_next_version(lake, 1))
    [file] = lake.version.of("log_gaps").files
    lake.storage.delete(file.path)
    with pytest.raises(LogError, match=r"log_gaps of .* cannot be read"):
        lake.read("log_gaps")


def test_a_lake_can_be_in_an_object_store(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = _MockFileSystem()
    store.create_dir("bucket/lake/versions", recursive=True)
    store.create_dir("bucket/lake/silver/log_gaps", recursive=True)

    monkeypatch.setattr(
        storage, "open_filesystem", lambda uri: (store, uri.removeprefix("s3://"))
    )
    lake = Lake.create("s3://bucket/lake", "segments:/log")
    first = _next_version(lake, 1)
    lake.commit(first)
    again = Lake.open("s3://bucket/lake/")
    assert _offsets(again) == [1]
    again.version = Version()
    with pytest.raises(LogError, match="another run"):
        again.commit(first)
    [file] = first.of("log_gaps").files
    assert lake.storage.url(file.path) == f"s3a://bucket/lake/{file.path}"
    lake.storage.delete(file.path)
    assert lake.storage.entries("silver") == []
