"""The commands `coterie pipeline show ...` about offsets, lag and the log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

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

# offsets


def _query_offsets(request: TableRequest) -> TableQuery:
    order = ascending(*PARTITION_KEY)
    return request.query("current_offsets", order)


OFFSETS: Final = ShowCommand(
    name="offsets",
    description="""\
Show the committed offset of each group and partition.

Reads the table current_offsets. Makes no connection to a cluster.
""",
    examples="""\
examples:
  coterie pipeline show offsets --lake lake --group billing
      the offsets of one group
  coterie pipeline show offsets --lake lake --topic orders --output csv
      the offsets of every group on a topic
""",
    titles=(
        "group_id=GROUP topic=TOPIC partition=PARTITION committed_offset=OFFSET "
        "commit_ts=COMMITTED metadata=METADATA"
    ),
    options=("group", "topic", "partition"),
    query=_query_offsets,
).as_command()


# lag


def _query_lag(request: TableRequest) -> TableQuery:
    by_partition = ascending(*PARTITION_KEY)
    # With --since every sample is shown, otherwise the newest one of each partition.
    is_history = request.options.since is not None
    return request.query(
        "lag_history",
        (("sample_ts", "descending"), *by_partition),
        where=request.in_period("sample_ts"),
        first_of=() if is_history else PARTITION_KEY,
        final_order=() if is_history else (("lag", "descending"), *by_partition),
    )


LAG: Final = ShowCommand(
    name="lag",
    description="""\
Show lag in records and in time: at the newest sample of each partition's end, at a
time, or at every sample since a time.

Reads the table lag_history. METHOD is the method of the time lag: head (no lag),
interpolated between samples, or extrapolated (a lower bound). """,
    examples="""\
examples:
  coterie pipeline show lag --lake lake --group billing
      the newest lag of a group, largest first
  coterie pipeline show lag --lake lake --topic orders --at 2026-11-21T10:00:00Z
      the lag on a topic at a time
  coterie pipeline show lag --lake lake --group billing --since 6h --output csv
      every sample of the last six hours
""",
    titles=(
        "group_id=GROUP topic=TOPIC partition=PARTITION committed_offset=OFFSET "
        "log_end_offset=END lag=LAG time_lag_ms=TIME-LAG time_lag_method=METHOD "
        "eta_s=CAUGHT-UP-IN lag_status=STATUS messages_lost=LOST sample_ts=SAMPLED"
    ),
    options=("group", "topic", "partition", "at", "since"),
    query=_query_lag,
).as_command()


# history


def _query_history(request: TableRequest) -> TableQuery:
    return request.query(
        "offset_commit_history",
        (("commit_ts", "descending"), *NEWEST_RECORD),
        where=request.in_period("commit_ts"),
    )


def _add_causes(lake: Lake, rows: list[Row]) -> list[Row]:
    """Add `cause`: the cause of a tombstone, by what is known now."""
    from coterie.pipeline.lake.query import is_one_of

    unknown = [row for row in rows if row["tombstone_cause"] == "unknown"]
    causes: dict[tuple[int, int], str] = {}
    if unknown:
        offsets = sorted({row["log_offset"] for row in unknown})
        columns = (*_RECORD, "cause")
        found = lake.read("deleted_offsets", columns, is_one_of("log_offset", offsets))
        causes = {_record(row): row["cause"] for row in found.to_pylist()}
    return [
        {**row, "cause": causes.get(_record(row), row["tombstone_cause"])}
        for row in rows
    ]


_RECORD: Final = ("log_partition", "log_offset")


def _record(row: Row) -> tuple[int, int]:
    return row["log_partition"], row["log_offset"]


HISTORY: Final = ShowCommand(
    name="history",
    description="""\
Show offset commits with their time and author, newest first.

Reads the table offset_commit_history, which includes rewinds and expired offsets.
GONE-BY is the cause of a deletion, from deleted_offsets: later records and samples may
have shown it.
""",
    examples="""\
examples:
  coterie pipeline show history --lake lake --group billing --topic orders
      the last 100 commits of a group on a topic
  coterie pipeline show history --lake lake --group billing --partition 3 --since 1h
      the commits on a partition in the last hour of the log
  coterie pipeline show history --lake lake --limit 0 --output jsonl
      all commits
""",
    titles=(
        "commit_ts=COMMITTED group_id=GROUP topic=TOPIC partition=PARTITION "
        "committed_offset=OFFSET delta=DELTA direction=DIRECTION actor=ACTOR "
        "owner_client_id=CLIENT cause=GONE-BY"
    ),
    options=("group", "topic", "partition", "since"),
    query=_query_history,
    limit=100,
    extend=_add_causes,
).as_command()


# expiry


def _query_expiry(request: TableRequest) -> TableQuery:
    import pyarrow.compute as pc

    expires = None if request.options.all else pc.field("expires_ts").is_valid()
    return request.query(
        "expiry_forecast",
        ascending("expires_ts", *PARTITION_KEY),
        where=expires,
    )


EXPIRY: Final = ShowCommand(
    name="expiry",
    description="""\
Show when committed offsets expire, the earliest first.

Reads the table expiry_forecast. Offsets that do not expire are shown only with --all.
TRAP marks an idle partition of a consumer group: its offset expires as soon as the last
member leaves, where the offset of a classic group would be kept.
""",
    examples="""\
examples:
  coterie pipeline show expiry --lake lake --limit 20
      the next 20 offsets to expire
  coterie pipeline show expiry --lake lake --group billing --all --wide
      all offsets of one group, with the reason of each forecast
""",
    titles=(
        "group_id=GROUP topic=TOPIC partition=PARTITION expires_ts=EXPIRES "
        "remaining_ms=IN basis=BASIS at_risk_messages=AT-RISK is_trap=TRAP"
    ),
    options=("group", "topic", "partition"),
    query=_query_expiry,
    flags={"all": "offsets that do not expire as well"},
).as_command()


# quality


def _query_quality(request: TableRequest) -> TableQuery:
    partitions = request.among.get("partition")
    return request.query(
        "data_quality",
        ascending("log_partition"),
        {"log_partition": partitions} if partitions else {},
    )


QUALITY: Final = ShowCommand(
    name="quality",
    description="""\
Show the quality of the ingested data for each partition of the log: the records read,
the records that could not be decoded, and the offsets that are missing. OFF-CLOCK
counts records with a time that is more than a day from that of the records around them,
or ahead of the machine that read them, as a broker with a wrong clock writes them; the
current time of the lake does not follow them.

Reads the table data_quality.
""",
    examples="""\
examples:
  coterie pipeline show quality --lake lake
      every partition of the log
  coterie pipeline show quality --lake lake --partition 3 --wide
      one partition of the log with all columns
""",
    titles=(
        "log_partition=LOG-PARTITION records=RECORDS commits=COMMITS "
        "quarantined=QUARANTINED gaps=GAPS missing_offsets=MISSING "
        "held_back=HELD-BACK off_clock=OFF-CLOCK first_ts=FIRST last_ts=LAST"
    ),
    options=("partition",),
    query=_query_quality,
).as_command()
