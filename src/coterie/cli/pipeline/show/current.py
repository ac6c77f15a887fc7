"""Show which groups there are and how they are, or with --members who is in them.

From the tables current_groups and current_members of a lake. A classic group's state
while it rebalances is not in the log: such a group is shown as it was before.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from coterie.cli.pipeline.show.options import add_options

if TYPE_CHECKING:
    from coterie.cli.pipeline.show.showing import Asked
    from coterie.pipeline.report.rows import Ask

EXAMPLES: Final = """\
examples:
  coterie pipeline show current --lake lake
      every group, its state, members and last commit
  coterie pipeline show current --lake lake --group billing --members
      who is in a group, and what they own

exit codes: 0 shown, 1 the lake cannot be read, 2 asked for wrongly
"""
_GROUPS: Final = (
    "group_id GROUP",
    "group_type TYPE",
    "state STATE",
    "epoch EPOCH",
    "assignor ASSIGNOR",
    "member_count MEMBERS",
    "topic_count TOPICS",
    "partition_count PARTITIONS",
    "owned_partition_count OWNED",
    "last_commit_ts LAST-COMMIT",
    "empty_since_ts EMPTY-SINCE",
)
_MEMBERS: Final = (
    "group_id GROUP",
    "member_id MEMBER",
    "client_id CLIENT",
    "client_host HOST",
    "protocol PROTOCOL",
    "member_epoch EPOCH",
    "member_state STATE",
    "assigned OWNS",
    "since_ts SINCE",
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_options(parser, ("group",))
    parser.add_argument(
        "--members", action="store_true", help="the members, not the groups"
    )


def run(options: argparse.Namespace) -> int:
    """Show them."""
    from coterie.cli.pipeline.show.showing import show

    return show(options, _MEMBERS if options.members else _GROUPS, look)


def look(asked: Asked) -> Ask:
    """The groups that are meant, or their members."""
    from coterie.pipeline.report.rows import Ask

    order = ["group_id", "member_id"] if asked.options.members else ["group_id"]
    return Ask(
        "current_members" if asked.options.members else "current_groups",
        tuple((each, "ascending") for each in order),
        asked.among(),
        limit=asked.limit,
    )
