"""Build or update the gold tables of a lake, in one commit.

Each table is planned in this process, selected by Spark, written, and merged with its
files; the commit has the changes of all tables.

A refresh is a step: it reads the lake as of its beginning, so that steps of ingestion
may commit while it runs. An incremental table reads exactly the new rows: those in
files of steps after its last build. A table whose inputs did not change is skipped,
unless it depends on settings: the time of the newest record is one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from uuid import uuid4

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from coterie.pipeline.gold.all_gold import GOLD
from coterie.pipeline.gold.settings import GoldSettings
from coterie.pipeline.gold.table_inputs import GoldTable, Plan
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
from coterie.pipeline.tables.all_tables import TABLES
from coterie.pipeline.tables.gold_offsets import PARTITION_END_SAMPLES
from coterie.pipeline.tables.spark import empty_frame, spark_schema
from coterie.pipeline.tables.table import DAY, Layer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Progress: TypeAlias = Callable[[str, int, int], None]
"""A callback with a step of a run, the amount done and the total."""
_FROM_LAKE: Final = ("as_of_ts", "heads")
"""Settings that come from the lake and change with every run."""
_APPENDED: Final = frozenset(
    {each.table.name for each in GOLD if each.appends} | {PARTITION_END_SAMPLES.name}
)
"""The gold tables that are only appended to."""


def refresh(
    spark: SparkSession,
    lake: Lake,
    settings: GoldSettings = GoldSettings(),  # noqa: B008 - immutable
    chosen: Sequence[GoldTable] = GOLD,
    progress: Progress = lambda *_: None,
) -> list[str]:
    """Bring gold tables up to date, commit, and return the names of those built.

    When the settings changed, all gold tables are built from the beginning. Raises
    LogError on a concurrent commit.
    """
    return prepare_refresh(spark, lake, settings, chosen, progress)()


def prepare_refresh(
    spark: SparkSession,
    lake: Lake,
    settings: GoldSettings,
    chosen: Sequence[GoldTable],
    progress: Progress = lambda *_: None,
) -> Callable[[], list[str]]:
    """Return a refresh of the rows that the lake has now. It may run in another thread,
    beside steps that begin later."""
    version = lake.version
    values = asdict(settings)
    recorded = {name: str(values[name]) for name in values if name not in _FROM_LAKE}
    states = dict(version.tables)
    if recorded != dict(version.settings):
        states = {name: states[name] for name in states if is_kept(name)}
    now = replace(settings, as_of_ts=version.as_of_ts, heads=version.heads)
    step = lake.next_step()

    def run() -> list[str]:
        if not chosen:
            return []
        with sized_session(spark) as session:
            builder = _Builder(session, lake, now, step, version, states)
            done = 0
            for batch in independent(chosen):
                due = [gold for gold in batch if builder.is_due(gold)]
                if due:
                    names = ", ".join(gold.table.name for gold in due)
                    progress(f"building {names}", done, len(chosen))
                    builder.build(due)
                done += len(batch)
        if builder.built:
            builder.commit(recorded)
        return list(builder.built)

    return run


def independent(chosen: Sequence[GoldTable]) -> list[list[GoldTable]]:
    """Divide tables in build order into batches; no table reads another one of its
    batch."""
    batches: list[list[GoldTable]] = []
    names: set[str] = set()
    for gold in chosen:
        if not batches or names.intersection(gold.inputs):
            batches.append([])
            names.clear()
        batches[-1].append(gold)
        names.add(gold.table.name)
    return batches


def is_kept(name: str) -> bool:
    """Return whether a table is not derived from others: bronze, silver, and the
    samples of partition ends."""
    return (
        TABLES[name].layer in (Layer.BRONZE, Layer.SILVER)
        or name == PARTITION_END_SAMPLES.name
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

    def is_due(self, gold: GoldTable) -> bool:
        """Return whether a new build of the table may give other rows."""
        present = self.states.get(gold.table.name)
        if present is None:
            return True
        if present.uses_settings and self.version.moved > present.through:
            return True
        return any(
            self.states[name].changed > present.through
            for name in gold.inputs
            if name in self.states
        )

    def build(self, batch: Sequence[GoldTable]) -> None:
        """Build tables that do not read each other.

        Those that read few rows are collected in one job; it takes less time than to
        start a job for each of them.
        """
        inputs: list[_BuildInputs] = []
        small: list[tuple[GoldTable, DataFrame]] = []
        large: list[tuple[GoldTable, DataFrame]] = []
        for gold in batch:
            self.session.begin()
            inputs.append(_BuildInputs(self, gold))
            frame = gold.rows(inputs[-1])
            (small if self.session.reads_few_rows else large).append((gold, frame))
        added: dict[str, tuple[DataFile, ...]] = {}
        if small:
            self.session.set_for(few_rows=True)
            added |= self._collect(small)
        for gold, frame in large:
            self.session.set_for(few_rows=False)
            added[gold.table.name] = self._write(frame, gold)
        for gold, each in zip(batch, inputs, strict=True):
            self._merge(gold, each, added[gold.table.name])

    def _merge(
        self, gold: GoldTable, inputs: _BuildInputs, added: tuple[DataFile, ...]
    ) -> None:
        """Add the change of a built table to this refresh: its new files, and those
        that they replace."""
        name, plan = gold.table.name, inputs.plan
        known, present = name in self.states, self.states.get(name, TableState())
        removed = self.lake.files(name)
        if known and gold.appends:
            removed = ()
        elif known and gold.rewrites is not None and plan.start is not None:
            removed, kept = self._cut(gold, gold.rewrites, plan.start)
            added += kept
        is_unchanged = known and not added and not removed
        self.built[name] = Change(name, added, removed)
        self.plans[name] = plan
        self.states[name] = TableState(
            delta=present.delta,
            through=self.step,
            changed=present.changed if is_unchanged else self.step,
            uses_settings=inputs.uses_settings,
            cuts=(*plan.kept, *plan.cuts),
            read={
                each: THIS_COMMIT if each in self.built else self.states[each].delta
                for each in gold.inputs
                if each in self.states and not is_kept(each) and each not in _APPENDED
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
            kept = {
                name: state
                for name, state in version.tables.items()
                if name in self.states
            }
            tables = {**kept, **{name: self.states[name] for name in self.built}}
            return msgspec.structs.replace(version, tables=tables, settings=recorded)

        self.lake.commit([*self.built.values(), *stale], update)

    def _collect(
        self, built: Sequence[tuple[GoldTable, DataFrame]]
    ) -> dict[str, tuple[DataFile, ...]]:
        """Write tables from their rows in the memory of this process, and return their
        files by table."""
        files = {}
        for (gold, _), rows in zip(
            built, collect_all([f for _, f in built]), strict=True
        ):
            writer = TableWriter(self.lake.storage, gold.table, self.step)
            writer.add(rows.cast(gold.table.file_schema))
            files[gold.table.name] = writer.close()
        return files

    def _write(self, frame: DataFrame, gold: GoldTable) -> tuple[DataFile, ...]:
        from pyspark.sql import functions as F

        table, storage = gold.table, self.lake.storage
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
        storage.delete_folder(folder)
        return tuple(file for file in files if file.rows)

    def _cut(
        self, gold: GoldTable, column: str, cut: datetime
    ) -> tuple[tuple[DataFile, ...], tuple[DataFile, ...]]:
        """Return the files of a table that have rows at or after a time, and new files
        with their rows before it."""
        bounds = self.lake.bounds(gold.table.name, column)
        removed, mixed = [], []
        for file in self.lake.files(gold.table.name):
            low, high = bounds.get(file.path, (None, None))
            if high is None or _utc(high) >= cut:
                removed.append(file)
                if low is None or _utc(low) < cut:
                    mixed.append(file)
        writer = TableWriter(self.lake.storage, gold.table, self.step)
        for file in mixed:
            rows = self.lake.read_file(gold.table.name, file)
            writer.add(rows.filter(ds.field(column) < pa.scalar(cut)))
        return tuple(removed), writer.close()


def _utc(time: datetime) -> datetime:
    return time if time.tzinfo else time.replace(tzinfo=UTC)


class _BuildInputs:
    """An implementation of `PlanInputs` and `TableInputs` over a lake, for the build of
    one table."""

    def __init__(self, builder: _Builder, gold: GoldTable) -> None:
        self.spark = builder.session.spark
        self.uses_settings = False
        self._builder = builder
        self._gold = gold
        self._state = builder.states.get(gold.table.name, TableState())
        self.plan = gold.plan(self)

    # The plan.

    @property
    def cuts(self) -> tuple[datetime, ...]:
        return self._state.cuts

    def plan_of(self, name: str) -> Plan | None:
        # This table must have the rows of all earlier builds of the other one.
        earlier = self._builder.version.of(name).through
        is_current = self._gold.table.name in self._builder.states
        is_current &= self._state.through >= earlier
        return self._builder.plans.get(name) if is_current else None

    def new_times(self, name: str, *columns: str) -> Iterator[Any]:
        if files := self._new_files(name):
            dataset = self._builder.lake.file_dataset(name, files)
            for batch in dataset.to_batches(columns=list(columns)):
                yield pc.coalesce(*batch.columns)

    def rows(self, name: str, columns: Sequence[str]) -> Any:
        return self._rows(name, self._files(name), columns)

    def rows_before(self, name: str, columns: Sequence[str]) -> Any:
        return self._rows(name, self._files_before(name), columns)

    def _rows(
        self, name: str, files: Sequence[DataFile], columns: Sequence[str]
    ) -> Any:
        dataset = self._builder.lake.file_dataset(name, files)
        return dataset.to_table(columns=list(columns))

    # The rows.

    @property
    def settings(self) -> GoldSettings:
        """The settings; a table that reads them is built again when they change."""
        self.uses_settings = True
        return self._builder.settings

    def all(self, name: str) -> DataFrame:
        """Return all rows of an input."""
        return self._read(name, self._files(name))

    def of_days(self, name: str) -> DataFrame:
        """Return the rows of files of the plan's days, or of unknown days."""
        assert TABLES[name].day_of is not None, f"{name} is not divided into days"
        wanted = {None, NO_DAY, *(day.isoformat() for day in self.plan.days)}
        return self._read(name, [f for f in self._files(name) if f.day in wanted])

    def since(self, name: str, time: datetime | None) -> DataFrame:
        """Return the rows of files of the day of a time and later ones, or of unknown
        days."""
        assert TABLES[name].day_of is not None, f"{name} is not divided into days"
        is_own = name == self._gold.table.name
        files = self._builder.files(name) if is_own else self._files(name)
        if time is not None:
            first = time.astimezone(UTC).date().isoformat()
            files = tuple(
                f for f in files if f.day in {None, NO_DAY} or str(f.day) >= first
            )
        return self._read(name, files)

    def new(self, name: str) -> DataFrame:
        """Return the rows of steps after the last build."""
        return self._read(name, self._new_files(name))

    def before(self, name: str | None = None) -> DataFrame:
        """Return this table, or another one, as of the last build of this table."""
        own = self._gold.table.name
        if name is None:
            return self._read(own, self._builder.files(own))
        return self._read(name, self._files_before(name))

    def _read(self, name: str, files: Sequence[DataFile]) -> DataFrame:
        table, storage = TABLES[name], self._builder.lake.storage
        if not files:  # Spark refuses to read an empty list of paths
            return self._builder.session.gathered(empty_frame(self.spark, table), 0)
        urls = [storage.url(f"{folder_of(table)}/{file.path}") for file in files]
        rows = self.spark.read.schema(spark_schema(table)).parquet(*urls)
        count = sum(file.rows for file in files)
        return self._builder.session.gathered(rows, count)

    # Files.

    def _files(self, name: str) -> tuple[DataFile, ...]:
        assert name in self._gold.inputs, f"{name} is not a declared input"
        return self._builder.files(name)

    def _new_files(self, name: str) -> list[DataFile]:
        # A table that is rewritten has no new rows.
        assert is_kept(name) or name in _APPENDED, f"{name} is not only appended to"
        return [each for each in self._files(name) if each.step > self._state.through]

    def _files_before(self, name: str) -> tuple[DataFile, ...]:
        if name not in self._state.read:
            return ()
        return self._builder.lake.files(name, self._state.read[name])
