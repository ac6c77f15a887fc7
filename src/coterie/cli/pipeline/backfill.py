"""Make a lake's silver and gold tables anew, from the records that it has.

For a Coterie that decodes or builds otherwise than the one that made them, and for
doubts: the tables are those that one run would have made. What the log has lost since
is in the lake's records, so nothing is asked of the log.
"""

from __future__ import annotations

import argparse
from typing import Final

from coterie.cli.pipeline.engine import (
    add_engine_options,
    engine_of,
    start,
    step_of,
)
from coterie.cli.pipeline.run import add_settings, settings_of
from coterie.cli.pipeline.showing_progress import Shown

EXAMPLES: Final = """\
examples:
  coterie pipeline backfill --lake lake
      after an update
  coterie pipeline backfill --lake lake --retention-days 30
      with another setting

exit codes: 0 made, 1 the lake said no, 2 asked for wrongly, 130 after Ctrl-C
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "--lake",
        required=True,
        metavar="DIR",
        help="where `coterie pipeline run` wrote its tables",
    )
    add_settings(parser)
    add_engine_options(parser)


def run(options: argparse.Namespace) -> int:
    """Make them anew."""
    from coterie.pipeline.jobs.backfill import Bronze, backfill
    from coterie.pipeline.jobs.run import Job
    from coterie.pipeline.lake.lake import Lake

    engine, settings = engine_of(options), settings_of(options)
    lake = Lake.open(options.lake)
    with Shown() as shown:
        job = Job(
            spark=start(engine),
            lake=lake,
            source=Bronze(str(lake.storage)),
            settings=settings,
            step=step_of(engine),
            progress=shown,
        )
        built = backfill(job)
    records = lake.version.of("records").rows
    print(f"{records} records decoded, {len(built)} tables built in {lake.storage}")
    return 0
