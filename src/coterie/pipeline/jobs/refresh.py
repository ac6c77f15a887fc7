"""Build or update the gold tables of a lake, in one commit.

Each table is planned in this process, selected by Spark, written, and merged with its
files; the commit has the changes of all tables.

A refresh is a step: it reads the lake as of its beginning, so that steps of ingestion
may commit while it runs. An incremental table reads exactly the new rows: those in
files of steps after its last build. A table whose inputs did not change is skipped,
unless it depends on settings: the time of the newest record is one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from uuid import uuid4

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from coterie.pipeline.gold import plans
from coterie.pipeline.gold.plans import Plan
from coterie.pipeline.gold.select import select
from coterie.pipeline.gold.settings import GoldSettings
from coterie.pipeline.jobs.ingest import delete_files
from coterie.pipeline.lake.delta import NO_DAY, describe_file, folder_of
from coterie.pipeline.lake.lake import STAGING, Lake
from coterie.pipeline.lake.manifest import (
    THIS_COMMIT,
    Change,
    DataFile,
    TableState,
    Version,
)
from coterie.pipeline.lake.writer import TableWriter, new_path
from coterie.pipeline.spark_session import SizedSession, collect_all, sized_session
from coterie.pipeline.tables.all_tables import GOLD, TABLES, Query
from coterie.pipeline.tables.spark import empty_frame, spark_schema
from coterie.pipeline.tables.table import DAY

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Progress: TypeAlias = Callable[[int, int, str], None]
"""A callback with the amount done, the total and the step of a run."""
FROM_LAKE: Final = frozenset({"as_of_ts", "heads"})
"""Settings that come from the lake and change with every run."""
ALL: Final = tuple(GOLD.values())


def refresh(
    start_spark: Callable[[], SparkSession],
    lake: Lake,
    settings: GoldSettings = GoldSettings(),  # noqa: B008 - immutable
    chosen: Sequence[Query] = ALL,
    progress: Progress = lambda *_: None,
) -> list[str]:
    """Bring gold tables up to date, commit, and return the names of those built.

    When the settings changed, all gold tables are built from the beginning. Raises
    LogError on a concurrent commit.
    """
    return prepare_refresh(start_spark, lake, settings, chosen, progress)()


def prepare_refresh(
    start_spark: Callable[[], SparkSession],
    lake: Lake,
    settings: GoldSettings,
    chosen: Sequence[Query],
    progress: Progress = lambda *_: None,
) -> Callable[[], list[str]]:
    """Return a refresh of the rows that the lake has now. It may run in another thread,
    beside steps that begin later."""
    version = lake.version
    values = asdict(settings)
    recorded = {name: str(values[name]) for name in values if name not in FROM_LAKE}
    states = dict(version.tables)
    if recorded != dict(version.settings):
        states = {name: states[name] for name in states if is_kept(name)}
    now = replace(settings, as_of_ts=version.as_of_ts, heads=version.heads)
    step = lake.next_step()

    def run() -> list[str]:
        if not any(is_due(query, states, version) for query in chosen):
            return []
        with sized_session(start_spark()) as session:
            builder = _Builder(session, lake, now, step, version, states)
            done = 0
            try:
                for batch in independent(chosen):
                    due = [query for query in batch if is_due(query, states, version)]
                    if due:
                        names = ", ".join(query.name for query in due)
                        progress(done, len(chosen), f"building {names}")
                        builder.build(due)
                    done += len(batch)
            except Exception:
                # On a full disk, repeated runs would leave ever more files.
                delete_files(lake.storage, builder.written)
                raise
        builder.commit(recorded)
        return list(builder.built)

    return run


def independent(chosen: Sequence[Query]) -> list[list[Query]]:
    """Divide tables in build order into batches; no table reads another one of its
    batch."""
    batches: list[list[Query]] = []
    names: set[str] = set()
    for query in chosen:
        if not batches or names & query.inputs:
            batches.append([])
            names.clear()
        batches[-1].append(query)
        names.add(query.name)
    return batches


def is_kept(name: str) -> bool:
    """Return whether a table is not derived from others: bronze, silver, and the
    samples of partition ends."""
    return name not in GOLD


def is_appended(name: str) -> bool:
    """Return whether a table is only appended to, so that it has new rows."""
    return is_kept(name) or GOLD[name].merge == "append"


def is_due(query: Query, states: Mapping[str, TableState], version: Version) -> bool:
    """Return whether a new build of a table may give other rows, from the states of the
    tables and the version of the lake."""
    present = states.get(query.name)
    if present is None:
        return True
    if query.parameters_of_parts & FROM_LAKE and version.moved > present.through:
        return True
    return any(
        states[name].changed > present.through
        for name in query.inputs
        if name in states
    )


@dataclass
class _Builder:
    """The gold tables of one refresh."""

    session: SizedSession
    lake: Lake
    settings: GoldSettings
    step: int
    version: Version
    """The lake when the refresh began."""
    states: dict[str, TableState]
    """The tables built so far replace those of the version."""
    built: dict[str, Change] = field(default_factory=dict)
    plans: dict[str, Plan] = field(default_factory=dict)
    """The plans of the tables built so far."""
    written: list[Mapping[str, tuple[DataFile, ...]]] = field(default_factory=list)
    """The files that were written so far, by table."""

    def build(self, batch: Sequence[Query]) -> None:
        """Build tables that do not read each other.

        Those that read few rows are collected in one job; it takes less time than to
        start a job for each of them.
        """
        inputs: list[_BuildInputs] = []
        small: list[tuple[Query, DataFrame]] = []
        large: list[tuple[Query, DataFrame]] = []
        for query in batch:
            self.session.begin()
            inputs.append(_BuildInputs(self, query))
            frame = select(query, inputs[-1])
            (small if self.session.reads_few_rows else large).append((query, frame))
        added: dict[str, tuple[DataFile, ...]] = {}
        if small:
            self.session.set_for(few_rows=True)
            added |= self._collect(small)
        for query, frame in large:
            self.session.set_for(few_rows=False)
            added[query.name] = self._write(frame, query)
        for query, each in zip(batch, inputs, strict=True):
            self._merge(query, each.plan, added[query.name])

    def _merge(self, query: Query, plan: Plan, added: tuple[DataFile, ...]) -> None:
        """Add the change of a built table to this refresh: its new files, and those
        that they replace."""
        name = query.name
        known, present = name in self.states, self.states.get(name, TableState())
        removed = self.lake.files(name)
        if known and query.merge == "append":
            removed = ()
        elif known and query.merge == "since" and plan.base is not None:
            removed, kept = self._cut(query, plan.base)
            added += kept
        is_unchanged = known and not added and not removed
        self.built[name] = Change(name, added, removed)
        self.plans[name] = plan
        self.states[name] = TableState(
            delta=present.delta,
            through=self.step,
            changed=present.changed if is_unchanged else self.step,
            cuts=(*plan.kept, *plan.cuts),
            read={
                each: THIS_COMMIT if each in self.built else self.states[each].delta
                for each in query.inputs
                if each in self.states and not is_appended(each)
            },
        )

    def files(self, name: str) -> tuple[DataFile, ...]:
        """Return the files of a table, with the changes of this refresh."""
        if name not in self.states:
            return ()
        # Not the lake's newest version: steps may have committed since the beginning.
        files = self.lake.files(name, self.version.of(name).delta)
        change = self.built.get(name)
        if change is None:
            return files
        gone = set(change.removed)
        return (*(file for file in files if file not in gone), *change.added)

    def commit(self, recorded: dict[str, str]) -> None:
        """Commit all built tables, and remove the rows of those that other settings
        made invalid."""
        stale = [
            Change(name, removed=self.lake.files(name))
            for name in self.version.tables
            if name not in self.states
        ]

        def update(version: Version) -> Version:
            # Steps may have committed new tables since the beginning: they stay.
            kept = {
                name: state
                for name, state in version.tables.items()
                if name in self.states or name not in self.version.tables
            }
            tables = {**kept, **{name: self.states[name] for name in self.built}}
            return msgspec.structs.replace(version, tables=tables, settings=recorded)

        self.lake.commit([*self.built.values(), *stale], update)

    def _collect(
        self, built: Sequence[tuple[Query, DataFrame]]
    ) -> dict[str, tuple[DataFile, ...]]:
        """Write tables from their rows in the memory of this process, and return their
        files by table."""
        files = {}
        for (query, _), rows in zip(
            built, collect_all([f for _, f in built]), strict=True
        ):
            writer = TableWriter(self.lake.storage, query.declared, self.step)
            try:
                writer.add(rows.cast(query.declared.file_schema))
                files[query.name] = writer.close()
            except OSError:
                writer.discard()
                raise
            self.written.append({query.name: files[query.name]})
        return files

    def _write(self, frame: DataFrame, query: Query) -> tuple[DataFile, ...]:
        from pyspark.sql import functions as F

        table, storage = query.declared, self.lake.storage
        folder = f"{STAGING}/{uuid4().hex}"
        writer = frame.write
        if table.day_of:
            writer = frame.withColumn(DAY, F.to_date(table.day_of)).write
            writer = writer.partitionBy(DAY)
        writer.option("compression", "zstd").parquet(storage.url(folder))
        files = []
        for entry in storage.entries(folder):
            if entry.path.endswith(".parquet"):
                day = entry.path.rpartition("/")[0].partition("=")[2] or None
                path = new_path(table, self.step, day)
                storage.move(entry.path, f"{folder_of(table)}/{path}")
                files.append(describe_file(storage, table, path))
                self.written.append({query.name: (files[-1],)})
        storage.delete_folder(folder)
        return tuple(file for file in files if file.rows)

    def _cut(
        self, query: Query, cut: datetime
    ) -> tuple[tuple[DataFile, ...], tuple[DataFile, ...]]:
        """Return the files of a table that have rows at or after a time, and new files
        with their rows before it."""
        column = query.declared.day_of
        assert column is not None, "a table that is cut is divided into days"
        bounds = self.lake.bounds(query.name, column)
        removed, mixed = [], []
        for file in self.lake.files(query.name):
            low, high = bounds.get(file.path, (None, None))
            if high is None or _utc(high) >= cut:
                removed.append(file)
                if low is None or _utc(low) < cut:
                    mixed.append(file)
        writer = TableWriter(self.lake.storage, query.declared, self.step)
        for file in mixed:
            rows = self.lake.file_dataset(query.name, [file]).to_table()
            writer.add(rows.filter(ds.field(column) < pa.scalar(cut)))
        kept = writer.close()
        self.written.append({query.name: kept})
        return tuple(removed), kept


def _utc(time: datetime) -> datetime:
    return time if time.tzinfo else time.replace(tzinfo=UTC)


class _BuildInputs:
    """An implementation of `PlanInputs` and `TableInputs` over a lake, for the build of
    one table."""

    def __init__(self, builder: _Builder, query: Query) -> None:
        self.spark = builder.session.spark
        self.settings = builder.settings
        self._builder = builder
        self._query = query
        self._state = builder.states.get(query.name, TableState())
        self.plan: Plan = getattr(plans, query.options.get("plan", "plan_all"))(self)

    # The plan.

    @property
    def cuts(self) -> tuple[datetime, ...]:
        return self._state.cuts

    def plan_of(self, name: str) -> Plan | None:
        # This table must have the rows of all earlier builds of the other one.
        earlier = self._builder.version.of(name).through
        is_current = self._query.name in self._builder.states
        is_current &= self._state.through >= earlier
        return self._builder.plans.get(name) if is_current else None

    def new_times(self, name: str, *columns: str) -> Iterator[Any]:
        if files := self._files("new", name):
            dataset = self._builder.lake.file_dataset(name, files)
            for batch in dataset.to_batches(columns=list(columns)):
                yield pc.coalesce(*batch.columns)

    def rows(self, how: str, name: str, columns: Sequence[str]) -> Any:
        dataset = self._builder.lake.file_dataset(name, self._files(how, name))
        return dataset.to_table(columns=list(columns))

    # The rows.

    def read(self, how: str, name: str, time: datetime | None = None) -> DataFrame:
        files = self._files(how, name, time)
        table, storage = TABLES[name], self._builder.lake.storage
        if not files:  # Spark refuses to read an empty list of paths
            return self._builder.session.gathered(empty_frame(self.spark, table), 0)
        urls = [storage.url(f"{folder_of(table)}/{file.path}") for file in files]
        reader = self.spark.read.schema(spark_schema(table))
        # Without it, most wrong bytes in a file would give wrong rows.
        reader = reader.option("parquet.page.verify-checksum.enabled", "true")
        rows = reader.parquet(*urls)
        count = sum(file.rows for file in files)
        return self._builder.session.gathered(rows, count)

    def _files(
        self, how: str, name: str, time: datetime | None = None
    ) -> Sequence[DataFile]:
        """Return the files that may have rows of an input, and perhaps other rows."""
        files = self._builder.files(name)
        days: set[str | None] = {None, NO_DAY}
        if how == "all":
            return files
        if how == "new":
            # A table that is rewritten has no new rows.
            assert is_appended(name), f"{name} is not only appended to"
            return [each for each in files if each.step > self._state.through]
        if how == "days":
            days.update(day.isoformat() for day in self.plan.days)
            return [each for each in files if each.day in days]
        if how == "since":
            assert time is not None, "since when?"
            first = time.astimezone(UTC).date().isoformat()
            return [e for e in files if e.day in days or str(e.day) >= first]
        if how == "old" and name in self._state.read:
            return self._builder.lake.files(name, self._state.read[name])
        return ()
