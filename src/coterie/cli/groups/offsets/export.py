"""Write what groups committed to a file, which `coterie groups offsets import` reads.

JSON has metadata and leader epochs. CSV is what Kafka's own script reads, with
--reset-offsets --from-file: topic,partition,offset for one group, and
group,topic,partition,offset for several.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from coterie.cli.connect import add_connection_options
from coterie.cli.groups.partitions import add_partition_option
from coterie.cli.groups.selecting import add_selection_options

if TYPE_CHECKING:
    from collections.abc import Sequence

    from coterie.cli.output.values import Outcome
    from coterie.cli.running import Run
    from coterie.operations.seen import GroupSeen

EXAMPLES: Final = """\
examples:
  coterie groups offsets export billing > billing.json
      one group, with metadata
  coterie groups offsets export --glob 'billing-*' --to billing.json
      several, into a file that is not there yet
  coterie groups offsets export billing --format csv --to billing.csv
      for Kafka's own script

exit codes: 0 all exported, 1 something could not be read, 2 asked for wrongly
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_selection_options(parser)
    add_partition_option(parser, "only these")
    parser.add_argument("--format", choices=("json", "csv"), default="json")
    parser.add_argument(
        "--to", metavar="FILE", default="-", help="a new file (default: stdout)"
    )
    add_connection_options(parser)
    parser.set_defaults(output="table", wide=False)


def run(options: argparse.Namespace) -> int:
    """Export them."""
    from coterie.cli.running import run_command

    return run_command(options, export)


async def export(run: Run) -> Outcome:
    """Read the offsets, and write the file."""
    from coterie.cli.groups.files import write_new
    from coterie.cli.groups.offsets.reading import read_groups
    from coterie.cli.output.values import Failure, Outcome

    read = await read_groups(run)
    data = await _document(run, read.groups)
    if run.options.to == "-":
        run.where.stdout.write(data.decode())
    else:
        write_new(run.options.to, data)
    count = sum(len(each.committed) for each in read.groups)
    groups = "1 group" if len(read.groups) == 1 else f"{len(read.groups)} groups"
    unread = (
        Failure.of("offset", f"{each.group_id} {at.topic}-{at.partition}", error)
        for each in read.groups
        for at, error in each.offsets.errors.items()
    )
    return Outcome(
        schema="coterie.groups.offsets.export",
        columns=(),
        items=(),
        failures=(*read.failures, *unread),
        notes=(f"offsets of {groups} that were exported: {count}",),
    )


async def _document(run: Run, groups: Sequence[GroupSeen]) -> bytes:
    """The file in the format that was asked for."""
    from coterie.operations.documents import utc_text
    from coterie.operations.offset_csv import CsvRow, write_csv
    from coterie.operations.offset_file import write_offsets_file

    if run.options.format == "csv":
        rows = (
            CsvRow(each.group_id, at, committed.offset)
            for each in groups
            for at, committed in each.committed.items()
        )
        return write_csv(rows, with_group=len(groups) != 1).encode()
    cluster = await run.admin.describe_cluster()
    offsets = {each.group_id: each.committed for each in groups}
    return write_offsets_file(offsets, utc_text(run.where.now_ms()), cluster.cluster_id)
