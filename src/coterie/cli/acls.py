"""`coterie acls`: list, add and remove ACL bindings."""

from __future__ import annotations

import argparse
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Final, TypeAlias

from coterie.cli.command import (
    CLUSTER_OPTIONS,
    EXECUTE_HINT,
    Command,
    add_execute_options,
    on_cluster,
    run_on_cluster,
)
from coterie.errors import SettingError

if TYPE_CHECKING:
    from coterie.auth.acl import AclBinding, AclBindingFilter, Operation, ResourceType
    from coterie.cli.command import Run
    from coterie.cli.output.outcome import Column, Item, Outcome
    from coterie.errors import CoterieError

AclErrors: TypeAlias = "Mapping[AclBinding, CoterieError]"
"""The bindings that could not be written, and why."""

_RESOURCES: Final = ("group", "topic", "transactional-id")
"""The resource types that have names."""
_OPERATIONS: Final = (
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
_PATTERNS: Final = ("any", "literal", "prefixed", "match")


# Options.


def _declare_resources(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group(
        "resources", 'Each may be repeated; the name "*" matches every resource.'
    )
    for kind in _RESOURCES:
        group.add_argument(
            f"--{kind}",
            metavar="NAME",
            action="append",
            default=[],
            help=f"name of a {kind.replace('-', ' ')}",
        )
    group.add_argument("--cluster", action="store_true", help="the cluster")


def _declare_operation(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--operation",
        metavar="OPERATION",
        choices=_OPERATIONS,
        action="append",
        default=[],
        help=f"operation, may be repeated: {', '.join(_OPERATIONS)}",
    )


def _declare_filter(parser: argparse.ArgumentParser) -> None:
    """Declare the options that select bindings; without any, all are selected."""
    add = parser.add_argument
    add("--principal", metavar="TYPE:NAME", help="principal, as in User:alice")
    add("--host", metavar="ADDRESS", help='host of the binding: an address, a network or "*"')
    _declare_operation(parser)
    add("--permission", choices=("allow", "deny"), help="permission type")
    add(
        "--pattern",
        choices=_PATTERNS,
        default="any",
        help="how names are compared: any, literal and prefixed compare with the name "
        "of a binding; match finds all bindings that apply to a resource of that name "
        "(default any)",
    )
    _declare_resources(parser)


def _declare_binding(parser: argparse.ArgumentParser) -> None:
    """Declare the options that describe new bindings."""
    add = parser.add_argument
    add(
        "--principal",
        metavar="TYPE:NAME",
        action="append",
        required=True,
        help='principal, as in User:alice, or "User:*" for all; may be repeated',
    )
    _declare_operation(parser)
    add(
        "--host",
        metavar="ADDRESS",
        action="append",
        default=[],
        help="address of the client; may be repeated (default: any)",
    )
    add("--deny", action="store_true", help="deny the operations, not allow them")
    add("--prefixed", action="store_true", help="treat names as prefixes of names")
    _declare_resources(parser)


def _named_resources(options: argparse.Namespace) -> Iterator[tuple[ResourceType, str]]:
    from coterie.auth.acl import CLUSTER_NAME, ResourceType

    for kind in _RESOURCES:
        attribute = kind.replace("-", "_")
        for name in getattr(options, attribute):
            yield ResourceType[attribute.upper()], name
    if options.cluster:
        yield ResourceType.CLUSTER, CLUSTER_NAME


def _read_operation(word: str) -> Operation:
    from coterie.auth.acl import Operation

    return Operation[word.upper().replace("-", "_")]


def read_filters(options: argparse.Namespace) -> list[AclBindingFilter]:
    """Return a filter for each pair of a named resource and an operation."""
    from coterie.auth.acl import (
        AclBindingFilter,
        Operation,
        PatternType,
        PermissionType,
        ResourceType,
    )

    resources: list[tuple[ResourceType, str | None]] = [*_named_resources(options)]
    operations = [_read_operation(each) for each in options.operation]
    pairs = product(
        resources or [(ResourceType.ANY, None)], operations or [Operation.ANY]
    )
    permission = options.permission or "any"
    return [
        AclBindingFilter(
            resource_type=kind,
            name=name,
            pattern=PatternType[options.pattern.upper()],
            principal=options.principal,
            host=options.host,
            operation=operation,
            permission=PermissionType[permission.upper()],
        )
        for (kind, name), operation in pairs
    ]


def read_bindings(options: argparse.Namespace) -> list[AclBinding]:
    """Return a binding for each resource, principal, host and operation.

    Raises SettingError when one of them is missing or invalid.
    """
    from coterie.auth.acl import (
        WILDCARD,
        AclBinding,
        PatternType,
        PermissionType,
        parse_principal,
    )

    resources = list(_named_resources(options))
    if not resources:
        raise SettingError(
            "no resource is named; use --group, --topic, --transactional-id or "
            "--cluster"
        )
    if not options.operation:
        raise SettingError(
            "no operation is named; use --operation, for example --operation read"
        )
    bindings = []
    combinations = product(
        resources, options.principal, options.host or [WILDCARD], options.operation
    )
    for (kind, name), principal_text, host, operation in combinations:
        principal = parse_principal(principal_text)
        if principal is None:
            raise SettingError(
                f"{principal_text!r} is not a principal; write for example "
                f"User:{principal_text}"
            )
        bindings.append(
            AclBinding(
                principal=principal,
                permission=(
                    PermissionType.DENY if options.deny else PermissionType.ALLOW
                ),
                operation=_read_operation(operation),
                resource_type=kind,
                name=name,
                pattern=(
                    PatternType.PREFIXED if options.prefixed else PatternType.LITERAL
                ),
                host=host,
            )
        )
    return bindings


# Rows.


def _columns() -> tuple[Column, ...]:
    from coterie.cli.output.outcome import Column, Role

    return (
        Column("resource_type", "RESOURCE"),
        Column("name", "NAME", role=Role.IDENTITY),
        Column("pattern", "PATTERN", drop=2),
        Column("principal", "PRINCIPAL", role=Role.IDENTITY),
        Column("host", "HOST", role=Role.ID, drop=1),
        Column("permission", "PERMISSION"),
        Column("operation", "OPERATION"),
    )


def _item(acl: AclBinding, error: CoterieError | None = None, **more: str) -> Item:
    from coterie.cli.output.outcome import error_item

    def word(name: str) -> str:
        return name.lower().replace("_", "-")

    return {
        "resource_type": word(acl.resource_type.name),
        "name": acl.name,
        "pattern": word(acl.pattern.name),
        "principal": str(acl.principal),
        "host": acl.host,
        "permission": word(acl.permission.name),
        "operation": word(acl.operation.name),
        **more,
        "error": error_item(error),
    }


# Commands.


async def fetch_acls(run: Run) -> list[AclBinding]:
    """Fetch the selected bindings, each once, in order of their resources."""
    acls: set[AclBinding] = set()
    for each in read_filters(run.options):
        acls.update(await run.admin.acls.describe(each))
    return sorted(acls, key=lambda acl: (acl.resource_type, acl.name, acl))


async def list_acls(run: Run) -> Outcome:
    """Return a row for each selected binding."""
    from coterie.cli.output.outcome import Column, Outcome, show_error

    acls = await fetch_acls(run)
    error = Column("error", "ERROR", is_wide=True, show=show_error)
    return Outcome(
        schema="coterie.acls.list",
        columns=(*_columns(), error),
        items=tuple(map(_item, acls)),
        summary={"acls": len(acls)},
    )


LIST: Final = Command(
    description="List ACLs.",
    examples="""\
examples:
  coterie acls list
      every binding
  coterie acls list --group billing --pattern match
      all bindings that apply to a group: literal, prefixed, and "*"
  coterie acls list --principal User:alice --output json
      the bindings of one principal, for programs

exit codes: 0 success, 1 the cluster is unavailable or does not return ACLs, 2 usage
error
""",
    options=(_declare_filter, *CLUSTER_OPTIONS),
    run=on_cluster(list_acls),
)


async def _write_acls(
    plan: Callable[[Run], Awaitable[Sequence[AclBinding]]],
    write: Callable[[Run, Sequence[AclBinding]], Awaitable[AclErrors]],
    done: str,
    run: Run,
) -> Outcome:
    """Show the planned bindings, or write them; `done` is the word for a written
    binding."""
    from coterie.cli.output.emit import check_columns, confirm, is_interactive

    acls = await plan(run)
    if not acls:
        return _write_outcome(run, acls, "planned", "there is nothing to do")
    if not (run.options.execute or run.options.yes):
        return _write_outcome(run, acls, "planned", EXECUTE_HINT)
    preview = _write_outcome(run, acls, "planned")
    check_columns(preview, run.options)
    if not run.options.yes and is_interactive(run.io):
        which = "this binding" if len(acls) == 1 else f"these {len(acls)} bindings"
        if not confirm(run.io, preview, run.options, f"Write {which}?"):
            return _write_outcome(run, acls, "planned", "nothing was written")
    return _write_outcome(run, acls, done, errors=await write(run, acls))


def _write_outcome(
    run: Run,
    acls: Sequence[AclBinding],
    result: str,
    *notes: str,
    errors: AclErrors | None = None,
) -> Outcome:
    from coterie.cli.output.outcome import Column, Outcome, show_error

    failed = errors or {}
    return Outcome(
        schema=f"coterie.{run.options.command.replace(' ', '.')}",
        columns=(
            *_columns(),
            Column("result", "RESULT"),
            Column("error", "ERROR", is_wide=not failed, show=show_error),
        ),
        items=tuple(
            _item(acl, failed.get(acl), result="failed" if acl in failed else result)
            for acl in acls
        ),
        summary={"executed": result != "planned", "acls": len(acls)},
        notes=notes,
    )


async def _plan_add(run: Run) -> Sequence[AclBinding]:
    return read_bindings(run.options)


def add_acls(options: argparse.Namespace) -> int:
    """Show the bindings that the options describe, or add them. Raises SettingError."""
    read_bindings(options)  # Report a usage error before connecting.
    work = partial(_write_acls, _plan_add, _create_acls, "added")
    return run_on_cluster(options, work)


async def _create_acls(run: Run, acls: Sequence[AclBinding]) -> AclErrors:
    return (await run.admin.acls.create(acls)).errors


ADD: Final = Command(
    description="""\
Add ACLs that allow or deny operations. Without --execute, the change is only shown.

Adding a binding that exists has no effect. A binding that denies takes precedence over
all bindings that allow.
""",
    examples="""\
examples:
  coterie acls add --principal User:alice --operation read --group billing --topic sold
      show the bindings that a consumer of that group and topic needs
  coterie acls add --principal User:al --operation write --topic e- --prefixed --execute
      allow a producer to write to every topic that begins with e-
  coterie acls add --principal User:eve --operation all --group '*' --deny --execute
      deny a principal every operation on every group

exit codes: 0 success, 1 a binding could not be added, 2 usage error
""",
    options=(_declare_binding, add_execute_options, *CLUSTER_OPTIONS),
    run=add_acls,
)


async def _delete_acls(run: Run, acls: Sequence[AclBinding]) -> AclErrors:
    from coterie.auth.acl import AclBindingFilter

    # One exact filter per binding, so that a binding added since the preview is kept.
    by_filter = {
        AclBindingFilter(
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
    results = await run.admin.acls.delete(by_filter)
    errors: dict[AclBinding, CoterieError] = {
        by_filter[each]: error for each, error in results.errors.items()
    }
    for deleted in results.values.values():
        errors |= deleted.errors
    return errors


REMOVE: Final = Command(
    description="Remove ACLs. Without --execute, the change is only shown.",
    examples="""\
examples:
  coterie acls remove --principal User:alice
      show every binding of a principal
  coterie acls remove --principal User:alice --group billing --execute
      remove the bindings of a principal for a group
  coterie acls remove --topic orders- --pattern prefixed --execute --yes
      in a script

exit codes: 0 success, 1 a binding could not be removed, 2 usage error
""",
    options=(_declare_filter, add_execute_options, *CLUSTER_OPTIONS),
    run=on_cluster(partial(_write_acls, fetch_acls, _delete_acls, "removed")),
)
