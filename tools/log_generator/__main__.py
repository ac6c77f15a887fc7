"""Generate a realistic log of groups and offsets as Kafka's segment files, with the
ground truth beside it.

    python -m tools.log_generator --to example-log
    python -m tools.log_generator --groups 1000 --commits 1000000 --codec zstd --to log

Readers of such logs can be tested against that truth. Equal options give equal bytes.
No broker is needed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from coterie.errors import SettingError
from coterie.wire.compression import Codec
from tools.log_generator.generate import GeneratorOptions, generate, write_compacted


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tools.log_generator",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--to",
        required=True,
        type=Path,
        metavar="DIR",
        help="directory to write to: an empty one, or one to be created",
    )
    for name, default, meaning in (
        ("groups", 100, "number of groups"),
        ("commits", 100_000, "approximate number of committed offsets"),
        ("days", 30, "number of days"),
        ("partitions", 50, "number of log partitions"),
        ("seed", 1, "seed of the random numbers"),
    ):
        parser.add_argument(
            f"--{name}",
            type=int,
            default=default,
            metavar="N",
            help=f"{meaning} (default {default})",
        )
    parser.add_argument(
        "--codec",
        choices=[each.name.lower() for each in Codec],
        default="none",
        help="compression of the record batches (default none)",
    )
    parser.add_argument(
        "--compacted",
        action="store_true",
        help="also write the compacted log, into DIR/compacted",
    )
    return parser


def main(words: Sequence[str]) -> int:
    """Write the log; return the exit code."""
    parser = _parser()
    options = parser.parse_args(words)
    try:
        world = generate(
            GeneratorOptions(
                folder=options.to,
                groups=options.groups,
                commits=options.commits,
                days=options.days,
                seed=options.seed,
                partitions=options.partitions,
                codec=Codec[options.codec.upper()],
            )
        )
    except SettingError as error:
        parser.error(str(error))
    if options.compacted:
        write_compacted(world, options.to / "compacted")
    records = sum(log.end_offset for log in world.logs)
    counts = world.truth.counts
    print(
        f"{counts['groups']} groups, {counts['commits']} commits, {records} records "
        f"in {options.to}; the ground truth is in {options.to / 'truth'}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
