"""Alert when a consumer group is behind in time.

    python examples/alert_time_lag.py localhost:9092 300

Prints a line for each group whose oldest unread record is older than the limit (s, by
default 300), and ends with exit code 3 if there is one, 1 if a group could not be read.
Works with Apache Kafka and with Coterie; run it from cron or a monitoring agent.
"""

import asyncio
import sys
import time

from coterie.client import AdminClient, GroupType
from coterie.operations import (
    RollupBy,
    Selection,
    group_lag,
    roll_up,
    select_groups,
    with_time_lags,
)

bootstrap = sys.argv[1] if len(sys.argv) > 1 else "localhost:9092"
limit_ms = 1000 * int(sys.argv[2] if len(sys.argv) > 2 else 300)


async def main() -> int:
    """Print the alerts; return the exit code."""
    # Brokers before Kafka 3.8 do not list types: all of their groups are classic.
    selection = Selection(excludes=("console-consumer-*",))
    async with AdminClient(bootstrap) as admin:
        selected = await select_groups(admin, selection)
        read = [
            each.group_id
            for each in selected.groups
            if each.type in {None, GroupType.CLASSIC, GroupType.CONSUMER}
        ]
        report = await group_lag(admin, read)
        now_ms = time.time_ns() // 1_000_000
        report = await with_time_lags(admin, report, now_ms=now_ms)

    is_late = False
    for group in roll_up(report.groups, RollupBy.GROUP):
        if (group.time_lag_ms or 0) > limit_ms:
            is_late = True
            seconds = (group.time_lag_ms or 0) // 1000
            print(f"{group.group_id}: {seconds} s behind, {group.lag} records")
    failed = [*selected.node_errors.items(), *report.errors.items()]
    for what, error in failed:
        print(f"{what}: {error}", file=sys.stderr)
    return 3 if is_late else 1 if failed else 0


sys.exit(asyncio.run(main()))
