"""Read a topic and the group log with Spark's own Kafka source.

`python -m tests.interop.spark_kafka_reader JARS BOOTSTRAP TOPIC` prints JSON: the
values of the topic, and the committed offsets of each group for it.
Spark runs in a separate process because a JVM loads jars only when it starts.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from coterie.pipeline.sources.spark_kafka import OPTIONS, SETTING, bronze, silver
from coterie.pipeline.spark_session import Engine, start_session
from coterie.pipeline.tables.silver import OFFSET_COMMITS


def main(jars: str, bootstrap: str, topic: str) -> None:
    """Read values and committed offsets, and print them as JSON."""
    files = ",".join(str(each) for each in sorted(Path(jars).glob("*.jar")))
    engine = Engine(memory="1g", shuffle_partitions=2, settings={"spark.jars": files})
    spark = start_session(engine)
    reader = spark.read.format("kafka").option("kafka.bootstrap.servers", bootstrap)
    named = reader.options(**{**OPTIONS, "subscribe": topic}).load()
    values = [bytes(row.value).decode() for row in named.collect()]
    spark.conf.set(SETTING, "true")
    log = bronze(reader.options(**OPTIONS).load())
    commits = silver(log, OFFSET_COMMITS).where(f"topic = '{topic}'")
    rows = commits.orderBy("log_partition", "log_offset").collect()
    content = {
        "values": sorted(values),
        "commits": [[row.group_id, row.committed_offset] for row in rows],
    }
    sys.stdout.write(json.dumps(content) + "\n")
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
