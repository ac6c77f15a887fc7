"""Take bindings away. Without --execute, it is only shown which."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from coterie.cli.acls.filtering import add_filter_options
from coterie.cli.acls.writing import add_write_options, run_writing
from coterie.cli.connect import add_connection_options
from coterie.cli.output.options import add_output_options

if TYPE_CHECKING:
    from collections.abc import Sequence

    from coterie.auth.acl import Acl
    from coterie.cli.acls.writing import Done
    from coterie.cli.running import Run
    from coterie.errors import CoterieError

EXAMPLES: Final = """\
examples:
  coterie acls remove --principal User:alice
      show everything that is said of a user
  coterie acls remove --principal User:alice --group billing --execute
      take back what they may do to a group
  coterie acls remove --topic orders- --pattern prefixed --execute --yes
      in a script

exit codes: 0 all well, 1 some of it could not be done, 2 asked for wrongly
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_filter_options(parser)
    add_write_options(parser)
    add_output_options(parser)
    add_connection_options(parser)


def run(options: argparse.Namespace) -> int:
    """Take them away, or show which."""
    return run_writing(options, plan, write, done="removed")


async def plan(run: Run) -> Sequence[Acl]:
    """The bindings that are meant."""
    from coterie.cli.acls.list import found

    return await found(run)


async def write(run: Run, acls: Sequence[Acl]) -> Done:
    """Take away just what was shown: each by itself, so that nothing new goes too."""
    from coterie.auth.acl import AclFilter

    alone = {
        AclFilter(
            resource_type=acl.resource_type,
            name=acl.name,
            pattern=acl.pattern,
            principal=str(acl.principal),
            host=acl.host,
            operation=acl.operation,
            permission=acl.permission,
        ): acl
        for acl in acls
    }
    results = await run.admin.delete_acls(alone)
    errors: dict[Acl, CoterieError] = {
        alone[each]: error for each, error in results.errors.items()
    }
    for deleted in results.values.values():
        errors |= deleted.errors
    return errors
