"""Read a topic and the group log with Spark's own Kafka source.

`python -m tests.interop.spark_kafka_reader JARS BOOTSTRAP TOPIC GROUP` prints JSON: the
values of the topic, and the committed offsets of the group in the log.
Spark runs in a separate process because a JVM loads jars only when it starts.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Final

from coterie.pipeline.spark_session import Engine, start_session

OPTIONS: Final = {
    "startingOffsets": "earliest",
    "kafka.isolation.level": "read_committed",
    "failOnDataLoss": "false",  # compaction removes offsets
}
SETTING: Final = "spark.sql.streaming.kafka.useDeprecatedOffsetFetching"
"""Since Spark 3.4 internal topics have no rows without it."""
COMMIT_TYPES: Final = (0, 1)
"""The versions of keys of committed offsets (K-01a)."""


def main(jars: str, bootstrap: str, topic: str, group: str) -> None:
    """Read values and committed offsets, and print them as JSON."""
    files = ",".join(str(each) for each in sorted(Path(jars).glob("*.jar")))
    engine = Engine(memory="1g", shuffle_partitions=2, settings={"spark.jars": files})
    spark = start_session(engine)
    reader = spark.read.format("kafka").options(**OPTIONS)
    reader = reader.option("kafka.bootstrap.servers", bootstrap)
    values = reader.option("subscribe", topic).load().collect()
    spark.conf.set(SETTING, "true")
    log = reader.option("subscribe", "__consumer_offsets").load().collect()
    commits = [
        int.from_bytes(row.value[2:10], "big")
        for row in sorted(log, key=lambda row: (row.partition, row.offset))
        if row.key[1] in COMMIT_TYPES and group.encode() in row.key and row.value
    ]
    content = {
        "values": sorted(bytes(row.value).decode() for row in values),
        "commits": commits,
    }
    sys.stdout.write(json.dumps(content) + "\n")
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
