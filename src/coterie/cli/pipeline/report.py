"""The command `coterie pipeline report`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final

from coterie.cli.command import Command
from coterie.cli.output.emit import wall_clock
from coterie.cli.pipeline.options import (
    add_as_of_option,
    add_lake_option,
    open_lake,
)
from coterie.errors import LogError
from coterie.files import write_private_file


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--to",
        required=True,
        type=Path,
        metavar="FILE",
        help="path of the report; an existing file is replaced",
    )


def _run(options: argparse.Namespace) -> int:
    from coterie.pipeline.report.page import render

    lake = open_lake(options)
    text = render(lake, wall_clock())
    try:
        write_private_file(options.to, text.encode())
    except OSError as error:
        raise LogError(f"{options.to}: {error.strerror or error}") from error
    size_mb = len(text.encode()) / 1e6
    print(f"{options.to}: {size_mb:.1f} MB, from the lake {options.lake}")
    return 0


REPORT: Final = Command(
    description="""\
Write an HTML page about a lake: group health, lag, rebalances, partition owners, offset
expiry, stale groups.

The page is one file and makes no network requests. It can be read on a phone and has a
light and a dark theme. Does not start Spark.
""",
    examples="""\
examples:
  coterie pipeline report --lake lake --to report.html
      open the file in a browser, or send it

exit codes: 0 success, 1 the lake or the file failed, 2 usage error
""",
    options=(add_lake_option, add_as_of_option, _add_options),
    run=_run,
)
