"""List who is allowed or denied what."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from coterie.cli.acls.filtering import add_filter_options
from coterie.cli.connect import add_connection_options
from coterie.cli.output.options import add_output_options

if TYPE_CHECKING:
    from coterie.auth.acl import Acl
    from coterie.cli.output.values import Outcome
    from coterie.cli.running import Run

EXAMPLES: Final = """\
examples:
  coterie acls list
      every binding
  coterie acls list --group billing --pattern match
      all that apply to a group: by its name, by a prefix of it, and by "*"
  coterie acls list --principal User:alice --output json
      what one user is allowed and denied, for programs

exit codes: 0 listed, 1 the cluster could not be asked, or does not say, 2 asked for
wrongly
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_filter_options(parser)
    add_output_options(parser)
    add_connection_options(parser)


def run(options: argparse.Namespace) -> int:
    """List them."""
    from coterie.cli.running import run_command

    return run_command(options, look)


async def look(run: Run) -> Outcome:
    """An item for each binding, in order of resources."""
    from coterie.cli.acls.naming import columns, item_of
    from coterie.cli.output.values import Outcome

    acls = await found(run)
    return Outcome(
        schema="coterie.acls.list",
        columns=columns(),
        items=tuple(map(item_of, acls)),
        summary={"acls": len(acls)},
    )


async def found(run: Run) -> list[Acl]:
    """The bindings that are meant, each once."""
    from coterie.cli.acls.filtering import filters_of

    acls: dict[Acl, None] = {}
    for wanted in filters_of(run.options):
        acls |= dict.fromkeys(await run.admin.describe_acls(wanted))
    return sorted(acls, key=lambda acl: (acl.resource_type, acl.name, acl))
