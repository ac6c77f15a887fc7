"""Merge a lake's small files into large ones, and take away what killed runs and older
versions left.

Tables stay what they are. No run must write to the lake meanwhile, and who reads an
old version should be done. Spark is not started.
"""

from __future__ import annotations

import argparse
from typing import Final

from coterie.errors import SettingError

EXAMPLES: Final = """\
examples:
  coterie pipeline compact --lake lake
      after many runs, or a long --follow
  coterie pipeline compact --lake s3://lakes/prod --file-mib 256
      larger files for a large lake

exit codes: 0 done, 1 the lake said no, 2 asked for wrongly
"""
_MIB: Final = 1024 * 1024


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "--lake",
        required=True,
        metavar="DIR",
        help="where `coterie pipeline run` wrote its tables",
    )
    parser.add_argument(
        "--file-mib",
        type=int,
        default=128,
        metavar="N",
        help="how large files are to be, about (default 128)",
    )


def run(options: argparse.Namespace) -> int:
    """Merge and take away."""
    from coterie.pipeline.jobs.compact import compact
    from coterie.pipeline.lake.lake import Lake

    if options.file_mib < 1:
        raise SettingError("--file-mib must be 1 or more")
    lake = Lake.open(options.lake)
    done = compact(lake, options.file_mib * _MIB)
    print(
        f"{done.merged} files became {done.into}, {done.deleted} were taken away"
        f" in {lake.storage}"
    )
    return 0
