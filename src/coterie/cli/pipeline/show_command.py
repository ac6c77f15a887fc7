"""The declaration of the commands `coterie pipeline show ...`. Each command is a query
of one table of a lake. A `ShowCommand` has the help, the columns and the options; its
function translates the options to a `TableQuery`. Everything heavy is imported when a
command runs.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from coterie.cli.command import Command, add_output_options
from coterie.cli.durations import whole_number
from coterie.cli.pipeline.options import (
    TIME_HELP,
    add_as_of_option,
    add_lake_option,
    add_limit_option,
    skip_pandas,
)

if TYPE_CHECKING:
    from coterie.cli.pipeline.tables import Row, TableRequest
    from coterie.pipeline.lake.lake import Lake
    from coterie.pipeline.lake.query import TableQuery

_EXIT_CODES: Final = (
    "\nexit codes: 0 success, 1 the lake cannot be read, 2 usage error\n"
)
_OPTIONS: Final[Mapping[str, Mapping[str, Any]]] = {
    "group": {
        "action": "append",
        "metavar": "NAME",
        "help": "only this group; may be repeated",
    },
    "topic": {
        "action": "append",
        "metavar": "NAME",
        "help": "only this topic; may be repeated",
    },
    "partition": {
        "action": "append",
        "type": whole_number("a partition", least=0),
        "metavar": "N",
        "help": "only this partition; may be repeated",
    },
    "at": {"metavar": "TIME", "help": f"state at this time: {TIME_HELP}"},
    "since": {"metavar": "TIME", "help": f"start of the period: {TIME_HELP}"},
}


@dataclass(frozen=True, kw_only=True)
class ShowCommand:
    """The declaration of one `show` command."""

    name: str
    description: str
    examples: str
    titles: str
    """The columns as name=TITLE, separated by spaces; --wide adds the others."""
    options: tuple[str, ...]
    """Keys of `_OPTIONS`."""
    query: Callable[[TableRequest], TableQuery]
    limit: int | None = None
    """The default of --limit; None for all rows."""
    flags: Mapping[str, str] = field(default_factory=dict)
    """The command's own flags, each with its help."""
    flag_titles: Mapping[str, str] = field(default_factory=dict)
    """The columns that replace `titles` when a flag is given."""
    extend: Callable[[Lake, list[Row]], list[Row]] | None = None
    """The function that adds values of other tables to the rows."""

    def as_command(self) -> Command:
        """Return the command for the registry."""
        return Command(
            self.description, self.examples + _EXIT_CODES, (self._declare,), self._run
        )

    def _declare(self, parser: argparse.ArgumentParser) -> None:
        add_lake_option(parser)
        add_as_of_option(parser)
        group = parser.add_argument_group("rows")
        for name in self.options:
            group.add_argument(f"--{name}", **_OPTIONS[name])
        add_limit_option(group, self.limit)
        add_output_options(parser)
        for name, help_text in self.flags.items():
            parser.add_argument(f"--{name}", action="store_true", help=help_text)

    def _run(self, options: argparse.Namespace) -> int:
        skip_pandas()
        from coterie.cli.pipeline.tables import show_table

        titles = self.titles
        for flag, others in self.flag_titles.items():
            if getattr(options, flag):
                titles = others
        return show_table(self.name, options, self.query, titles, self.extend)


def ascending(*columns: str) -> tuple[tuple[str, str], ...]:
    """Return an ascending order of columns."""
    return tuple((column, "ascending") for column in columns)


PARTITION_KEY: Final = ("group_id", "topic", "partition")
NEWEST_RECORD: Final = (("log_partition", "ascending"), ("log_offset", "descending"))
"""The order of records with equal times."""
