"""Which bindings are meant, of those that there are: for `acls list` and `remove`."""

from __future__ import annotations

import argparse
from itertools import product
from typing import TYPE_CHECKING, Final

from coterie.cli.acls.naming import (
    add_operation_option,
    add_resource_options,
    resources_of,
)

if TYPE_CHECKING:
    from coterie.auth.acl import AclFilter

PATTERNS: Final = ("any", "literal", "prefixed", "match")


def add_filter_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options that pick bindings; without any, every one is meant."""
    more = parser.add_argument
    more("--principal", metavar="KIND:NAME", help="only of that one, as in User:alice")
    more("--host", metavar="ADDRESS", help='only of that one; "*" is one of them')
    add_operation_option(parser, "only that; may be repeated; one of")
    more("--permission", choices=("allow", "deny"), help="only those that say so")
    more(
        "--pattern",
        choices=PATTERNS,
        default="any",
        help="how names are compared: any, literal and prefixed take a name for that "
        "of a binding, match for that of a resource that it applies to (default any)",
    )
    add_resource_options(parser)


def filters_of(options: argparse.Namespace) -> list[AclFilter]:
    """One filter for each resource and operation that was named."""
    from coterie.auth.acl import AclFilter, Pattern, Permission
    from coterie.auth.authorizer import Operation, ResourceType

    operations = [
        Operation[each.upper().replace("-", "_")] for each in options.operation
    ]
    everything: list[tuple[ResourceType, str | None]] = [(ResourceType.ANY, None)]
    pairs = product(
        [*resources_of(options)] or everything, operations or [Operation.ANY]
    )
    permission = options.permission or "any"
    return [
        AclFilter(
            resource_type=kind,
            name=name,
            pattern=Pattern[options.pattern.upper()],
            principal=options.principal,
            host=options.host,
            operation=operation,
            permission=Permission[permission.upper()],
        )
        for (kind, name), operation in pairs
    ]
