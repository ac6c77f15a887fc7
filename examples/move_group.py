"""Move a consumer group to another cluster that has copies of its topics.

    python examples/move_group.py old:9092 new:9092 billing

Offsets of copied topics differ, so each committed offset is translated by time: the
record that the group would read next has a timestamp, and the new cluster has a first
record at or after it. A record may be read twice, none is left out if timestamps
increase. The old offsets of the group in the new cluster are saved to ./snapshots.
Stop the group's consumers first; a group with members is refused.
"""

import asyncio
import sys
from pathlib import Path

from coterie.client import LATEST, AdminClient, AtTime, OffsetSpec, TopicPartition
from coterie.operations import (
    Action,
    ToExact,
    Verdict,
    apply_items,
    items_of,
    open_snapshot,
    plan_offsets,
    read_current_groups,
    refuse_active,
)

source_bootstrap, target_bootstrap, group_id = sys.argv[1:4]


async def main() -> int:
    """Move the group; return the exit code."""
    async with AdminClient(source_bootstrap) as source:
        group = (await read_current_groups(source, [group_id])).one(group_id)
        refuse_active(group)
        next_offsets = {at: each.offset for at, each in group.committed.items()}
        ends = (
            await source.logs.list_offsets(dict.fromkeys(next_offsets, LATEST))
        ).all()
        unread = {
            at: [offset]
            for at, offset in next_offsets.items()
            if offset < ends[at].offset
        }
        records = (await source.records.first(unread)).all()
    # A partition that was read to its end continues at the end of the copy.
    wanted: dict[TopicPartition, OffsetSpec] = dict.fromkeys(next_offsets, LATEST)
    for at, found_records in records.items():
        record = found_records[next_offsets[at]]
        if record is not None and record.timestamp_ms >= 0:
            wanted[at] = AtTime(record.timestamp_ms)
    async with AdminClient(target_bootstrap) as target:
        found = (await target.logs.list_offsets(wanted)).all()
        copies = (await target.logs.list_offsets(dict.fromkeys(wanted, LATEST))).all()
        # -1 means that every record of the copy is older: continue at its end.
        offsets = {
            at: each.offset if each.offset >= 0 else copies[at].offset
            for at, each in found.items()
        }
        scenario = {group_id: ToExact(offsets)}
        plans = await plan_offsets(target, Action.RESET, scenario)
        for plan in plans:
            if plan.error is not None:
                raise plan.error
        snapshot = await open_snapshot(target, Path("snapshots"), command="move_group")
        results = await apply_items(target, items_of(plans), snapshot)
    for at, offset in sorted(offsets.items()):
        print(f"{at.topic}-{at.partition}: {next_offsets[at]} -> {offset}")
    for result in results:
        print(f"{result.item.group_id}: {result.verdict.value}", *result.reasons)
    written = {Verdict.DONE, Verdict.ALREADY}
    return 0 if all(each.verdict in written for each in results) else 1


sys.exit(asyncio.run(main()))
