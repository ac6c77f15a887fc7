"""The options that say which resources, whom and what: the same for all of `acls`."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from coterie.auth.acl import Acl
    from coterie.auth.authorizer import ResourceType
    from coterie.cli.output.values import Column, Item
    from coterie.errors import CoterieError

RESOURCES: Final = ("group", "topic", "transactional-id")
"""The kinds of resources that have names."""
OPERATIONS: Final = (
    "all",
    "read",
    "write",
    "create",
    "delete",
    "alter",
    "describe",
    "cluster-action",
    "describe-configs",
    "alter-configs",
    "idempotent-write",
)


def add_resource_options(parser: argparse.ArgumentParser) -> None:
    """Declare --group, --topic, --transactional-id and --cluster."""
    group = parser.add_argument_group(
        "resources", 'Each may be repeated; the name "*" stands for all there are.'
    )
    for kind in RESOURCES:
        group.add_argument(
            f"--{kind}",
            metavar="NAME",
            action="append",
            default=[],
            help=f"the {kind.replace('-', ' ')} of that name",
        )
    group.add_argument("--cluster", action="store_true", help="the cluster itself")


def add_operation_option(parser: argparse.ArgumentParser, summary: str) -> None:
    """Declare --operation, which may be repeated."""
    parser.add_argument(
        "--operation",
        metavar="OPERATION",
        choices=OPERATIONS,
        action="append",
        default=[],
        help=f"{summary}: {', '.join(OPERATIONS)}",
    )


def resources_of(options: argparse.Namespace) -> Iterator[tuple[ResourceType, str]]:
    """The resources that were named, in order of their kinds."""
    from coterie.auth.authorizer import CLUSTER_NAME, ResourceType

    for kind in RESOURCES:
        attribute = kind.replace("-", "_")
        for name in getattr(options, attribute):
            yield ResourceType[attribute.upper()], name
    if options.cluster:
        yield ResourceType.CLUSTER, CLUSTER_NAME


def columns() -> tuple[Column, ...]:
    """The columns of a table of bindings."""
    from coterie.cli.output.values import Column, show_error

    titles = {
        "resource_type": "RESOURCE",
        "name": "NAME",
        "pattern": "PATTERN",
        "principal": "PRINCIPAL",
        "host": "HOST",
        "permission": "PERMISSION",
        "operation": "OPERATION",
    }
    return (
        *(Column(key, title) for key, title in titles.items()),
        Column("error", "ERROR", is_wide=True, show=show_error),
    )


def item_of(acl: Acl, error: CoterieError | None = None, **more: str) -> Item:
    """A binding as an item, in the words of the options."""
    from coterie.cli.output.values import error_item

    return {
        "resource_type": _word(acl.resource_type.name),
        "name": acl.name,
        "pattern": _word(acl.pattern.name),
        "principal": str(acl.principal),
        "host": acl.host,
        "permission": _word(acl.permission.name),
        "operation": _word(acl.operation.name),
        **more,
        "error": error_item(error),
    }


def _word(name: str) -> str:
    return name.lower().replace("_", "-")
