"""The command `coterie pipeline versions`."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from functools import partial
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any, Final

from coterie.cli.command import Command, add_output_options
from coterie.cli.output.emit import CommandIO, emit
from coterie.cli.output.outcome import Outcome
from coterie.cli.pipeline.options import add_lake_option, add_limit_option, skip_pandas

if TYPE_CHECKING:
    from coterie.pipeline.lake.lake import Lake
    from coterie.pipeline.lake.manifest import Version

_DEFAULT_LIMIT: Final = 20


def _run(options: argparse.Namespace) -> int:
    skip_pandas()
    from coterie.cli.pipeline.tables import (
        columns_named,
        items_of,
        lake_age,
        lake_context,
    )
    from coterie.pipeline.lake.lake import Lake

    io, lake = CommandIO(), Lake.open(options.lake)
    rows = list(islice(_list_versions(lake), options.limit))
    outcome = Outcome(
        schema="coterie.pipeline.versions",
        columns=columns_named(("version", "committed_ts", "as_of_ts", "changed")),
        items=tuple(items_of(rows)),
        cluster_id=lake.identity.cluster_id,
        context=lake_context(lake),
        notes=(lake_age(lake, io),),
    )
    return emit(outcome, options, io)


def _list_versions(lake: Lake) -> Iterator[dict[str, Any]]:
    """Return a row for each version that can be read, newest first.

    Reads one manifest for each row.
    """
    for version, earlier in pairwise(_read_versions(lake)):
        assert version is not None
        yield {
            "version": version.number,
            "committed_ts": version.committed_ts,
            "as_of_ts": version.as_of_ts,
            "history_from_ts": version.history_from_ts,
            # The oldest version has none to compare it with.
            "changed": earlier and _changed_tables(version, earlier),
            "delta_versions": {
                name: state.delta for name, state in version.tables.items()
            },
        }


def _read_versions(lake: Lake) -> Iterator[Version | None]:
    """Return the versions of a lake, newest first, and None at the end."""
    from coterie.pipeline.lake.manifest import list_versions, read_version

    yield lake.version
    for number in reversed(list_versions(lake.storage)):
        if number < lake.version.number:
            # A run may delete it meanwhile.
            if (version := read_version(lake.storage, number)) is None:
                break
            yield version
    yield None


def _changed_tables(version: Version, earlier: Version) -> list[str]:
    return sorted(
        name
        for name, state in version.tables.items()
        if state.changed != earlier.of(name).changed
    )


VERSIONS: Final = Command(
    description="""\
List the versions of a lake that can be read with --as-of, newest first.

CHANGED are the tables whose rows the version changed. Option --keep-hours of `coterie
pipeline run` sets how long earlier versions are kept. The JSON output also has the
version of each Delta table, for other tools.
""",
    examples="""\
examples:
  coterie pipeline versions --lake lake
      the newest 20 versions
  coterie pipeline versions --lake lake --limit 0 --output json
      all versions, with the version of each Delta table

exit codes: 0 success, 1 the lake cannot be read, 2 usage error
""",
    options=(
        add_lake_option,
        partial(add_limit_option, default=_DEFAULT_LIMIT, noun="versions"),
        add_output_options,
    ),
    run=_run,
)
