"""The commands `coterie pipeline show ...` about groups and their members."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Any, Final

from coterie.cli.pipeline.show_command import (
    NEWEST_RECORD,
    PARTITION_KEY,
    ShowCommand,
    ascending,
)

if TYPE_CHECKING:
    from coterie.cli.pipeline.tables import Row, TableRequest
    from coterie.pipeline.lake.lake import Lake
    from coterie.pipeline.lake.query import TableQuery

# current


def _query_current(request: TableRequest) -> TableQuery:
    if request.options.members:
        table, order = "current_members", ascending("group_id", "member_id")
    else:
        table, order = "current_groups", ascending("group_id")
    return request.query(table, order)


CURRENT: Final = ShowCommand(
    name="current",
    description="""\
Show the groups of a lake and their state, or with --members the members of groups.

Reads the tables current_groups and current_members. The log has no record of a classic
group's rebalance before it is complete: until then the group is shown in its previous
state.
""",
    examples="""\
examples:
  coterie pipeline show current --lake lake
      every group with its state, member count and last commit
  coterie pipeline show current --lake lake --group billing --members
      the members of a group and their assigned partitions
""",
    titles=(
        "group_id=GROUP group_type=TYPE state=STATE epoch=EPOCH assignor=ASSIGNOR "
        "member_count=MEMBERS topic_count=TOPICS partition_count=PARTITIONS "
        "owned_partition_count=OWNED last_commit_ts=LAST-COMMIT "
        "empty_since_ts=EMPTY-SINCE"
    ),
    options=("group",),
    query=_query_current,
    flags={"members": "members instead of groups"},
    flag_titles={
        "members": (
            "group_id=GROUP member_id=MEMBER client_id=CLIENT client_host=HOST "
            "protocol=PROTOCOL member_epoch=EPOCH member_state=STATE assigned=OWNS "
            "since_ts=SINCE"
        )
    },
).as_command()


# status


def _query_status(request: TableRequest) -> TableQuery:
    import pyarrow.compute as pc

    options = request.options
    by_topic = options.partitions or options.topic or options.partition is not None
    # The verdict on the whole group has no topic.
    whole_group = None if by_topic else pc.field("topic").is_null()
    by_partition = ascending(*PARTITION_KEY)
    return request.query(
        "group_status",
        (("window_end_ts", "descending"), *by_partition),
        where=request.in_period("window_end_ts", whole_group),
        first_of=PARTITION_KEY,
        having=pc.field("verdict") != "OK" if options.bad else None,
        final_order=by_partition,
    )


STATUS: Final = ShowCommand(
    name="status",
    description="""\
Show the health of groups by Burrow's and additional rules: at the end of the ingested
log, or at a time.

Reads the table group_status: one verdict per group; with --partitions, --topic or
--partition, one per partition.
""",
    examples="""\
examples:
  coterie pipeline show status --lake lake --bad
      groups with problems, and the rule that found each
  coterie pipeline show status --lake lake --group billing --at 2h --partitions
      each partition of a group two hours before the end of the log
""",
    titles=(
        "group_id=GROUP topic=TOPIC partition=PARTITION verdict=VERDICT lag=LAG "
        "complete=COMPLETE rule=RULE window_end_ts=JUDGED-AT"
    ),
    options=("group", "topic", "partition", "at"),
    query=_query_status,
    flags={
        "bad": "only verdicts other than OK",
        "partitions": "one verdict per partition",
    },
).as_command()


# rebalances


def _query_rebalances(request: TableRequest) -> TableQuery:
    import pyarrow.compute as pc

    in_storm = pc.field("storm_id").is_valid() if request.options.storms else None
    return request.query(
        "rebalance_timeline",
        (("start_ts", "descending"), *NEWEST_RECORD),
        where=request.in_period("start_ts", in_storm),
    )


REBALANCES: Final = ShowCommand(
    name="rebalances",
    description="""\
Show rebalances with their cause and duration and the partitions that moved, newest
first.

Reads the table rebalance_timeline. The log has a classic rebalance only when it is
complete: TOOK is then an upper bound, and EXACT is no. EXCESS counts the partitions
that moved without need. A storm is five or more rebalances within ten minutes in which
members joined and left at least three times each; STORM is their number.
""",
    examples="""\
examples:
  coterie pipeline show rebalances --lake lake --group billing
      the last 100 rebalances of a group
  coterie pipeline show rebalances --lake lake --since 1d --storms
      rebalances of the last day that were part of a storm
