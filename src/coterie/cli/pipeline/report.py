"""Write one page of HTML about what a lake says: health, lag, rebalances, owners,
offsets that expire, groups that may go.

The file stands alone: it asks no server and no network for anything, reads on a phone,
and follows the reader's choice of light or dark. Spark is not started.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final

EXAMPLES: Final = """\
examples:
  coterie pipeline report --lake lake --to report.html
      open it in any browser, or send it to somebody

exit codes: 0 written, 1 the lake or the file made trouble, 2 asked for wrongly
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "--lake",
        required=True,
        metavar="DIR",
        help="where `coterie pipeline run` wrote its tables",
    )
    parser.add_argument(
        "--to",
        required=True,
        type=Path,
        metavar="FILE",
        help="the file to write; one that is there is replaced",
    )


def run(options: argparse.Namespace) -> int:
    """Write it."""
    from coterie.cli.output.emit import wall_clock
    from coterie.errors import LogError, SettingError
    from coterie.pipeline.lake.lake import Lake

    lake = Lake.open(options.lake)
    try:
        from coterie.pipeline.report.page import render
    except ModuleNotFoundError as error:
        raise SettingError(
            f"the report needs {error.name}: pip install 'coterie[pipeline]'"
        ) from None
    text = render(lake, wall_clock())
    try:
        options.to.write_text(text, encoding="utf-8")
    except OSError as error:
        raise LogError(f"{options.to}: {error.strerror or error}") from error
    print(f"{options.to}: {len(text.encode()) / 1e6:.1f} MB of the lake {options.lake}")
    return 0
