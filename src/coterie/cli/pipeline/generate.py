"""Generate a realistic log of groups and offsets as Kafka's segment files, with the
ground truth beside it.

Readers of such logs can be tested against that truth. Equal options give equal bytes.
The command connects to no broker.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final

from coterie import client
from coterie.cli.command import Command
from coterie.errors import LogError

EXAMPLES: Final = """\
examples:
  coterie pipeline generate --to example-log
      100 groups and 100,000 commits in 30 days
  coterie pipeline generate --groups 1000 --commits 1000000 --codec zstd --to log
      a larger one, compressed

exit codes: 0 written, 1 writing failed, 2 usage error
"""
_CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "--to",
        required=True,
        type=Path,
        metavar="DIR",
        help="directory to write to: an empty one, or one to be created",
    )
    for name, default, counted in (
        ("groups", 100, "groups"),
        ("commits", 100_000, "committed offsets (approximate)"),
        ("days", 30, "days"),
        ("partitions", 50, "log partitions"),
    ):
        parser.add_argument(
            f"--{name}",
            type=int,
            default=default,
            metavar="N",
            help=f"number of {counted} (default {default})",
        )
    parser.add_argument(
        "--seed",
        type=int,
        default=1,
        metavar="N",
        help="seed of the random numbers (default 1)",
    )
    parser.add_argument(
        "--codec",
        choices=_CODECS,
        default="none",
        help="compression of the record batches (default none)",
    )
    parser.add_argument(
        "--compacted",
        action="store_true",
        help="also write the compacted log, into DIR/compacted",
    )


def run(options: argparse.Namespace) -> int:
    """Write the log; return the exit code."""
    from coterie.testing.log_generator.generate import (
        GeneratorOptions,
        generate,
        write_compacted,
    )

    generator_options = GeneratorOptions(
        folder=options.to,
        groups=options.groups,
        commits=options.commits,
        days=options.days,
        seed=options.seed,
        partitions=options.partitions,
        codec=client.Codec[options.codec.upper()],
    )
    try:
        world = generate(generator_options)
        if options.compacted:
            write_compacted(world, options.to / "compacted")
    except OSError as error:
        raise LogError(f"{options.to}: {error.strerror or error}") from error
    records = sum(log.end_offset for log in world.logs)
    counts = world.truth.counts
    print(
        f"{counts['groups']} groups, {counts['commits']} commits, {records} records "
        f"in {options.to}; the ground truth is in {options.to / 'truth'}"
    )
    return 0


GENERATE: Final = Command(
    description=__doc__ or "", examples=EXAMPLES, options=(configure,), run=run
)
