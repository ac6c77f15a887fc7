"""List the rebalances of a lake by cause, with pyarrow and without Spark.

Make the lake first: coterie pipeline run --from kafka:HOST:PORT --to lake. The argument
is its directory, by default lake. `coterie pipeline show rebalances` has the details.
"""

import sys

import pyarrow.dataset as ds

from coterie.pipeline.lake.lake import Lake

lake = Lake.open(sys.argv[1] if len(sys.argv) > 1 else "lake")
print(f"as of {lake.version.as_of_ts}")
rebalances = lake.read(
    "rebalance_timeline",
    columns=["group_id", "cause", "partitions_moved"],
    filters=ds.field("cause") != "first",
)
causes = rebalances.group_by(["group_id", "cause"]).aggregate(
    [([], "count_all"), ("partitions_moved", "sum")]
)
for row in causes.sort_by([("count_all", "descending")]).to_pylist():
    print(
        f"{row['group_id']!r}: {row['count_all']} times {row['cause']},"
        f" {row['partitions_moved_sum']} partitions moved"
    )
