"""Delete consumer groups that stopped long ago, with a plan to review and an undo.

    python examples/clean_up_groups.py localhost:9092 plan 'test-*'
    python examples/clean_up_groups.py localhost:9092 apply
    python examples/clean_up_groups.py localhost:9092 undo ID

A group is stale when it is empty and every log that it read has deleted records that it
never read: it has not run for longer than the retention. `plan` writes the stale
groups to cleanup.json; the glob, by default *, is for their ids. `apply` leaves a group
alone that has changed since, and saves the offsets to ./snapshots for `undo`.
"""

import asyncio
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from coterie import operations as ops
from coterie.client import AdminClient, GroupState

FILE, SNAPSHOTS = Path("cleanup.json"), Path("snapshots")
bootstrap, action = sys.argv[1:3]


async def make_plan(admin: AdminClient, glob: str) -> ops.Plan:
    """Plan the deletion of stale groups. Raises the first error, if any."""
    empty = ops.Selection(globs=(glob,), states=frozenset({GroupState.EMPTY}))
    report = await ops.group_lag(admin, (await ops.select_groups(admin, empty)).ids)
    report.raise_any()
    stale = [
        group.group_id
        for group in report.groups
        if {row.lag_status for row in group.rows} == {ops.LagStatus.BELOW_START}
    ]
    planned = ops.items_of(await ops.plan_delete_groups(admin, stale))
    items = tuple(
        replace(each, reason="its unread records are deleted") for each in planned
    )
    cluster = (await admin.brokers.describe()).cluster_id
    now = datetime.now(UTC)
    return ops.Plan("cleanup", f"{now:%Y-%m-%dT%H:%M:%S}.000Z", cluster, items)


def save(plan: ops.Plan) -> int:
    """Write the plan file; return the exit code."""
    FILE.write_bytes(ops.encode_plan(plan))
    print(f"{FILE}: delete", *(each.group_id for each in plan.items))
    return 0


async def write(
    admin: AdminClient, items: tuple[ops.PlanItem, ...], command: str
) -> int:
    """Apply items behind a snapshot; return the exit code."""
    snapshot = await ops.open_snapshot(admin, SNAPSHOTS, command=command)
    results = await ops.apply_items(admin, items, snapshot)
    for each in results:
        print(f"{each.item.group_id}: {each.verdict.value}", *each.reasons)
    print(f"snapshot {snapshot.snapshot_id}")
    written = {ops.Verdict.DONE, ops.Verdict.ALREADY}
    return 0 if all(each.verdict in written for each in results) else 1


async def main() -> int:
    """Run the action; return the exit code."""
    async with AdminClient(bootstrap) as admin:
        if action == "plan":
            glob = sys.argv[3] if len(sys.argv) > 3 else "*"
            return save(await make_plan(admin, glob))
        if action == "apply":
            return await write(admin, ops.read_plan(FILE).items, "clean up")
        snapshot = ops.read_snapshot(SNAPSHOTS, sys.argv[3])
        return await write(
            admin, ops.items_of(await ops.plan_undo(admin, snapshot)), "undo"
        )


sys.exit(asyncio.run(main()))
