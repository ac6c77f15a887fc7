"""`coterie topics records read`: read records without a group."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Collection, Sequence
from functools import partial
from typing import Final, Literal, NamedTuple

from coterie import client
from coterie import operations as ops
from coterie.cli.command import CLUSTER_OPTIONS, Command, Run, run_on_cluster
from coterie.cli.durations import whole_number
from coterie.cli.output import outcome as out
from coterie.cli.output.emit import check_columns, render, write, write_notes
from coterie.cli.output.tables import is_utf8
from coterie.cli.topics.record_items import (
    BASE64,
    RECORD_KEYS,
    UTF_8,
    json_line,
    record_item,
)
from coterie.errors import ClientError, CoterieError, SettingError
from coterie.types import OFFSETS_TOPIC, LogOffset, TopicPartition

_STREAMED: Final = ("jsonl", "csv")
"""Output formats that are written while records arrive."""
_TABLES: Final = ("table", "wide", "md")
_COLLECTED_MAX: Final = 1_000
"""The default of --limit for the other formats."""
_WRITTEN_TOGETHER: Final = 1_000
_VALUE_MAX: Final = 200
_NUMBER: Final = re.compile(r"[-+]?[0-9]{1,18}")


def _declare_read(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("topic", metavar="TOPIC", help="topic name")
    group = parser.add_argument_group("records")
    add = group.add_argument
    add(
        "--from",
        metavar="START",
        dest="start",
        default="earliest",
        help="earliest, latest, an offset, -N for the last N of each partition, a "
        "date-time as 2026-11-21T10:00, or a duration before now as 2h or PT2H "
        "(default earliest)",
    )
    add(
        "--to",
        metavar="END",
        dest="end",
        help="end before an offset, a date-time or a duration before now (default: the "
        "end of the log at the start)",
    )
    add(
        "--group",
        metavar="GROUP",
        help="from the committed offsets of a group, which is not joined; --from is "
        "for partitions without one",
    )
    add(
        "--partition",
        metavar="N[,...]",
        dest="partitions",
        action="append",
        help="partition, may be repeated (default: all)",
    )
    add(
        "--limit",
        metavar="N",
        type=whole_number("a limit", most=2**62),
        help="number of records to read",
    )
    add("--follow", action="store_true", help="wait for further records until Ctrl-C")
    add(
        "--read-committed",
        action="store_true",
        help="without records of aborted and open transactions",
    )
    add(
        "--max-value-bytes",
        metavar="N",
        type=whole_number("a length", most=2**62),
        default=_VALUE_MAX,
        help="longest part of a key or value that tables show "
        f"(default {_VALUE_MAX}); other formats have all of it",
    )


class Start(NamedTuple):
    """The value of --from."""

    kind: Literal["earliest", "latest", "offset", "last", "time"]
    number: int = 0
    """An offset, a number of records or a time (ms)."""

    def offset(
        self, first: LogOffset, end: LogOffset, at_time: LogOffset | None
    ) -> LogOffset:
        """Return the offset to start at in a log from `first` to `end`; `at_time` is
        that of the first record at or after the time."""
        if self.kind == "offset":
            return self.number
        if self.kind == "last":
            return max(end - self.number, first)
        if self.kind == "time" and at_time is not None and at_time >= 0:
            return at_time
        return first if self.kind == "earliest" else end


def read_start(text: str, now_ms: int, option: str = "--from") -> Start:
    """Return the place in a log that an option names. Raises SettingError."""
    if text in {"earliest", "latest"}:
        return Start("earliest" if text == "earliest" else "latest")
    if _NUMBER.fullmatch(text):
        number = int(text)
        return Start("last", -number) if text[0] == "-" else Start("offset", number)
    for read in (ops.read_datetime_ms, partial(ops.time_before, now_ms=now_ms)):
        try:
            return Start("time", read(text))
        except SettingError:
            continue
    raise SettingError(
        f"{option}: {text!r} is not earliest, latest, an offset, -N, a date-time such "
        "as 2026-11-21T10:00 or a duration such as 2h"
    )


def read_partitions(texts: Collection[str] | None) -> set[int] | None:
    """Return the partitions of --partition, or None for all. Raises SettingError."""
    if texts is None:
        return None
    words = [word for text in texts for word in text.split(",")]
    for word in words:
        if not word.isascii() or not word.isdigit():
            raise SettingError(
                f"--partition: {word!r} is not the number of a partition"
            )
    return set(map(int, words))


def read_records(options: argparse.Namespace) -> int:
    """Print the records that the options select. Raises SettingError."""
    read_start(options.start, 0)  # Report usage errors before connecting.
    read_partitions(options.partitions)
    if options.end is not None:
        read_start(options.end, 0, "--to")
        if options.follow:
            raise SettingError("use either --to or --follow")
    if options.follow and options.output not in (*_STREAMED, "table", "wide"):
        raise SettingError(
            f"--follow has no end, and {options.output} is written at the end: use "
            "--output jsonl"
        )
    return run_on_cluster(options, _read)


class _Range:
    """The offsets to read, with failures of partitions and notes."""

    def __init__(self) -> None:
        self.starts: dict[TopicPartition, LogOffset] = {}
        self.ends: dict[TopicPartition, LogOffset] = {}
        self.failures: list[out.Failure] = []
        self.notes: list[str] = []


async def _read(run: Run) -> out.Outcome | out.Exit:
    options = run.options
    check_columns(_outcome(()), options)
    chosen = await _range(run)
    reader = client.RecordReader(
        run.admin.cluster,
        chosen.starts,
        ends=None if options.follow else chosen.ends,
        committed_only=options.read_committed,
    )
    is_streamed = options.output in _STREAMED or options.follow
    limit = options.limit
    if limit is None and not is_streamed:
        limit = _COLLECTED_MAX
    printer = _Printer(run, is_streamed=is_streamed)
    total = sum(chosen.ends[key] - at for key, at in chosen.starts.items())
    count = 0
    while not reader.is_done and not printer.is_closed and count != limit:
        results = await reader.read()
        chosen.failures += (
            out.Failure.of("partition", f"{key.topic}-{key.partition}", error)
            for key, error in results.errors.items()
        )
        for key, records in results.values.items():
            kept = records if limit is None else records[: limit - count]
            count += len(kept)
            printer.add(key, kept)
        if not options.follow and not is_streamed:
            run.progress(count, max(total if limit is None else min(limit, total), 1))
    if options.limit is None and count == limit and not reader.is_done:
        chosen.notes.append(
            f"stopped after {limit} records: use --limit, or --output jsonl for all"
        )
    return printer.finish(chosen)


async def _range(run: Run) -> _Range:
    """Return where to start and end in each partition."""
    options = run.options
    start = read_start(options.start, run.io.now_ms())
    chosen = _Range()
    keys = await _partitions(run, chosen)
    first = await run.admin.logs.list_offsets(dict.fromkeys(keys, client.EARLIEST))
    last = await run.admin.logs.list_offsets(
        dict.fromkeys(keys, client.LATEST), committed_only=options.read_committed
    )
    errors = {**first.errors, **last.errors}
    end = None
    if options.end is not None:
        end = read_start(options.end, run.io.now_ms(), "--to")
    start_times = await _offsets_at(run, keys, start, errors)
    end_times = await _offsets_at(run, keys, end, errors)
    committed = await _committed_offsets(run, keys, chosen)
    for key in keys:
        if error := errors.get(key):
            name = f"{key.topic}-{key.partition}"
            chosen.failures.append(out.Failure.of("partition", name, error))
            continue
        low, high = first.one(key).offset, last.one(key).offset
        at = committed.get(key, start.offset(low, high, start_times.get(key)))
        if not low <= at <= high:
            chosen.notes.append(
                f"partition {key.partition} has offsets {low} to {high}, not {at}"
            )
        chosen.starts[key] = min(max(at, low), high)
        last_read = high if end is None else end.offset(low, high, end_times.get(key))
        chosen.ends[key] = max(chosen.starts[key], min(last_read, high))
    return chosen


async def _offsets_at(
    run: Run,
    keys: Sequence[TopicPartition],
    place: Start | None,
    errors: dict[TopicPartition, CoterieError],
) -> dict[TopicPartition, LogOffset]:
    """Return the offsets of the first records at or after a time; none for a place that
    is no time. Add the errors of partitions."""
    if place is None or place.kind != "time":
        return {}
    found = await run.admin.logs.list_offsets(
        dict.fromkeys(keys, client.AtTime(place.number))
    )
    errors |= found.errors
    return {key: each.offset for key, each in found.values.items()}


async def _partitions(run: Run, chosen: _Range) -> list[TopicPartition]:
    """Return the partitions to read; those that do not exist are failures."""
    name = run.options.topic
    keys = (await run.admin.topics.describe([name])).one(name).all_partitions
    wanted = read_partitions(run.options.partitions)
    if wanted is None:
        return list(keys)
    for each in sorted(wanted - {key.partition for key in keys}):
        error = ClientError(f"topic {name} has no partition {each}: it has {len(keys)}")
        chosen.failures.append(out.Failure.of("partition", f"{name}-{each}", error))
    return [key for key in keys if key.partition in wanted]


async def _committed_offsets(
    run: Run, keys: Sequence[TopicPartition], chosen: _Range
) -> dict[TopicPartition, LogOffset]:
    """Return the committed offsets of --group; none without it. Raises the group's
    error."""
    group_id = run.options.group
    if group_id is None:
        return {}
    offsets = (await run.admin.group_offsets.fetch(group_id, keys)).all()
    committed = {key: each.offset for key, each in offsets.items() if each is not None}
    if missing := [str(key.partition) for key in keys if key not in committed]:
        chosen.notes.append(
            f"group {group_id} has no committed offset for partition "
            f"{', '.join(missing)}: read from {run.options.start}"
        )
    return committed


# Output.


class _Printer:
    """The output of the records: written as they arrive, or collected for one
    outcome."""

    def __init__(self, run: Run, *, is_streamed: bool) -> None:
        self.is_closed = False
        """Whether the reader of stdout has closed it, as `head` does."""
        self._run = run
        self._is_streamed = is_streamed
        self._items: list[out.Item] = []
        self._has_header = False

    def add(self, key: TopicPartition, records: Sequence[client.LogRecord]) -> None:
        """Write or collect records of one partition."""
        # Items take much more memory than records.
        for at in range(0, len(records), _WRITTEN_TOGETHER):
            self._add(key, records[at : at + _WRITTEN_TOGETHER])

    def _add(self, key: TopicPartition, records: Sequence[client.LogRecord]) -> None:
        items = [record_item(key, each) for each in records]
        form = self._run.options.output
        if form in _TABLES and key.topic == OFFSETS_TOPIC:
            items = list(map(_with_coordinator_record, items, records))
        if form in _TABLES:
            items = [self._clipped(each) for each in items]
        if not self._is_streamed:
            self._items += items
        elif items and not self.is_closed:
            self._write(items)

    def _clipped(self, item: out.Item) -> out.Item:
        """Return an item without the ends of long texts."""
        size = self._run.options.max_value_bytes
        return {
            **item,
            "key": _clipped(item["key"], item["key_encoding"], size),
            "value": _clipped(item["value"], item["value_encoding"], size),
        }

    def _write(self, items: Sequence[out.Item]) -> None:
        form = self._run.options.output
        if form == "jsonl":
            plain = is_utf8(self._run.io.stdout.encoding)
            pieces = [json_line(each, is_utf8=plain) for each in items]
        else:
            pieces = self._rendered(items)
        if not write(self._run.io.stdout, pieces):
            self.is_closed = True

    def _rendered(self, items: Sequence[out.Item]) -> list[str]:
        """Return lines in the output format, with a header in the first only."""
        options = self._run.options
        if options.output == "csv":
            items = [{**each, "headers": json.dumps(each["headers"])} for each in items]
        outcome = _outcome(tuple(items))
        lines = list(
            render(outcome, options, self._run.io, is_continued=self._has_header)
        )
        self._has_header = True
        return lines

    def finish(self, chosen: _Range) -> out.Outcome | out.Exit:
        """Return the outcome of collected records; write the failures and notes of
        streamed ones and return the exit code."""
        outcome = _outcome(tuple(self._items))._replace(
            failures=tuple(chosen.failures), notes=tuple(chosen.notes)
        )
        if not self._is_streamed:
            return outcome
        run = self._run
        if run.options.output == "jsonl":
            write(run.io.stdout, render(outcome, run.options, run.io))
        if run.options.output == "csv" and not self._has_header:
            write(run.io.stdout, [",".join(RECORD_KEYS), "\n"])
        write_notes(run.io, outcome)
        return outcome.exit_code


def _outcome(items: tuple[out.Item, ...]) -> out.Outcome:
    return out.Outcome(
        schema="coterie.record",
        columns=(
            out.Column("topic", "TOPIC", is_wide=True, role=out.Role.IDENTITY),
            out.Column("partition", "PARTITION", role=out.Role.IDENTITY),
            out.Column("offset", "OFFSET", role=out.Role.IDENTITY),
            out.Column("timestamp_ms", "TIME", show=out.show_time_ms, drop=2),
            out.Column("key", "KEY", role=out.Role.TEXT),
            out.Column("value", "VALUE", show=_show_value, role=out.Role.TEXT),
            out.Column(
                "headers", "HEADERS", show=_show_headers, role=out.Role.TEXT, drop=1
            ),
        ),
        items=items,
        summary={"records": len(items)},
    )


def _with_coordinator_record(item: out.Item, record: client.LogRecord) -> out.Item:
    """Return an item with the decoded key and value of a record of a group or an
    offset."""
    from coterie import records  # of the broker, which other commands do not need

    decoded = records.to_json(record.key, record.value)
    if decoded.key is None:
        return item
    key = json.dumps({"type": decoded.kind, **decoded.key}, ensure_ascii=False)
    value = None
    if decoded.value is not None:
        value = json.dumps(decoded.value, ensure_ascii=False)
    texts: out.Item = {"key": key, "value": value}
    return {**item, **texts, **dict.fromkeys(("key_encoding", "value_encoding"), UTF_8)}


def _clipped(text: out.Json, encoding: out.Json, size: int) -> out.Json:
    """Return a text of a table: without its end when it is long, with a prefix when it
    is base64."""
    if not isinstance(text, str):
        return text
    prefix = f"{BASE64}:" if encoding == BASE64 else ""
    if len(text) <= size:
        return prefix + text
    return f"{prefix}{text[:size]}... ({len(text)} characters)"


def _show_value(value: out.Json) -> str:
    """Return a value; a tombstone differs from an empty value."""
    if value is None:
        return "(null)"
    return str(value)


def _show_headers(value: out.Json) -> str:
    assert isinstance(value, list)
    return ", ".join(f"{each['key']}={each['value']}" for each in value) or "-"


READ: Final = Command(
    description="""\
