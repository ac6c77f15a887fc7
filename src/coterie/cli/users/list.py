"""List the users in the data of a server that does not run."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from coterie.cli.output.options import add_output_options
from coterie.cli.users.data import add_data_option, with_store

if TYPE_CHECKING:
    from coterie.catalog.users import Users
    from coterie.cli.output.values import Item
    from coterie.server.user_store import UserStore

EXAMPLES: Final = """\
examples:
  coterie users list --data /var/lib/coterie
      every user, and the mechanisms that each may come by
  coterie users list --output json
      the same for programs

exit codes: 0 listed, 1 the data could not be read
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_data_option(parser)
    add_output_options(parser)


def run(options: argparse.Namespace) -> int:
    """List them."""

    def look(store: UserStore) -> int:
        from coterie.cli.output.emit import emit
        from coterie.cli.output.values import Column, Outcome

        users = store.users
        outcome = Outcome(
            schema="coterie.users.list",
            columns=(Column("user", "USER"), Column("iterations", "MECHANISMS")),
            items=tuple(_item(users, name) for name in users.names()),
            summary={"users": len(users.names())},
        )
        return emit(outcome, options)

    return with_store(options, look)


def _item(users: Users, name: str) -> Item:
    held = users.credentials(name)
    return {
        "user": name,
        "iterations": {each.sasl_name: held[each].iterations for each in sorted(held)},
        "error": None,
    }
