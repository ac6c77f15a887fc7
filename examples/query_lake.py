"""List the rebalances of a lake by cause, with DuckDB and without Spark.

Make the lake first: coterie pipeline run --from kafka:HOST:PORT --to lake. The argument
is its directory, by default lake. `coterie pipeline sql` runs the same query, and
docs/pipeline-readers.md has examples for other tools.
"""

import sys

import duckdb

from coterie.pipeline.lake.lake import Lake

lake = Lake.open(sys.argv[1] if len(sys.argv) > 1 else "lake")
print(f"as of {lake.version.as_of_ts}")
# DuckDB finds the variable by its name, and reads only the columns of the query.
rebalance_timeline = lake.dataset("rebalance_timeline")
causes = duckdb.execute("""
    SELECT group_id, cause, count(*) AS times, sum(partitions_moved) AS moved
    FROM rebalance_timeline WHERE cause <> 'first'
    GROUP BY ALL ORDER BY times DESC, group_id, cause
""")
for group_id, cause, times, moved in causes.fetchall():
    print(f"{group_id!r}: {times} times {cause}, {moved} partitions moved")
