"""Read Delta tables with Spark: delta_reader.py JARS LAKE FOLDER ...

Prints a JSON object with what Spark found in each folder of the lake.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from pyspark.sql import SparkSession

from coterie.pipeline.spark_session import Engine, start_session
from tests.pipeline.conftest import SMALL_JOBS


def main(jars: str, lake: str, folders: list[str]) -> None:
    settings = {
        # docs/pipeline-cluster.md names these three.
        "spark.jars": jars,
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": (
            "org.apache.spark.sql.delta.catalog.DeltaCatalog"
        ),
        # Thousands of tasks for a few files would take minutes.
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",
        "spark.databricks.delta.snapshotPartitions": "2",
    }
    options = SMALL_JOBS
    engine = Engine(
        memory="1g", shuffle_partitions=2, java_options=options, settings=settings
    )
    spark = start_session(engine)
    found = {folder: _read(spark, f"{lake}/{folder}") for folder in folders}
    sys.stdout.write(json.dumps(found))
    spark.stop()


def _read(spark: SparkSession, path: str) -> dict[str, Any]:
    reader = spark.read.format("delta")
    history = spark.sql(f"DESCRIBE HISTORY delta.`{path}`").collect()
    versions = sorted(row.version for row in history)
    unused = spark.sql(f"VACUUM delta.`{path}` DRY RUN").collect()
    return {
        "rows": reader.load(path).count(),
        "rows_at": {
            version: reader.option("versionAsOf", version).load(path).count()
            for version in versions
        },
        "columns": reader.option("versionAsOf", versions[-1]).load(path).columns,
        "unused": len(unused),
    }


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
