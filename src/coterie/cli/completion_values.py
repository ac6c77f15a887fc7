"""The values that shell completion offers for arguments: states, columns, profiles,
snapshots, and names that the cluster has at that moment.

Nothing is printed here, and every source that fails has no values: a message would
appear in the middle of the line being typed.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from io import StringIO
from typing import TYPE_CHECKING, Final, TypeAlias

from coterie.errors import CoterieError

if TYPE_CHECKING:
    from coterie.cli.output.outcome import Column
    from coterie.client.admin.admin_client import AdminClient

TIMEOUT_MS: Final = 1_500
"""The limit for a cluster."""

Line: TypeAlias = Sequence[str]
"""The words of a command before the one that is completed, with the command's own."""


def values_for(argument: str, line: Line) -> list[str]:
    """Return the values of an argument, by its option or, for a positional one, its
    metavar."""
    source = _SOURCES.get(argument)
    if argument == "--config" and line[:1] == ["topics"]:
        source = _of_cluster(_topic_configs)
    if source is None:
        return []
    try:
        # Settings may cause warnings.
        with contextlib.redirect_stderr(StringIO()):
            return list(source(line))
    except (CoterieError, OSError, ValueError):
        return []


def option_value(line: Line, option: str) -> str | None:
    """Return the last value of an option on the line."""
    found = None
    for word, following in zip(line, [*line[1:], None], strict=False):
        if word == option:
            found = following
        elif word.startswith(f"{option}="):
            found = word.partition("=")[2]
    return found


def _states(_: Line) -> Iterable[str]:
    from coterie.client.admin.groups import GroupState

    return (each.value for each in GroupState if each is not GroupState.UNKNOWN)


def _types(_: Line) -> Iterable[str]:
    from coterie.client.admin.groups import GroupType

    return (each.value for each in GroupType if each is not GroupType.UNKNOWN)


def _lag_columns(line: Line) -> Iterable[str]:
    """Return the columns of a command about lag, which depend on --by."""
    from coterie.cli.groups import lag_report
    from coterie.operations.lag_rollup import RollupBy

    default = "partition" if list(line[:2]) == ["groups", "describe"] else "group"
    by = option_value(line, "--by") or default
    columns: tuple[Column, ...] = lag_report.PARTITION_COLUMNS
    if by != "partition":
        columns = lag_report.rollup_columns(RollupBy(by))
    if list(line[:2]) == ["groups", "watch"]:
        columns = (*columns, *lag_report.RATE_COLUMNS)
    return (each.key for each in columns)


def _shown_columns(line: Line) -> Iterable[str]:
    is_lag = line[0] == "groups" and line[1] in {"describe", "lag", "watch"}
    return _lag_columns(line) if is_lag else ()


def _profiles(_: Line) -> Iterable[str]:
    from coterie.cli.setting_sources import profile_names

    return profile_names(os.environ)


def _snapshots(line: Line) -> Iterable[str]:
    from coterie.cli.groups.write import snapshot_directory
    from coterie.operations.snapshots import list_snapshots

    directory = option_value(line, "--snapshots")
    options = argparse.Namespace(snapshots=directory)
    return (
        each.head.snapshot_id for each in list_snapshots(snapshot_directory(options))
    )


# Names on the cluster.


def _of_cluster(
    fetch: Callable[[AdminClient, Line], Awaitable[Iterable[str]]],
) -> Callable[[Line], Iterable[str]]:
    """Return a source that fetches names from the cluster of the line."""

    async def connect_and_fetch(line: Line) -> Iterable[str]:
        from coterie.cli import connect

        async with (
            asyncio.timeout(TIMEOUT_MS / 1000),
            connect.open_admin(_connection_options(line)) as admin,
        ):
            return await fetch(admin, line)

    return lambda line: asyncio.run(connect_and_fetch(line))


async def _groups(admin: AdminClient, _: Line) -> Iterable[str]:
    listings = await admin.groups.list()
    return [each.group_id for each in listings.groups]


async def _topics(admin: AdminClient, _: Line) -> Iterable[str]:
    topics = await admin.topics.describe()
    return [each.name for each in topics.values.values() if not each.is_internal]


async def _topic_configs(admin: AdminClient, _: Line) -> Iterable[str]:
    """Return the names of topic configurations, from those of any topic."""
    from coterie.client.admin.configs import ConfigResource
    from coterie.wire.configs import ConfigResourceType

    topics = await admin.topics.describe()
    for name in topics.values:
        resource = ConfigResource(ConfigResourceType.TOPIC, name)
        configs = await admin.configs.describe([resource])
        return [each.name for each in configs.one(resource)]
    return []


def _connection_options(line: Line) -> argparse.Namespace:
    """Parse the connection options of an unfinished line and ignore everything else."""
    from coterie.cli.connect import add_connection_options

    parser = argparse.ArgumentParser(add_help=False, exit_on_error=False)
    add_connection_options(parser)
    try:
        options, _ = parser.parse_known_args(list(line))
    except (argparse.ArgumentError, SystemExit):
        options = parser.parse_args([])
    options.timeout = TIMEOUT_MS
    return options


_SOURCES: Final[Mapping[str, Callable[[Line], Iterable[str]]]] = {
    "--state": _states,
    "--type": _types,
    "--protocol": lambda _: ("connect", "consumer", "share", "simple", "streams"),
    "--sort": _lag_columns,
    "--columns": _shown_columns,
    "--profile": _profiles,
    "ID": _snapshots,
    **dict.fromkeys(
        ("GROUP", "--group", "SOURCE", "DESTINATION"), _of_cluster(_groups)
    ),
    **dict.fromkeys(("TOPIC", "--topic", "--partitions"), _of_cluster(_topics)),
}
