"""Decode log segments: show their batches, or their records of groups and offsets.

No broker, lake or Spark is needed. Corrupt and truncated parts are reported with their
position, and all others are shown. Records of share and streams groups are shown in
hex.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from coterie.cli.command import Command, add_output_options
from coterie.cli.output.emit import CommandIO, emit, write, write_notes
from coterie.cli.output.outcome import (
    Column,
    Exit,
    Item,
    Json,
    Outcome,
    Role,
    show_error,
    show_time_ms,
    show_value,
)
from coterie.errors import SettingError

if TYPE_CHECKING:
    from coterie.cli.pipeline.segment_items import SegmentItems

EXAMPLES: Final = """\
examples:
  coterie pipeline decode __consumer_offsets-7/00000000000000000000.log
      every record: its offset, time, type, key and value
  coterie pipeline decode --batches *.log
      only the batches: positions, sizes, producers
  coterie pipeline decode --from-offset 5000 --limit 20 --wide 00000000000000004711.log
      some records, with their batches
  coterie pipeline decode --output jsonl *.log | grep billing
      for scripts; written while the files are read, whatever their size; only an
      unreadable part of a file is held in memory
  coterie pipeline decode --raw orders-0/00000000000000000000.log
      a segment of another topic: keys and values as hex digits

exit codes: 0 all decoded, 1 a file, batch or record is unreadable, 2 usage error
"""
_SHORT: Final = 100
"""The number of characters of a value in a table; --wide shows all."""


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
        help="first offset to show",
    )
    parser.add_argument(
        "--limit", type=int, metavar="N", help="maximum number of items in all"
    )
    add_output_options(parser)


def run(options: argparse.Namespace) -> int:
    """Print the items; return the exit code."""
    from coterie.cli.output.structured import render
    from coterie.cli.pipeline.segment_items import SegmentItems

    if options.limit is not None and options.limit < 1:
        raise SettingError("--limit must be 1 or more")
    where = CommandIO()
    content = SegmentItems(options, where.stderr)
    if options.output != "jsonl":
        items = [item for block in content.blocks() for item in block]
        return emit(_outcome(options, content, items), options, where)
    for block in content.blocks():
        outcome = _outcome(options, content, block)
        lines = render(outcome, "jsonl", "", where.clock(), where.stdout.encoding)
        if not write(where.stdout, lines):
            return int(Exit.OK)
    last = _outcome(options, content, [])
    lines = render(last, "jsonl", "", where.clock(), where.stdout.encoding)
    write(where.stdout, lines)
    write_notes(where, last)
    return int(Exit.FAILED if content.has_unreadable or last.failures else Exit.OK)


def _outcome(
    options: argparse.Namespace, content: SegmentItems, items: Sequence[Item]
) -> Outcome:
    """Return an outcome with some items; the last outcome also has the failures and
    notes."""
    what = "batches" if options.batches else "records"
    return Outcome(
        schema=f"coterie.pipeline.decode.{what}",
        columns=_batch_columns() if options.batches else _record_columns(options),
        items=tuple(items),
        failures=tuple(content.failures) if content.is_done else (),
        notes=content.notes if content.is_done else (),
        summary=content.summary,
    )


def _record_columns(options: argparse.Namespace) -> tuple[Column, ...]:
    is_wide = options.wide or options.output == "wide"
    show = show_value if is_wide else _short
    return (
        Column("file", "FILE", is_wide=True),
        Column("position", "POSITION", is_wide=True),
        Column("base_offset", "BATCH", is_wide=True),
        Column("producer_id", "PRODUCER", is_wide=True),
        Column("is_transactional", "TRANSACTION", is_wide=True),
        Column("offset", "OFFSET"),
        Column("timestamp_ms", "TIME", show=show_time_ms, drop=3),
        Column("kind", "TYPE"),
        Column("key", "KEY", role=Role.TEXT),
        Column("value", "VALUE", show=show, role=Role.TEXT),
        Column("error", "ERROR", show=show_error),
    )


def _batch_columns() -> tuple[Column, ...]:
    return (
        Column("file", "FILE", is_wide=True),
        Column("position", "POSITION"),
        Column("size_bytes", "BYTES"),
        Column("base_offset", "FIRST"),
        Column("last_offset", "LAST"),
        Column("records", "RECORDS"),
        Column("max_timestamp_ms", "NEWEST", show=show_time_ms),
        Column("codec", "CODEC", drop=1),
        Column("leader_epoch", "EPOCH", drop=2),
        Column("producer_id", "PRODUCER", drop=3),
        Column("producer_epoch", "PRODUCER-EPOCH", is_wide=True),
        Column("base_sequence", "SEQUENCE", is_wide=True),
        Column("is_transactional", "TRANSACTION", drop=4),
        Column("is_control", "MARKER", drop=5),
        Column("is_append_time", "BROKER-TIME", is_wide=True),
        Column("crc", "CRC", is_wide=True),
    )


def _short(value: Json) -> str:
    text = show_value(value)
    return text if len(text) <= _SHORT else f"{text[:_SHORT]}..."


DECODE: Final = Command(
    description=__doc__ or "", examples=EXAMPLES, options=(configure,), run=run
)