""",
    titles=(
        "start_ts=STARTED group_id=GROUP epoch=EPOCH cause=CAUSE duration_ms=TOOK "
        "is_duration_exact=EXACT members_before=BEFORE members_after=AFTER "
        "partitions_moved=MOVED excess_moves=EXCESS storm_size=STORM joined=JOINED "
        "left=LEFT"
    ),
    options=("group", "since"),
    query=_query_rebalances,
    limit=100,
    flags={"storms": "only rebalances that are part of a storm"},
).as_command()


# ownership


def _query_ownership(request: TableRequest) -> TableQuery:
    import pyarrow.compute as pc

    def ended_after(time: Any) -> Any:
        return pc.field("valid_to").is_null() | (pc.field("valid_to") > time)

    conditions = []
    if (since := request.since) is not None:
        conditions.append(ended_after(since))
    if (at := request.at) is not None:
        conditions += [pc.field("valid_from") <= at, ended_after(at)]
    return request.query(
        "partition_ownership_history",
        ascending(*PARTITION_KEY, "valid_from", "from_log_offset"),
        dict(request.among),
        where=reduce(and_, conditions) if conditions else None,
    )


def _add_causes(lake: Lake, rows: list[Row]) -> list[Row]:
    """Add `because`: the reason of the rebalance that revoked the partition."""
    from coterie.pipeline.lake.query import is_one_of

    in_groups = is_one_of("group_id", sorted({row["group_id"] for row in rows}))
    columns = ("group_id", "member_id", "client_id")
    sessions = lake.read("member_sessions", columns, in_groups).to_pylist()
    client_ids = _unique_client_ids(sessions)
    rebalances: dict[tuple[str, int], list[Row]] = {}
    columns_read = ("group_id", "epoch", "log_offset", "cause", "joined", "left")
    timeline = lake.read("rebalance_timeline", columns_read, in_groups)
    for each in timeline.to_pylist():
        rebalances.setdefault((each["group_id"], each["epoch"]), []).append(each)

    def reason(row: Row) -> str | None:
        # A group that changed its protocol may have two rebalances with the same epoch:
        # use the one nearest to the end of the ownership.
        candidates = rebalances.get((row["group_id"], row["epoch_to"]), [])
        end = row["to_log_offset"] or 0
        nearest = min(
            candidates, key=lambda each: abs(each["log_offset"] - end), default=None
        )
        return _describe_rebalance(nearest, client_ids) if nearest else None

    return [{**row, "because": reason(row)} for row in rows]


def _unique_client_ids(sessions: list[Row]) -> dict[tuple[str, str], str]:
    """Return client ids by group and member, where only one member has the id."""
    client_ids = {
        (each["group_id"], each["member_id"]): each["client_id"] for each in sessions
    }
    uses = Counter((group, client) for (group, _), client in client_ids.items())
    return {
        (group, member): client
        for (group, member), client in client_ids.items()
        if client and uses[group, client] == 1
    }


def _describe_rebalance(
    rebalance: Row, client_ids: Mapping[tuple[str, str], str]
) -> str:
    """Return the members that joined and left, as in joined: ada; left: grace."""
    group = rebalance["group_id"]
    changes = [
        f"{change}: "
        + ", ".join(client_ids.get((group, member), member) for member in members)
        for change in ("joined", "left")
        if (members := rebalance[change])
    ]
    return "; ".join(changes) or str(rebalance["cause"])


OWNERSHIP: Final = ShowCommand(
    name="ownership",
    description="""\
Show the owners of partitions over time: the whole history, or the owners at a time.

Reads the table partition_ownership_history. END is the cause of the rebalance that
revoked the partition; BECAUSE names the members that joined or left.
""",
    examples="""\
examples:
  coterie pipeline show ownership --lake lake --group billing --partition 3
      all owners of a partition in order
  coterie pipeline show ownership --lake lake --group billing --at 1m
      the owners one minute before the end of the ingested log
""",
    titles=(
        "group_id=GROUP topic=TOPIC partition=PARTITION member_id=MEMBER "
        "client_id=CLIENT client_host=HOST valid_from=FROM valid_to=UNTIL "
        "end_reason=END because=BECAUSE"
    ),
    options=("group", "topic", "partition", "at", "since"),
    query=_query_ownership,
    extend=_add_causes,
).as_command()


# stale


def _query_stale(request: TableRequest) -> TableQuery:
    import pyarrow.compute as pc

    shows_kept = request.options.all or request.options.group
    return request.query(
        "stale_group_candidates",
        (("score", "descending"), ("group_id", "ascending")),
        where=None if shows_kept else pc.field("class") != "keep",
    )


STALE: Final = ShowCommand(
    name="stale",
    description="""\
Show groups that can probably be deleted, with reasons and blockers; highest score
first.

Reads the table stale_group_candidates. Groups to keep are shown only with --all or
--group.
""",
    examples="""\
examples:
  coterie pipeline show stale --lake lake
      candidates for deletion, and the reasons
  coterie pipeline show stale --lake lake --all --output json
      every group with its reasons and blockers
""",
    titles=(
        "group_id=GROUP class=CLASS score=SCORE idle_days=IDLE-DAYS "
        "usual_gap_days=USUAL-GAP total_lag=LAG reasons=REASONS blockers=BLOCKERS "
        "last_hosts=LAST-HOSTS"
    ),
    options=("group",),
    query=_query_stale,
    flags={"all": "groups to keep as well"},
).as_command()
