"""Show what stands in log segments: batches, and the records of groups and offsets in
them, decoded. Needs no broker, no lake and no Spark.

What is damaged or cut off is told, with its place, and the rest is shown. Records of
types that are not of consumer groups (share and streams groups) are shown as bytes.
"""

from __future__ import annotations

import argparse
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from coterie.cli.output.options import add_output_options

if TYPE_CHECKING:
    from collections.abc import Sequence

    from coterie.cli.output.values import Column, Item, Json, Outcome
    from coterie.cli.pipeline.segment_items import Reading

EXAMPLES: Final = """\
examples:
  coterie pipeline decode __consumer_offsets-7/00000000000000000000.log
      every record: its offset, time, type, key and value
  coterie pipeline decode --batches *.log
      only the batches: where they begin, how large they are, who wrote them
  coterie pipeline decode --from-offset 5000 --limit 20 --wide 00000000000000004711.log
      some records, with the batches they came in
  coterie pipeline decode --output jsonl *.log | grep billing
      for scripts; written while it is read, so files may be of any size
  coterie pipeline decode --raw orders-0/00000000000000000000.log
      a segment of another topic: keys and values as hex digits

exit codes: 0 all read, 1 a file, a batch or a record does not read, 2 asked for wrongly
"""
_SHORT: Final = 100
"""Letters of a value in a table; --wide shows all."""
_LATEST_MS: Final = 253_402_300_799_999


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("file", nargs="+", type=Path, metavar="FILE")
    what = parser.add_mutually_exclusive_group()
    what.add_argument(
        "--batches", action="store_true", help="show batches, not their records"
    )
    what.add_argument(
        "--raw", action="store_true", help="show keys and values as hex digits"
    )
    parser.add_argument(
        "--from-offset",
        type=int,
        default=0,
        metavar="N",
        help="leave out what is before this offset",
    )
    parser.add_argument(
        "--limit", type=int, metavar="N", help="show so many at most, of all files"
    )
    add_output_options(parser)


def run(options: argparse.Namespace) -> int:
    """Show them."""
    from coterie.cli.output.emit import Surroundings, asides, emit, write
    from coterie.cli.output.structured import render
    from coterie.cli.output.values import Exit, plain
    from coterie.cli.pipeline.segment_items import Reading
    from coterie.errors import SettingError

    if options.limit is not None and options.limit < 1:
        raise SettingError("--limit must be 1 or more")
    where = Surroundings()
    reading = Reading(options, where.stderr)
    if options.output != "jsonl":
        items = [item for block in reading.blocks() for item in block]
        return emit(_outcome(options, reading, items), options, where)
    for block in reading.blocks():
        lines = render(_outcome(options, reading, block), "jsonl", "", where.clock())
        if not write(where.stdout, lines):
            return int(Exit.OK)
    last = _outcome(options, reading, [])
    write(where.stdout, render(last, "jsonl", "", where.clock()))
    write(where.stderr, (plain(line) + "\n" for line in asides(last)))
    return int(Exit.FAILED if reading.has_unread or last.failures else Exit.OK)


def _outcome(
    options: argparse.Namespace, reading: Reading, items: Sequence[Item]
) -> Outcome:
    """Items that were read; and at the end, what was not."""
    from coterie.cli.output.values import Outcome

    what = "batches" if options.batches else "records"
    return Outcome(
        schema=f"coterie.pipeline.decode.{what}",
        columns=_batch_columns() if options.batches else _record_columns(options),
        items=tuple(items),
        failures=tuple(reading.failures) if reading.is_done else (),
        notes=reading.notes if reading.is_done else (),
        summary=reading.summary,
    )


def _record_columns(options: argparse.Namespace) -> tuple[Column, ...]:
    from coterie.cli.output.values import Column, show_error, show_value

    is_wide = options.wide or options.output == "wide"
    return (
        Column("file", "FILE", is_wide=True),
        Column("position", "POSITION", is_wide=True),
        Column("base_offset", "BATCH", is_wide=True),
        Column("producer_id", "PRODUCER", is_wide=True),
        Column("is_transactional", "TRANSACTION", is_wide=True),
        Column("offset", "OFFSET"),
        Column("timestamp_ms", "TIME", show=_time),
        Column("kind", "TYPE"),
        Column("key", "KEY"),
        Column("value", "VALUE", show=show_value if is_wide else _short),
        Column("error", "ERROR", show=show_error),
    )


def _batch_columns() -> tuple[Column, ...]:
    from coterie.cli.output.values import Column

    return (
        Column("file", "FILE", is_wide=True),
        Column("position", "POSITION"),
        Column("size_bytes", "BYTES"),
        Column("base_offset", "FIRST"),
        Column("last_offset", "LAST"),
        Column("records", "RECORDS"),
        Column("max_timestamp_ms", "NEWEST", show=_time),
        Column("codec", "CODEC"),
        Column("leader_epoch", "EPOCH"),
        Column("producer_id", "PRODUCER"),
        Column("producer_epoch", "PRODUCER-EPOCH", is_wide=True),
        Column("base_sequence", "SEQUENCE", is_wide=True),
        Column("is_transactional", "TRANSACTION"),
        Column("is_control", "MARKER"),
        Column("is_append_time", "BROKER-TIME", is_wide=True),
        Column("crc", "CRC", is_wide=True),
    )


def _short(value: Json) -> str:
    """As much of a value as says what it is about."""
    from coterie.cli.output.values import show_value

    text = show_value(value)
    return text if len(text) <= _SHORT else f"{text[:_SHORT]}..."


def _time(value: Json) -> str:
    """A time as people write it; what cannot be one, as it is."""
    if not isinstance(value, int):
        return "-"
    if not 0 <= value <= _LATEST_MS:
        return str(value)
    at = datetime.fromtimestamp(value / 1000, UTC)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
