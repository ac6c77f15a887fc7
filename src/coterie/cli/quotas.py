"""`coterie quotas`: list, set and remove client quotas."""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

from coterie import client
from coterie.cli.changes import Change, show_or_write
from coterie.cli.command import (
    CLUSTER_OPTIONS,
    Command,
    Run,
    add_execute_options,
    on_cluster,
    run_on_cluster,
)
from coterie.cli.output import outcome as out
from coterie.errors import CoterieError, SettingError

_DEFAULT: Final = "<default>"
_KEYS: Final = (
    "producer_byte_rate",
    "consumer_byte_rate",
    "request_percentage",
    "controller_mutation_rate",
    "connection_creation_rate",
)


# Options.


def _declare_entity(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group(
        "entity",
        'A user, a client id, both, or an IP address. The name "<default>" is the '
        "default for names without their own quota.",
    )
    group.add_argument("--user", metavar="NAME", help="user name")
    group.add_argument("--client-id", metavar="ID", help="client id")
    group.add_argument("--ip", metavar="ADDRESS", help="IP address")


def _declare_values(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "values",
        metavar="QUOTA=VALUE",
        nargs="+",
        help=f"quota and value; quotas: {', '.join(_KEYS)}",
    )


def _declare_names(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "names",
        metavar="QUOTA",
        nargs="*",
        help="quota to remove (default: all of the entity)",
    )


def read_entity(options: argparse.Namespace) -> client.QuotaEntity:
    """Return the entity of the options, which may have no name."""

    def name(text: str | None) -> client.QuotaEntityName:
        return client.QuotaName.DEFAULT if text == _DEFAULT else text

    return client.QuotaEntity(
        name(options.user), name(options.client_id), name(options.ip)
    )


def _check_entity(options: argparse.Namespace) -> None:
    """Raise SettingError unless the options name a possible entity."""
    is_client = options.user is not None or options.client_id is not None
    if options.ip is None and not is_client:
        raise SettingError("no entity is named; use --user, --client-id or --ip")
    if options.ip is not None and is_client:
        raise SettingError("--ip cannot be combined with --user or --client-id")


def _check_key(key: str) -> None:
    if key not in _KEYS:
        raise SettingError(f"{key!r} is not a quota; quotas are {', '.join(_KEYS)}")


def read_values(options: argparse.Namespace) -> dict[str, float]:
    """Return the values to set. Raises SettingError for an invalid one."""
    values = {}
    for text in options.values:
        key, _, number = text.partition("=")
        try:
            values[key] = float(number)
            is_number = math.isfinite(values[key])
        except ValueError:
            is_number = False
        if not is_number:
            raise SettingError(
                f"{text!r} is not a quota with a number; write for example "
                "producer_byte_rate=1048576"
            )
        _check_key(key)
    return values


# Rows.


def _columns() -> tuple[out.Column, ...]:
    return (
        out.Column("user", "USER", role=out.Role.IDENTITY),
        out.Column("client_id", "CLIENT-ID", role=out.Role.IDENTITY),
        out.Column("ip", "IP", role=out.Role.IDENTITY),
        out.Column("quota", "QUOTA", role=out.Role.IDENTITY),
        out.Column("value", "VALUE"),
    )


def _item(entity: client.QuotaEntity, key: str, value: float) -> dict[str, out.Json]:
    def text(name: client.QuotaEntityName) -> str | None:
        return name if isinstance(name, str) or name is None else name.value

    return {
        "user": text(entity.user),
        "client_id": text(entity.client_id),
        "ip": text(entity.ip),
        "quota": key,
        "value": value,
    }


# Commands.


async def list_quotas(run: Run) -> out.Outcome:
    """Return a row for each quota of the selected entities."""
    described = await run.admin.quotas.describe(read_entity(run.options))
    entities = sorted(described.items(), key=lambda each: str(each[0]))
    error = out.Column("error", "ERROR", is_wide=True, show=out.show_error)
    return out.Outcome(
        schema="coterie.quotas.list",
        columns=(*_columns(), error),
        items=tuple(
            {**_item(entity, key, value), "error": None}
            for entity, values in entities
            for key, value in sorted(values.items())
        ),
        summary={"entities": len(entities)},
    )


LIST: Final = Command(
    description="""\
List client quotas.

An entity that has only some of the given types is not listed; one with further types
is: --user alice also lists the quotas of alice with a client id.
""",
    examples="""\
examples:
  coterie quotas list
      all quotas
  coterie quotas list --user alice
      the quotas of a user, and of the user with any client id
  coterie quotas list --user '<default>' --output json
      the quotas of users without their own, for programs

exit codes: 0 success, 1 the cluster is unavailable or refuses the request, 2 usage
error
""",
    options=(_declare_entity, *CLUSTER_OPTIONS),
    run=on_cluster(list_quotas),
)


async def _write_quotas(
    run: Run,
    values: Mapping[str, float],
    done: str,
    failures: Sequence[out.Failure] = (),
) -> out.Outcome:
    """Show the planned quotas, or write them; `done` is the word for a written one."""
    entity = read_entity(run.options)

    async def send(
        keys: Sequence[str], validate_only: bool = False
    ) -> Mapping[str, CoterieError]:
        new = {key: values[key] if done == "set" else None for key in keys}
        results = await run.admin.quotas.alter(
            {entity: new}, validate_only=validate_only
        )
        error = results.errors.get(entity)
        return dict.fromkeys(keys, error) if error else {}

    change = Change(
        unit="quotas",
        columns=_columns(),
        rows=[(key, _item(entity, key, value)) for key, value in values.items()],
        done=done,
        question="Write these quotas?",
        send=send,
        validate=partial(send, validate_only=True),
        failures=failures,
    )
    return await show_or_write(run, change)


def set_quotas(options: argparse.Namespace) -> int:
    """Show the quotas that the options describe, or set them. Raises SettingError."""
    _check_entity(options)  # Report a usage error before connecting.
    values = read_values(options)
    return run_on_cluster(options, partial(_write_quotas, values=values, done="set"))


SET: Final = Command(
    description="""\
Set quotas of an entity. Without --execute, the change is only shown.

The most specific quota applies to a client; docs/limits.md has the order.
""",
    examples="""\
examples:
  coterie quotas set --user etl producer_byte_rate=1048576
      show the change: a user may produce 1 MiB per second
  coterie quotas set --client-id '<default>' request_percentage=50 --execute
      limit each client id to half of the server's time
  coterie quotas set --ip 10.0.0.7 connection_creation_rate=10 --execute --yes
      in a script

exit codes: 0 success, 1 a quota could not be set, 2 usage error
""",
    options=(_declare_values, _declare_entity, add_execute_options, *CLUSTER_OPTIONS),
    run=set_quotas,
)


def remove_quotas(options: argparse.Namespace) -> int:
    """Show the quotas of an entity, or remove them. Raises SettingError."""
    _check_entity(options)
    for key in options.names:
        _check_key(key)
    return run_on_cluster(options, _remove_quotas)


async def _remove_quotas(run: Run) -> out.Outcome:
    entity = read_entity(run.options)
    described = await run.admin.quotas.describe(entity, strict=True)
    own = described.get(entity, {})
    names = run.options.names or own or ("quota",)
    failures = [
        out.Failure("quota", str(entity), "NO_QUOTA", f"it has no {each}")
        for each in names
        if each not in own
    ]
    values = {key: value for key, value in own.items() if key in names}
    return await _write_quotas(run, values, "removed", failures)


REMOVE: Final = Command(
    description="Remove quotas of an entity. Without --execute, the change is only "
    "shown.",
    examples="""\
examples:
  coterie quotas remove --user etl
      show all quotas of a user
  coterie quotas remove --user etl producer_byte_rate --execute
      remove one of them

exit codes: 0 success, 1 a quota could not be removed, 2 usage error
""",
    options=(_declare_names, _declare_entity, add_execute_options, *CLUSTER_OPTIONS),
    run=remove_quotas,
)
