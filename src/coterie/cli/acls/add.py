"""Allow somebody something, or deny it. Without --execute, it is only shown.

What is there already stays as it is, so it does no harm to say it again. One binding
that denies counts more than all that allow.
"""

from __future__ import annotations

import argparse
from itertools import product
from typing import TYPE_CHECKING, Final

from coterie.cli.acls.naming import (
    add_operation_option,
    add_resource_options,
    resources_of,
)
from coterie.cli.acls.writing import add_write_options, run_writing
from coterie.cli.connect import add_connection_options
from coterie.cli.output.options import add_output_options

if TYPE_CHECKING:
    from collections.abc import Sequence

    from coterie.auth.acl import Acl
    from coterie.cli.acls.writing import Done
    from coterie.cli.running import Run

EXAMPLES: Final = """\
examples:
  coterie acls add --principal User:alice --operation read --group billing --topic sold
      show what lets a consumer of that group read that topic
  coterie acls add --principal User:al --operation write --topic e- --prefixed --execute
      let a producer write to every topic that begins with e-
  coterie acls add --principal User:eve --operation all --group '*' --deny --execute
      keep somebody from all groups, whatever else is said

exit codes: 0 all well, 1 some of it could not be done, 2 asked for wrongly
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    more = parser.add_argument
    more(
        "--principal",
        metavar="KIND:NAME",
        action="append",
        required=True,
        help='who, as in User:alice; "User:*" is everybody; may be repeated',
    )
    add_operation_option(parser, "what they may do; may be repeated; one of")
    more(
        "--host",
        metavar="ADDRESS",
        action="append",
        default=[],
        help="from there only; may be repeated (default: from everywhere)",
    )
    more("--deny", action="store_true", help="keep them from it")
    more(
        "--prefixed",
        action="store_true",
        help="the names are the beginnings of names",
    )
    add_resource_options(parser)
    add_write_options(parser)
    add_output_options(parser)
    add_connection_options(parser)


def run(options: argparse.Namespace) -> int:
    """Add them, or show what that would be. Raises SettingError."""
    wanted = bindings_of(options)

    async def plan(_: Run) -> Sequence[Acl]:
        return wanted

    return run_writing(options, plan, write, done="added")


def bindings_of(options: argparse.Namespace) -> list[Acl]:
    """A binding for each resource, principal, host and operation.

    Raises SettingError where something is missing.
    """
    from coterie.auth.acl import ANY_NAME, Acl, Pattern, Permission
    from coterie.auth.authorizer import Operation, parse_principal
    from coterie.errors import SettingError

    resources = list(resources_of(options))
    if not resources:
        raise SettingError(
            "say to what: --group, --topic, --transactional-id or --cluster"
        )
    if not options.operation:
        raise SettingError("say what they may do, for example --operation read")
    bindings = []
    named = product(
        resources, options.principal, options.host or [ANY_NAME], options.operation
    )
    for (kind, name), who, host, operation in named:
        principal = parse_principal(who)
        if principal is None:
            raise SettingError(f"{who!r} is no principal; write for example User:{who}")
        bindings.append(
            Acl(
                principal=principal,
                permission=Permission.DENY if options.deny else Permission.ALLOW,
                operation=Operation[operation.upper().replace("-", "_")],
                resource_type=kind,
                name=name,
                pattern=Pattern.PREFIXED if options.prefixed else Pattern.LITERAL,
                host=host,
            )
        )
    return bindings


async def write(run: Run, acls: Sequence[Acl]) -> Done:
    """Add them."""
    return (await run.admin.create_acls(acls)).errors
