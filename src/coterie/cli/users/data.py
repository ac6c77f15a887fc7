"""What the commands about users share: where the data is, and what went wrong."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from coterie.server.user_store import UserStore


def add_data_option(parser: argparse.ArgumentParser) -> None:
    """Declare --data, as `coterie serve` has it."""
    parser.add_argument(
        "--data",
        metavar="DIR",
        type=Path,
        default=Path("coterie-data"),
        help="where the server keeps its data (default ./coterie-data)",
    )


def with_store(
    options: argparse.Namespace,
    work: Callable[[UserStore], int],
    *,
    may_be_new: bool = False,
) -> int:
    """Do work on the users of a directory; its exit code, or 1 with a sentence. Only
    who adds a user makes a directory."""
    from coterie.errors import LogError
    from coterie.server.user_store import UserStore

    try:
        if not may_be_new and not options.data.is_dir():
            raise LogError(f"there is no {options.data}; name the data with --data")
        with UserStore(options.data) as store:
            return work(store)
    except LogError as error:
        sys.stderr.write(f"coterie users: {error}\n")
        return 1