Read records of a topic, without joining a group and without committing.

Without --follow it ends at the offsets that were the last when it started. Tables show
bytes that are not UTF-8 as base64, escape control characters, and decode the records of
__consumer_offsets. Tables, JSON and Markdown are collected and end after 1,000 records
unless --limit is used; jsonl and csv are written as records arrive. The lines of jsonl
can be produced again. Partitions that are added while --follow runs are not read.
""",
    examples="""\
examples:
  coterie topics records read orders --from -10
      the last ten of each partition
  coterie topics records read orders --from 15m --output jsonl
      everything since a quarter of an hour ago, for programs
  coterie topics records read orders --from 2026-11-21T10:00 --to 2026-11-21T10:05
      five minutes; records may be out of order in time
  coterie topics records read orders --from latest --follow
      new records as they arrive
  coterie topics records read orders --partition 2 --from 1500 --limit 1 --wide
      one record
  coterie topics records read orders --group billing --limit 5
      what a group reads next
  coterie topics records read orders --read-committed -o jsonl |
    coterie topics records produce orders-copy --format jsonl
      copy a topic

exit codes: 0 success, 1 something could not be read, 2 usage error, 130 interrupted
""",
    options=(_declare_read, *CLUSTER_OPTIONS),
    run=read_records,
)
