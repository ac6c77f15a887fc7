"""Write a realistic log of groups and offsets, as Kafka's segment files, with the truth
of what happened beside it.

Whoever reads such logs can be tested against that truth. The same options write the
same bytes. Nothing is connected to.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final

EXAMPLES: Final = """\
examples:
  coterie pipeline generate --to example-log
      100 groups and 100,000 commits in 30 days
  coterie pipeline generate --groups 1000 --commits 1000000 --codec zstd --to log
      a larger one, compressed

exit codes: 0 written, 1 it could not be written, 2 the options make no sense
"""
_CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "--to",
        required=True,
        type=Path,
        metavar="DIR",
        help="an empty directory, or one that is to be made",
    )
    for name, default, what in (
        ("groups", 100, "groups"),
        ("commits", 100_000, "committed offsets, about"),
        ("days", 30, "days"),
        ("partitions", 50, "partitions of the log"),
    ):
        parser.add_argument(
            f"--{name}",
            type=int,
            default=default,
            metavar="N",
            help=f"how many {what} (default {default})",
        )
    parser.add_argument(
        "--seed",
        type=int,
        default=1,
        metavar="N",
        help="another number, another log (default 1)",
    )
    parser.add_argument(
        "--codec",
        choices=_CODECS,
        default="none",
        help="how batches are compressed (default none)",
    )
    _add_compacted(parser)


def _add_compacted(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--compacted",
        action="store_true",
        help="write what compaction leaves of the log too, into DIR/compacted",
    )


def run(options: argparse.Namespace) -> int:
    """Write it."""
    from coterie.errors import LogError
    from coterie.pipeline.generator.compacted import write_compacted
    from coterie.pipeline.generator.generate import Order, generate
    from coterie.wire.compression import Codec

    order = Order(
        folder=options.to,
        groups=options.groups,
        commits=options.commits,
        days=options.days,
        seed=options.seed,
        partitions=options.partitions,
        codec=Codec[options.codec.upper()],
    )
    try:
        world = generate(order)
        if options.compacted:
            write_compacted(world, options.to / "compacted")
    except OSError as error:
        raise LogError(f"{options.to}: {error.strerror or error}") from error
    records = sum(part.end_offset for part in world.parts)
    counts = world.truth.counts
    print(
        f"{counts['groups']} groups, {counts['commits']} commits, {records} records "
        f"in {options.to}; what happened is in {options.to / 'truth'}"
    )
    return 0
