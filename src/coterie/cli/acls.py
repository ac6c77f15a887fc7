"""`coterie acls`: list, add and remove ACL bindings."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from typing import Final

from coterie import client
from coterie.cli import command
from coterie.cli.changes import Change, Send, show_or_write
from coterie.cli.output import outcome as out
from coterie.errors import CoterieError, SettingError

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
_NO_ACL: Final = "no ACL is selected"
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
    add(
        "--host",
        metavar="ADDRESS",
        help='host of the binding: an address, a network or "*"',
    )
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


def _named_resources(
    options: argparse.Namespace,
) -> Iterator[tuple[client.ResourceType, str]]:
    from coterie.auth.acl import CLUSTER_NAME

    for kind in _RESOURCES:
        attribute = kind.replace("-", "_")
        for name in getattr(options, attribute):
            yield client.ResourceType[attribute.upper()], name
    if options.cluster:
        yield client.ResourceType.CLUSTER, CLUSTER_NAME


def _read_operation(word: str) -> client.Operation:
    return client.Operation[word.upper().replace("-", "_")]


def _read_principal(text: str) -> client.Principal:
    """Return a principal. Raises SettingError for a text without a type."""
    from coterie.auth.acl import parse_principal

    principal = parse_principal(text)
    if principal is None:
        raise SettingError(
            f"{text!r} is not a principal; write for example User:{text}"
        )
    return principal


def read_filters(options: argparse.Namespace) -> list[client.AclBindingFilter]:
    """Return a filter for each pair of a named resource and an operation.

    Raises SettingError for an invalid principal.
    """
    if options.principal is not None:
        _read_principal(options.principal)
    resources: list[tuple[client.ResourceType, str | None]] = [
        *_named_resources(options)
    ]
    operations = [_read_operation(each) for each in options.operation]
    pairs = product(
        resources or [(client.ResourceType.ANY, None)],
        operations or [client.Operation.ANY],
    )
    permission = options.permission or "any"
    return [
        client.AclBindingFilter(
            resource_type=kind,
            name=name,
            pattern=client.PatternType[options.pattern.upper()],
            principal=options.principal,
            host=options.host,
            operation=operation,
            permission=client.PermissionType[permission.upper()],
        )
        for (kind, name), operation in pairs
    ]


def read_bindings(options: argparse.Namespace) -> list[client.AclBinding]:
    """Return a binding for each resource, principal, host and operation.

    Raises SettingError when one of them is missing or invalid.
    """
    from coterie.auth.acl import WILDCARD

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
        bindings.append(
            client.AclBinding(
                principal=_read_principal(principal_text),
                permission=(
                    client.PermissionType.DENY
                    if options.deny
                    else client.PermissionType.ALLOW
                ),
                operation=_read_operation(operation),
                resource_type=kind,
                name=name,
                pattern=(
                    client.PatternType.PREFIXED
                    if options.prefixed
                    else client.PatternType.LITERAL
                ),
                host=host,
            )
        )
    return bindings


# Rows.


def _columns() -> tuple[out.Column, ...]:
    return (
        out.Column("resource_type", "RESOURCE"),
        out.Column("name", "NAME", role=out.Role.IDENTITY),
        out.Column("pattern", "PATTERN", drop=2),
        out.Column("principal", "PRINCIPAL", role=out.Role.IDENTITY),
        out.Column("host", "HOST", role=out.Role.ID, drop=1),
        out.Column("permission", "PERMISSION"),
        out.Column("operation", "OPERATION"),
    )


def _item(acl: client.AclBinding) -> dict[str, out.Json]:
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
    }


# Commands.


async def fetch_acls(run: command.Run) -> list[client.AclBinding]:
    """Fetch the selected bindings, each once, in order of their resources."""
    acls: set[client.AclBinding] = set()
    for each in read_filters(run.options):
        acls.update(await run.admin.acls.describe(each))
    return sorted(acls, key=lambda acl: (acl.resource_type, acl.name, acl))


async def list_acls(run: command.Run) -> out.Outcome:
    """Return a row for each selected binding."""
    acls = await fetch_acls(run)
    error = out.Column("error", "ERROR", is_wide=True, show=out.show_error)
    return out.Outcome(
        schema="coterie.acls.list",
        columns=(*_columns(), error),
        items=tuple({**_item(acl), "error": None} for acl in acls),
        summary={"acls": len(acls)},
        notes=() if acls else (_NO_ACL,),
    )


LIST: Final = command.Command(
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
    options=(_declare_filter, *command.CLUSTER_OPTIONS),
    run=command.on_cluster(list_acls),
)


async def _write_acls(
    run: command.Run,
    acls: Sequence[client.AclBinding],
    done: str,
    send: Send[client.AclBinding],
) -> out.Outcome:
    """Show the planned bindings, or write them; `done` is the word for a written
    binding."""
    which = "this binding" if len(acls) == 1 else f"these {len(acls)} bindings"
    change = Change(
        unit="acls",
        columns=_columns(),
        rows=[(acl, _item(acl)) for acl in acls],
        done=done,
        question=f"Write {which}?",
        send=send,
        notes=() if acls else (_NO_ACL,),
    )
    return await show_or_write(run, change)


def add_acls(options: argparse.Namespace) -> int:
    """Show the bindings that the options describe, or add them. Raises SettingError."""
    acls = read_bindings(options)  # Report a usage error before connecting.

    async def add(run: command.Run) -> out.Outcome:
        async def send(
            acls: Sequence[client.AclBinding],
        ) -> Mapping[client.AclBinding, CoterieError]:
            return (await run.admin.acls.create(acls)).errors

        return await _write_acls(run, acls, "added", send)

    return command.run_on_cluster(options, add)


ADD: Final = command.Command(
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
    options=(_declare_binding, command.add_execute_options, *command.CLUSTER_OPTIONS),
    run=add_acls,
)


async def remove_acls(run: command.Run) -> out.Outcome:
    """Show the selected bindings, or remove them."""
    send = partial(_delete_acls, run.admin)
    return await _write_acls(run, await fetch_acls(run), "removed", send)


async def _delete_acls(
    admin: client.AdminClient, acls: Sequence[client.AclBinding]
) -> Mapping[client.AclBinding, CoterieError]:
    # One exact filter per binding, so that a binding added since the preview is kept.
    by_filter = {
        client.AclBindingFilter(
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
    results = await admin.acls.delete(by_filter)
    errors: dict[client.AclBinding, CoterieError] = {
        by_filter[each]: error for each, error in results.errors.items()
    }
    for deleted in results.values.values():
        errors |= deleted.errors
    return errors


REMOVE: Final = command.Command(
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
    options=(_declare_filter, command.add_execute_options, *command.CLUSTER_OPTIONS),
    run=command.on_cluster(remove_acls),
)
