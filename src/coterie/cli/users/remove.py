"""Take a user away from the data of a server that does not run."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Final

from coterie.cli.users.data import add_data_option, with_store

if TYPE_CHECKING:
    from coterie.server.user_store import UserStore

EXAMPLES: Final = """\
examples:
  coterie users remove app --data /var/lib/coterie
      nobody can come in as app any more

exit codes: 0 removed, 1 there is no such user, or the data could not be changed
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("user", metavar="USER", help="the user's name")
    add_data_option(parser)


def run(options: argparse.Namespace) -> int:
    """Take the user away."""

    def remove(store: UserStore) -> int:
        from coterie.catalog.users import credential_entry

        held = list(store.users.credentials(options.user))
        if not held:
            sys.stderr.write(f"coterie users: there is no user {options.user!r}\n")
            return 1
        store.write(credential_entry(options.user, each, None) for each in held)
        print(f"{options.user} is gone from {options.data}")
        return 0

    return with_store(options, remove)
