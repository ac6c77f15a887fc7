"""SQL in DuckDB: the views of a lake, the limits of a query, and its errors."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from coterie.errors import LogError, SettingError
from coterie.pipeline.lake.lake import Lake
from coterie.pipeline.lake.sql import connect, make_views, run_sql, tables_in
from tests.pipeline.lakes import AS_OF, CLUSTER, HISTORY_FROM, make_lake
from tests.pipeline.story import story

Rows = list[dict[str, Any]]


class Session:
    """A connection to DuckDB and a lake."""

    def __init__(self, lake: Lake) -> None:
        self.lake = lake
        self.connection = connect("1g")

    def __call__(self, query: str, limit: int | None = None) -> Rows:
        make_views(self.connection, self.lake, query)
        rows: Rows = run_sql(self.connection, query, limit).rows.to_pylist()
        return rows


@pytest.fixture(scope="module")
def story_lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    return Lake.open(make_lake(tmp_path_factory.mktemp("sql") / "lake", story()))


@pytest.fixture
def sql(story_lake: Lake) -> Iterator[Session]:
    session = Session(story_lake)
    yield session
    session.connection.close()


def test_a_view_has_the_facts_of_the_lake(sql: Session) -> None:
    query = "SELECT cluster_id, as_of_ts, history_from_ts FROM current_groups"
    facts = {"cluster_id": CLUSTER, "as_of_ts": AS_OF, "history_from_ts": HISTORY_FROM}
    assert sql(query, 1) == [facts]


def test_times_are_utc(sql: Session) -> None:
    query = "SELECT commit_ts AS t, date_trunc('day', t) AS day FROM current_offsets"
    [row] = sql(query, 1)
    assert str(row["t"].tzinfo) == "UTC"
    assert row["day"] == row["t"].replace(hour=0, minute=0, second=0, microsecond=0)


def test_only_the_tables_of_the_query_become_views(sql: Session) -> None:
    assert [each.name for each in tables_in("SELECT * FROM current_groups")] == [
        "current_groups"
    ]
    sql("SELECT 1 FROM current_groups")
    assert sql.connection.sql("SHOW TABLES").fetchall() == [("current_groups",)]
    names = {row["name"] for row in sql("SHOW TABLES")}
    assert {"records", "lag_history", "data_quality"} <= names
    described = sql("DESCRIBE current_offsets")
    assert ("topic", "VARCHAR") in [
        (row["column_name"], row["column_type"]) for row in described
    ]


@pytest.mark.slow
def test_a_table_that_was_never_built_is_empty(tmp_path: Path) -> None:
    sql = Session(Lake.create(tmp_path / "lake", "segments:log"))
    query = "SELECT count(*) AS rows, max(as_of_ts) AS t, max(cluster_id) AS c FROM"
    assert sql(f"{query} lag_history") == [{"rows": 0, "t": None, "c": None}]


def test_a_limit_tells_whether_there_are_more_rows(sql: Session) -> None:
    query = "SELECT range AS n, range AS n FROM range(3) ORDER BY 1"
    found = run_sql(sql.connection, query, 2)
    assert found.rows.to_pylist() == [{"n": 0, "n_2": 0}, {"n": 1, "n_2": 1}]
    assert not found.is_complete
    assert run_sql(sql.connection, query, 3).is_complete
    assert run_sql(sql.connection, query, None).rows.num_rows == 3


def test_conditions_and_columns_are_pushed_down_to_the_files(
    sql: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    import pyarrow.dataset as ds

    scans: list[dict[str, Any]] = []

    class Recorder(ds.FileSystemDataset):
        def scanner(self, **options: Any) -> Any:
            scans.append(options)
            return super().scanner(**options)

    dataset = Lake.dataset

    def recorded(self: Lake, name: str) -> Any:
        found = dataset(self, name)
        fragments = list(found.get_fragments())
        return Recorder(fragments, found.schema, found.format, found.filesystem)

    monkeypatch.setattr(Lake, "dataset", recorded)
    time = AS_OF.strftime("%Y-%m-%d %H:%M:%S+00")
    query = f"SELECT lag FROM lag_history WHERE sample_ts = TIMESTAMPTZ '{time}'"
    assert sql(f"{query} AND group_id = 'billing' AND partition = 3")[0]["lag"] == 103
    [scan_options] = scans
    assert "lag" in scan_options["columns"]
    assert "metadata" not in scan_options["columns"]
    for column in ("sample_ts", "group_id", "partition"):
        assert f"({column} == " in str(scan_options["filter"])


@pytest.mark.parametrize(
    "query",
    [
        "COPY (SELECT 1) TO '{path}'",
        "COPY current_groups TO '{path}'",
        "EXPORT DATABASE '{path}'",
        "ATTACH '{path}' AS other",
        "SELECT * FROM read_csv('{secret}')",
        "SELECT * FROM read_text('{secret}')",
        "SELECT * FROM glob('{secret}')",
        "SELECT * FROM '{secret}'",
        "INSTALL delta",
        "LOAD '{secret}'",
        "CREATE PERSISTENT SECRET s (TYPE http)",
        "SET enable_external_access = true",
        "SET lock_configuration = false",
        "SET TimeZone = 'Asia/Tokyo'",
        "PRAGMA profile_output = '{path}'",
        "CALL enable_logging(storage = 'file', storage_config = {{'path': '{path}'}})",
    ],
)
def test_a_query_can_only_read_the_tables(
    query: str, sql: Session, tmp_path: Path
) -> None:
    secret, path = tmp_path / "secret.csv", tmp_path / "written"
    secret.write_text("password\nxyzzy\n")
    with pytest.raises(SettingError):
        sql(query.format(secret=secret, path=path))
    assert list(tmp_path.iterdir()) == [secret]


def test_variables_of_python_are_not_tables(sql: Session) -> None:
    import pyarrow as pa

    local_rows = pa.table({"secret": [1]})
    with pytest.raises(SettingError, match="there is no table local_rows"):
        sql("SELECT * FROM local_rows")
    assert len(local_rows) == 1


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELEC 1", r'syntax error at or near "SELEC": .* SQL of DuckDB'),
        ("SELECT * FROM groups", "there is no table groups; the tables are records,"),
        (
            "SELECT grup_id FROM current_groups",
            "no column grup_id; similar are group_id",
        ),
        ("SELECT g.stat FROM current_groups g", "no column stat; similar are state"),
        ("SELECT xyz FROM current_groups", "no column xyz; DESCRIBE lists a table's"),
        ("SELECT size(assigned) FROM current_members", "DuckDB has no function size"),
        (
            "SELECT round(group_id) FROM current_groups",
            "No function matches .* SQL of DuckDB",
        ),
        ("SELECT 1; SELECT 2", "several statements in one query"),
    ],
)
def test_an_invalid_query_is_explained_in_one_line(
    query: str, message: str, sql: Session
) -> None:
    with pytest.raises(SettingError, match=message) as raised:
        sql(query)
    assert "\n" not in str(raised.value)


def test_a_query_that_fails_while_it_runs_is_no_usage_error(sql: Session) -> None:
    with pytest.raises(LogError, match="Could not convert string"):
        sql("SELECT CAST(state AS INT) FROM current_groups")


@pytest.mark.slow
def test_a_damaged_file_is_an_error_of_the_lake(tmp_path: Path) -> None:
    lake = Lake.open(make_lake(tmp_path / "lake", story()))
    for path in (tmp_path / "lake").rglob("current_groups/*.parquet"):
        path.write_bytes(b"PAR1 damaged PAR1")
    with pytest.raises(LogError, match=r"[Pp]arquet"):
        Session(lake)("SELECT * FROM current_groups")


@pytest.mark.slow
def test_a_query_stops_at_the_memory_limit() -> None:
    with connect("50MB") as connection:
        query = "SELECT range, hash(range) AS h FROM range(100000000) ORDER BY h"
        with pytest.raises(LogError, match="needs more memory; set --memory"):
            run_sql(connection, query, None)


@pytest.mark.parametrize("memory", ["lots", "4 apples", "'; SELECT 1"])
def test_an_invalid_memory_limit_is_refused(memory: str) -> None:
    with pytest.raises(SettingError, match="--memory"):
        connect(memory)


def test_ctrl_c_ends_a_query_and_the_session_continues(
    sql: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = Future.result

    def interrupted(self: Future[Any], timeout: float | None = None) -> Any:
        # The main thread gets SIGINT while it waits for the query.
        with pytest.raises(TimeoutError):
            results(self, 0.0)
        raise KeyboardInterrupt

    monkeypatch.setattr(Future, "result", interrupted)
    endless = "range(100000000) a, range(100000000) b WHERE (a.range * b.range) % 7 = 3"
    with pytest.raises(KeyboardInterrupt):
        sql(f"SELECT count(*) FROM {endless}")
    monkeypatch.undo()
    assert sql("SELECT 1 AS one") == [{"one": 1}]


def test_no_progress_bar_is_written_to_stdout(sql: Session) -> None:
    # DuckDB writes one during a query of over two seconds, terminal or not.
    [row] = sql("SELECT current_setting('enable_progress_bar') AS is_enabled")
    assert row == {"is_enabled": False}


def test_a_missing_duckdb_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(SettingError, match=r"pip install "):
        connect("1g")
