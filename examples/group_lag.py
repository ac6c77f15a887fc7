"""Print the lag of every consumer group of a cluster, largest first.

Works with Apache Kafka and with Coterie. The argument is HOST:PORT, by default
localhost:9092.
"""

import sys

from coterie.client import SyncAdmin
from coterie.client.admin.log_offsets import LATEST

bootstrap = sys.argv[1] if len(sys.argv) > 1 else "localhost:9092"
with SyncAdmin(bootstrap) as admin:
    group_ids = [group.group_id for group in admin.groups.list().groups]
    groups = admin.group_offsets.fetch_many(dict.fromkeys(group_ids)).all()
    partitions = {key for group in groups.values() for key in group.offsets}
    ends = admin.logs.list_offsets(dict.fromkeys(partitions, LATEST))

lags = {
    group_id: sum(
        ends.one(key).offset - committed.offset
        for key, committed in group.offsets.items()
        if committed is not None
    )
    for group_id, group in groups.items()
}
for group_id, lag in sorted(lags.items(), key=lambda item: -item[1]):
    print(f"{group_id}: {lag} records behind")
